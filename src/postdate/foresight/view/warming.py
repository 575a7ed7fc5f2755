"""Load the forecasts of the tenants with the most schedules before the first request."""

import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Final

from postdate.core.log import Log
from postdate.database.connection import clock
from postdate.database.connection.database import Database
from postdate.database.connection.error import DatabaseError
from postdate.database.connection.off_loop import in_thread
from postdate.foresight.store import rule as store
from postdate.foresight.view.money import MoneyViews
from postdate.foresight.view.rules import WAYS, RuleBooks
from postdate.words.error import RefusedError

log = Log()

POLL_SECONDS: Final = 15.0
"""How often rules that have changed are read again: an earlier request reads them itself."""

SHARE: Final = 500
MAX_REST_SECONDS: Final = 120.0
"""After reading in advance, rest this many times as long as it took, up to two minutes."""

LARGEST_SECONDS: Final = 600.0
"""How often the tenants with the most schedules are listed."""

MIN_SCHEDULES: Final = 500
"""Fewer are read and added up in no time."""

MAX_TENANTS: Final = 8
YEAR: Final = timedelta(days=366)


class RuleWarming:
    """Keeps the rules of some tenants cached."""

    def __init__(self, database: Database, books: RuleBooks) -> None:
        self._database = database
        self._books = books
        self._tenants: list[int] = []
        self._list_at = 0.0
        self._not_before = 0.0

    async def run_once(self, limit: int = MAX_TENANTS) -> int:
        """Run once; return 0, so that the loop pauses."""
        began = time.monotonic()
        if began < self._not_before:
            return 0
        if began >= self._list_at:
            async with self._database.connection() as connection:
                self._tenants = await store.largest(connection, MIN_SCHEDULES, limit)
            self._list_at = time.monotonic() + LARGEST_SECONDS
        await _for_each(self._tenants, self._warm)
        rest = min(SHARE * (time.monotonic() - began), MAX_REST_SECONDS)
        self._not_before = began + rest
        return 0

    async def _warm(self, tenant_id: int) -> None:
        async with self._database.read(tenant_id) as connection:
            now = await clock.now(connection)
            book = await self._books.get(connection, tenant_id)
        for by in WAYS:
            await in_thread(book.sums, by, now, now + YEAR)


class MoneyWarming:
    """Reads the open payments of some tenants in advance: later requests read only new ones."""

    def __init__(self, database: Database, money: MoneyViews) -> None:
        self._database = database
        self._money = money

    async def run_once(self, limit: int = MAX_TENANTS) -> int:
        """Run once; return 0, so that the loop pauses."""
        async with self._database.connection() as connection:
            tenants = await store.largest(connection, MIN_SCHEDULES, limit)
        await _for_each(tenants, self._money.project)
        return 0


async def _for_each(tenants: Iterable[int], warm: Callable[[int], Awaitable[object]]) -> None:
    """Warm one tenant after the other; a tenant that cannot be read keeps no other waiting."""
    for tenant_id in tenants:
        try:
            await warm(tenant_id)
        except (DatabaseError, RefusedError) as error:
            log.warning("foresight.not_warm", tenant_id=tenant_id, error=repr(error))
