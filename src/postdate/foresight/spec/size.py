"""How much disk, WAL and memory a load needs: a sum over measured bytes per item."""

from typing import Final

import msgspec

from postdate.words.error import Code, refuse

SECONDS_A_DAY: Final = 86_400
GB: Final = 1_000_000_000


class ItemBytes(msgspec.Struct, frozen=True):
    """Bytes of one kind of item, indexes included; WAL without images of whole pages."""

    pending: int
    """At rest while it waits: its own row, its timer, its key, its part of a seal."""

    ended: int
    """At rest after its end, with outcome or transfer."""

    wal: int
    """Written to the log from accept to end, its facts sealed."""


JOB: Final = ItemBytes(pending=550, ended=578, wal=1710)
PAYMENT: Final = ItemBytes(pending=790, ended=1160, wal=2670)
TIMER: Final = 230

PAGE_IMAGES: Final = 2.0
"""Factor for images of pages after checkpoints, with checkpoints of 15 minutes or more."""

NEAR_DAYS: Final = 3
"""Timers that are due within these days should fit into memory."""


class ExpectedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What is expected of an installation."""

    jobs_per_day: int = 0
    payments_per_day: int = 0
    days_ahead: float = 1.0
    """Mean time between accepting an item and its due time."""

    retention_days: int = 30
    """How long finished jobs are kept; payments stay forever."""

    years: float = 1.0
    """The horizon for which disk is planned."""

    payload_bytes: int = 41
    peak_factor: float = 10.0
    """How much more than the mean comes due in the busiest second."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """What the load needs; gigabytes are decimal."""

    pending_items: int
    pending_gb: float
    finished_jobs_gb: float
    payments_gb: float
    disk_gb: float
    wal_gb_per_day: float
    wal_mb_per_second_at_peak: float
    timers_in_memory_gb: float
    executions_per_second_at_peak: float


def size(load: ExpectedLoad) -> Size:
    """Add up what a load needs."""
    for name, given in msgspec.structs.asdict(load).items():
        if given < 0:
            raise refuse(Code.INVALID_FIELD, f"{name} is at least 0.", name)
    job_extra = max(0, load.payload_bytes - 41)
    jobs_pending = round(load.jobs_per_day * load.days_ahead)
    payments_pending = round(load.payments_per_day * load.days_ahead)
    pending = jobs_pending * (JOB.pending + job_extra) + payments_pending * PAYMENT.pending
    finished = load.jobs_per_day * load.retention_days * (JOB.ended + job_extra)
    paid = load.payments_per_day * 365 * load.years * PAYMENT.ended
    wal = PAGE_IMAGES * (
        load.jobs_per_day * (JOB.wal + job_extra) + load.payments_per_day * PAYMENT.wal
    )
    per_second = (load.jobs_per_day + load.payments_per_day) / SECONDS_A_DAY
    near = min(jobs_pending + payments_pending, per_second * SECONDS_A_DAY * NEAR_DAYS)
    return Size(
        pending_items=jobs_pending + payments_pending,
        pending_gb=_gb(pending),
        finished_jobs_gb=_gb(finished),
        payments_gb=_gb(paid),
        disk_gb=_gb(pending + finished + paid),
        wal_gb_per_day=_gb(wal),
        wal_mb_per_second_at_peak=round(wal / SECONDS_A_DAY * load.peak_factor / 1e6, 1),
        timers_in_memory_gb=_gb(near * TIMER),
        executions_per_second_at_peak=round(per_second * load.peak_factor, 1),
    )


def _gb(count: float) -> float:
    return round(count / GB, 1)
