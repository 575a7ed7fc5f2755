"""Record outcomes in groups; a stale token changes nothing."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from postdate.core.log import Log
from postdate.database.connection.database import Database
from postdate.job.spec.tally import Tally
from postdate.job.spec.verdict import DONE, Keep, Move, Verdict
from postdate.job.store import execution
from postdate.monitor.store.item_log import write_endings
from postdate.runtime.retry import Backoff, RetryLadder, RetryLimits
from postdate.runtime.under_way import UnderWay
from postdate.worker.claim import LaneClaim
from postdate.worker.claimed_job import Checkpoint, ClaimedJob, pass_by

log = Log()

MAX_GROUP: Final = 500
"""The most outcomes of one commit."""

MAX_GROUPS: Final = 2
"""The most commits under way at once."""

TRIES: Final = RetryLimits(transient=None, alone=5, backoff=Backoff(0.1, 2.0))
"""The database is waited for; a verdict that fails by itself is given up after some tries."""

LOCKED_SECONDS: Final = 0.1
"""How soon a verdict is retried whose timer another transaction had locked."""

ClaimedGroup = Sequence[ClaimedJob]
"""Jobs whose verdicts are written together."""

Landing = Callable[[Sequence[ClaimedJob]], None]
"""Called with jobs whose record has begun, or is written."""

_CLAIM: Final[Callable[[ClaimedJob], LaneClaim]] = attrgetter("claim")


class OutcomeRecorder:
    """Collects verdicts while commits run; each commit records what has gathered.

    Repeating a commit whose end is unknown is harmless here: if it did happen, the leases are gone
    and the repetition changes nothing. A verdict that cannot be written because another transaction
    has locked its timer is set aside and retried, without delaying the others.
    """

    def __init__(
        self,
        database: Database,
        tally: Tally,
        begun: Landing,
        landed: Landing,
        checkpoint: Checkpoint = pass_by,
    ) -> None:
        self._database = database
        self._tally = tally
        self._begun = begun
        self._landed = landed
        self._checkpoint = checkpoint
        self._waiting: deque[ClaimedJob] = deque()
        self._aside: deque[ClaimedJob] = deque()
        self._active = 0
        self._revisiting = False
        self._running = UnderWay()
        self._group = RetryLadder("record", self._record, self._give_up, TRIES)
        record_aside = partial(self._record, aside=True)
        self._group_aside = RetryLadder("record", record_aside, self._give_up, TRIES)

    def submit(self, job: ClaimedJob, verdict: Verdict) -> None:
        """Queue a verdict; the job is finished when it is written, or when its lease is lost."""
        if job.verdict is not None:
            return  # it has one verdict: the first
        job.verdict = verdict
        if job.claim.in_doubt:
            self._aside.append(job)
        else:
            self._waiting.append(job)
            if self._active == MAX_GROUPS:
                return  # the commits under way take it along
        self.resume()

    def drop_lost(self, job: ClaimedJob) -> None:
        """Finish a job whose lease is lost: there is nothing to write."""
        if job.verdict is None:
            job.verdict = Move(seconds=0.0)
            self._land([job], set())

    def resume(self) -> None:
        """Make sure that queued verdicts are being written."""
        if self._waiting and self._active < MAX_GROUPS:
            self._active += 1
            self._running.start(self._drain())
        if self._aside and not self._revisiting:
            self._revisiting = True
            self._running.start(self._revisit())

    async def _drain(self) -> None:
        group: ClaimedGroup = ()
        try:
            # One turn of the loop lets outcomes that came together gather into one group.
            await asyncio.sleep(0)
            while self._waiting:
                group = self._take(self._waiting)
                self._begun(group)
                await self._group.run(group)
                group = ()
        finally:
            # In the same step as the check of the empty queue: a verdict that comes before this
            # coroutine is done must see that no task drains, or it would wait forever.
            self._active -= 1
            # Verdicts of an interrupted commit are not lost.
            self._waiting.extendleft(self._unfinished(group))

    async def _revisit(self) -> None:
        """Write what was set aside as soon as its timers are free."""
        group: ClaimedGroup = ()
        try:
            while self._aside:
                group = self._take(self._aside)
                await self._group_aside.run(group)
                group = ()
                await asyncio.sleep(LOCKED_SECONDS)
        finally:
            self._revisiting = False
            self._aside.extendleft(self._unfinished(group))

    def _take(self, queue: deque[ClaimedJob]) -> ClaimedGroup:
        if len(queue) > MAX_GROUP:
            return [queue.popleft() for _ in range(MAX_GROUP)]
        group = list(queue)
        queue.clear()
        return group

    def _unfinished(self, group: ClaimedGroup) -> ClaimedGroup:
        return [job for job in group if not job.landed and job not in self._aside]

    async def _give_up(self, job: ClaimedJob, error: Exception) -> None:
        """Give up a verdict that failed too often on its own: its lease expires."""
        log.error("record.refused", job_id=str(job.key[0]), exc_info=error)
        self._land([job], set())

    async def _record(self, group: ClaimedGroup, *, aside: bool = False) -> None:
        """Write a group, and finish the jobs that were recorded."""
        self._conclude(group, *await self._write(group, aside=aside))

    async def _write(self, group: ClaimedGroup, *, aside: bool) -> execution.Written:
        await self._checkpoint("record.before")
        keeps = [job for job in group if isinstance(job.verdict, Keep)]
        ended = [job for job in group if not isinstance(job.verdict, Keep)] if keeps else group
        verdicts: Any = [(job.execution.held, job.verdict) for job in ended]
        written = await execution.record(self._database, verdicts, in_doubt=aside)
        if keeps:
            kept: Any = [(job.execution.held, job.verdict) for job in keeps]
            for job_id, until in (await execution.renew(self._database, kept)).items():
                (written.done if until else written.locked).add(job_id)
        await self._checkpoint("record.after")
        return written

    def _conclude(self, group: ClaimedGroup, done: set[UUID], locked: set[UUID]) -> None:
        """Finish the recorded jobs, and set aside those whose timers are locked."""
        if not locked:
            self._land(group, done)
            return
        waits = [job for job in group if job.execution.held.job_id in locked]
        self._land([job for job in group if job.execution.held.job_id not in locked], done)
        self._aside.extend(waits)
        self.resume()

    def _land(self, group: ClaimedGroup, done: set[UUID]) -> None:
        """Finish jobs: count what was written, and say which leases were lost."""
        for job in group:
            job.landed = True
        written = group
        if len(done) < len(group):
            written = [job for job in group if job.execution.held.job_id in done]
            for job in set(group).difference(written):
                log.info("lease.lost", job_id=str(job.key[0]), token=job.key[1])
        self._count(written)
        write_endings(
            (job.execution.held.job_id, job.execution.held.attempt, job.verdict)
            for job in written
            if job.verdict is not None
        )
        self._tally.count_attempts([job.ended_at - job.started_at for job in group if job.ran])
        self._landed(group)

    def _count(self, written: ClaimedGroup) -> None:
        """Count verdicts; plain successes, the usual case, by their claims."""
        plain = [job for job in written if job.verdict is DONE]
        for claim, count in Counter(map(_CLAIM, plain)).items():
            self._tally.completed(claim.lane.tenant_id, count)
        if len(plain) < len(written):
            self._tally.recorded(
                [
                    (job.claim.lane.tenant_id, job.verdict)
                    for job in written
                    if job.verdict is not None and job.verdict is not DONE
                ]
            )
