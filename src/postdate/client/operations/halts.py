"""Operations of halts. Written by `make docs` from the endpoints."""

from typing import Final

from postdate.client.models.halts import HaltList
from postdate.client.operation import Operation

LIST_HALTS: Final = Operation("list_halts", "GET", "/halts", HaltList)
KILL_TENANT: Final = Operation("kill_tenant", "PUT", "/kill-switch", HaltList)
RELEASE_TENANT: Final = Operation("release_tenant", "DELETE", "/kill-switch", HaltList)
FREEZE_TENANT: Final = Operation("freeze_tenant", "PUT", "/freeze", HaltList)
THAW_TENANT: Final = Operation("thaw_tenant", "DELETE", "/freeze", HaltList)
