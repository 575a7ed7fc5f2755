"""Claimed jobs that wait for a permit: held for a moment, so that a free permit is used at once."""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from postdate.core.limit import Limit
from postdate.core.log import Log
from postdate.runtime.capacity import Capacity
from postdate.runtime.under_way import UnderWay
from postdate.worker.claimed_job import ClaimedJob
from postdate.worker.permit import HeldPermits, LimitShare, Permits

log = Log()

HOLD_SECONDS: Final = 1.5
"""How much work is held: what may start within this time. The rest is left to others."""

MAX_HOLD_SECONDS: Final = 3.0
"""How long one job is held; other nodes may have the permits that this node does not get."""

MAX_HELD: Final = 300
"""The most jobs held for one limit."""

STARVED_SECONDS: Final = 1.0
"""How long jobs are left to other nodes, which have all slots of their limit."""

YIELD_SECONDS: Final = 5.0
"""How long other nodes come first at the bucket of such a job."""

MIN_DELAY_SECONDS: Final = 0.02
MAX_BUSY_SECONDS: Final = 30.0
"""The longest that a job is put off because all slots are taken: they may be free soon."""


@dataclass(slots=True, eq=False)
class WaitingLine:
    """Jobs that wait for the same limits, in the order of their claims."""

    limits: tuple[Limit, ...]
    jobs: deque[ClaimedJob] = field(default_factory=deque)
    event: asyncio.Event = field(default_factory=asyncio.Event)
    acquiring: HeldPermits = field(default_factory=HeldPermits)


class LimitedJobs:
    """Starts claimed jobs as their permits come; holds no more than will start soon.

    `start` gets jobs with their permits, `put_off` a job and for how many seconds. `room` is
    called when jobs of a lane may be claimed again whose line was full.
    """

    def __init__(
        self,
        permits: Permits,
        capacity: Capacity,
        *,
        start: Callable[[Sequence[ClaimedJob]], None],
        put_off: Callable[[ClaimedJob, float], None],
        room: Callable[[], None],
    ) -> None:
        self._permits = permits
        self._capacity = capacity
        self._start = start
        self._put_off = put_off
        self._room = room
        self._lines: dict[tuple[Limit, ...], WaitingLine] = {}
        self._waiting: Counter[str] = Counter()
        self._refused: set[str] = set()
        self._serving = UnderWay()

    def __iter__(self) -> Iterator[ClaimedJob]:
        return (job for line in self._lines.values() for job in line.jobs)

    def acquiring(self) -> Iterable[HeldPermits]:
        """Return the permits that are being acquired and belong to no job yet."""
        return [line.acquiring for line in self._lines.values()]

    def room(self, limits: Sequence[Limit]) -> int:
        """Return how many jobs under these limits may be claimed, in groups worth a claim."""
        now, found = time.monotonic(), MAX_HELD
        for limit in limits:
            waiting, most = self._waiting[limit.scope], self._max_held(limit)
            free = 0 if waiting > most // 2 else most - waiting
            free = min(free, self._permits.share(limit).worth_claiming(now))
            if not free:
                self._refused.add(limit.scope)
            found = min(found, free)
        return found

    def add(self, limits: tuple[Limit, ...], jobs: Sequence[ClaimedJob]) -> None:
        """Hold the jobs that may start soon, and put off the others."""
        line = self._lines.get(limits)
        if line is None:
            line = self._lines[limits] = WaitingLine(limits)
            self._serving.start(self._serve(line))
        count = min(self._max_held(limit) - self._waiting[limit.scope] for limit in limits)
        count = max(0 if line.jobs else 1, min(count, self._free()))
        line.jobs.extend(jobs[:count])
        for limit in limits:
            self._waiting[limit.scope] += len(jobs[:count])
        self._put_off_all(line, jobs[count:])
        line.event.set()

    def take_all(self) -> list[ClaimedJob]:
        """Take every job out, because this node stops or must not start them."""
        return [job for line in self._lines.values() for job in self._take(line, len(line.jobs))]

    def _free(self) -> int:
        """Return how many more may be held over all limits: others need the window, too."""
        return int(self._capacity.size) // 2 - self._waiting.total()

    def _pace(self, limit: Limit) -> float:
        """Estimate how many jobs of a limit start in a second."""
        rate = math.inf if limit.rate_per_second is None else limit.rate_per_second
        if limit.max_running is None:
            return rate
        return min(rate, self._permits.share(limit).pace(time.monotonic()))

    def _max_held(self, limit: Limit) -> int:
        return max(1, min(MAX_HELD, int(self._pace(limit) * HOLD_SECONDS)))

    def _delay(self, limit: Limit, number: int) -> float:
        """Estimate when the `number`-th job that is not held is wanted: half of the line before.

        Jobs come back in groups of half a line, so that one claim takes many of them.
        """
        pace = self._pace(limit)
        chunk = max(MIN_DELAY_SECONDS, self._max_held(limit) / pace / 2)
        seconds = (self._waiting[limit.scope] + number) / pace - chunk
        seconds = max(1, seconds // chunk) * chunk
        return seconds if limit.max_running is None else min(seconds, MAX_BUSY_SECONDS)

    async def _serve(self, line: WaitingLine) -> None:
        """Acquire permits for a line until it is empty."""
        shares = [self._permits.share(limit) for limit in line.limits]
        try:
            for share in shares:
                share.waiters.add(line.event)
            while line.jobs:
                line.event.clear()
                wait_seconds = await self._start_some(line)
                self._give_up_some(line, shares)
                if line.jobs and wait_seconds:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(wait_seconds):
                            await line.event.wait()
        except Exception as error:  # noqa: BLE001 - without a permit nothing starts
            log.warning("limit.not_asked", scopes=_scopes(line), error=repr(error))
        finally:
            # In one step with the check that no job waits: what comes now makes a new line.
            del self._lines[line.limits]
            for share in shares:
                share.waiters.discard(line.event)
            line.acquiring.refund(line.acquiring.count)
            for job in self._take(line, len(line.jobs)):
                self._put_off(job, STARVED_SECONDS)

    async def _start_some(self, line: WaitingLine) -> float:
        """Start the jobs for which there are permits; return how long to wait for more."""
        held = line.acquiring = HeldPermits()
        wait_seconds = await self._permits.acquire(held, line.limits, len(line.jobs))
        # Some may have been taken out meanwhile.
        started = self._take(line, held.count)
        held.refund(held.count - len(started))
        for job in started:
            job.permits = held
        line.acquiring = HeldPermits()
        self._start(started)
        return wait_seconds

    def _give_up_some(self, line: WaitingLine, shares: Sequence[LimitShare]) -> None:
        """Put off jobs that have waited too long; leave them to nodes that have all the slots."""
        now = time.monotonic()
        if any(not share.worth_claiming(now) for share in shares):
            for job in self._take(line, len(line.jobs)):
                job.claim.lane_bucket.yields_until = now + YIELD_SECONDS
                self._put_off(job, STARVED_SECONDS)
        old = [job for job in line.jobs if job.claim.claimed_at + MAX_HOLD_SECONDS < now]
        self._put_off_all(line, self._take(line, len(old)))

    def _put_off_all(self, line: WaitingLine, jobs: Sequence[ClaimedJob]) -> None:
        for number, job in enumerate(jobs, 1):
            self._put_off(job, max(self._delay(limit, number) for limit in line.limits))

    def _take(self, line: WaitingLine, count: int) -> list[ClaimedJob]:
        taken = [line.jobs.popleft() for _ in range(min(count, len(line.jobs)))]
        for limit in line.limits if taken else ():
            self._waiting[limit.scope] -= len(taken)
            few = self._waiting[limit.scope] <= self._max_held(limit) // 2
            if few and limit.scope in self._refused:
                self._refused.discard(limit.scope)
                self._room()
            if not self._waiting[limit.scope]:
                del self._waiting[limit.scope]
        return taken


def _scopes(line: WaitingLine) -> list[str]:
    return [limit.scope for limit in line.limits]
