"""Read calendars."""

from typing import Final

from postdate.calendar import store
from postdate.calendar.spec.calendar import CalendarSpec, CalendarView
from postdate.core.identity import Scope
from postdate.database.connection.database import Database
from postdate.resource.resource import Resource

CALENDAR: Final = Resource(
    noun="calendar",
    spec=CalendarSpec,
    shows=CalendarView,
    read=Scope.SCHEDULES_READ,
    write=Scope.SCHEDULES_WRITE,
    read_limited="served",
    columns=("name", "weekend", "holidays", "changed_at"),
)


class CalendarViews:
    """Find and list a tenant's calendars."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @CALENDAR.list()
    async def page(
        self, tenant_id: int, after: str, limit: int
    ) -> tuple[list[CalendarView], str | None]:
        """List business calendars.

        By name.
        """
        reader = self._database.tenant_reader(tenant_id)
        rows = await store.page(reader, tenant_id, after, limit + 1)
        return rows[:limit], rows[limit - 1].name if len(rows) > limit else None

    @CALENDAR.get("show_calendar")
    async def find(self, tenant_id: int, name: str) -> CalendarView | None:
        """Show a business calendar.

        Its holidays and its weekend.
        """
        return await store.find(self._database.tenant_reader(tenant_id), tenant_id, name)
