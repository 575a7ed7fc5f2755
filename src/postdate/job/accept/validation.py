"""Validate jobs by pure rules, without the database."""

import binascii
from base64 import b64decode
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET

from postdate.core import any_json
from postdate.core.field import NAME, NAME_RULE
from postdate.core.setting.setting import Settings
from postdate.destination.spec.target import Networks, check_url
from postdate.intake.idempotency import KeyedRequest
from postdate.job.accept.request import CheckedJob, JobRequest
from postdate.job.spec.job import (
    LARGE_METADATA,
    LARGE_PAYLOAD,
    METADATA_BYTES,
    PAYLOAD_BYTES,
    JobDestination,
    JobPolicy,
    JobSpec,
    OnConflict,
    Unique,
    Webhook,
    Worker,
    encode_destination,
    encode_policy,
    spread_offset,
)
from postdate.job.spec.view import JSON
from postdate.lane.store.lane import LaneKey
from postdate.secret.payload_encryption import MARK
from postdate.words.error import Code, Refusal

DELAY_RULE: Final = "`max_delay_seconds` belongs to `on_conflict` `debounce`, which needs it."
LATE_RULE: Final = "The job would be due later than `max_delay_seconds` from now."
_encode: Final = msgspec.json.Encoder().encode
_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode


class Route(NamedTuple):
    """Where a job waits and where it goes: most jobs share a few of these."""

    lane_key: LaneKey
    destination: str


class LaneOfJob(NamedTuple):
    """What of a job decides in which row of a lane it waits."""

    name: str
    priority: int
    keyed: bool


class DueWindow(NamedTuple):
    """How far from now a tenant's jobs may be due."""

    past: timedelta
    horizon: timedelta


ANY_TIME: Final = DueWindow(timedelta(days=365_000), timedelta(days=365_000))
"""No limit at all: for what was found to be within its limits before."""


def window(settings: Settings, tenant_id: int) -> DueWindow:
    """Read the window from the settings."""
    return DueWindow(
        timedelta(seconds=settings.number("job.past_tolerance_seconds", tenant_id)),
        timedelta(seconds=settings.number("job.horizon_seconds", tenant_id)),
    )


def route(
    tenant_id: int, lane: LaneOfJob, destination: JobDestination, allowed: Networks
) -> Route | Refusal:
    """Check where a job waits and where it goes."""
    if NAME.fullmatch(lane.name) is None:
        return _invalid_field("lane", NAME_RULE)
    wrong = check_destination(destination, allowed)
    if wrong is not None:
        return wrong
    pulled = isinstance(destination, Worker)
    key = LaneKey(tenant_id, lane.name, "pull" if pulled else "push", lane.priority, lane.keyed)
    return Route(key, encode_destination(destination))


def check(request: JobRequest, to: Route, keyed: KeyedRequest | None) -> CheckedJob | Refusal:
    """Check everything else that needs no database, and encode it for the store."""
    spec = request.spec
    payload = payload_of(spec)
    if isinstance(payload, Refusal):
        return payload
    metadata = None
    if spec.metadata is not None:
        metadata = _encode(spec.metadata).decode()
        if len(metadata) > METADATA_BYTES:
            return _invalid_field("metadata", LARGE_METADATA)
    if spec.unique is not None:
        wrong = check_unique(spec.unique)
        if wrong is not None:
            return wrong
    policy = None
    if spec.retry is not None or spec.timeout_seconds is not None:
        policy = encode_policy(JobPolicy(retry=spec.retry, timeout_seconds=spec.timeout_seconds))
    return CheckedJob(
        request, to.lane_key, to.destination, policy, payload[0], payload[1], metadata, keyed
    )


def check_unique(unique: Unique) -> Refusal | None:
    """Check that `debounce`, and nothing else, says how long it may go on."""
    if (unique.on_conflict is OnConflict.DEBOUNCE) == (unique.max_delay_seconds is not None):
        return None
    return _invalid_field("unique.max_delay_seconds", DELAY_RULE)


def check_destination(destination: JobDestination, allowed: Networks) -> Refusal | None:
    """Check the form of a destination, and whether its URL may be called."""
    if not isinstance(destination, Webhook):
        return None
    if (destination.url is None) == (destination.name is None):
        return _invalid_field("destination", "A webhook has either a `url` or a `name`.")
    for field in ("url", "cancel_url"):
        url = getattr(destination, field)
        wrong = None if url is None else check_url(url, allowed, f"destination.{field}")
        if wrong is not None:
            return wrong
    return None


def payload_of(spec: JobSpec) -> tuple[bytes | None, str | None] | Refusal:
    """Return the bytes and their content type; at most one of the three forms may be used."""
    if spec.payload is not UNSET:
        if spec.payload_base64 is not None or spec.payload_ref is not None:
            return _two_payloads()
        return _json(bytes(spec.payload), spec.content_type)
    if spec.payload_base64 is not None:
        if spec.payload_ref is not None:
            return _two_payloads()
        return _opaque(spec.payload_base64, spec.content_type)
    if spec.content_type is not None:
        return _invalid_field("content_type", "A `content_type` needs a payload.")
    return None, None


def _json(data: bytes, content_type: str | None) -> tuple[bytes | None, str | None] | Refusal:
    if len(data) > PAYLOAD_BYTES:
        return _too_large()
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            return _invalid_field("payload", "The payload is not valid UTF-8.")
    return data, content_type or JSON


def _opaque(text: str, content_type: str | None) -> tuple[bytes | None, str | None] | Refusal:
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return _invalid_field("payload_base64", "The payload is not valid base64.")
    if len(data) > PAYLOAD_BYTES:
        return _too_large()
    if data.startswith(MARK):
        return _invalid_field(
            "payload_base64", "A payload must not begin with the prefix of encrypted payloads."
        )
    if content_type == JSON and not _is_json(data):
        return _invalid_field(
            "payload_base64", f"The payload is not what `content_type` says: {JSON}."
        )
    return data, content_type or "application/octet-stream"


def _is_json(data: bytes) -> bool:
    """Return whether bytes can be shown as JSON, as everything of this type is."""
    try:
        any_json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _two_payloads() -> Refusal:
    return _invalid_field("payload", "Give one of `payload`, `payload_base64` and `payload_ref`.")


def _too_large() -> Refusal:
    return Refusal(Code.PAYLOAD_TOO_LARGE, LARGE_PAYLOAD, "payload")


def due_at(spec: JobSpec, now: datetime, limits: DueWindow) -> datetime | Refusal:
    """Decide when a job is due, by the database's time."""
    if spec.run_at is None:
        seconds = spec.delay_seconds or 0.0
        if seconds > limits.horizon.total_seconds():
            return _too_far_ahead("delay_seconds", limits)
        return now + timedelta(seconds=seconds) if seconds else now
    if spec.delay_seconds is not None:
        return _invalid_field("delay_seconds", "Give either `run_at` or `delay_seconds`.")
    if spec.run_at < now - limits.past:
        detail = f"`run_at` may be at most {limits.past.total_seconds():.15g} s in the past."
        return Refusal(Code.DUE_IN_PAST, detail, "run_at")
    if spec.run_at > now + limits.horizon:
        return _too_far_ahead("run_at", limits)
    return spec.run_at


def _too_far_ahead(field: str, limits: DueWindow) -> Refusal:
    detail = f"A job may be due at most {limits.horizon.total_seconds():.15g} s from now."
    return Refusal(Code.BEYOND_HORIZON, detail, field)


def effective_at(due: datetime, spread_seconds: int | None, seed: UUID, now: datetime) -> datetime:
    """Move a job within its spread; the same seed always gives the same offset.

    Never before now, because workers do not scan earlier instants.
    """
    if spread_seconds:
        due += timedelta(seconds=spread_offset(seed, spread_seconds))
    return max(due, now)


def times(
    spec: JobSpec, now: datetime, limits: DueWindow, seed: UUID
) -> tuple[datetime, datetime] | Refusal:
    """Decide the nominal and the effective instant."""
    due = due_at(spec, now, limits)
    if isinstance(due, Refusal):
        return due
    effective = effective_at(due, spec.spread_seconds, seed, now)
    longest = None if spec.unique is None else spec.unique.max_delay_seconds
    if longest is not None and effective > now + timedelta(seconds=longest):
        return _invalid_field("unique.max_delay_seconds", LATE_RULE)
    if spec.expires_at is None:
        return due, effective
    return check_expiry(spec.expires_at, effective, now + limits.horizon) or (due, effective)


def check_expiry(
    expires_at: datetime | None, effective: datetime, horizon: datetime
) -> Refusal | None:
    """Refuse an expiry before the job is due, or beyond the horizon."""
    if expires_at is None:
        return None
    if expires_at <= effective:
        return _invalid_field("expires_at", "The job would expire before it is due.")
    if expires_at > horizon:
        detail = f"A job may expire at {horizon:%Y-%m-%d} at the latest."
        return Refusal(Code.BEYOND_HORIZON, detail, "expires_at")
    return None


def canonical(spec: JobSpec) -> bytes:
    """Encode a job in the one form in which requests under a key are compared."""
    plain = msgspec.to_builtins(msgspec.structs.replace(spec, payload=UNSET), str_keys=True)
    members = {name: value for name, value in plain.items() if value is not None}
    members.pop("idempotency_key", None)  # items of a batch carry their key with them
    if spec.payload is not UNSET:
        members["payload"] = any_json.decode(spec.payload)
    return _encode_sorted(members)


def _invalid_field(field: str, detail: str) -> Refusal:
    return Refusal(Code.INVALID_FIELD, detail, field)
