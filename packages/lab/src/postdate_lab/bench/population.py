"""What the arm of growth asks of the database."""

from dataclasses import dataclass, fields
from functools import partial
from typing import Final

import asyncpg

from postdate.database.connection.query import query
from postdate.timer.timer import LANE_SCHEDULE

_query = partial(query, package="postdate_lab.bench")
_OF_A_TENANT: Final = {"lanes", "settings"}


@dataclass(slots=True, frozen=True, kw_only=True)
class Population:
    """How much is configured; `lanes` and `settings` (up to 3) are for each tenant."""

    tenants: int = 0
    lanes: int = 0
    settings: int = 0
    destinations: int = 0
    subscriptions: int = 0
    schedules: int = 0
    nodes: int = 0

    def scaled(self, part: float) -> "Population":
        """Return so much of it, with as many lanes and settings of each tenant."""
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        return Population(
            **{
                name: count if name in _OF_A_TENANT or not count else max(1, round(count * part))
                for name, count in counts.items()
            }
        )


async def fill(connection: asyncpg.Connection, population: Population) -> None:
    """Configure all of it, for tenants of the names grown-1, grown-2 and so on."""
    for statement, count in (
        (_query("population_tenants"), population.tenants),
        (_query("population_lanes"), population.lanes),
        (_query("population_settings"), population.settings),
        (_query("population_destinations"), population.destinations),
        (_query("population_subscriptions"), population.subscriptions),
        (_query("population_nodes"), population.nodes),
    ):
        if count:
            await connection.execute(statement, count, timeout=600)
    if population.schedules:
        await connection.execute(
            _query("population_schedules"), population.schedules, LANE_SCHEDULE, timeout=600
        )


async def transactions(connection: asyncpg.Connection) -> int:
    """Count the transactions of the database so far."""
    counted: int = await connection.fetchval(_query("population_transactions"))
    return counted
