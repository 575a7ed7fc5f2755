"""Models of foresight. Written by `make docs` from the endpoints."""

from datetime import datetime

from msgspec import Struct, field

from postdate.client.models.shared import FailingPayment, LoadQueue, LoadSeriesKind
from postdate.words.open_enum import OpenEnum


class LoadBy(OpenEnum):
    """What `LoadBy` may be."""

    DESTINATION = "destination"
    LANE = "lane"
    TENANT = "tenant"
    TOTAL = "total"


class LoadSeries(Struct, frozen=True, kw_only=True):
    """What comes due for one lane, destination or tenant, slot by slot."""

    kind: LoadSeriesKind
    name: str
    stored: int
    scheduled: int
    counts: list[int]


class SpreadEffect(Struct, frozen=True, kw_only=True):
    """The effect of another jitter: the same queues, computed again."""

    jitter_seconds: int
    schedule_id: str | None
    queues: list[LoadQueue]


class Load(Struct, frozen=True, kw_only=True):
    """What comes due in a window that begins at a whole minute."""

    from_at: datetime
    until_at: datetime
    known_until: datetime
    slot_seconds: int
    by: LoadBy
    series: list[LoadSeries]
    queues: list[LoadQueue]
    error_percent: int | None
    schedules: int
    left_out: int
    spread: SpreadEffect | None = None


class BalancePoint(Struct, frozen=True, kw_only=True):
    """An account, or the sum of many, right after a change."""

    at: datetime
    balance: int
    held: int
    available: int


class FailureCause(Struct, frozen=True, kw_only=True):
    """Why payments will fail: a code, and the account that it is about."""

    code: str
    account_id: str
    currency: str | None
    count: int
    amount: int
    first_at: datetime
    last_at: datetime


class MoneyTotal(Struct, frozen=True, kw_only=True):
    """All accounts of one currency together.

    Those without a floor, as the issuer, are left out.
    """

    currency: str | None
    accounts: int
    lowest: BalancePoint
    end: BalancePoint
    points: list[BalancePoint]


class PayIn(Struct, frozen=True, kw_only=True):
    """How much money is missing in one currency, and the first instant at which it is."""

    currency: str | None
    amount: int
    by: datetime
    accounts: int


class ShortAccount(Struct, frozen=True, kw_only=True):
    """An account that a payment would take below its floor."""

    account_id: str
    first_short_at: datetime
    available: int
    floor: int
    amount: int
    currency: str | None = None
    missing: int = 0
    pay_in_by: datetime | None = None


class Money(Struct, frozen=True, kw_only=True):
    """The forecast of a tenant's payments, and of one account if requested."""

    from_at: datetime
    until_at: datetime
    known_until: datetime
    completed: int
    pay_in: list[PayIn] = field(default_factory=list)
    cause_count: int = 0
    causes: list[FailureCause] = field(default_factory=list)
    failing_count: int
    failing: list[FailingPayment]
    first_failing_at: datetime | None
    short_count: int
    short: list[ShortAccount]
    left_out: int = 0
    totals: list[MoneyTotal] = field(default_factory=list)
    account_id: str | None = None
    currency: str | None = None
    balance: int | None = None
    available: int | None = None
    floor: int | None = None
    lowest: BalancePoint | None = None
    first_short_at: datetime | None = None
    end: BalancePoint | None = None
    points: list[BalancePoint] = field(default_factory=list)
