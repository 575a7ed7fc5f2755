"""What a server costs while nothing happens, beside little and beside much that is configured."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from postdate_lab.bench import population as store
from postdate_lab.bench.load import LoadRequest, connect
from postdate_lab.bench.population import Population
from postdate_lab.bench.server_process import RunningServer, serving
from postdate_lab.bench.testbed import Measure, Testbed, at_most, percentile, plain, testbed

ARM: Final = "growth"
MAX_RATIO: Final = 1.5
SETTLING_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 20.0
ASK_SECONDS: Final = 0.05
MIN_FIGURE: Final = 0.01
"""What is less counts as this much: a short watch may see no processor time at all."""

FEW: Final = Population(tenants=10, lanes=10)

MANY: Final[Mapping[str, Population]] = {
    "10,000 tenants with 10 lanes": Population(tenants=10_000, lanes=10, settings=3),
    "1,000 destinations": Population(destinations=1000),
    "1,000 subscriptions": Population(subscriptions=1000),
    "100,000 schedules": Population(schedules=100_000),
    "10,000 nodes that are gone": Population(nodes=10_000),
}
"""What may be configured, or have been, without anything to do."""

MEASURES: Final = (
    ("processor of Python", "% of a core"),
    ("processor of PostgreSQL", "% of a core"),
    ("transactions", "1/s"),
    ("ready after", "s"),
    ("/livez p99", "ms"),
)


class Idle(NamedTuple):
    """What an idle server took, in the order of `MEASURES`."""

    python: float
    database: float
    transactions: float
    ready: float
    livez: float


@dataclass(slots=True)
class _IdleServer:
    """A server of a measurement, and the process that runs on it."""

    at: Testbed
    served: RunningServer


async def growth(at: Testbed, part: float) -> list[Measure]:
    """Let two servers idle at the same time, one beside little, the other beside much.

    `part` shortens the waiting and takes as much of what is configured: 1 is the whole of it.
    """
    await _fill(at, FEW)
    found: list[Measure] = []
    for name, population in MANY.items():
        async with testbed() as other:
            await _fill(other, FEW)
            await _fill(other, population.scaled(part))
            for roles in ((), ("--role", "api")) if population.lanes else ((),):
                few, many = await _idle(at, other, roles, part)
                found += _figures(" ".join((name, *roles[1:])), few, many)
    return found


async def _fill(at: Testbed, population: Population) -> None:
    async with at.superuser() as connection:
        await store.fill(connection, population)
    await at.settle()


async def _idle(at: Testbed, other: Testbed, roles: Sequence[str], part: float) -> list[Idle]:
    """Start a process on each in turn, then let both idle together."""
    async with _starting(at, roles) as few, _starting(other, roles) as many:
        await asyncio.sleep(SETTLING_SECONDS * part)
        return list(await asyncio.gather(*(_watch(each, part) for each in (few, many))))


@asynccontextmanager
async def _starting(at: Testbed, roles: Sequence[str]) -> AsyncIterator[_IdleServer]:
    async with serving(at, *roles) as served:
        yield _IdleServer(at, served)


async def _watch(idle: _IdleServer, part: float) -> Idle:
    async with idle.at.superuser() as connection:
        counted = await store.transactions(connection)
        before, began = idle.at.processor(idle.served.pid), time.monotonic()
        answers = await _ask(idle.served.url, IDLE_SECONDS * part)
        seconds = time.monotonic() - began
        after = idle.at.processor(idle.served.pid)
        counted = await store.transactions(connection) - counted
    return Idle(
        100 * (after.python - before.python) / seconds,
        100 * (after.database - before.database) / seconds,
        counted / seconds,
        idle.served.ready_seconds,
        1000 * percentile(answers, 0.99),
    )


async def _ask(url: str, seconds: float) -> list[float]:
    """Ask repeatedly whether it lives; return how long each answer took."""
    client, until, taken = await connect(url, ""), time.monotonic() + seconds, []
    try:
        while (began := time.monotonic()) < until:
            await client.ask(LoadRequest("GET", "/livez"))
            taken.append(time.monotonic() - began)
            await asyncio.sleep(ASK_SECONDS)
    finally:
        client.close()
    return taken


def _figures(name: str, few: Idle, many: Idle) -> list[Measure]:
    found: list[Measure] = []
    for (what, unit), little, much in zip(MEASURES, few, many, strict=True):
        found += [
            plain(ARM, f"{what}, without {name}", little, unit),
            plain(ARM, f"{what}, with {name}", much, unit),
            at_most(
                ARM,
                f"{what}, with : without {name}",
                much / max(little, MIN_FIGURE),
                MAX_RATIO,
                "x",
            ),
        ]
    return found
