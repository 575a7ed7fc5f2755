"""One process's worker: claim, run, record, put together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.job.spec.outcome import JobHandler
from postdate.job.spec.tally import Tally
from postdate.lane.spec import LaneKind, kind_of
from postdate.lane.store.lane import LaneDirectory
from postdate.runtime.capacity import Capacity
from postdate.runtime.loop import Signal
from postdate.runtime.shared_read import SharedReads
from postdate.secret.payload_encryption import PayloadCipher
from postdate.worker.claimed_job import Checkpoint, ClaimedJob, pass_by
from postdate.worker.claimer import Claimer
from postdate.worker.permit import Permits
from postdate.worker.runner import LimitsOf, Runner, unlimited

log = Log()

WINDOW: Final = 1000
"""The most jobs under way in one process."""


@dataclass(slots=True, kw_only=True)
class JobWorker:
    """Serve the lanes of those destination types for which there is a handler."""

    database: Database
    node_id: UUID
    lanes: LaneDirectory
    settings: Settings
    handlers: Mapping[str, JobHandler]
    tally: Tally
    window_size: int = WINDOW
    limits_of: LimitsOf = unlimited
    checkpoint: Checkpoint = pass_by
    shared_reads: SharedReads | None = None
    cipher: PayloadCipher | None = None
    room: Signal = field(default_factory=Signal)
    """Sent when something may be claimed: there is room again, or another lane."""

    permits: Permits = field(init=False)
    claimer: Claimer = field(init=False)
    runner: Runner = field(init=False)

    def __post_init__(self) -> None:
        capacity = Capacity(self.window_size)
        self.permits = Permits(self.database, self.node_id)
        kinds: frozenset[LaneKind] = frozenset(kind_of(each) for each in self.handlers)
        self.runner = Runner(
            self.database,
            self.handlers,
            capacity,
            self.permits,
            self.tally,
            room=self.room,
            limits_of=self.limits_of,
            checkpoint=self.checkpoint,
            landed=self._landed,
        )
        self.claimer = Claimer(
            database=self.database,
            node_id=self.node_id,
            lanes=self.lanes,
            settings=self.settings,
            max_claim=self.runner.limited.room,
            capacity=capacity,
            hand_over=self.runner.take_over,
            kinds=kinds,
            shared_reads=self.shared_reads,
            cipher=self.cipher,
        )

    async def run_once(self, limit: int) -> int:
        """Claim due jobs and start them; their outcomes are recorded later."""
        try:
            claims = await self.claimer.claim(limit)
            await self.checkpoint("claim.after")
        finally:
            await self.runner.admit()
        return sum(len(claim.executions) for claim in claims)

    def reexamine(self, bucket: int, lane_id: int) -> None:
        """Reclaim room without an owner, and reset a bucket."""
        claims = self.claimer.under_way()
        rooms = self.runner.owned_rooms()
        left = self.claimer.capacity.keep_only(rooms.union(each.room for each in claims))
        if left:
            log.error("worker.ownerless", count=left)
        self.runner.end_unhandled()
        self.claimer.reexamine(bucket, lane_id)
        self.room.send()

    def _landed(self, jobs: Sequence[ClaimedJob]) -> None:
        """Claim at once where keys wait for jobs to end."""
        keyed = [job for job in jobs if job.claim.rotation is not None]
        if [job for job in keyed if self._ended(job)]:
            self.room.send()

    def _ended(self, job: ClaimedJob) -> bool:
        execution = job.execution
        unused = execution.delivery is not None and not job.ran
        return self.claimer.ended(job.claim, execution.held.job_id, unused=unused)

    async def next_due(self) -> float | None:
        """Return in how many seconds a step may find something."""
        return self.claimer.next_due()

    async def renew(self, _: int = 1) -> int:
        """Renew leases and permits, and reclaim permits without an owner; the step of a loop."""
        if left := self.permits.keep_only(self.runner.owned_permits()):
            log.error("worker.ownerless", count=left)
        try:
            await self.runner.renew()
        finally:
            await self.permits.renew()
        return 0
