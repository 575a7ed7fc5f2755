"""Change many jobs: the filter, the new instant, and the counts of the answer."""

from uuid import UUID

import msgspec

from postdate.core.field import Instant
from postdate.core.status import JobStatus
from postdate.job.spec.job import DelaySeconds, DestinationName, Key, Spread, UniqueKey
from postdate.lane.spec import Priority


class BulkFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs; at least one member must be given. No status means PENDING and READY."""

    status: JobStatus | None = None
    lane: str | None = None
    schedule_id: UUID | None = None
    key: Key | None = None
    priority: Priority | None = None
    due_after: Instant | None = None
    due_before: Instant | None = None
    unique: UniqueKey | None = None
    destination: DestinationName | None = None


class JobInstant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the jobs are to be due; with a spread each has its own offset."""

    run_at: Instant | None = None
    delay_seconds: DelaySeconds | None = None
    spread_seconds: Spread | None = None


class BulkOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many jobs matched, by status, and how many were changed; if `more`, call again.

    There is more if one call cannot take all, or other transactions have locked some of the jobs.
    `asked` of the changed ones run on: their workers were asked to stop.
    """

    dry_run: bool
    matched: dict[str, int]
    changed: int
    more: bool
    asked: int = 0
