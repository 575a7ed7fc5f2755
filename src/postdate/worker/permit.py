"""A node's share of the limits: slots it holds in the database and uses in memory."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from postdate.model.limit import Limit
from postdate.store import permit
from postdate.store.database import Database
from postdate.store.permit import Grant

KEEP_SECONDS: Final = 1.0
"""How often a node gives back the slots that it did not need."""

SAFE_PART: Final = 0.8
"""The part of a permit's life in which it is used without asking again."""

ASK_SECONDS: Final = 0.1
"""How long to wait before asking again for slots that others hold."""


@dataclass(slots=True)
class _Share:
    slots: int = 0
    used: int = 0
    least_free: int = 0
    counted: bool = False
    safe_until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Permits:
    """Acquire before starting, release after recording; what is unlimited never comes here."""

    def __init__(self, database: Database, node_id: UUID, seconds: float = 30.0) -> None:
        self._database = database
        self._node_id = node_id
        self._seconds = seconds
        self._shares: dict[str, _Share] = {}

    async def acquire(self, limit: Limit, wanted: int) -> Grant:
        """Take permits for up to so many starts."""
        share = self._shares.setdefault(limit.scope, _Share())
        async with share.lock:
            share.counted = limit.max_running is not None
            if self._has(limit, share, wanted):
                grant = Grant(wanted)
            else:
                grant = await self._ask(limit, share, wanted)
            share.used += grant.starts
            share.least_free = min(share.least_free, share.slots - share.used)
        if grant.starts < wanted and grant.wait_seconds <= 0:
            return Grant(grant.starts, ASK_SECONDS)
        return grant

    async def acquire_all(self, limits: Sequence[Limit], wanted: int) -> Grant:
        """Take permits of every limit, as many as the tightest gives."""
        count, wait = wanted, 0.0
        for number, limit in enumerate(limits):
            grant = await self.acquire(limit, count) if count else Grant(0)
            await self.refund(limits[:number], count - grant.starts)
            count, wait = grant.starts, max(wait, grant.wait_seconds)
        return Grant(count, wait)

    async def refund(self, limits: Sequence[Limit], count: int) -> None:
        """Give back permits that nothing was started with, tokens included."""
        if not count:
            return
        self.release([limit.scope for limit in limits], count)
        for limit in limits:
            if limit.rate_per_second is not None:
                async with self._database.write() as connection:
                    await permit.refund(connection, limit, count)

    def _has(self, limit: Limit, share: _Share, wanted: int) -> bool:
        """Say whether slots already held are enough, and surely still ours."""
        return (
            limit.rate_per_second is None
            and share.used + wanted <= min(share.slots, limit.max_running or 0)
            and time.monotonic() < share.safe_until
        )

    async def _ask(self, limit: Limit, share: _Share, wanted: int) -> Grant:
        asked = time.monotonic()
        async with self._database.write() as connection:
            grant = await permit.acquire(
                connection, limit, self._node_id, share.used, wanted, self._seconds
            )
        share.slots = share.used + grant.starts
        share.safe_until = asked + self._seconds * SAFE_PART
        return grant

    def release(self, scopes: Iterable[str], count: int = 1) -> None:
        """Give permits back to this node; it keeps them a moment for its own next start."""
        for scope in scopes:
            self._shares[scope].used -= count

    async def keep(self, _: int = 1) -> int:
        """Renew what is used and give back what is not; to be called every second or so."""
        for scope, share in self._shares.items():
            async with share.lock:
                if share.counted:
                    await self._keep(scope, share)
        return 0

    async def _keep(self, scope: str, share: _Share) -> None:
        asked = time.monotonic()
        renew = share.safe_until - asked < self._seconds * SAFE_PART / 2
        # Slots that may have run out meanwhile are only kept where something is really running.
        idle = share.slots - share.used if asked > share.safe_until else share.least_free
        idle = min(idle, share.slots - share.used)
        if share.slots and (idle > 0 or renew):
            share.slots -= max(0, idle)
            async with self._database.write() as connection:
                await permit.keep(connection, scope, self._node_id, share.slots, self._seconds)
                if renew:
                    await permit.sweep(connection, scope)
            share.safe_until = asked + self._seconds * SAFE_PART
        share.least_free = share.slots - share.used

    async def give_back(self) -> None:
        """Return everything that is free, when this node stops."""
        for share in self._shares.values():
            share.least_free = share.slots
        await self.keep()
