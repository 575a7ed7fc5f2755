"""An occurrence that becomes a job or payment, and the result."""

from datetime import datetime
from uuid import UUID

import msgspec

from postdate.schedule.spec.schedule import Policies, Template


class Firing(msgspec.Struct, frozen=True, gc=False):
    """What to make: nominal for `scheduled_for`, effective at `due_at` or now if that is later."""

    tenant_id: int
    schedule_id: UUID
    scheduled_for: datetime
    due_at: datetime
    version: int
    template: Template
    policies: Policies
    traceparent: str | None = None
    """What follows it: the request of a trigger, or the span of an expansion."""

    asked_by: str | None = None
    """The request that asked for the schedule, where that was followed."""

    ran_by: frozenset[str] = frozenset()
    """The persons who run it by hand, out of turn."""


class Fired(msgspec.Struct, frozen=True, gc=False):
    """The job or payment that was made, the lane it waits in, and for how long."""

    subject: UUID
    lane_id: int
    seconds: float = 0.0
    merged: bool = False
    """Whether it was there before: the occurrence was merged into it by its unique key."""
