"""Run the handlers of claimed jobs: many at once, within a window, leases renewed meanwhile."""

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Final

from postdate.core.failpoint import reach
from postdate.core.limit import Limit
from postdate.core.log import Log
from postdate.database.connection.database import Database
from postdate.database.connection.error import CommitUnknownError, DatabaseError, UnavailableError
from postdate.job.spec.outcome import (
    Completed,
    Delivery,
    Failed,
    JobHandler,
    Outcome,
    Throttled,
    Unknown,
)
from postdate.job.spec.tally import Tally
from postdate.job.spec.verdict import Keep, Move, complete, decide, judge
from postdate.job.store import execution
from postdate.runtime.capacity import Capacity, Room
from postdate.runtime.loop import Signal
from postdate.runtime.under_way import UnderWay
from postdate.worker.claim import LaneClaim
from postdate.worker.claimed_job import Checkpoint, ClaimedJob, pass_by
from postdate.worker.lane_bucket import YIELDING_SECONDS
from postdate.worker.limited_jobs import LimitedJobs
from postdate.worker.permit import HeldPermits, Permits
from postdate.worker.recorder import OutcomeRecorder

log = Log()

OVERTIME_SECONDS: Final = 10.0
"""How long a handler may outlive its own timeout before it is stopped from outside."""

UNREADABLE_SECONDS: Final = 0.5
"""How long a job rests whose limits cannot be read."""

STOP_SECONDS: Final = 3.0
"""How long stopped handlers have to be recorded when the process ends."""

TAKEN: Final = "lease_lost"
UNREADABLE: Final[Sequence[Limit]] = [Limit("unreadable")]

_ROOM: Final[Callable[[ClaimedJob], Room]] = attrgetter("claim.room")

LimitsOf = Callable[[Delivery], Awaitable[Sequence[Limit]]]
"""What limits a delivery beyond its lane: its destination, for example."""


async def unlimited(_: Delivery) -> Sequence[Limit]:
    """Limit nothing."""
    return ()


def nothing_more(_: Sequence[ClaimedJob]) -> None:
    """Do nothing with jobs that are finished."""


class Runner:
    """Everything between a claim and its record."""

    def __init__(  # noqa: PLR0913 - every part is injected here, by name
        self,
        database: Database,
        handlers: Mapping[str, JobHandler],
        capacity: Capacity,
        permits: Permits,
        tally: Tally,
        *,
        room: Signal,
        limits_of: LimitsOf = unlimited,
        checkpoint: Checkpoint = pass_by,
        landed: Callable[[Sequence[ClaimedJob]], None] = nothing_more,
    ) -> None:
        self._landed = landed
        self._database = database
        self._handlers = handlers
        self._capacity = capacity
        self._permits = permits
        self._tally = tally
        self._room = room
        self._limits_of = limits_of
        self._checkpoint = checkpoint
        self._recorder = OutcomeRecorder(database, tally, self._make_room, self._land, checkpoint)
        self._jobs: set[ClaimedJob] = set()
        self._arrived: list[ClaimedJob] = []
        self._admitting: list[list[ClaimedJob]] = []
        """Jobs whose limits are being looked up, by the step that does it."""
        self._waiting: deque[ClaimedJob] = deque()
        self.limited = LimitedJobs(
            permits, capacity, start=self._start, put_off=self._throttle, room=room.send
        )
        self._spare = False
        self._shrunk_at = 0.0
        self._closing = False
        self._running = UnderWay()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._jobs)

    def take_over(self, claim: LaneClaim) -> None:
        """Take ownership of claimed jobs: each is finished exactly once, whatever happens."""
        renew_at = claim.claimed_at + claim.lease_seconds / 3
        jobs = [ClaimedJob(each, claim, renew_at) for each in claim.executions]
        self._jobs.update(jobs)
        self._tally.running = len(self._jobs)
        self._tally.claimed(claim.lane.tenant_id, [each.late_seconds for each in claim.executions])
        lost = [each for each in claim.executions if each.lost]
        again = sum(each.verdict is None for each in lost)
        self._tally.count_lost(claim.lane.tenant_id, len(lost), again)
        for job in jobs:
            if job.execution.verdict is not None:
                self._recorder.submit(job, job.execution.verdict)
            else:
                self._arrived.append(job)

    async def admit(self) -> None:
        """Start the claimed jobs without limits, and line the others up for their permits."""
        arrived, self._arrived = self._arrived, []
        self._admitting.append(arrived)
        try:
            await self._admit(arrived)
        except BaseException:
            self._put_off(arrived)
            raise
        finally:
            self._admitting.remove(arrived)
            if self._closing:
                self._give_back()
            self._spawn()

    def _put_off(self, jobs: Sequence[ClaimedJob]) -> None:
        """Release jobs that have not started; they will be claimed again soon."""
        waiting = {*self._waiting, *self.limited}
        for job in jobs:
            if job not in waiting and job.running is None:
                self._recorder.submit(job, Move(seconds=UNREADABLE_SECONDS))

    def _give_back(self) -> None:
        for job in self.limited.take_all():
            self._recorder.submit(job, Move(seconds=0.0))
        while self._waiting:
            self._recorder.submit(self._waiting.popleft(), Move(seconds=0.0))

    def _throttle(self, job: ClaimedJob, seconds: float) -> None:
        self._end(job, Throttled(seconds=seconds, reason="limit"))

    def _start(self, jobs: Sequence[ClaimedJob]) -> None:
        """Run jobs that have waited for their permits, unless their time is over."""
        for job in jobs:
            facts = job.execution.facts
            verdict = judge(facts, job.now()) if facts.expires_at else None
            if verdict is not None:
                self._recorder.submit(job, verdict)
            else:
                self._waiting.append(job)
        self._spawn()

    async def _admit(self, jobs: Sequence[ClaimedJob]) -> None:
        """Queue jobs to run, within the limits of their lanes and destinations."""
        groups: dict[tuple[Limit, ...], list[ClaimedJob]] = defaultdict(list)
        # Equal destinations of a batch are one object: each is looked up once.
        known: dict[int, Sequence[Limit]] = {}
        for job in jobs:
            where = id(job.delivery.destination)
            limits = known.get(where)
            if limits is None:
                limits = known[where] = await self._limits(job)
            if limits is UNREADABLE:
                self._recorder.submit(job, Move(seconds=UNREADABLE_SECONDS))
            elif limits or job.claim.limits:
                groups[*job.claim.limits, *limits].append(job)
            else:
                self._waiting.append(job)
        for together, group in groups.items():
            self.limited.add(together, group)

    async def _limits(self, job: ClaimedJob) -> Sequence[Limit]:
        """Read the limits of a job; a failure does not delay the others."""
        try:
            return await self._limits_of(job.delivery)
        except (CommitUnknownError, UnavailableError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to one destination
            log.warning("job.limits_unreadable", job_id=str(job.key[0]), error=repr(error))
            return UNREADABLE

    def _spawn(self) -> None:
        """Make sure that a runner takes the next queued job.

        One spare runner is enough: it only comes to run when those before it wait for something,
        and then makes the next spare. Handlers that never wait thus share a single one.
        """
        if self._waiting and not self._spare:
            self._spare = True
            self._running.start(self._work())

    async def _work(self) -> None:
        self._spare = False
        own, now = asyncio.current_task(), time.monotonic()
        while self._waiting:
            job = self._waiting.popleft()
            if not self._spare:
                self._spawn()
            job.started_at = now
            if not job.may_start(now):
                # Another worker may have it by now; otherwise it is due again.
                self._recorder.submit(job, Move(seconds=0.0))
                continue
            job.running = own
            try:
                self._end(job, await self._handle(job))
            except BaseException as error:
                self._end(job, Unknown(code="handler_error", error=repr(error)))
                if not isinstance(error, Exception):
                    raise
                log.warning("handler.failed", job_id=str(job.key[0]), exc_info=True)
            finally:
                job.running = None
            if job.stopped is not None:
                self._spawn()
                return
            now = job.ended_at

    async def _handle(self, job: ClaimedJob) -> Outcome:
        delivery = job.delivery
        kind = delivery.destination["type"]
        handler = self._handlers.get(kind)
        if handler is None:
            return Failed(code="no_handler", error=f"No worker here serves the type {kind}.")
        try:
            reach("run.before")
            outcome = await handler(delivery)
            reach("run.after")
            if self._checkpoint is not pass_by:
                await self._checkpoint("handler.after")
        except asyncio.CancelledError:
            if job.stopped is None:
                raise
            return Unknown(code=job.stopped, error="The handler was stopped before it finished.")
        except Exception as error:
            log.warning("handler.failed", job_id=str(job.key[0]), exc_info=True)
            return Unknown(code="handler_error", error=f"{type(error).__name__}: {error}")
        return outcome

    def _end(self, job: ClaimedJob, outcome: Outcome) -> None:
        """Decide what follows; its permit is free for the next job before this one is recorded."""
        job.ended_at = time.monotonic()
        if job.permits is not None:
            job.end_permit()
        if job.stopped == TAKEN:
            self._recorder.drop_lost(job)
        elif isinstance(outcome, Completed):
            self._recorder.submit(job, complete(outcome))
        else:
            if isinstance(outcome, Throttled) and outcome.elsewhere:
                job.claim.lane_bucket.yields_until = job.ended_at + YIELDING_SECONDS
            self._recorder.submit(job, decide(job.execution.facts, outcome, job.now()))

    def _make_room(self, jobs: Sequence[ClaimedJob]) -> None:
        """Release room, so that the next jobs are claimed while these are being recorded.

        The recorder bounds how many those can be, and calls this when their commit begins.
        """
        self._release_room(jobs)

    def _land(self, jobs: Sequence[ClaimedJob]) -> None:
        """Finish jobs; one that never ran returns its permit here."""
        self._adapt(jobs)
        self._jobs.difference_update(jobs)
        self._tally.running = len(self._jobs)
        for job in jobs:
            if job.permits is not None:
                job.end_permit()
        self._release_room(jobs)
        self._landed(jobs)
        self._changed.set()

    def _adapt(self, jobs: Sequence[ClaimedJob]) -> None:
        """Claim fewer jobs if leases expire before their jobs end, otherwise more again.

        A process that gets too little of the machine would go on claiming what others take from
        it meanwhile, and nothing would ever end. What was claimed before it began to claim less
        says nothing new.
        """
        now = time.monotonic()
        old = [job for job in jobs if job.renew_at < now]
        late = [job for job in old if not job.holds_lease(now)]
        if not late:
            self._capacity.grow(len(jobs))
        elif any(job.claim.claimed_at > self._shrunk_at for job in late):
            self._shrunk_at = now
            self._capacity.shrink(len(self._jobs))
            log.warning("worker.overloaded", late=len(late), window=int(self._capacity.size))

    def _release_room(self, jobs: Sequence[ClaimedJob]) -> None:
        """Release the room of these jobs, and wake the claimer if it waited for room."""
        leaving = [job for job in jobs if job.holds_room]
        for job in leaving:
            job.holds_room = False
        rooms = Counter(map(_ROOM, leaving))
        waited = any(self._capacity.free(room.tenant_id) == 0 for room in rooms)
        for room, count in rooms.items():
            room.release(count)
        if waited:
            self._room.send()

    def owned_rooms(self) -> set[Room]:
        """Return the room of running jobs."""
        return {job.claim.room for job in self._jobs if job.holds_room}

    def owned_permits(self) -> set[HeldPermits]:
        """Return the permits of running jobs, and the permits that are being acquired."""
        permits = {job.permits for job in self._jobs if job.permits is not None}
        return permits.union(self.limited.acquiring())

    def end_unhandled(self) -> None:
        """Finish jobs that no runner is working on; give back jobs that never started."""
        cared = {*self._waiting, *self._arrived, *self.limited}.union(*self._admitting)
        for job in self._jobs - cared:
            if job.running is not None or job.recording:
                continue
            log.error("job.unhandled", job_id=str(job.key[0]), token=job.key[1])
            if job.started_at:
                self._end(
                    job, Unknown(code="handler_lost", error="No runner is working on the job.")
                )
            else:
                self._recorder.submit(job, Move(seconds=0.0))
        self._recorder.resume()
        self._spawn()

    async def renew(self, _: int = 1) -> int:
        """Renew the leases that need it; stop jobs that lost their lease or exceeded their time."""
        self._recorder.resume()
        now = time.monotonic()
        wanted = [f for f in self._jobs if f.renew_at <= now and not f.recording]
        for job in wanted:
            overtime = job.started_at + job.delivery.timeout_seconds + OVERTIME_SECONDS
            if job.running is not None and now > overtime:
                job.stop("handler_timeout")
        await self._checkpoint("renew.before")
        keeps = [(f.execution.held, Keep(f.claim.lease_seconds)) for f in wanted]
        held = await execution.renew(self._database, keeps) if keeps else {}
        for job in wanted:
            if held.get(job.execution.held.job_id) is not None:
                job.renew_at = now + job.claim.lease_seconds / 3
            elif job.execution.held.job_id not in held and not job.recording:
                # Another node has it, or it was cancelled. A locked one is tried again.
                job.stop(TAKEN)
        return 0

    async def wait_idle(self) -> None:
        """Wait until no job is running."""
        while self._jobs:
            self._changed.clear()
            await self._changed.wait()

    async def drain(self, seconds: float) -> None:
        """Shut down: give back jobs that have not started, wait for the rest, then stop them."""
        self._closing = True
        self._give_back()
        until = time.monotonic() + seconds
        while self._jobs and time.monotonic() < until:
            await self._joined(min(1.0, until - time.monotonic()))
            with suppress(DatabaseError):
                await self.renew()
        for job in list(self._jobs):
            job.stop("worker_stopped")
        await self._joined(STOP_SECONDS)
        with suppress(DatabaseError):
            await self._permits.give_back()

    async def _joined(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self.wait_idle()
