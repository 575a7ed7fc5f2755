"""`postdate simulate`: how a fleet would handle a spike."""

from dataclasses import asdict, dataclass
from typing import Annotated

import msgspec
from cyclopts import Parameter

from postdate.cli.output import show
from postdate.foresight.spec.spike import Fleet, Spike, simulate_spike


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """What runs."""

    process_per_second: Annotated[float, Parameter(help="Throughput of one process.")]
    database_per_second: Annotated[float, Parameter(help="Throughput of the database.")]
    processes: Annotated[int, Parameter(help="Number of processes.")] = 1
    window: Annotated[int | None, Parameter(help="Concurrent calls of one process.")] = None
    call_ms: Annotated[float, Parameter(help="Duration of a call.")] = 0.0


def simulate(
    items: Annotated[int, Parameter(help="Number of jobs that are due.")],
    *,
    fleet: FleetOptions,
    spread_seconds: Annotated[float, Parameter(help="Time within which they come due.")] = 0.0,
    steady_per_second: Annotated[float, Parameter(help="Constant background load.")] = 0.0,
) -> None:
    """Compute how late a spike would run on a fleet, and how many processes it needs."""
    spike = Spike(items=items, spread_seconds=spread_seconds, steady_per_second=steady_per_second)
    show(msgspec.to_builtins(simulate_spike(Fleet(**asdict(fleet)), spike)))
