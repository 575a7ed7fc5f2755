"""Claims: what one claim has taken from a bucket, and how it ends."""

from dataclasses import dataclass, field
from uuid import UUID

from postdate.core.limit import Limit
from postdate.job.store.execution import ClaimedExecution
from postdate.lane.store.lane import Lane
from postdate.runtime.capacity import Room
from postdate.runtime.key_rotation import KeyRotation
from postdate.worker.lane_bucket import LaneBucket


@dataclass(slots=True, eq=False)
class LaneClaim:
    """One claim from one bucket, and everything that it has taken.

    While it runs, it owns its bucket, and room for every job it may return. Afterwards each
    claimed job owns one part of the room.
    """

    lane_bucket: LaneBucket
    lane: Lane
    limits: list[Limit]
    room: Room
    lease_seconds: float
    # How many jobs the statement may return; 0 before it was sent.
    wanted: int = 0
    # By this node's monotonic clock, taken before the claim: the lease ends no sooner.
    claimed_at: float = 0.0
    executions: list[ClaimedExecution] = field(default_factory=list)
    # Its commit is unknown: none of its jobs runs, all are given back.
    in_doubt: bool = False
    # Where keys take rotation: what is known of them here, and the key of each job.
    rotation: KeyRotation | None = None
    keys: dict[UUID, int] = field(default_factory=dict)

    def trim(self) -> None:
        """Keep the room that its jobs need, and return the rest."""
        self.room.keep_only(len(self.executions))


@dataclass(slots=True, eq=False)
class ClaimTransaction:
    """The claims of one transaction: they are committed together, or not at all."""

    claims: list[LaneClaim] = field(default_factory=list)
    # Set when the commit is sent: an error from then on leaves in doubt whether it happened.
    committing: bool = False
