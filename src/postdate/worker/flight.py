"""Flights: claimed jobs between the claim and the record."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from postdate.model.outcome import Delivery
from postdate.store.execution import Execution
from postdate.worker.claimer import Batch

Reach = Callable[[str], Awaitable[None]]
"""Called at named points around each side effect; the fault tests stop or kill there."""


async def pass_by(_: str) -> None:
    """Reach a point without doing anything."""


@dataclass(slots=True, eq=False)
class Flight:
    """One lease in this process. Times are of the monotonic clock unless they carry a date."""

    execution: Execution
    batch: Batch
    renew_at: float
    # The limits of which it holds a permit: its lane's, then its destination's.
    scopes: tuple[str, ...]
    running: asyncio.Task[None] | None = None
    started_at: float = 0.0
    # Why it was stopped from outside, before its handler came back.
    stopped: str | None = None
    recording: bool = False

    @property
    def key(self) -> tuple[UUID, int]:
        """Give what tells this lease from others of the same job."""
        return self.execution.held[:2]

    @property
    def delivery(self) -> Delivery:
        """Give what the handler gets."""
        if self.execution.delivery is None:
            raise RuntimeError("this execution was judged at the claim and must not run")
        return self.execution.delivery

    def now(self) -> datetime:
        """Give the time of the database: that of the claim, carried on by the monotonic clock."""
        passed = time.monotonic() - self.batch.claimed_at
        return self.execution.claimed_at + timedelta(seconds=passed)

    def stop(self, why: str) -> None:
        """Cancel the handler; its flight ends with this reason."""
        if self.stopped is None and self.running is not None:
            self.stopped = why
            self.running.cancel()
