"""Read test clocks, and what happened while they were advanced."""

from datetime import datetime

import msgspec

from postdate.core.test_clock import AdvanceEntry
from postdate.database.connection.database import Database
from postdate.test_clock import store
from postdate.words.error import Code, refuse


class TestClockView(msgspec.Struct, frozen=True, kw_only=True):
    """The clock of a tenant in test mode.

    `target` is the target of an unfinished advance.
    """

    __test__ = False  # it is no test of pytest's

    at: datetime
    target: datetime | None
    advance: int
    entries: int


class TestClockViews:
    """Reads the clock of the caller's tenant."""

    __test__ = False

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, tenant_id: int) -> TestClockView:
        """Return the test clock; refuse for a live tenant."""
        async with self._database.read(tenant_id) as connection:
            row = await store.find(connection, tenant_id)
        if row is None:
            raise refuse(Code.NOT_IN_TEST_MODE, "The tenant is not in test mode.")
        return TestClockView(at=row.at, target=row.target, advance=row.advance, entries=row.entries)

    async def entries(
        self, tenant_id: int, after: int, advance: int | None, limit: int
    ) -> tuple[list[AdvanceEntry], int | None]:
        """List a page of what happened, in order; refuse for a live tenant."""
        await self.get(tenant_id)
        async with self._database.read(tenant_id) as connection:
            rows = await store.entries(connection, tenant_id, after, advance, limit + 1)
        return rows[:limit], rows[limit - 1].number if len(rows) > limit else None
