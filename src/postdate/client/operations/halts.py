"""Operations of halts. Written by `make docs` from the endpoints."""

from typing import Final

from postdate.client.models.halts import HaltList
from postdate.client.operation import Operation

LIST_HALTS: Final = Operation("list_halts", "GET", "/halts", HaltList)
KILL: Final = Operation("kill", "PUT", "/kill-switch", HaltList)
RELEASE: Final = Operation("release", "DELETE", "/kill-switch", HaltList)
FREEZE: Final = Operation("freeze", "PUT", "/freeze", HaltList)
THAW: Final = Operation("thaw", "DELETE", "/freeze", HaltList)
