"""Claims: what is taken at one bucket, and the one way in which it leaves again."""

from dataclasses import dataclass, field

from postdate.model.limit import Limit
from postdate.runtime.capacity import Room
from postdate.store.job.execution import ClaimedExecution
from postdate.store.timer.lane import Lane
from postdate.worker.lane_bucket import LaneBucket
from postdate.worker.permit import HeldPermits


@dataclass(slots=True, eq=False)
class LaneClaim:
    """One claim at one bucket, and everything that it has taken.

    While it is under way it owns its bucket, and room and permits for every job it may bring.
    Afterwards each job that it brought owns one part of the room and of the permits.
    """

    lane_bucket: LaneBucket
    lane: Lane
    limits: list[Limit]
    room: Room
    lease_seconds: float
    permits: HeldPermits = field(default_factory=HeldPermits)
    # How many jobs the statement was to bring; 0 before it was sent.
    wanted: int = 0
    # By this node's monotonic clock, taken before the claim: the lease ends no sooner.
    claimed_at: float = 0.0
    executions: list[ClaimedExecution] = field(default_factory=list)
    # Its commit may have happened, or may be about to: nothing of it runs, all of it goes back.
    in_doubt: bool = False

    def trim(self) -> None:
        """Keep what its jobs need, and give back what nothing was started with."""
        self.room.keep_only(len(self.executions))
        if self.permits:
            self.permits.refund(self.permits.count - len(self.executions))


@dataclass(slots=True, eq=False)
class ClaimTransaction:
    """The claims of one transaction: they are committed together, or not at all."""

    claims: list[LaneClaim] = field(default_factory=list)
    # Set when the commit is sent: an error from then on leaves in doubt whether it happened.
    committing: bool = False
