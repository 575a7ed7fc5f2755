"""`postdate bench pending`: what the same work costs beside few and beside many pending timers."""

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from postdate.core.ids import BUCKETS
from postdate.core.status import JobStatus
from postdate.foresight.view.load import LoadViews
from postdate.foresight.view.load_shape import LoadQuestion
from postdate.foresight.view.money import MoneyViews
from postdate.foresight.view.rules import RuleBooks
from postdate.foresight.view.warming import RuleWarming
from postdate.job.view import JobFilter, JobViews
from postdate.lane.store.lane import Lane
from postdate.monitor.view.overview import OverviewViews
from postdate.settlement.settler import MAX_BATCH
from postdate.timer.timer import LANE_PAYMENT
from postdate_lab.bench import database as bench
from postdate_lab.bench import payment_database as payments
from postdate_lab.bench import transfer
from postdate_lab.bench.arm import Suite
from postdate_lab.bench.bank import BALANCE, open_bank
from postdate_lab.bench.payment_database import Due
from postdate_lab.bench.testbed import Measure, Testbed, at_most, median, plain, testbed
from postdate_lab.bench.worker import Accepting, bare

ARM: Final = "pending"
FEW: Final = 10_000
LISTED: Final = 100
MONTH: Final = timedelta(days=30)
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
    schedules: int = 10_000
    payments: int = 40_000
    """How many of the timers are those of stored payments, all due within a month."""


QUICK: Final = PendingPlan(
    timers=64_000, count=400, accounts=200, batches=1, rounds=1, schedules=100, payments=400
)

ReadOnce = Callable[[], Awaitable[object]]
Taken = Mapping[int, list[float]]
"""What each turn took, by the number of timers beside it."""


@dataclass(slots=True, frozen=True)
class _Side:
    """A server with so many timers, the lane of half of them, and what a client asks there."""

    at: Testbed
    lane: Lane
    reads: Mapping[str, ReadOnce]


async def pending(at: Testbed, plan: PendingPlan) -> list[Measure]:
    """Do the same beside few timers and beside many, in turns: the machine is not always as quick.

    The few are on a server of their own; making the many takes most of the time.
    """
    many = await _side(at, plan, plan.timers)
    async with testbed() as other:
        sides = {FEW: await _side(other, plan, FEW), plan.timers: many}
        claims = await _alternate(plan.rounds, sides, partial(_claim, plan.count))
        settles = await _alternate(plan.rounds, sides, partial(_settle, plan))
        reads = {what: await _alternate(READS, sides, partial(_read, what)) for what in many.reads}
        vacuums = await _alternate(1, sides, _vacuum)
    async with at.superuser() as connection:
        table, indexes = await bench.timer_bytes(connection)
    return [
        plain(ARM, "timers, table", table / plan.timers, "bytes each"),
        plain(ARM, "timers, indexes", indexes / plan.timers, "bytes each"),
        *_figures("claim + delete", "us/job", claims),
        *_figures("settle a batch", "ms", settles),
        *(figure for what, taken in reads.items() for figure in _figures(what, "ms", taken)),
        *_figures("vacuum of timers", "ms", vacuums),
    ]


async def _side(at: Testbed, plan: PendingPlan, timers: int) -> _Side:
    lane = await at.lane()
    async with at.superuser() as connection:
        await bench.make_schedules(connection, lane.tenant_id, plan.schedules)
    await _fill(at, lane, plan, timers)
    return _Side(at, lane, await _reads(at, lane))


async def _alternate(
    rounds: int, sides: Mapping[int, _Side], measure: Callable[[_Side], Awaitable[float]]
) -> Taken:
    taken: dict[int, list[float]] = {size: [] for size in sides}
    for _ in range(rounds):
        for size, side in sides.items():
            taken[size].append(await measure(side))
    return taken


def _figures(what: str, unit: str, taken: Taken) -> list[Measure]:
    """Return the middle of the turns of each side, and their ratio where it has a limit."""
    figures = [median(ARM, f"{what} beside {size}", each, unit) for size, each in taken.items()]
    if what in MAX_RATIOS:
        few, many = (statistics.median(each) for each in taken.values())
        figures.append(at_most(ARM, f"{what}, ratio", many / few, MAX_RATIOS[what], "x"))
    return figures


async def _fill(at: Testbed, lane: Lane, plan: PendingPlan, count: int) -> None:
    """Make timers due within a year: half of them jobs', half of them payments'.

    The payments of the first month are stored, between accounts that have the money; schedules pay
    between two of these. What is due later is timers alone.
    """
    stored = min(plan.payments, count // 4)
    places = ((lane.lane_id, lane.buckets, 1), (LANE_PAYMENT, range(BUCKETS), MONTH.days + 1))
    async with at.superuser() as connection, bench.without_indexes(connection, "timer"):
        for lane_id, buckets, days in places:
            each = (count // 2 - (stored if days > 1 else 0)) // len(buckets)
            await bench.fill(connection, lane.tenant_id, lane_id, buckets, each, days)
    names = ["hot", *(f"account-{number:06d}" for number in range(plan.accounts))]
    due = Due(await Accepting(at).now() + timedelta(hours=1), (MONTH - timedelta(days=1)) / stored)
    async with at.superuser() as connection:
        keys = await payments.open_accounts(connection, lane.tenant_id, names, BALANCE)
        await payments.fill(connection, keys, stored, due, "spread", 2 * BALANCE)
    await at.settle()


async def _claim(count: int, side: _Side) -> float:
    """Return the microseconds of a job that is claimed and deleted by bare SQL."""
    await Accepting(side.at).add(side.lane, [None] * count)
    await side.at.settle()
    return 1e6 / await bare(side.at, side.lane, count, 1)


async def _settle(plan: PendingPlan, side: _Side) -> float:
    """Return the milliseconds of a full batch of payments, from a few of them."""
    bank = await open_bank(side.at, plan.accounts)
    await bank.fill(MAX_BATCH * plan.batches)
    return 1000 * MAX_BATCH / await transfer.ours(bank)


async def _reads(at: Testbed, lane: Lane) -> dict[str, ReadOnce]:
    """Return what a client asks that has to do with how much is pending, the rules being known."""
    adding, node, tenant_id = Accepting(at), at.node, lane.tenant_id
    now = await adding.now()
    await adding.add(lane, [now + timedelta(hours=1)] * LISTED)
    jobs = JobViews(node.database, node.lanes, node.outgoing.cipher, node.troubles)
    wanted = JobFilter(status=JobStatus.PENDING)

    books = RuleBooks()
    await RuleWarming(node.database, books).run_once()
    load = LoadViews(node.database, node.lanes, node.runtime, books)
    money = MoneyViews(node.database, books)

    async def overview() -> object:
        return await OverviewViews(node.database, node.lanes, load).get(tenant_id)

    async def first_money() -> object:
        return await MoneyViews(node.database, books).project(tenant_id)

    async def due_within(days: int) -> object:
        return await load.load(tenant_id, LoadQuestion(until=now + timedelta(days=days)))

    return {
        "a page of pending jobs": partial(jobs.page, tenant_id, wanted, None, LISTED),
        "the overview's counts": overview,
        "the load of two days": partial(due_within, 2),
        "the load of a month": partial(due_within, 30),
        "the load of a year": partial(due_within, 365),
        "the money of a month": partial(money.project, tenant_id),
        "the money of a month, payments not at hand": first_money,
        "reading and adding up all rules": lambda: RuleWarming(
            node.database, RuleBooks()
        ).run_once(),
    }


async def _read(what: str, side: _Side) -> float:
    """Return the milliseconds of a read."""
    began = time.monotonic()
    await side.reads[what]()
    return (time.monotonic() - began) * 1000


async def _vacuum(side: _Side) -> float:
    """Return the milliseconds of vacuuming the timers, with what the arms have left dead."""
    async with side.at.superuser() as connection:
        began = time.monotonic()
        await connection.execute("VACUUM timer", timeout=3600)
        return (time.monotonic() - began) * 1000


SUITE: Final = Suite({ARM: pending}, PendingPlan(), QUICK)
