"""A payment as it is asked for, and the range of times it may have."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.core.field import Instant
from postdate.core.instant import instant_text
from postdate.core.money import ACCOUNT_ID, MAX_AMOUNT, MINOR_UNIT
from postdate.core.setting.setting import Settings
from postdate.words.error import Code, Refusal

MIN_DELAY_SECONDS: Final = 1
DESCRIPTION_CHARS: Final = 500
BROKE: Final = "settlement_error"
"""The code of an execution that broke for a reason that has nothing to do with money."""

AccountId = Annotated[
    str,
    Meta(
        pattern=ACCOUNT_ID,
        description="1 to 64 of A-Z a-z 0-9 _ . : @ -, beginning with a letter or digit.",
    ),
]
Funding = Literal["hold", "at_execution"]
OnBroken = Literal["hold", "release"]


class RetryUntil(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Retry while the payer does not have enough."""

    retry_until: Annotated[datetime, Meta(tz=True, description="When to give up.")]


PaymentDelay = Annotated[int, Meta(ge=MIN_DELAY_SECONDS, le=MAX_AMOUNT)]


class When(NamedTuple):
    """A time as a client gives it: one of the two."""

    delay_seconds: int | None
    scheduled_time: datetime | None


class PaymentOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A payment as requested: exactly one of `delay_seconds` and `scheduled_time` is given."""

    from_account_id: Annotated[AccountId, Meta(description="Who pays.")]
    to_account_id: Annotated[AccountId, Meta(description="Who is paid.")]
    amount: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_AMOUNT,
            description=f"The amount, {MINOR_UNIT}, within the limits of tenant and payer.",
        ),
    ]
    delay_seconds: Annotated[
        PaymentDelay | None,
        Meta(description="Delay after the payment is accepted, by the database's clock."),
    ] = None
    scheduled_time: Annotated[Instant | None, Meta(description="Due then.")] = None
    description: Annotated[
        Annotated[str, Meta(max_length=DESCRIPTION_CHARS)] | None, Meta(description="Free text.")
    ] = None
    funding: Annotated[
        Funding,
        Meta(description="Hold the amount now, or take it when the payment is due."),
    ] = "hold"
    on_insufficient: Annotated[
        Literal["fail"] | RetryUntil,
        Meta(description="With `at_execution`: what to do if the payer does not have enough."),
    ] = "fail"

    on_broken: Annotated[
        OnBroken | None,
        Meta(
            description="When settling breaks for good, for a reason that is not about money: keep "
            "the amount held and wait for a person, or release it and fail. Without it, the "
            "setting `payment.on_broken` decides at that moment."
        ),
    ] = None

    @property
    def retry_until(self) -> datetime | None:
        """Return until when insufficient funds only delay the payment."""
        return None if self.on_insufficient == "fail" else self.on_insufficient.retry_until


class KeyedOrder(PaymentOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One payment of a batch, with its own key."""

    idempotency_key: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=255,
            pattern=r"^[ -~]+$(?!\n)",
            description="As in the Idempotency-Key header.",
        ),
    ]


def validate(order: PaymentOrder) -> Refusal | None:
    """Refuse errors that can be found without the database."""
    if (order.delay_seconds is None) == (order.scheduled_time is None):
        return Refusal(
            Code.INVALID_FIELD, "Give one of delay_seconds and scheduled_time.", "delay_seconds"
        )
    if order.from_account_id == order.to_account_id:
        return Refusal(
            Code.SELF_PAYMENT, f"{order.to_account_id} cannot pay itself.", "to_account_id"
        )
    if order.on_insufficient != "fail" and order.funding == "hold":
        return Refusal(
            Code.INVALID_FIELD,
            "A payment with a hold cannot lack money later: retry_until needs at_execution.",
            "on_insufficient",
        )
    return None


def due(order: PaymentOrder, now: datetime, max_delay_seconds: int) -> datetime | Refusal:
    """Find the instant an order is due, counted from the database's time."""
    when = When(order.delay_seconds, order.scheduled_time)
    at = _at(when, now, max_delay_seconds)
    if isinstance(at, Refusal):
        return at
    until = order.retry_until
    if until is not None and not (at < until and is_allowed_instant(until, now, max_delay_seconds)):
        return _out_of_range("on_insufficient", max(at, now), max_delay_seconds)
    return at


def instant(
    when: When, now: datetime, max_delay_seconds: int, until: datetime | None
) -> datetime | Refusal:
    """Find another instant for a payment, before the one at which it would give up."""
    if (when.delay_seconds is None) == (when.scheduled_time is None):
        return Refusal(
            Code.INVALID_FIELD, "Give one of delay_seconds and scheduled_time.", "delay_seconds"
        )
    at = _at(when, now, max_delay_seconds)
    if until is not None and isinstance(at, datetime) and at >= until:
        return Refusal(
            Code.TIME_OUT_OF_RANGE,
            f"The payment gives up at {instant_text(until)}: choose an earlier time.",
            _field(when),
            extra={"latest": instant_text(until)},
        )
    return at


def _at(when: When, now: datetime, max_delay_seconds: int) -> datetime | Refusal:
    # Compared before it is added: a delay beyond the calendar must not overflow.
    if (when.delay_seconds or 0) > max_delay_seconds:
        return _out_of_range(_field(when), now, max_delay_seconds)
    at = when.scheduled_time or now + timedelta(seconds=when.delay_seconds or 0)
    if not is_allowed_instant(at, now, max_delay_seconds):
        return _out_of_range(_field(when), now, max_delay_seconds)
    return at.astimezone(UTC)


def _field(when: When) -> str:
    return "scheduled_time" if when.delay_seconds is None else "delay_seconds"


def is_allowed_instant(at: datetime, now: datetime, max_delay_seconds: int) -> bool:
    """Return whether an instant lies in the range that is allowed now."""
    return MIN_DELAY_SECONDS <= (at - now).total_seconds() <= max_delay_seconds


def _out_of_range(field: str, now: datetime, max_delay_seconds: int) -> Refusal:
    earliest = now + timedelta(seconds=MIN_DELAY_SECONDS)
    latest = now + timedelta(seconds=max_delay_seconds)
    return Refusal(
        Code.TIME_OUT_OF_RANGE,
        f"The time must lie {MIN_DELAY_SECONDS} to {max_delay_seconds} seconds ahead.",
        field,
        extra={"earliest": instant_text(earliest), "latest": instant_text(latest)},
    )


class AmountLimits(NamedTuple):
    """The most for one payment: of a tenant, and up to where an account may have its own."""

    of_tenant: int
    of_account: int

    def for_account(self, account_max: int | None) -> int:
        """Return the most for a payment from an account with this limit of its own, or none."""
        if account_max is None:
            return self.of_tenant
        return min(account_max, max(self.of_tenant, self.of_account))


def amount_limits(settings: Settings, tenant_id: int) -> AmountLimits:
    """Read the limits that hold for a tenant now."""
    return AmountLimits(
        settings.integer("payment.max_amount", tenant_id),
        settings.integer("payment.account_max_amount", tenant_id),
    )


def approval_seconds(settings: Settings, tenant_id: int, amount: int) -> float | None:
    """Return how long a second person has to approve an amount; None when none needs to."""
    above = settings.integer("payment.approval_above", tenant_id)
    if not 0 < above < amount:
        return None
    return settings.number("payment.approval_seconds", tenant_id)


def execution_name(payment_id: UUID, number: int) -> str:
    """Name an execution that has no name of its own; the first is number 1."""
    return f"{payment_id}.{number}"
