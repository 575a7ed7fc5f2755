"""Models of foresight. Written by `make docs` from the endpoints."""

from datetime import datetime

from msgspec import Struct, field

from postdate.client.open_enum import OpenEnum


class LoadBy(OpenEnum):
    """What `LoadBy` may be."""

    DESTINATION = "destination"
    LANE = "lane"
    TENANT = "tenant"
    TOTAL = "total"


class LateEpisode(Struct, frozen=True, kw_only=True):
    """A stretch of time in which work waits, and its worst moment."""

    from_at: datetime
    until_at: datetime | None
    worst_at: datetime
    worst_hour: datetime
    late_seconds: int
    waiting: int


class LateForecast(Struct, frozen=True, kw_only=True):
    """What a capacity means for a window."""

    first_late_at: datetime | None
    worst: LateEpisode | None
    episodes: list[LateEpisode]
    error_seconds: int = 60


class LoadCapacitySource(OpenEnum):
    """What `LoadCapacitySource` may be."""

    GIVEN = "given"
    LANE = "lane"
    MEASURED = "measured"
    SETTING = "setting"
    UNKNOWN = "unknown"


class LoadCapacity(Struct, frozen=True, kw_only=True):
    """What can be executed in a second, and where the figure comes from."""

    per_second: float | None
    source: LoadCapacitySource
    at_least: bool = False


class LoadPeak(Struct, frozen=True, kw_only=True):
    """The busiest minute."""

    at: datetime
    count: int


class LoadQueueKind(OpenEnum):
    """What `LoadQueueKind` may be."""

    JOBS = "jobs"
    PAYMENTS = "payments"


class LoadQueue(Struct, frozen=True, kw_only=True):
    """All jobs.

    All payments, or the jobs of a lane with a limit of its own, against a capacity.
    """

    kind: LoadQueueKind
    name: str
    total: int
    backlog: int
    peak: LoadPeak | None
    capacity: LoadCapacity
    lateness: LateForecast | None


class LoadSeriesKind(OpenEnum):
    """What `LoadSeriesKind` may be."""

    JOBS = "jobs"
    PAYMENTS = "payments"


class LoadSeries(Struct, frozen=True, kw_only=True):
    """What becomes due of one lane, destination or tenant, slot by slot."""

    kind: LoadSeriesKind
    name: str
    stored: int
    scheduled: int
    counts: list[int]


class SpreadEffect(Struct, frozen=True, kw_only=True):
    """What would be with another jitter: the same queues, computed again."""

    jitter_seconds: int
    schedule_id: str | None
    queues: list[LoadQueue]


class Load(Struct, frozen=True, kw_only=True):
    """What becomes due in a window that begins with a whole minute."""

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
    """An account right after a change."""

    at: datetime
    balance: int
    held: int
    available: int


class FailingPayment(Struct, frozen=True, kw_only=True):
    """A payment that will fail: when it is due, when it fails for good, and why."""

    due_at: datetime
    fails_at: datetime
    code: str
    from_account_id: str
    to_account_id: str
    amount: int
    available: int | None
    payment_id: str | None
    schedule_id: str | None


class Money(Struct, frozen=True, kw_only=True):
    """What will become of a tenant's payments, and of one account if one was asked for."""

    from_at: datetime
    until_at: datetime
    known_until: datetime
    completed: int
    failing_count: int
    failing: list[FailingPayment]
    first_failing_at: datetime | None
    account_id: str | None = None
    balance: int | None = None
    available: int | None = None
    floor: int | None = None
    lowest: BalancePoint | None = None
    first_short_at: datetime | None = None
    end: BalancePoint | None = None
    points: list[BalancePoint] = field(default_factory=list)
