"""A schedule: the recurring rule, its policies, and what one occurrence is."""

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from postdate.core.ids import bucket_of
from postdate.core.money import MAX_AMOUNT
from postdate.job.spec.job import (
    ContentType,
    JobDestination,
    JobSpec,
    Key,
    PayloadRef,
    Retry,
    Timeout,
    Unique,
)
from postdate.lane.spec import DEFAULT, DEFAULT_PRIORITY, Priority
from postdate.payment.spec.payment import DESCRIPTION_CHARS, AccountId, PaymentOrder
from postdate.recurrence.rule import EPOCH, SECONDS_A_DAY, Dst, Occurrence, Rule


class Overlap(StrEnum):
    """What an occurrence does while the one before is still open."""

    ALLOW = "allow"
    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    CANCEL_RUNNING = "cancel_running"


class MisfirePolicy(StrEnum):
    """What happens to occurrences that could not be expanded in time."""

    FIRE_ONCE = "fire_once"
    FIRE_ALL = "fire_all"
    SKIP = "skip"


class FundsPolicy(StrEnum):
    """What a payment does if the payer does not have enough when it is due."""

    FAIL = "fail"
    RETRY = "retry"


class Misfire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to occurrences that are late, after an outage for example."""

    policy: MisfirePolicy = MisfirePolicy.FIRE_ONCE
    late_after_seconds: Annotated[int, Meta(ge=1, le=SECONDS_A_DAY)] = 60
    max_lateness_seconds: Annotated[int, Meta(ge=1, le=3650 * SECONDS_A_DAY)] | None = None
    per_minute: Annotated[int, Meta(ge=1, le=6000)] = 60


class InsufficientFunds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a payment without funds fails at once or keeps trying for a while."""

    policy: FundsPolicy = FundsPolicy.FAIL
    retry_seconds: Annotated[int, Meta(ge=1, le=31 * SECONDS_A_DAY)] = SECONDS_A_DAY


class Policies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policies of a schedule; every answer shows all of them."""

    dst: Dst = Dst()
    misfire: Misfire = Misfire()
    overlap: Overlap = Overlap.ALLOW
    jitter_seconds: Annotated[int, Meta(ge=0, le=SECONDS_A_DAY)] = 0
    insufficient_funds: InsufficientFunds = InsufficientFunds()


class JobTemplate(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A job without its instant."""

    destination: JobDestination
    # Raw keeps the client's own bytes: every occurrence delivers them as they came.
    payload: Raw | UnsetType = UNSET
    payload_base64: Annotated[str, Meta(description="The payload as opaque bytes.")] | None = None
    content_type: ContentType | None = None
    payload_ref: PayloadRef | None = None
    retry: Retry | None = None
    timeout_seconds: Timeout | None = None
    expires_after_seconds: Annotated[int, Meta(ge=1, le=366 * SECONDS_A_DAY)] | None = None
    lane: str = DEFAULT
    key: Key | None = None
    priority: Priority = DEFAULT_PRIORITY
    metadata: dict[str, Any] | None = None
    description: Annotated[str, Meta(max_length=500)] | None = None
    unique: Unique | None = None

    def spec(self) -> JobSpec:
        """Return the job that each occurrence becomes."""
        fields = msgspec.structs.asdict(self)
        del fields["expires_after_seconds"]
        return JobSpec(**fields)


class PaymentTemplate(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A payment without its instant; the money is taken when an occurrence is due."""

    from_account_id: Annotated[AccountId, Meta(description="Who pays.")]
    to_account_id: Annotated[AccountId, Meta(description="Who is paid.")]
    amount: Annotated[int, Meta(ge=1, le=MAX_AMOUNT)]
    description: Annotated[str, Meta(max_length=DESCRIPTION_CHARS)] | None = None

    def order(self) -> PaymentOrder:
        """Return the payment that each occurrence becomes."""
        fields = msgspec.structs.asdict(self)
        return PaymentOrder(**fields, delay_seconds=1, funding="at_execution")


class Template(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What each occurrence becomes: a job or a payment."""

    job: JobTemplate | None = None
    payment: PaymentTemplate | None = None

    @property
    def kind(self) -> str:
        """Return what each occurrence becomes: a job or a payment."""
        return "payment" if self.job is None else "job"

    def visible(self, accounts: Collection[str] | None) -> bool:
        """Return whether a key that is limited to these accounts may see the template.

        A job belongs to no account.
        """
        if accounts is None:
            return True
        if self.payment is None:
            return False
        return self.payment.from_account_id in accounts or self.payment.to_account_id in accounts


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a schedule; a version never changes."""

    rule: Rule
    template: Template
    policies: Policies
    name: str = ""


def jitter(schedule_id: UUID, jitter_seconds: int) -> timedelta:
    """Return the share of the jitter that this schedule always takes, so that it stays spread."""
    if not jitter_seconds:
        return timedelta(0)
    digest = blake2b(schedule_id.bytes, digest_size=8, person=b"jitter").digest()
    share = int.from_bytes(digest, "big") / 2**64
    return timedelta(milliseconds=int(share * jitter_seconds * 1000))


def identify(schedule_id: UUID, occurrence: Occurrence) -> UUID:
    """Make the id of a nominal occurrence; several that were left out may share an instant."""
    if occurrence.skip is None:
        return occurrence_id(schedule_id, occurrence.scheduled_for)
    apart = f"{occurrence.skip}:{occurrence.nominal_local.isoformat()}"
    return occurrence_id(schedule_id, occurrence.scheduled_for, apart)


def occurrence_id(schedule_id: UUID, scheduled_for: datetime, cause: str = "") -> UUID:
    """Make the id of an occurrence: the same for the same schedule and instant, sorted by time.

    It is a UUIDv7 of the instant, so that the book is partitioned like all history. `cause` keeps
    apart what is not the rule's own occurrence at this instant.
    """
    unix_ms = int((scheduled_for - EPOCH) / timedelta(milliseconds=1))
    digest = blake2b(schedule_id.bytes + cause.encode(), digest_size=8, person=b"occurrence")
    tail = int.from_bytes(digest.digest(), "big") >> 2
    value = (max(unix_ms, 0) & 0xFFFF_FFFF_FFFF) << 80
    return UUID(int=value | 0x7 << 76 | bucket_of(schedule_id) << 64 | 0b10 << 62 | tail)
