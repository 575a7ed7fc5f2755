"""`postdate bench pending`: what the same work costs beside few and beside many pending timers."""

import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from postdate.bench import database as bench
from postdate.bench import transfer
from postdate.bench.arm import run_arms
from postdate.bench.bank import open_bank
from postdate.bench.testbed import Measure, Testbed, at_most, plain
from postdate.bench.worker import Accepting, bare
from postdate.model.ids import BUCKETS
from postdate.model.status import JobStatus
from postdate.settlement.settler import MAX_BATCH
from postdate.store.timer.lane import Lane
from postdate.store.timer.timer import LANE_PAYMENT
from postdate.views.foresight.load import LoadViews
from postdate.views.foresight.load_shape import LoadQuestion
from postdate.views.foresight.rules import RuleBooks
from postdate.views.job import JobFilter, JobViews
from postdate.views.monitor.overview import OverviewViews

ARM: Final = "pending"
FEW: Final = 10_000
LISTED: Final = 100
READS: Final = 5
MAX_RATIOS: Final = {"claim + delete": 1.2, "settle a batch": 1.3}
"""The most that claiming and settling may cost beside many timers, as a multiple of beside few."""


@dataclass(slots=True, frozen=True)
class PendingPlan:
    """How much to measure."""

    timers: int = 10_000_000
    count: int = 20_000
    accounts: int = 2000
    batches: int = 10
    rounds: int = 3


QUICK: Final = PendingPlan(timers=64_000, count=400, accounts=200, batches=1, rounds=1)

Costs = dict[str, tuple[float, str]]
"""A figure and its unit, by what was done."""


async def pending(at: Testbed, plan: PendingPlan) -> list[Measure]:
    """Do the same beside few timers and beside many; the rest of the database is the same."""
    lane = await at.lane()
    filled, costs = 0, {}
    for size in (FEW, plan.timers):
        await _fill(at, lane, size - filled)
        filled = size
        costs[size] = await _costs(at, lane, plan)
    few, many = costs[FEW], costs[plan.timers]
    async with at.superuser() as connection:
        table, indexes = await bench.timer_bytes(connection)
    return [
        plain(ARM, "timers, table", table / plan.timers, "bytes each"),
        plain(ARM, "timers, indexes", indexes / plan.timers, "bytes each"),
        *(
            plain(ARM, f"{what} beside {size}", *costs[size][what])
            for what in few
            for size in (FEW, plan.timers)
        ),
        *(
            at_most(ARM, f"{what}, ratio", many[what][0] / few[what][0], most, "x")
            for what, most in MAX_RATIOS.items()
        ),
    ]


async def _fill(at: Testbed, lane: Lane, count: int) -> None:
    """Make timers due within a year from tomorrow: half of them jobs', half of them payments'."""
    async with at.superuser() as connection, bench.without_indexes(connection, "timer"):
        for lane_id, buckets in ((lane.lane_id, lane.buckets), (LANE_PAYMENT, range(BUCKETS))):
            each = count // 2 // len(buckets)
            await bench.fill(connection, lane.tenant_id, lane_id, buckets, each)
    await at.settle()


async def _costs(at: Testbed, lane: Lane, plan: PendingPlan) -> Costs:
    return {
        "claim + delete": (await _claim(at, lane, plan), "us/job"),
        "settle a batch": (await _settle(at, plan), "ms"),
        **{what: (await _read(read), "ms") for what, read in (await _reads(at, lane)).items()},
        "vacuum of timers": (await _vacuum(at), "ms"),
    }


async def _claim(at: Testbed, lane: Lane, plan: PendingPlan) -> float:
    """Return the microseconds of a job that is claimed and deleted by bare SQL."""
    adding, rates = Accepting(at), []
    for _ in range(plan.rounds):
        await adding.add(lane, [None] * plan.count)
        await at.settle()
        rates.append(await bare(at, lane, plan.count, 1))
    return 1e6 / max(rates)


async def _settle(at: Testbed, plan: PendingPlan) -> float:
    """Return the milliseconds of a full batch of payments, from a few of them."""
    rates = []
    for _ in range(plan.rounds):
        bank = await open_bank(at, plan.accounts)
        await bank.fill(MAX_BATCH * plan.batches)
        rates.append(await transfer.ours(bank))
    return 1000 * MAX_BATCH / max(rates)


async def _reads(at: Testbed, lane: Lane) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return what a client asks that has to do with how much is pending, none of it remembered."""
    adding, node, tenant_id = Accepting(at), at.node, lane.tenant_id
    now = await adding.now()
    await adding.add(lane, [now + timedelta(hours=1)] * LISTED)
    jobs = JobViews(node.database, node.lanes, node.outgoing.cipher, node.troubles)
    wanted = JobFilter(status=JobStatus.PENDING)

    def load() -> LoadViews:
        return LoadViews(node.database, node.lanes, node.runtime, RuleBooks())

    async def overview() -> object:
        return await OverviewViews(node.database, node.lanes, load()).get(tenant_id)

    async def due_within(days: int) -> object:
        return await load().load(tenant_id, LoadQuestion(until=now + timedelta(days=days)))

    return {
        "a page of pending jobs": partial(jobs.page, tenant_id, wanted, None, LISTED),
        "the overview's counts": overview,
        "the load of two days": partial(due_within, 2),
        "the load of a month": partial(due_within, 30),
    }


async def _read(read: Callable[[], Awaitable[object]]) -> float:
    """Return the milliseconds of a read, the middle one of some."""
    taken = []
    for _ in range(READS):
        began = time.monotonic()
        await read()
        taken.append((time.monotonic() - began) * 1000)
    return statistics.median(taken)


async def _vacuum(at: Testbed) -> float:
    """Return the milliseconds of vacuuming the timers, with what the arms have left dead."""
    async with at.superuser() as connection:
        began = time.monotonic()
        await connection.execute("VACUUM timer", timeout=3600)
        return (time.monotonic() - began) * 1000


async def run(plan: PendingPlan) -> list[Measure]:
    """Run it on a server of its own."""
    return await run_arms({ARM: pending}, plan, [])
