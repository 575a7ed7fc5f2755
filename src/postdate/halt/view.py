"""Read the halts of a tenant."""

from datetime import datetime

import msgspec

from postdate.core.shape import shaped
from postdate.database.connection.database import Database
from postdate.halt import store as halt_store
from postdate.halt.spec import Halt, Kind, Mode


class HaltView(
    msgspec.Struct, frozen=True, kw_only=True, rename={"from_at": "from", "until_at": "until"}
):
    """A current or future halt: why, by whom, and until when (null: until it is lifted)."""

    kind: Kind
    mode: Mode
    from_at: datetime
    until_at: datetime | None
    note: str
    set_by: str
    set_at: datetime


def view(halt: Halt) -> HaltView:
    """Show a halt to its tenant."""
    return shaped(HaltView, halt)


class HaltViews:
    """List halts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, tenant_id: int) -> list[HaltView]:
        """List the halts of one tenant."""
        reader = self._database.tenant_reader(tenant_id)
        return [view(halt) for halt in await halt_store.load(reader, tenant_id)]
