"""Jobs: what to do, where, when, and how often to try."""

from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from postdate.core.field import Instant
from postdate.lane.spec import DEFAULT, DEFAULT_PRIORITY, Priority

PAYLOAD_BYTES: Final = 256 * 1024
"""The largest payload; more belongs elsewhere, behind a `payload_ref`."""

METADATA_BYTES: Final = 4096
LARGE_PAYLOAD: Final = f"A payload has at most {PAYLOAD_BYTES} bytes."
LARGE_METADATA: Final = f"Metadata takes at most {METADATA_BYTES} bytes."
MAX_BATCH: Final = 1000
MAX_SPREAD_SECONDS: Final = 24 * 3600

BackoffCurve = Literal["exponential", "linear", "fixed"]
OnUnknown = Literal["retry", "hold"]
DelaySeconds = Annotated[float, Meta(ge=0, le=10_000_000_000)]
Spread = Annotated[int, Meta(ge=0, le=MAX_SPREAD_SECONDS)]
Timeout = Annotated[float, Meta(ge=0.1, le=3600)]
PayloadRef = Annotated[str, Meta(min_length=1, max_length=2048)]
# The classes leave out what ends them (`/`, `;`, a space): there is one way to read a text, so that
# a text that does not fit is refused in linear time.
ContentType = Annotated[
    str, Meta(max_length=127, pattern=r"^[!-.0-:<-~]+/[!-.0-:<-~]+( *; *[!-:<-~]+)*$(?!\n)")
]
DestinationName = Annotated[str, Meta(min_length=1, max_length=63)]
# No control character; the last part refuses a line break at the end, which `$` lets pass.
UniqueKey = Annotated[
    str,
    Meta(min_length=1, max_length=255, pattern=r"^[^\u0000-\u001f\u007f-\u009f]*$(?!\n)"),
]
Key = UniqueKey


class Webhook(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag="webhook",
    tag_field="type",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """A call to a URL, or to a destination known by its name; exactly one of the two."""

    url: Annotated[str, Meta(min_length=1, max_length=2048)] | None = None
    name: DestinationName | None = None
    subject: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    keep_answer: Annotated[
        bool, Meta(description="Whether an answer that is JSON becomes the job's `result`.")
    ] = False
    cancel_url: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=2048,
                description="Called when the job is to be cancelled while its call is under way.",
            ),
        ]
        | None
    ) = None


class Queue(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag="queue",
    tag_field="type",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """A message on a queue elsewhere, known by its name."""

    name: DestinationName
    subject: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class Worker(
    msgspec.Struct, frozen=True, tag="worker", tag_field="type", forbid_unknown_fields=True
):
    """Work that waits in its lane until a worker asks for it."""


JobDestination = Webhook | Queue | Worker
_destination: Final[msgspec.json.Decoder[JobDestination]] = msgspec.json.Decoder(
    Webhook | Queue | Worker
)


class Retry(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """When to try again, as given; what is absent follows the tenant's settings `job.*`."""

    max_attempts: (
        Annotated[int, Meta(ge=1, le=100, description="Including the first attempt.")] | None
    ) = None
    backoff: BackoffCurve | None = None
    initial_seconds: Annotated[float, Meta(ge=0.01, le=86400)] | None = None
    max_seconds: Annotated[float, Meta(ge=0.01, le=7 * 86400)] | None = None
    jitter: (
        Annotated[float, Meta(ge=0, le=1, description="Random part of a delay, 0 to 1.")] | None
    ) = None
    max_age_seconds: Annotated[float, Meta(gt=0, le=366 * 86400)] | None = None
    on_unknown: OnUnknown | None = None


class OnConflict(StrEnum):
    """What a request does that finds a job waiting under its unique key."""

    DEBOUNCE = "debounce"
    KEEP = "keep"
    REPLACE = "replace"


class Unique(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """At most one waiting job holds the key; `on_conflict` says what a second request does."""

    key: UniqueKey
    on_conflict: Annotated[
        OnConflict,
        Meta(
            description="`keep` answers the waiting job, `replace` gives it the new payload, due "
            "time and policies, `debounce` moves its due time."
        ),
    ] = OnConflict.KEEP
    max_delay_seconds: (
        Annotated[
            float,
            Meta(
                gt=0,
                le=366 * 86400,
                description="How long after its acceptance `debounce` may move the waiting job.",
            ),
        ]
        | None
    ) = None


class JobPolicy(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The policy of a job as it is stored."""

    retry: Retry | None = None
    timeout_seconds: float | None = None


_given: Final = msgspec.json.Decoder(JobPolicy)
_unique: Final = msgspec.json.Decoder(Unique)
NO_POLICY: Final = JobPolicy()


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job as requested. Without `run_at` and `delay_seconds` it is due now."""

    destination: JobDestination
    run_at: Instant | None = None
    delay_seconds: DelaySeconds | None = None
    # Raw keeps the client's own bytes: they are stored and delivered without being rewritten.
    payload: Raw | UnsetType = UNSET
    payload_base64: Annotated[str, Meta(description="The payload as opaque bytes.")] | None = None
    content_type: ContentType | None = None
    payload_ref: PayloadRef | None = None
    retry: Retry | None = None
    timeout_seconds: Timeout | None = None
    expires_at: Instant | None = None
    spread_seconds: Spread | None = None
    lane: str = DEFAULT
    key: Key | None = None
    priority: Priority = DEFAULT_PRIORITY
    metadata: dict[str, Any] | None = None
    description: Annotated[str, Meta(max_length=500)] | None = None
    unique: Unique | None = None


def encode_unique(unique: Unique) -> str:
    """Write a unique key and its rule as they are stored."""
    return msgspec.json.encode(unique).decode()


def decode_unique(text: str | None) -> Unique | None:
    """Read a unique key and its rule back."""
    return None if text is None else _unique.decode(text)


@lru_cache(maxsize=8192)
def encode_destination(destination: JobDestination) -> str:
    """Write a destination as it is stored."""
    return msgspec.json.encode(destination).decode()


@lru_cache(maxsize=8192)
def decode_destination(text: str) -> JobDestination:
    """Read a destination back; many jobs share one."""
    return _destination.decode(text)


@lru_cache(maxsize=8192)
def encode_policy(given: JobPolicy) -> str | None:
    """Write a policy as it is stored; none at all when everything follows the settings."""
    return None if given == NO_POLICY else msgspec.json.encode(given).decode()


@lru_cache(maxsize=8192)
def decode_policy(text: str | None) -> JobPolicy:
    """Read a policy back."""
    return NO_POLICY if text is None else _given.decode(text)


def spread_offset(seed: UUID, spread_seconds: float) -> float:
    """Return the offset of a seed within a spread, in whole milliseconds; it never changes."""
    return int(stable_fraction(seed, 0) * spread_seconds * 1000) / 1000


def stable_fraction(seed: UUID, number: int) -> float:
    """Return a number in [0, 1) that looks random and is always the same for the same input."""
    # The lower 62 bits of an id are random; a multiplication mixes the number in.
    mixed = (seed.int & (2**62 - 1)) * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03
    mixed = (mixed ^ mixed >> 31) * 0x94D049BB133111EB
    return (mixed >> 32 & 0xFFFF_FFFF) / 2**32
