"""`postdate size`: how much disk, WAL and memory a load needs."""

from typing import Annotated

import msgspec
from cyclopts import Parameter

from postdate.cli.output import show
from postdate.foresight.spec.size import ExpectedLoad, size


def size_load(
    *,
    jobs_per_day: Annotated[int, Parameter(help="Jobs that are accepted in a day.")] = 0,
    payments_per_day: Annotated[int, Parameter(help="Payments that are accepted in a day.")] = 0,
    days_ahead: Annotated[float, Parameter(help="Mean days from accepting to the due time.")] = 1.0,
    retention_days: Annotated[int, Parameter(help="Days that finished jobs are kept.")] = 30,
    years: Annotated[float, Parameter(help="Years for which disk is planned.")] = 1.0,
    payload_bytes: Annotated[int, Parameter(help="Mean size of a job's payload.")] = 41,
    peak_factor: Annotated[float, Parameter(help="Busiest second compared with the mean.")] = 10.0,
) -> None:
    """Compute the disk, WAL and memory that a load needs, from measured bytes per item."""
    load = ExpectedLoad(
        jobs_per_day=jobs_per_day,
        payments_per_day=payments_per_day,
        days_ahead=days_ahead,
        retention_days=retention_days,
        years=years,
        payload_bytes=payload_bytes,
        peak_factor=peak_factor,
    )
    show(msgspec.to_builtins(size(load)))
