"""Read a tenant's events in order, and wait for new ones."""

import asyncio
import time
from typing import Final
from uuid import UUID

import msgspec

from postdate.model.event.event import Sealed
from postdate.model.log import Log
from postdate.store.connection.database import Database
from postdate.store.connection.error import UnavailableError
from postdate.store.event import seal
from postdate.store.event.seal import EventWindow

log = Log()

MAX_SCAN: Final = 10_000
"""How many events one page looks at; a filter that matches few still answers quickly."""

MAX_ACCOUNT_SCAN: Final = 2000
"""The same with a filter by account, for which every event has to be read."""

POLL_SECONDS: Final = 0.2
"""How often the database is polled, once for all waiting readers."""


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader wants: types as LIKE patterns, one subject, certain accounts."""

    patterns: list[str]
    subject: UUID | None = None
    accounts: list[str] | None = None


class EventPage(msgspec.Struct, frozen=True):
    """Some events, the position to go on from, and whether there may be more right now."""

    events: list[Sealed]
    position: int
    more: bool


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
        last = await seal.position(reader, tenant_id)
        # One subject's events are found by its key: no scan to bound.
        scan = MAX_SCAN if wanted.accounts is None else MAX_ACCOUNT_SCAN
        upto = last if wanted.subject else min(last, after + scan)
        window = EventWindow(
            tenant_id=tenant_id,
            after=after,
            upto=upto,
            patterns=wanted.patterns,
            accounts=wanted.accounts,
            limit=limit,
        )
        if wanted.subject:
            events = await seal.page_of_subject(reader, window, wanted.subject)
        else:
            events = await seal.page(reader, window)
        position = events[-1].position if len(events) == limit else max(after, upto)
        return EventPage(events, position, more=position < last)

    async def wait(
        self, tenant_id: int, wanted: EventFilter, *, after: int, limit: int, seconds: float
    ) -> EventPage:
        """Read the next events, waiting for the first of them for so long."""
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
