"""Models of leases. Written by `make docs` from the endpoints."""

from datetime import datetime
from typing import Any

from msgspec import Struct


class Lease(Struct, frozen=True, kw_only=True):
    """A job leased to the worker until `lease_until`, unless renewed."""

    job_id: str
    token: int
    attempt: int
    max_attempts: int
    lease_until: datetime
    due_at: datetime
    payload: Any = None
    payload_base64: str | None = None
    content_type: str | None = None
    payload_ref: str | None = None
    metadata: dict[str, Any] | None = None
    timeout_seconds: float
    schedule_id: str | None = None
    scheduled_for: datetime | None = None
    traceparent: str | None = None
    checkpoint: Any = None


class LeaseList(Struct, frozen=True, kw_only=True):
    """The leases just claimed; none when nothing was due in time."""

    leases: list[Lease]


class LeaseReport(Struct, frozen=True, kw_only=True):
    """The status of the job; for a retry also when."""

    job_id: str
    status: str
    retry_in_seconds: float | None = None


class RenewedLease(Struct, frozen=True, kw_only=True):
    """Until when the lease holds now, and whether the worker should stop."""

    job_id: str
    lease_until: datetime
    cancel_requested: bool = False
    cancel_requested_at: datetime | None = None
    cancel_deadline: datetime | None = None
