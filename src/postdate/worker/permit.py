"""A node's share of the limits: slots and starts it holds in the database and uses in memory."""

import asyncio
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from postdate.core.limit import Limit
from postdate.core.log import Log
from postdate.database.connection.database import Database
from postdate.database.connection.error import LockNotAvailableError
from postdate.lane.store import permit

log = Log()

SAFE_PART: Final = 0.8
"""The part of a permit's life in which it is used without asking again."""

ASK_SECONDS: Final = 0.1
STARVED_SECONDS: Final = 0.5
"""How long to wait before asking again for slots that others hold; the second without any slot."""

AHEAD_SECONDS: Final = 1.0
"""How far ahead a node takes the starts of a rate: one round trip then serves a second's worth."""

LOCKED_SECONDS: Final = 5.0
"""How long a limit is not asked again that another session has locked."""

QUICK_SECONDS: Final = 0.01
"""How long a job is thought to take while nothing is known; too short costs one more claim."""

RECENT_PART: Final = 0.1
"""How much the latest job counts in the estimate of how long the next ones take."""

PACED_SECONDS: Final = 0.01
"""The shortest pause between two starts of a rate: those in between start together."""

UNLIMITED: Final = 1_000_000


@dataclass(slots=True, eq=False)
class LimitShare:
    """A node's part of one limit. Times are of the monotonic clock."""

    limit: Limit
    # Granted by the database; unused ones are kept for a moment for the next start.
    slots: int = 0
    min_free: int = 0
    safe_until: float = 0.0
    # When each start of the rate may happen that was granted and has not been taken.
    starts: deque[float] = field(default_factory=deque)
    ask_at: float = 0.0
    shut_until: float = 0.0
    wanted_at: float = 0.0
    # A write was interrupted: the database may have other slots for this node than `slots`.
    unsure: bool = False
    held: "set[HeldPermits]" = field(default_factory=set)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Set when a permit is free again.
    waiters: set[asyncio.Event] = field(default_factory=set)
    _job_seconds: float = 0.0
    _busy_since: float = 0.0

    @property
    def used(self) -> int:
        """Count the permits in use, derived from their owners, so that none is counted twice."""
        return sum(each.count for each in self.held)

    def free(self, now: float) -> int:
        """Return how many may start now, with what is surely this node's."""
        free = UNLIMITED
        if self.limit.max_running is not None:
            slots = min(self.slots, self.limit.max_running) if now < self.safe_until else 0
            free = slots - self.used
        if self.limit.paced:
            free = min(free, self._due(now))
        return max(0, free)

    def _due(self, now: float) -> int:
        """Count the starts whose time has come; those missed beyond a burst are lost."""
        due = sum(at <= now for at in self.starts)
        while due > max(1.0, self.limit.burst):
            self.starts.popleft()
            due -= 1
        return due

    def lacks(self, wanted: int, now: float) -> int:
        """Return how many to ask the database for; 0 while it cannot help."""
        if now < max(self.ask_at, self.shut_until):
            return 0
        if self.limit.paced and self.starts and self.starts[-1] > now + AHEAD_SECONDS / 2:
            return 0
        ahead = len(self.starts)
        lacking = wanted - ahead
        if self.limit.max_running is not None:
            lacking = min(lacking, self.limit.max_running - self.used - ahead)
            if not self.limit.paced and now < self.safe_until and self.used + lacking <= self.slots:
                return 0
        return max(0, lacking)

    def take(self, count: int) -> None:
        """Take starts of the rate, those whose time came first."""
        if self.limit.paced:
            for _ in range(count):
                self.starts.popleft()

    def put_back(self, count: int) -> None:
        """Return starts that did not happen; the next job of this node may have them."""
        if self.limit.paced:
            self.starts.extendleft([time.monotonic()] * count)

    def wait_seconds(self, now: float) -> float:
        """Return in how many seconds one more may start, or the database should be asked."""
        locked = max(0.0, self.shut_until - now)
        if not self.limit.paced or self._due(now):
            return max(locked, ASK_SECONDS)
        at = self.starts[0] if self.starts else self.ask_at
        return max(locked, at - now, PACED_SECONDS)

    def pace(self, now: float) -> float:
        """Estimate how many jobs end in a second when every slot is used."""
        seconds = self._job_seconds
        if not seconds and self.held:
            seconds = now - self._busy_since
        return (self.limit.max_running or 1) / max(QUICK_SECONDS, seconds)

    def worth_claiming(self, now: float) -> int:
        """Return how many jobs are worth a claim: none, if others have the permits to run them.

        A node without a slot claims one job to ask with; other nodes can run what it leaves.
        """
        if self.shut_until > now:
            return 0
        if self.limit.max_running is None or self.slots:
            return UNLIMITED
        return 0 if self.ask_at > now else 1

    def hold(self, permits: "HeldPermits") -> None:
        """Note the owner of permits in use."""
        if not self.held:
            self._busy_since = time.monotonic()
        self.held.add(permits)

    def learn_end(self, seconds: float) -> None:
        """Learn how long a job took, and wake the jobs that wait for its permit."""
        known = self._job_seconds or seconds
        self._job_seconds = known + (seconds - known) * RECENT_PART
        for each in self.waiters:
            each.set()


class HeldPermits:
    """Permits for a number of starts under every limit involved; the owner must end them."""

    __slots__ = ("_shares", "count")

    def __init__(self) -> None:
        self.count = 0
        self._shares: list[LimitShare] = []

    def __bool__(self) -> bool:
        return bool(self._shares)

    def end(self, seconds: float = 0.0) -> None:
        """Return the permit of a job that ran; this node keeps it a moment for its next start."""
        self._drop(1)
        for share in self._shares:
            share.learn_end(seconds)

    def refund(self, count: int) -> None:
        """Return unused permits, starts of a rate included."""
        self._drop(count)
        for share in self._shares:
            share.put_back(count)

    def _drop(self, count: int) -> None:
        if not 0 <= count <= self.count:
            raise ValueError(f"{count} of {self.count} permits cannot end")
        self.count -= count
        if not self.count:
            for share in self._shares:
                share.held.discard(self)

    def add(self, share: LimitShare) -> None:
        """Add permits of one more limit, as many as of the others."""
        self._shares.append(share)
        if self.count:
            share.hold(self)


class Permits:
    """Permits of limited jobs: acquire before starting, end when the job is no longer running."""

    def __init__(self, database: Database, node_id: UUID, seconds: float = 30.0) -> None:
        self._database = database
        self._node_id = node_id
        self._seconds = seconds
        self._shares: dict[str, LimitShare] = {}

    def used(self, scope: str) -> int:
        """Return how many permits of a scope are held by what runs here."""
        return self._shares[scope].used if scope in self._shares else 0

    def share(self, limit: Limit) -> LimitShare:
        """Return this node's share of a limit."""
        found = self._shares.get(limit.scope)
        if found is None:
            found = self._shares[limit.scope] = LimitShare(limit)
        return found

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
        share, wanted = self.share(limit), held.count
        async with share.lock:
            share.limit, share.wanted_at = limit, time.monotonic()
            lacking = share.lacks(wanted, share.wanted_at)
            if lacking and share.free(share.wanted_at) < wanted:
                await self._ask(share, lacking)
            now = time.monotonic()
            starts = min(wanted, share.free(now))
            held.refund(wanted - starts)
            share.take(starts)
            held.add(share)
            share.min_free = min(share.min_free, share.slots - share.used - len(share.starts))
        return 0.0 if starts == wanted else share.wait_seconds(now)

    async def _ask(self, share: LimitShare, wanted: int) -> None:
        """Ask for more; a limit that another session has locked is left alone for a while."""
        asked, held = time.monotonic(), share.used + len(share.starts)
        unsure, share.unsure = share.unsure, True
        try:
            async with self._database.write("permit.ask") as connection:
                grant = await permit.acquire(
                    connection,
                    share.limit,
                    self._node_id,
                    held,
                    wanted,
                    self._seconds,
                    ahead_seconds=AHEAD_SECONDS,
                )
        except LockNotAvailableError:
            share.unsure, share.shut_until = unsure, time.monotonic() + LOCKED_SECONDS
            log.warning("limit.locked", scope=share.limit.scope)
            return
        now = time.monotonic()
        share.unsure = False
        share.slots = held + grant.starts
        share.safe_until = asked + self._seconds * SAFE_PART
        if share.limit.paced:
            share.starts.extend(now + each for each in grant.delays)
        if grant.starts < wanted:
            without = STARVED_SECONDS if share.limit.max_running and not share.slots else 0.0
            share.ask_at = now + max(without, grant.wait_seconds or ASK_SECONDS)

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

    async def _keep(self, share: LimitShare) -> None:
        if share.starts and time.monotonic() - share.wanted_at > AHEAD_SECONDS / 2:
            await self._return_starts(share)
        if share.limit.max_running is not None:
            await self._keep_slots(share)

    async def _return_starts(self, share: LimitShare) -> None:
        """Return the starts ahead that no job here waits for; if it fails, they are lost."""
        now = time.monotonic()
        unused = sum(at > now for at in share.starts)
        share.starts.clear()
        async with self._database.write() as connection:
            await permit.refund(connection, share.limit, unused)

    async def _keep_slots(self, share: LimitShare) -> None:
        asked = time.monotonic()
        renew = share.safe_until - asked < self._seconds * SAFE_PART / 2
        used = share.used + len(share.starts)
        # Slots that may have run out meanwhile are only kept where something is really running.
        idle = share.slots - used if asked > share.safe_until else share.min_free
        idle = min(idle, share.slots - used)
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
        share.min_free = share.slots - used

    async def give_back(self) -> None:
        """Return all unused permits when this node stops."""
        for share in self._shares.values():
            share.min_free, share.wanted_at = share.slots, 0.0
        await self.renew()
