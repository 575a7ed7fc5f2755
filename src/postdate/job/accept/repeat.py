"""Compare a repeated request with the job that its key created."""

from typing import Any

from msgspec import UNSET

from postdate.core import any_json
from postdate.database.connection.database import Connection
from postdate.intake.pipeline import Known
from postdate.job.accept.payload_encryption import PayloadEncryption
from postdate.job.accept.request import CheckedJob
from postdate.job.accept.validation import ANY_TIME, due_at
from postdate.job.spec.job import JobSpec, decode_destination, decode_policy, decode_unique
from postdate.job.spec.view import JSON
from postdate.job.store import job as job_store
from postdate.job.store.job import JobAsAccepted
from postdate.lane.store.lane import Lane, LaneDirectory


async def differing_fields(
    connection: Connection,
    lanes: LaneDirectory,
    encryption: PayloadEncryption,
    known: Known[CheckedJob],
) -> list[str] | None:
    """Return the fields in which a request differs from the job as it was accepted.

    Returns None if the job is gone: its key outlives it by some days.
    """
    subject, tenant_id = known.row.subject, known.row.key.tenant_id
    job = None if subject is None else await job_store.as_accepted(connection, tenant_id, subject)
    if subject is None or job is None:
        return None
    payload = await encryption.open(connection, tenant_id, subject, job.payload)
    await lanes.load([job.lane_id], reader=connection)
    before = _asked(job, lanes.by_id[job.lane_id])
    spec = known.item.request.spec
    differs = [name for name, value in before.items() if getattr(spec, name) != value]
    if due_at(spec, known.row.created_at, ANY_TIME) != job.due_at:
        differs.append("run_at" if spec.delay_seconds is None else "delay_seconds")
    if _content(known.item.payload, known.item.content_type) != _content(payload, job.content_type):
        differs.append(_payload_field(spec, payload))
    elif known.item.content_type != job.content_type:
        differs.append("content_type")
    return sorted(differs)


def _asked(job: JobAsAccepted, lane: Lane) -> dict[str, Any]:
    policy = decode_policy(job.policy)
    return {
        "destination": decode_destination(job.destination),
        "lane": lane.name,
        "key": job.key,
        "priority": lane.priority,
        "retry": policy.retry,
        "timeout_seconds": policy.timeout_seconds,
        "expires_at": job.expires_at,
        "spread_seconds": job.spread_seconds,
        "payload_ref": job.payload_ref,
        "metadata": job.metadata,
        "description": job.description,
        "unique": decode_unique(job.unique_by),
    }


def _content(payload: bytes | None, content_type: str | None) -> object:
    """Return what a payload says: JSON however it is spaced (null is some), other bytes as is."""
    return [any_json.decode(payload)] if payload and content_type == JSON else payload


def _payload_field(spec: JobSpec, before: bytes | None) -> str:
    if spec.payload_base64 is not None:
        return "payload_base64"
    if spec.payload is not UNSET or before is not None:
        return "payload"
    return "payload_ref"
