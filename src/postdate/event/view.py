"""Read a tenant's events in order, and wait for new ones."""

import asyncio
import time
from typing import Final

from postdate.core.log import Log
from postdate.database.connection.database import Database
from postdate.database.connection.error import UnavailableError
from postdate.event.spec.event import EventFilter, EventPage
from postdate.event.store import seal

log = Log()

POLL_SECONDS: Final = 0.2
"""How often the database is polled, once for all waiting readers."""


class EventViews:
    """Reads events for clients."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._news = _News(database)

    async def last(self, tenant_id: int) -> int:
        """Return the position of the newest event."""
        reader = self._database.tenant_reader(tenant_id)
        return await seal.position(reader, tenant_id)

    async def page(
        self, tenant_id: int, wanted: EventFilter, *, after: int, limit: int
    ) -> EventPage:
        """Read the next events after a position."""
        reader = self._database.tenant_reader(tenant_id)
        return await seal.read_after(reader, tenant_id, wanted, after, limit)

    async def wait(
        self, tenant_id: int, wanted: EventFilter, *, after: int, limit: int, seconds: float
    ) -> EventPage:
        """Read the next events, waiting up to a limit for the first."""
        deadline = time.monotonic() + seconds
        page = await self.page(tenant_id, wanted, after=after, limit=limit)
        while not page.events:
            left = deadline - time.monotonic()
            if not page.more and not await self._news.after(tenant_id, page.position, left):
                break
            page = await self.page(tenant_id, wanted, after=page.position, limit=limit)
        return page


class _News:
    """Notifies waiting readers of new events, with one query for all of them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[asyncio.Future[None], tuple[int, int]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def after(self, tenant_id: int, position: int, seconds: float) -> bool:
        """Wait until a tenant has events after a position; return whether it has."""
        if seconds <= 0:
            return False
        came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[came] = (tenant_id, position)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        try:
            async with asyncio.timeout(seconds):
                await came
        except TimeoutError:
            return False
        finally:
            self._waiting.pop(came, None)
        return True

    async def _ask(self) -> None:
        while self._waiting:
            await asyncio.sleep(POLL_SECONDS)
            tenants = sorted({tenant_id for tenant_id, _ in self._waiting.values()})
            try:
                async with self._database.connection() as connection:
                    found = await seal.positions(connection, tenants)
            except UnavailableError as error:
                log.debug("event.news_lost", error=str(error))
                continue
            for came, (tenant_id, position) in list(self._waiting.items()):
                if found.get(tenant_id, 0) > position and not came.done():
                    came.set_result(None)
