"""A node's share of the limits: slots it holds in the database and uses in memory."""

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from postdate.model.limit import Limit
from postdate.store.connection.database import Database
from postdate.store.connection.error import LockNotAvailableError
from postdate.store.timer import permit
from postdate.store.timer.permit import Grant

SAFE_PART: Final = 0.8
"""The part of a permit's life in which it is used without asking again."""

ASK_SECONDS: Final = 0.1
"""How long to wait before asking again for slots that others hold."""


@dataclass(slots=True, eq=False)
class _Share:
    """A node's part of one limit."""

    limit: Limit
    # Granted by the database; unused ones are kept for a moment for the next start.
    slots: int = 0
    min_free: int = 0
    safe_until: float = 0.0
    # Unused tokens of the rate; the next transaction returns them.
    unspent: int = 0
    # A write was interrupted: the database may have other slots for this node than `slots`.
    unsure: bool = False
    held: "set[HeldPermits]" = field(default_factory=set)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def used(self) -> int:
        """Count the permits in use, derived from their owners, so that none is counted twice."""
        return sum(each.count for each in self.held)

    def covers(self, wanted: int) -> bool:
        """Return whether slots already held are enough, and surely still ours."""
        return (
            self.limit.rate_per_second is None
            and self.used + wanted <= min(self.slots, self.limit.max_running or 0)
            and time.monotonic() < self.safe_until
        )

    def take_unspent(self) -> int:
        """Take the tokens to return; if the return fails, they are lost and grow again."""
        unspent, self.unspent = self.unspent, 0
        return unspent


class HeldPermits:
    """Permits for a number of starts under every limit involved; the owner must end them."""

    __slots__ = ("_shares", "count")

    def __init__(self) -> None:
        self.count = 0
        self._shares: list[_Share] = []

    def __bool__(self) -> bool:
        return bool(self._shares)

    @property
    def limits(self) -> int:
        """Return how many limits have granted permits so far."""
        return len(self._shares)

    def end(self, count: int = 1) -> None:
        """Return permits to this node; it keeps them a moment for its own next start."""
        if not 0 <= count <= self.count:
            raise ValueError(f"{count} of {self.count} permits cannot end")
        self.count -= count
        if not self.count:
            for share in self._shares:
                share.held.discard(self)

    def refund(self, count: int) -> None:
        """Return unused permits, tokens included."""
        self.end(count)
        for share in self._shares:
            if share.limit.rate_per_second is not None:
                share.unspent += count

    def add(self, share: _Share) -> None:
        """Add permits of one more limit, as many as of the others."""
        self._shares.append(share)
        if self.count:
            share.held.add(self)


class Permits:
    """Permits of limited jobs: acquire before starting, end after recording."""

    def __init__(self, database: Database, node_id: UUID, seconds: float = 30.0) -> None:
        self._database = database
        self._node_id = node_id
        self._seconds = seconds
        self._shares: dict[str, _Share] = {}

    def used(self, scope: str) -> int:
        """Return how many permits of a scope are held by what runs here."""
        return self._shares[scope].used if scope in self._shares else 0

    def keep_only(self, owned: Collection[HeldPermits]) -> int:
        """Reclaim permits without an owner, and return how many."""
        count = 0
        for share in self._shares.values():
            ownerless = share.held.difference(owned)
            share.held -= ownerless
            count += len(ownerless)
        return count

    async def acquire(self, held: HeldPermits, limits: Sequence[Limit], wanted: int) -> float:
        """Take permits of every limit, as many as the tightest allows; return when to try again.

        The caller owns `held` from the start, so nothing is lost if this raises.
        """
        held.count, wait = wanted, 0.0
        for limit in limits:
            if held.count:
                wait = max(wait, await self._acquire_one(held, limit))
        return wait

    async def _acquire_one(self, held: HeldPermits, limit: Limit) -> float:
        share = self._shares.setdefault(limit.scope, _Share(limit))
        async with share.lock:
            share.limit, wanted = limit, held.count
            grant = Grant(wanted) if share.covers(wanted) else await self._ask(share, wanted)
            held.refund(wanted - grant.starts)
            held.add(share)
            share.min_free = min(share.min_free, share.slots - share.used)
        short = grant.starts < wanted and grant.wait_seconds <= 0
        return ASK_SECONDS if short else grant.wait_seconds

    async def _ask(self, share: _Share, wanted: int) -> Grant:
        asked, used, refund = time.monotonic(), share.used, share.take_unspent()
        share.unsure = True
        async with self._database.write("permit.ask") as connection:
            await permit.refund(connection, share.limit, refund)
            grant = await permit.acquire(
                connection, share.limit, self._node_id, used, wanted, self._seconds
            )
        share.unsure = False
        share.slots = used + grant.starts
        share.safe_until = asked + self._seconds * SAFE_PART
        return grant

    async def renew(self, _: int = 1) -> int:
        """Renew used permits and return unused ones; call this about once a second.

        A locked scope must not cost the others their slots.
        """
        failed: list[Exception] = []
        for share in list(self._shares.values()):
            try:
                async with share.lock:
                    await self._keep(share)
            except LockNotAvailableError as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return 0

    async def _keep(self, share: _Share) -> None:
        if share.unspent:
            async with self._database.write() as connection:
                await permit.refund(connection, share.limit, share.take_unspent())
        if share.limit.max_running is not None:
            await self._keep_slots(share)

    async def _keep_slots(self, share: _Share) -> None:
        asked = time.monotonic()
        renew = share.safe_until - asked < self._seconds * SAFE_PART / 2
        # Slots that may have run out meanwhile are only kept where something is really running.
        idle = share.slots - share.used if asked > share.safe_until else share.min_free
        idle = min(idle, share.slots - share.used)
        unsure = share.unsure
        if unsure or (share.slots and (idle > 0 or renew)):
            share.slots -= max(0, idle)
            share.unsure = True
            scope = share.limit.scope
            async with self._database.write("permit.keep") as connection:
                if unsure:
                    await permit.lock(connection, share.limit)
                await permit.extend(connection, scope, self._node_id, share.slots, self._seconds)
                if renew:
                    await permit.sweep(connection, scope)
            share.unsure = False
            share.safe_until = asked + self._seconds * SAFE_PART
        share.min_free = share.slots - share.used

    async def give_back(self) -> None:
        """Return all unused permits when this node stops."""
        for share in self._shares.values():
            share.min_free = share.slots
        await self.renew()
