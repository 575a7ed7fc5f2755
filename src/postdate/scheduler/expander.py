"""Expand due schedules: occurrences, their jobs or payments and the next timers in one commit."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from postdate.audit.spec import SYSTEM
from postdate.core.failpoint import reach
from postdate.core.ids import BUCKETS, bucket_of
from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.core.test_clock import own_lane
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import (
    DatabaseError,
    LockNotAvailableError,
    ServerFaultError,
    TenantHaltedError,
    TransientError,
    UniqueViolationError,
)
from postdate.event.store import event as event_store
from postdate.event.store.event import NewEvent, record_event
from postdate.runtime.low_water import LowWaterMark
from postdate.runtime.retry import RetryLadder, RetryLimits
from postdate.runtime.shared_read import SharedReads
from postdate.schedule.spec.firing import Fired
from postdate.schedule.store import occurrence as occurrence_store
from postdate.schedule.store import schedule as store
from postdate.schedule.store import schedule_due, timeline
from postdate.schedule.store.schedule import ScheduleKey
from postdate.schedule.store.schedule_due import DueFilter, DueTimer
from postdate.scheduler.expansion import ExpansionBatch, error_text, watched
from postdate.scheduler.firer import Firer, Follow, untraced
from postdate.scheduler.meter import ScheduleMeter
from postdate.secret.secret import SecretKeyMissingError
from postdate.timer import timer as timer_store
from postdate.timer.timer import LANE_SCHEDULE
from postdate.words.error import Refusal

log = Log()

MAX_BATCH: Final = 500
"""Schedules of one commit, all of one bucket."""

LIMIT: Final = 2000
"""Schedules of one step, over all buckets."""

GROUP: Final = 32
"""Buckets whose first schedules are expanded in one commit."""

FEW: Final = 8
"""How many of each bucket of a group; a bucket that has more is expanded by itself."""

AT_ONCE: Final = 2
"""Groups of buckets expanded at the same time."""

HELD_SECONDS: Final = 2.0
"""How long a schedule rests that waited for a lock in vain, or that needs a key of other nodes."""

HELD_POLL_SECONDS: Final = 0.1
HELD_TRIES: Final = 4
"""How many of those one step tries again."""

DIVIDE_SECONDS: Final = 3.0
"""How long one step tries schedules one by one to find the locked ones; then all of them rest."""

PASSING: Final = (TransientError, TenantHaltedError)
"""No schedule's fault. If its tenant was halted in between, the next scan finds nothing."""

TRIES: Final = RetryLimits(passing=(DatabaseError,))
"""A batch that one of its schedules broke is divided; whatever else is raised concerns them all."""

MAX_STUMBLES: Final = 5
"""How often a schedule may rest because the server failed at it; then a person must act."""

IMPATIENT: Final = "SET LOCAL lock_timeout = '100ms'"
"""While a batch is divided, every part waits for the same lock again."""

_DECIDING: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="expand")
"""One thread for all expanders of the process: what rules give is remembered in one thread."""


@dataclass(slots=True)
class _Budget:
    """How many schedules one step may still expand."""

    left: int

    def take(self, max_count: int) -> int:
        taken = min(max_count, self.left)
        self.left -= taken
        return taken


class Expander:
    """One expander; any number of them may run, in any number of processes."""

    def __init__(
        self,
        database: Database,
        firer: Firer,
        meter: ScheduleMeter | None = None,
        settings: Settings | None = None,
        follow: Follow = untraced,
        reads: SharedReads | None = None,
    ) -> None:
        self._reads = reads or SharedReads(database)
        self._next_due: float | None = None
        self._database = database
        self._follow = follow
        self._firer = firer
        self._meter = meter or ScheduleMeter()
        self._settings = settings or Settings()
        self._marks = [LowWaterMark() for _ in range(BUCKETS)]
        self._held: dict[UUID, tuple[int, float]] = {}
        self._stumbles: dict[UUID, int] = {}
        self._divide_until = 0.0

    async def run_once(self, limit: int = LIMIT) -> int:
        """Expand up to `limit` due schedules and return how many."""
        await self._try_held()
        self._divide_until = time.monotonic() + DIVIDE_SECONDS
        buckets = await self._due_buckets()
        due = iter([buckets[n : n + GROUP] for n in range(0, len(buckets), GROUP)])
        budget = _Budget(limit)
        # While the database writes one bucket, the next is decided.
        ended = await asyncio.gather(
            *(self._work(due, budget) for _ in range(AT_ONCE)), return_exceptions=True
        )
        # An error in one bucket does not stop the others, but is raised afterwards.
        for error in ended:
            if isinstance(error, BaseException):
                raise error
        return limit - budget.left

    async def _try_held(self) -> None:
        """Retry some of the schedules that were locked, each alone, so that no other waits."""
        now = time.monotonic()
        rested = [(key, at[0]) for key, at in self._held.items() if at[1] <= now]
        for key, bucket in rested[:HELD_TRIES]:
            try:
                await self._once([bucket], 1, only=[key], impatient=True)
            except BrokenBatchError as broken:
                if broken.passing:
                    self._let_rest(bucket, broken)
                    continue
            # It is done, or is handled like all others again.
            del self._held[key]

    async def _work(self, due: Iterator[Sequence[int]], budget: _Budget) -> None:
        for group in due:
            await self._work_on(await self._expand_group(group, budget), budget)

    async def _expand_group(self, group: Sequence[int], budget: _Budget) -> Sequence[int]:
        """Expand a few schedules of each bucket in one commit; return the buckets with more.

        Where one schedule breaks the commit, each bucket is expanded by itself.
        """
        few = min(FEW, budget.left // len(group))
        # A commit over several shards costs more than several of one shard.
        if self._database.sharded or len(group) == 1 or not few:
            return group
        wanted = budget.take(few * len(group))
        try:
            # Impatient: all these buckets would wait for a lock that concerns one schedule.
            found = await self._once(group, few, impatient=True)
        except BrokenBatchError:
            budget.left += wanted
            return group
        budget.left += wanted - len(found)
        counts = Counter(bucket_of(timer.schedule_id) for timer in found)
        return [bucket for bucket in group if counts[bucket] == few]

    async def _work_on(self, buckets: Sequence[int], budget: _Budget) -> None:
        for bucket in buckets:
            more = True
            while more and budget.left > 0:
                wanted = budget.take(MAX_BATCH)
                done = await self._expand(bucket, wanted)
                budget.left += wanted - done
                more = done == wanted

    def look_everywhere(self) -> None:
        """Reset the marks, because something due is hidden behind one."""
        for mark in self._marks:
            mark.forget()

    async def next_due(self) -> float | None:
        """Return the seconds until the next schedule is due, by the database's clock.

        After a step that expanded something, the next one follows immediately.
        """
        seconds = self._next_due
        if seconds is None or not self._held:
            return seconds
        # Schedules that rest are always due.
        return max(seconds, HELD_POLL_SECONDS)

    def _low(self, bucket: int) -> datetime:
        return self._marks[bucket].current(time.monotonic(), self._settings.floor)

    async def _due_buckets(self) -> list[int]:
        lane_id = own_lane(LANE_SCHEDULE)
        looks = [(bucket, lane_id, self._low(bucket)) for bucket in range(BUCKETS)]
        heads = await timer_store.heads(self._reads, looks)
        for head in heads:
            self._marks[head.bucket].learn_empty_below(head.due_at, head.at)
        self._next_due = min((head.seconds for head in heads), default=None)
        due = [head.bucket for head in heads if head.seconds <= 0]
        # Nodes that start at different buckets rarely collide.
        random.shuffle(due)
        return due

    async def _expand(self, bucket: int, limit: int) -> int:
        """Expand up to a number of schedules; set aside only the ones that cannot be expanded."""
        try:
            return await self._attempt(bucket, limit)
        except BrokenBatchError as broken:
            attempt = partial(self._expand_part, bucket)
            ladder = RetryLadder("schedule", attempt, partial(self._expand_alone, bucket), TRIES)
            return sum(await ladder.divide(broken.timers, broken))

    async def _expand_part(self, bucket: int, timers: Sequence[DueTimer]) -> int:
        return await self._attempt(bucket, len(timers), [timer.schedule_id for timer in timers])

    async def _attempt(self, bucket: int, limit: int, only: Sequence[UUID] | None = None) -> int:
        """Expand once; let schedules rest if a lock made the step slow."""
        try:
            return len(await self._once([bucket], limit, only=only, impatient=only is not None))
        except BrokenBatchError as broken:
            if broken.passing and time.monotonic() > self._divide_until:
                return self._let_rest(bucket, broken)
            raise

    async def _expand_alone(
        self, bucket: int, timer: DueTimer, error: Exception, *, looked: bool = False
    ) -> int:
        """Retry or set aside the one schedule that broke its batch."""
        if not isinstance(error, BrokenBatchError):
            raise error
        key, stumbled = timer.schedule_id, False
        if isinstance(error.error, ServerFaultError):
            self._stumbles[key] = self._stumbles.get(key, 0) + 1
            stumbled = self._stumbles[key] < MAX_STUMBLES
        if error.passing or stumbled:
            return self._let_rest(bucket, error)
        if looked or not isinstance(error.error, UniqueViolationError):
            return await self._set_aside(bucket, timer, error.error)
        # The book has one of its occurrences already, after a clock was set back for example. The
        # quick way does not check this; this one does.
        try:
            return len(await self._once([bucket], 1, only=[key], look=True))
        except BrokenBatchError as again:
            return await self._expand_alone(bucket, timer, again, looked=True)

    def _let_rest(self, bucket: int, broken: "BrokenBatchError") -> int:
        """Leave schedules out for a moment: other transactions have locked what they need."""
        ids = [timer.schedule_id for timer in broken.timers]
        log.warning("schedule.held", schedule_ids=[str(key) for key in ids], error=str(broken))
        self._held |= dict.fromkeys(ids, (bucket, time.monotonic() + HELD_SECONDS))
        return len(ids)

    async def _set_aside(self, bucket: int, timer: DueTimer, error: Exception) -> int:
        """Set a schedule aside for a person, unless it was changed meanwhile."""
        text = error_text(error)
        key = ScheduleKey(bucket, timer.tenant_id, timer.schedule_id)
        async with self._database.write("expand.set_aside") as connection:
            known = await store.lock(connection, key) is not None
            due_at = (await store.timers(connection, [key])).get(key.schedule_id)
            if not known or due_at != timer.due_at:
                return 1
            await store.set_aside(connection, key, text)
            data = {"error": text}
            await record_event(connection, key[1:], "schedule.set_aside", SYSTEM, data)
        log.error("schedule.set_aside", schedule_id=str(timer.schedule_id), error=text)
        self._meter.count_set_aside()
        return 1

    async def _once(
        self,
        buckets: Sequence[int],
        limit: int,
        *,
        look: bool = False,
        impatient: bool = False,
        only: Sequence[UUID] | None = None,
    ) -> list[DueTimer]:
        """Expand the first due schedules of each bucket, or only these, in one commit."""
        held = [] if only else [key for key, (at, _) in self._held.items() if at in buckets]
        with self._follow(buckets) as spans:
            async with self._database.write("expand") as connection:
                if impatient:
                    await connection.execute(IMPATIENT)
                timers: list[DueTimer] = []
                for bucket in sorted(buckets):
                    wanted = DueFilter(bucket, self._low(bucket), limit, held, only)
                    timers += await schedule_due.take(connection, wanted)
                if not timers:
                    return []
                try:
                    batch = await self._decide(connection, timers)
                    if look:
                        batch.drop(await occurrence_store.find(connection, batch.keys()))
                    firings = spans.begin(batch.firings())
                    fired = await self._firer.fire(connection, firings, batch.now)
                    reach("expand.fired")
                    statuses = await self._write(connection, batch, fired)
                except Exception as error:
                    if isinstance(error, PASSING) and not isinstance(error, LockNotAvailableError):
                        raise
                    raise BrokenBatchError(timers, error) from error
            spans.end(fired)
        for timer in timers if self._stumbles else ():
            self._stumbles.pop(timer.schedule_id, None)
        self._firer.announce(fired)
        self._meter.expanded(statuses, [(t.at - t.due_at).total_seconds() for t in timers])
        for _ in batch.aside:
            self._meter.count_set_aside()
        return timers

    async def _decide(self, connection: Connection, timers: Sequence[DueTimer]) -> ExpansionBatch:
        keys = [store.key_of(timer.tenant_id, timer.schedule_id) for timer in timers]
        rows = await store.load(connection, keys)
        await self._forget_orphans(connection, keys, {row.schedule_id for row in rows})
        held = await timeline.load(
            connection, [(row, timeline.undecided_since(row)) for row in rows]
        )
        asked = [r.last_id for r in rows if r.last_id and watched(r, held[r.schedule_id])]
        running = await store.running(connection, asked)
        # All of them in one thread: rules are remembered there, and the event loop stays free.
        decide = ExpansionBatch(max(timer.at for timer in timers)).decide
        return await asyncio.get_running_loop().run_in_executor(
            _DECIDING, decide, rows, held, running
        )

    async def _forget_orphans(
        self, connection: Connection, keys: Sequence[ScheduleKey], known: set[UUID]
    ) -> None:
        """Delete timers without a schedule; normally there are none."""
        orphans = [(key.bucket, key.schedule_id, None) for key in keys if key[2] not in known]
        await store.move_timers(connection, orphans)

    async def _write(
        self, connection: Connection, batch: ExpansionBatch, fired: Sequence[Fired | Refusal]
    ) -> list[str]:
        new, changed = batch.rows(fired)
        await self._firer.cancel(connection, batch.cancelled())
        await occurrence_store.insert(connection, new)
        await occurrence_store.relabel(connection, changed)
        await store.advance(connection, batch.advances())
        await store.move_timers(connection, batch.timers())
        for row, error in batch.aside:
            await store.set_aside(connection, row.key, error)
        notices = [
            NewEvent(row.tenant_id, row.schedule_id, kind, SYSTEM, data)
            for row, kind, data in batch.notices()
        ]
        await event_store.insert(connection, notices)
        return [row.status for row in new]


class BrokenBatchError(Exception):
    """A batch that failed because of one of its schedules, or for a temporary reason."""

    def __init__(self, timers: Sequence[DueTimer], error: Exception) -> None:
        super().__init__(repr(error))
        self.timers = timers
        self.error = error

    @property
    def passing(self) -> bool:
        """Return whether the reason is temporary: a lock, or a key that this node lacks."""
        return isinstance(self.error, LockNotAvailableError | SecretKeyMissingError)
