"""`postdate simulate`: how a fleet takes a spike, before it is bought."""

from dataclasses import asdict, dataclass
from typing import Annotated

import msgspec
from cyclopts import Parameter

from postdate.cli.output import show
from postdate.model.foresight.spike import Fleet, Spike, simulate_spike


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """What runs."""

    process_per_second: Annotated[float, Parameter(help="What one process does alone.")]
    database_per_second: Annotated[float, Parameter(help="What the database does for all.")]
    processes: Annotated[int, Parameter(help="How many run.")] = 1
    window: Annotated[int | None, Parameter(help="Open calls of one process.")] = None
    call_ms: Annotated[float, Parameter(help="How long a call takes.")] = 0.0


def simulate(
    items: Annotated[int, Parameter(help="How many are due.")],
    *,
    fleet: FleetOptions,
    spread_seconds: Annotated[float, Parameter(help="Within how long they are due.")] = 0.0,
    steady_per_second: Annotated[float, Parameter(help="What comes all the time.")] = 0.0,
) -> None:
    """Tell how late a spike would be for a fleet, and how many processes it needs."""
    spike = Spike(items=items, spread_seconds=spread_seconds, steady_per_second=steady_per_second)
    show(msgspec.to_builtins(simulate_spike(Fleet(**asdict(fleet)), spike)))
