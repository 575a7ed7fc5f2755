"""Record outcomes in groups; a stale token changes nothing."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from postdate.core.log import Log
from postdate.database.connection.database import Database
from postdate.job.spec.tally import Tally
from postdate.job.spec.verdict import End, Keep, Move, Verdict
from postdate.job.store import execution
from postdate.monitor.store.item_log import write_endings
from postdate.runtime.retry import Backoff, RetryLadder, RetryLimits
from postdate.runtime.under_way import UnderWay
from postdate.worker.claimed_job import Checkpoint, ClaimedJob, pass_by

log = Log()

MAX_GROUP: Final = 500
"""The most outcomes of one commit."""

MAX_GROUPS: Final = 2
"""The most commits under way at once."""

TRIES: Final = RetryLimits(transient=None, alone=5, backoff=Backoff(0.1, 2.0))
"""The database is waited for; a verdict that fails by itself is given up after some tries."""

LOCKED_SECONDS: Final = 0.1
"""How soon a verdict is tried again whose timer somebody else had locked."""

Group = Sequence[tuple[ClaimedJob, Verdict]]
Landing = Callable[[Sequence[ClaimedJob]], None]
"""Called with jobs whose record has begun, or is written."""


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
        self._waiting: deque[tuple[ClaimedJob, Verdict]] = deque()
        self._aside: deque[tuple[ClaimedJob, Verdict]] = deque()
        self._active = 0
        self._revisiting = False
        self._running = UnderWay()
        self._group = RetryLadder("record", self._record, self._give_up, TRIES)
        record_aside = partial(self._record, aside=True)
        self._group_aside = RetryLadder("record", record_aside, self._give_up, TRIES)

    def submit(self, job: ClaimedJob, verdict: Verdict) -> None:
        """Queue a verdict; the job is finished when it is written, or when its lease is lost."""
        if job.recording:
            return  # it has one verdict: the first
        job.recording = True
        queue = self._aside if job.claim.in_doubt else self._waiting
        queue.append((job, verdict))
        self.resume()

    def drop_lost(self, job: ClaimedJob) -> None:
        """Finish a job whose lease is lost: there is nothing to write."""
        if not job.recording:
            job.recording = True
            self._land([(job, Move(seconds=0.0))], set())

    def resume(self) -> None:
        """Make sure that queued verdicts are being written."""
        if self._waiting and self._active < MAX_GROUPS:
            self._active += 1
            self._running.start(self._drain())
        if self._aside and not self._revisiting:
            self._revisiting = True
            self._running.start(self._revisit())

    async def _drain(self) -> None:
        group: Group = ()
        try:
            # One turn of the loop lets outcomes that came together gather into one group.
            await asyncio.sleep(0)
            while self._waiting:
                count = min(len(self._waiting), MAX_GROUP)
                group = [self._waiting.popleft() for _ in range(count)]
                self._begun([job for job, _ in group])
                await self._group.run(group)
                group = ()
        finally:
            # In the same step as the check of the empty queue: a verdict that comes before this
            # coroutine is done must see that nobody drains, or it would wait forever.
            self._active -= 1
            # Verdicts of an interrupted commit are not lost.
            self._waiting.extendleft(self._unfinished(group))

    async def _revisit(self) -> None:
        """Write what was set aside as soon as its timers are free."""
        group: Group = ()
        try:
            while self._aside:
                group = [self._aside.popleft() for _ in range(min(len(self._aside), MAX_GROUP))]
                await self._group_aside.run(group)
                group = ()
                await asyncio.sleep(LOCKED_SECONDS)
        finally:
            self._revisiting = False
            self._aside.extendleft(self._unfinished(group))

    def _unfinished(self, group: Group) -> Group:
        return [pair for pair in group if not pair[0].landed and pair not in self._aside]

    async def _give_up(self, each: tuple[ClaimedJob, Verdict], error: Exception) -> None:
        """Give up a verdict that failed too often on its own: its lease expires."""
        log.error("record.refused", job_id=str(each[0].key[0]), exc_info=error)
        self._land([each], set())

    async def _record(self, group: Group, *, aside: bool = False) -> None:
        """Write a group, and finish the jobs that were recorded."""
        self._conclude(group, *await self._write(group, aside=aside))

    async def _write(self, group: Group, *, aside: bool) -> execution.Written:
        await self._checkpoint("record.before")
        verdicts: list[tuple[execution.HeldLease, End | Move]] = []
        keeps: list[tuple[execution.HeldLease, Keep]] = []
        for job, verdict in group:
            if isinstance(verdict, Keep):
                keeps.append((job.execution.held, verdict))
            else:
                verdicts.append((job.execution.held, verdict))
        written = await execution.record(self._database, verdicts, in_doubt=aside)
        if keeps:
            for job_id, until in (await execution.renew(self._database, keeps)).items():
                (written.done if until else written.locked).add(job_id)
        await self._checkpoint("record.after")
        return written

    def _conclude(self, group: Group, done: set[UUID], locked: set[UUID]) -> None:
        """Finish the recorded jobs, and set aside those whose timers are locked."""
        if not locked:
            self._land(group, done)
            return
        waits = [pair for pair in group if pair[0].execution.held.job_id in locked]
        self._land([pair for pair in group if pair not in waits], done)
        self._aside.extend(waits)
        self.resume()

    def _land(self, group: Group, done: set[UUID]) -> None:
        written: list[tuple[int, Verdict]] = []
        for job, verdict in group:
            job.landed = True
            if job.execution.held.job_id in done:
                written.append((job.claim.lane.tenant_id, verdict))
            else:
                log.info("lease.lost", job_id=str(job.key[0]), token=job.key[1])
        self._tally.recorded(written)
        write_endings(
            (job.execution.held.job_id, job.execution.held.attempt, verdict)
            for job, verdict in group
            if job.execution.held.job_id in done
        )
        self._tally.count_attempts(
            [each.ended_at - each.started_at for each, _ in group if each.ran]
        )
        self._landed([job for job, _ in group])
