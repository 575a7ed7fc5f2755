"""Read the halts of a tenant."""

from typing import Final

from postdate.core.identity import Scope
from postdate.core.shape import shaped
from postdate.database.connection.database import Database
from postdate.halt import store as halt_store
from postdate.halt.spec import Halt, HaltView
from postdate.resource.resource import Resource

HALT: Final = Resource(
    noun="halt",
    shows=HaltView,
    read="any",
    write=Scope.ADMIN,
    read_limited="served",
    columns=("kind", "mode", "from", "until", "note", "set_by"),
    paged=False,
)


def view(halt: Halt) -> HaltView:
    """Show a halt to its tenant."""
    return shaped(HaltView, halt)


class HaltViews:
    """List halts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @HALT.list()
    async def page(self, tenant_id: int) -> list[HaltView]:
        """Show whether the tenant is halted, why, and until when.

        An empty list means that the tenant is not halted and no window is planned.
        """
        reader = self._database.tenant_reader(tenant_id)
        return [view(halt) for halt in await halt_store.load(reader, tenant_id)]
