"""Limits that give what they allow: limited jobs in turns with unlimited ones, and their cost."""

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, NamedTuple

import msgspec

from postdate.core.limit import Limit
from postdate.job.spec.outcome import Completed, Delivery, Outcome
from postdate.lane.store import lane as lane_store
from postdate_lab.bench.arm import show_progress
from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.testbed import Measure, Testbed, at_least, at_most, median
from postdate_lab.bench.worker import Accepting, Bench

ALLOWED: Final = 0.95
"""The part of the allowed rate that limited jobs must reach."""

MAX_COST: Final = 1.5
"""How many times the processor time of an unlimited job a limited one may take."""

SLOTS: Final = 5
FREE: Final = "no limit, as many in a second"
CALL_SECONDS: Final = 0.02
"""How long a call takes where a number of slots is the limit."""


class _Cost(NamedTuple):
    rate: float
    # How long the calls really took, on average.
    call_seconds: float
    microseconds: float


class _Way(NamedTuple):
    """What limits the jobs, and how many a second that allows.

    Without a limit as many come due in a second as a limit would let start.
    """

    lane: Mapping[str, float]
    destination: Limit | None
    allowed: float

    @property
    def free(self) -> bool:
        """Return whether there is no limit."""
        return not self.lane and self.destination is None


async def limited(at: Testbed, rounds: int, per_second: int, seconds: float) -> list[Measure]:
    """Run jobs without a limit and under each kind of limit, in turns."""
    by_slots = SLOTS / CALL_SECONDS
    ways = {
        FREE: _Way({}, None, per_second),
        "lane, rate": _Way({"rate_per_second": per_second}, None, per_second),
        "lane, running": _Way({"max_running": SLOTS}, None, by_slots),
        "destination, rate": _Way({}, Limit("", None, per_second), per_second),
        "destination, running": _Way({}, Limit("", SLOTS), by_slots),
    }
    found: dict[str, list[_Cost]] = defaultdict(list)
    for number in range(rounds):
        for name, way in ways.items():
            count = int(way.allowed * seconds)
            found[name].append(await _run(at, f"{number}/{name}", way, count))
            show_progress(f"  {name}: {found[name][-1].rate:.0f} a second")
    return _measures(ways, found)


def _measures(ways: Mapping[str, _Way], found: Mapping[str, list[_Cost]]) -> list[Measure]:
    free = statistics.median(each.microseconds for each in found[FREE])
    costs = [each.microseconds for each in found[FREE]]
    measures = [median("limits", f"{FREE}: processor", costs, "µs/job")]
    for name, way in ways.items():
        if not way.free:
            rate = statistics.median(_part(way, each) for each in found[name])
            cost = statistics.median(each.microseconds for each in found[name]) / free
            measures.append(at_least("limits", f"{name}: of the allowed rate", rate, ALLOWED))
            measures.append(at_most("limits", f"{name}: processor : no limit", cost, MAX_COST, "x"))
    return measures


def _part(way: _Way, cost: _Cost) -> float:
    """Return which part of the allowed rate was reached; slots allow what their calls leave."""
    by_rate = "rate_per_second" in way.lane or (way.destination and way.destination.rate_per_second)
    return cost.rate / (way.allowed if by_rate else SLOTS / cost.call_seconds)


async def _run(at: Testbed, name: str, way: _Way, count: int) -> _Cost:
    """Run jobs that wait for as long as a call; return their rate and what each took of a core."""
    lane = await at.lane()
    if way.lane:
        async with at.node.database.write() as connection:
            changed = await lane_store.change(connection, msgspec.structs.replace(lane, **way.lane))
        at.node.lanes.remember(changed)

    calls = []

    async def call(_: Delivery) -> Outcome:
        began = time.monotonic()
        await asyncio.sleep(CALL_SECONDS)
        calls.append(time.monotonic() - began)
        return Completed()

    async def limits_of(_: Delivery) -> list[Limit]:
        if way.destination is None:
            return []
        return [msgspec.structs.replace(way.destination, scope=f"bench:{lane.tenant_id}/{name}")]

    worker = Bench(at, "worker", call, limits_of)
    adding = Accepting(at)
    await at.settle()
    begin = await adding.now() + timedelta(seconds=1.0) if way.free else None
    dues = [begin and begin + timedelta(seconds=n / way.allowed) for n in range(count)]
    await adding.add(lane, dues)
    used, watch = at.processor(), Stopwatch()
    async with worker.running():
        await worker.until(count)
        rate = watch.rate(count)
        cost = at.processor().per_item(used, count)
    return _Cost(rate, statistics.mean(calls), sum(cost))
