"""A job in the pipeline: requested, validated and accepted."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from postdate.audit.spec import SYSTEM
from postdate.core.status import JobStatus
from postdate.intake.idempotency import CREATED, KeyedRequest
from postdate.intake.store import KeyScope
from postdate.job.spec.job import JobSpec
from postdate.job.spec.view import JobView
from postdate.job.store.job import NewJob
from postdate.lane.store.lane import LaneKey


class OccurrenceTime(NamedTuple):
    """When a job of a schedule is due: decided by the schedule, within no window and no quota."""

    scheduled_for: datetime
    """The nominal instant: with the schedule it is the idempotency key of the delivery."""

    due_at: datetime
    expires_after_seconds: int | None


class JobRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A requested job: by whom, and under which key."""

    tenant_id: int
    spec: JobSpec
    actor: str = SYSTEM
    key: str | None = None
    key_scope: KeyScope = KeyScope.JOB
    schedule_id: UUID | None = None
    origin_id: UUID | None = None
    traceparent: str | None = None
    occurrence: OccurrenceTime | None = None


class CheckedJob(msgspec.Struct, frozen=True, gc=False):
    """A valid request; the parts of the job are as they will be stored, each encoded once."""

    request: JobRequest
    lane_key: LaneKey
    destination: str
    policy: str | None
    payload: bytes | None
    content_type: str | None
    metadata: str | None
    keyed: KeyedRequest | None = None


class AcceptedJob(msgspec.Struct, frozen=True, gc=False):
    """A job that was accepted."""

    job: NewJob
    request: JobRequest
    created_at: datetime
    replayed: bool = False
    found: JobView | None = None
    """The job that waits under the unique key, which the request was merged into."""
    status: int = CREATED
    """The status of the answer: 200 where no job was made."""

    @property
    def subject(self) -> UUID:
        """Return the job's id."""
        return self.job.job_id

    @property
    def body(self) -> JobView:
        """Return the job as the client sees it, without the payload."""
        if self.found is not None:
            return self.found
        job, spec = self.job, self.request.spec
        ready = job.effective_at <= self.created_at
        return JobView(
            job_id=job.job_id,
            status=JobStatus.READY if ready else JobStatus.PENDING,
            lane=spec.lane,
            priority=spec.priority,
            key=spec.key,
            destination=spec.destination,
            due_at=job.due_at,
            effective_at=job.effective_at,
            created_at=self.created_at,
            next_attempt_at=job.effective_at,
            expires_at=spec.expires_at,
            retry=spec.retry,
            timeout_seconds=spec.timeout_seconds,
            spread_seconds=spec.spread_seconds,
            content_type=job.content_type,
            payload_ref=spec.payload_ref,
            metadata=spec.metadata,
            description=spec.description,
            schedule_id=self.request.schedule_id,
            origin_id=self.request.origin_id,
            unique=spec.unique,
        )
