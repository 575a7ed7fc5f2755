"""Keys, priorities and unique keys: what they cost, in turns with jobs that have none of them."""

import asyncio
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, Final, NamedTuple

import msgspec

from postdate.job.spec.job import Unique
from postdate.job.spec.outcome import Delivery, Outcome
from postdate.lane.spec import PerKey
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import Lane
from postdate_lab.bench.arm import show_progress
from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.testbed import Measure, Testbed, at_least, at_most, median, plain
from postdate_lab.bench.worker import DONE, Accepting, Bench, noop, plain_job

ARM: Final = "keys"
MIN_RATE: Final = 0.7
"""The part of the rate without keys that jobs of a key each must reach."""

MAX_PRIORITY: Final = 1.15
"""How many times the processor time of a job of the usual priority the others may take."""

HOG: Final = "hog"
HOGGED: Final = 53_000
"""The backlog of one key, where the plan has as many jobs as this or a fifth more."""

RULE: Final = PerKey(max_running=1, rate_per_second=5.0, rate_burst=10)
PLAIN: Final = "no key"
UNLIMITED: Final = "a key each, lane without limits per key"
LIMITED: Final = "a key each, limits per key"
PRIORITY: Final = "ten priorities"
BACKLOG: Final = "limits per key, beside the backlog of one"
PINNED: Final = "the same under a pinned snapshot"
Fields = Callable[[int], Mapping[str, Any]]


class _KeyWay(NamedTuple):
    fields: Fields = plain_job
    per_key: PerKey | None = None
    backlog: bool = False
    pinned: bool = False


class _KeyCost(NamedTuple):
    rate: float
    # Of a core, in Python and in PostgreSQL.
    microseconds: float


def _key_each(number: int) -> Mapping[str, Any]:
    return {"key": f"customer-{number}"}


WAYS: Final = {
    PLAIN: _KeyWay(),
    UNLIMITED: _KeyWay(_key_each),
    LIMITED: _KeyWay(_key_each, RULE),
    PRIORITY: _KeyWay(lambda number: {"priority": number % 10}),
    BACKLOG: _KeyWay(_key_each, RULE, backlog=True),
    PINNED: _KeyWay(_key_each, RULE, backlog=True, pinned=True),
}


async def keys(at: Testbed, rounds: int, count: int) -> list[Measure]:
    """Run jobs with and without keys and priorities, and accept some under unique keys."""
    found: dict[str, list[_KeyCost]] = defaultdict(list)
    accepted: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, way in WAYS.items():
            found[name].append(await _run(at, way, count))
            show_progress(f"  {name}: {found[name][-1].rate:.0f} a second")
        for name, fields in (("plain", plain_job), ("unique", _unique)):
            accepted[name].append(await _accept(at, fields, count // 4))
    return [*_measures(found), *_accepted(accepted)]


def _measures(found: Mapping[str, list[_KeyCost]]) -> list[Measure]:
    rates = {name: statistics.median(each.rate for each in costs) for name, costs in found.items()}
    used = {
        name: statistics.median(each.microseconds for each in costs)
        for name, costs in found.items()
    }
    measures = [
        median(ARM, f"{PLAIN}: rate", [each.rate for each in found[PLAIN]], "jobs/s"),
        median(ARM, f"{PLAIN}: processor", [e.microseconds for e in found[PLAIN]], "µs/job"),
    ]
    for name in (UNLIMITED, LIMITED, BACKLOG, PINNED):
        measures.append(
            at_least(ARM, f"{name}: rate : no key", rates[name] / rates[PLAIN], MIN_RATE)
        )
        measures.append(plain(ARM, f"{name}: processor : no key", used[name] / used[PLAIN], "x"))
    priority = used[PRIORITY] / used[PLAIN]
    measures.append(at_most(ARM, f"{PRIORITY}: processor : one", priority, MAX_PRIORITY, "x"))
    return measures


def _accepted(accepted: Mapping[str, list[float]]) -> list[Measure]:
    ratio = statistics.median(accepted["unique"]) / statistics.median(accepted["plain"])
    return [
        median(ARM, "accept: rate", accepted["plain"], "jobs/s"),
        plain(ARM, "accept under a unique key each: rate : without", ratio, "x"),
    ]


async def _lane(at: Testbed, way: _KeyWay) -> Lane:
    lane = await at.lane()
    async with at.node.database.write() as connection:
        changed = await lane_store.change(
            connection, msgspec.structs.replace(lane, per_key=way.per_key)
        )
    at.node.lanes.remember(changed)
    return changed[0]


async def _run(at: Testbed, way: _KeyWay, count: int) -> _KeyCost:
    """Run jobs that do nothing; one of a backlog's key runs all the time."""
    lane, adding, over = await _lane(at, way), Accepting(at), asyncio.Event()
    began = asyncio.Event()

    async def run(delivery: Delivery) -> Outcome:
        if delivery.metadata == {"key": HOG}:
            began.set()
            await over.wait()
        return DONE

    worker = Bench(at, "worker", run if way.backlog else noop)
    if way.backlog:
        hogged = min(HOGGED, count)
        await adding.add(
            lane, [None] * hogged, fields=lambda _: {"key": HOG, "metadata": {"key": HOG}}
        )
    await at.settle()
    async with at.pinned() if way.pinned else nullcontext():
        await adding.add(lane, [None] * count, fields=way.fields)
        await at.node.lanes.refresh()
        used, watch = at.processor(), Stopwatch()
        async with worker.running():
            await _until(worker, count)
            rate = watch.rate(count)
            cost = at.processor().per_item(used, count)
            over.set()
            await _drop(at, lane)
    return _KeyCost(rate, sum(cost))


async def _until(worker: Bench, count: int) -> None:
    async with asyncio.timeout(600):
        while worker.done < count:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.005)


async def _drop(at: Testbed, lane: Lane) -> None:
    """Remove what waits behind the limit: it would take its turn in the arms to come."""
    async with at.superuser() as connection:
        await connection.execute("DELETE FROM timer WHERE tenant_id = $1", lane.tenant_id)


def _unique(number: int) -> Mapping[str, Any]:
    return {"unique": Unique(key=f"thing-{number}")}


async def _accept(at: Testbed, fields: Fields, count: int) -> float:
    lane, adding = await at.lane(), Accepting(at)
    watch = Stopwatch()
    await adding.add(lane, [None] * count, fields=fields)
    rate = watch.rate(count)
    await _drop(at, lane)
    return rate
