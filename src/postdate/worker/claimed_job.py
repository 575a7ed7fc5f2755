"""Claimed jobs: what this process holds between the claim and the record."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from postdate.job.spec.outcome import Delivery
from postdate.job.spec.verdict import Verdict
from postdate.job.store.execution import ClaimedExecution
from postdate.worker.claim import LaneClaim
from postdate.worker.permit import HeldPermits

Checkpoint = Callable[[str], Awaitable[None]]
"""Called at named points around each side effect; the fault tests stop or kill there."""


async def pass_by(_: str) -> None:
    """Do nothing at a test point."""


@dataclass(slots=True, eq=False)
class ClaimedJob:
    """One lease in this process. Times are of the monotonic clock unless they carry a date."""

    execution: ClaimedExecution
    claim: LaneClaim
    renew_at: float
    # One permit of each of its limits, while it may run; None without limits.
    permits: HeldPermits | None = None
    # Whether it still occupies a part of its claim's room.
    holds_room: bool = True
    running: asyncio.Task[None] | None = None
    started_at: float = 0.0
    ended_at: float = 0.0
    # Why it was stopped from outside before its handler returned.
    stopped: str | None = None
    # Its one verdict, from when it was submitted; and whether the job is finished here.
    verdict: Verdict | None = None
    landed: bool = False

    @property
    def key(self) -> tuple[UUID, int]:
        """Return the key that distinguishes this lease from others of the same job."""
        return self.execution.held[:2]

    @property
    def recording(self) -> bool:
        """Return whether its verdict was submitted."""
        return self.verdict is not None

    @property
    def ran(self) -> bool:
        """Return whether its handler began and ended."""
        return 0.0 < self.started_at <= self.ended_at

    @property
    def delivery(self) -> Delivery:
        """Return what the handler gets."""
        if self.execution.delivery is None:
            raise RuntimeError("this execution was judged at the claim and must not run")
        return self.execution.delivery

    def now(self) -> datetime:
        """Return the database's time: that of the claim, plus the monotonic time since."""
        passed = time.monotonic() - self.claim.claimed_at
        return self.execution.claimed_at + timedelta(seconds=passed)

    def may_start(self, now: float) -> bool:
        """Return whether it should run: it was not stopped, and its lease is surely held."""
        return self.stopped is None and self.holds_lease(now)

    def holds_lease(self, now: float) -> bool:
        """Return whether the lease is surely held: it was taken a third of it before `renew_at`."""
        return now < self.renew_at + self.claim.lease_seconds * 2 / 3

    def end_permit(self) -> bool:
        """Return its permit, and whether it had one; with the start of a rate if it did not run."""
        permits, self.permits = self.permits, None
        if permits is not None:
            permits.end(self.ended_at - self.started_at) if self.ran else permits.refund(1)
        return permits is not None

    def stop(self, why: str) -> None:
        """Cancel the handler, or prevent its start; the job ends with this reason."""
        if self.stopped is None:
            self.stopped = why
            if self.running is not None:
                self.running.cancel()
