"""`postdate bench payments`: what issue and docs promise of payments, measured in one run."""

import statistics
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Final, NamedTuple

from postdate.node import settlement as settlement_parts
from postdate.node.node import Node
from postdate_lab.bench import life, limit, payment_http
from postdate_lab.bench import payment_database as bench_payment
from postdate_lab.bench import transfer as transfers
from postdate_lab.bench.arm import Arm, Suite, repeated, show_progress
from postdate_lab.bench.bank import open_bank, pairs
from postdate_lab.bench.payment_database import Due, Shape
from postdate_lab.bench.payment_plan import QUICK, PaymentPlan
from postdate_lab.bench.testbed import (
    Measure,
    Processor,
    Testbed,
    at_least,
    at_most,
    median,
    plain,
    processor_goals,
    running,
)

OURS: Final = "postdate"
LIMIT: Final = "limit: two balances, two entries"
OWN_ROWS: Final = "own rows, decided before"
SHAPES: Final[tuple[Shape, ...]] = ("spread", "hot", "zipf", "chain", "short")
COMPARED: Final[tuple[Shape, ...]] = ("spread", "hot")
"""The shapes that the others are measured with too."""

TARGETS: Final[Mapping[Shape, Mapping[str, float]]] = {
    "spread": {"naive": 4, "pgledger": 8, OWN_ROWS: 0.6},
    "hot": {"naive": 10, "pgledger": 15, OWN_ROWS: 0.6},
}

CLIENTS: Final = (1, 4, 16)
SETTLERS: Final = 2
MIN_HOT_PAYER: Final = 0.8
"""The part of the rate of spread payments that those of one payer must reach."""

WARM: Final = 2000
"""Payments that are settled before the first turn."""

SPIKE_SECONDS: Final = 1.0
"""How long payments of a spike become due."""

SETTLE_MICROSECONDS: Final = (30, 55)
"""The most that settling a payment may take of Python and of PostgreSQL."""


async def settle(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Settle what is due, in turns with naive transactions, pgledger, and bare rows."""
    names = (await open_bank(at, plan.accounts)).names
    rivals = {"naive": await transfers.naive(at, names)}
    if plan.pgledger is None:
        show_progress("  pgledger is skipped, for want of --pgledger")
    else:
        rivals["pgledger"] = await transfers.pgledger(at, names, plan.pgledger)
    rates: dict[tuple[Shape, str], list[float]] = defaultdict(list)
    logged: dict[Shape, list[float]] = defaultdict(list)
    used: dict[Shape, list[Processor]] = defaultdict(list)
    for number in range(plan.rounds):
        show_progress(f"  round {number + 1} of {plan.rounds}")
        for shape in SHAPES:
            settled = await _ours(at, plan, shape)
            rates[shape, OURS].append(settled.rate)
            logged[shape].append(settled.wal)
            used[shape].append(settled.processor)
        for shape in COMPARED:
            hot = shape == "hot"
            wanted = pairs(range(plan.accounts), plan.settled, hot=hot)
            rates[shape, LIMIT].append(await limit.move_money(at, wanted, plan.accounts))
            bank = await open_bank(at, plan.accounts)
            await bank.fill(plan.settled, shape)
            rates[shape, OWN_ROWS].append(await transfers.limit(bank))
            for name, rival in rivals.items():
                for clients in CLIENTS:
                    moved = await rival.rate(plan.naive, clients, hot=hot)
                    rates[shape, f"{name}, {clients} clients"].append(moved)
            if "pgledger" in rivals:
                moved = await rivals["pgledger"].batched(plan.naive, hot=hot)
                rates[shape, f"pgledger, {transfers.CALL} a call"].append(moved)
    return [
        *(m for shape in SHAPES for m in _compared(rates, logged, shape)),
        *processor_goals("settle", "a payment", used["spread"], SETTLE_MICROSECONDS),
    ]


class _Settled(NamedTuple):
    rate: float
    wal: float
    processor: Processor


async def decided(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Settle held payments in the database, in turns with the way that decides each in Python."""
    turns: dict[tuple[Shape, bool], list[_Settled]] = defaultdict(list)
    await _ours(at, replace(plan, settled=min(plan.settled, WARM)), "spread")
    for number in range(plan.rounds):
        show_progress(f"  round {number + 1} of {plan.rounds}")
        for shape in COMPARED:
            # First the one, then the other: a round begins with whichever ended the one before.
            for in_python in (bool(number % 2), not number % 2):
                settled = await _ours(at, plan, shape, in_python=in_python)
                turns[shape, in_python].append(settled)
    return [measure for shape in COMPARED for measure in _turns(shape, turns)]


def _turns(shape: Shape, turns: Mapping[tuple[Shape, bool], Sequence[_Settled]]) -> list[Measure]:
    found, cost = [], {}
    for in_python, name in ((False, "in the database"), (True, "decided in Python")):
        some = turns[shape, in_python]
        python = [each.processor.python for each in some]
        server = [each.processor.database for each in some]
        cost[in_python] = statistics.median(map(sum, zip(python, server, strict=True)))
        arm = f"decided, {shape}"
        found += [
            median(arm, f"{name}, processor of Python", python, "us"),
            median(arm, f"{name}, processor of PostgreSQL", server, "us"),
            median(arm, f"{name}, write-ahead log", [each.wal for each in some], "bytes/payment"),
        ]
    return [*found, plain(arm, "Python : database", cost[True] / cost[False], "")]


async def _ours(
    at: Testbed, plan: PaymentPlan, shape: Shape, *, in_python: bool = False
) -> _Settled:
    """Settle so many payments of a new ledger; give the rate, and what each cost."""
    bank, count = await open_bank(at, plan.accounts), plan.settled
    await bank.fill(count, shape)
    before, used = await at.wal(), at.processor()
    rate = await transfers.ours(bank, in_python=in_python)
    processor = at.processor().per_item(used, count)
    wal = (await at.wal() - before) / count
    ended = await bank.count_endings()
    paid = count - count // 10 if shape == "short" else count
    if (ended.ended, ended.early) != (paid, 0):
        raise RuntimeError(f"of {paid} payments {ended.ended} ended, {ended.early} of them early")
    await bank.prove()
    return _Settled(rate, wal, processor)


def _compared(
    rates: Mapping[tuple[Shape, str], Sequence[float]],
    logged: Mapping[Shape, Sequence[float]],
    shape: Shape,
) -> list[Measure]:
    """List every rate of a shape, then ours against the best of each rival."""
    arm = "settle" if shape == "spread" else f"settle, {shape}"
    found = {name: each for (other, name), each in rates.items() if other == shape}
    ours = statistics.median(found[OURS])
    measures = [median(arm, name, each, "payments/s") for name, each in found.items()]
    for rival, least in TARGETS.get(shape, {}).items():
        against = [statistics.median(r) for name, r in found.items() if name.startswith(rival)]
        if against:
            measures.append(at_least(arm, f"{OURS} : {rival}", ours / max(against), least))
    written = statistics.median(logged[shape])
    return [*measures, plain(arm, "write-ahead log", written, "bytes/payment")]


async def payer(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Settle payments of one payer to many payees, in turns with spread ones."""
    rates: dict[Shape, list[float]] = defaultdict(list)
    shapes: tuple[Shape, ...] = ("payer", "spread")
    # The first payments of a server find every connection cold.
    await _ours(at, replace(plan, settled=min(plan.settled, WARM)), "spread")
    for number in range(plan.rounds):
        show_progress(f"  round {number + 1} of {plan.rounds}")
        for shape in shapes:
            rates[shape].append((await _ours(at, plan, shape)).rate)
    ratio = statistics.median(rates["payer"]) / statistics.median(rates["spread"])
    return [
        *(median("payer", shape, rates[shape], "payments/s") for shape in shapes),
        at_least("payer", "one payer : spread", ratio, MIN_HOT_PAYER),
    ]


async def spike(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Settle many payments that are due in the same second, with two settlers."""
    bank = await open_bank(at, plan.accounts)
    async with at.superuser() as connection:
        before = await bench_payment.deadlocks(connection)
    # Late enough that all are made, and the settlers asleep, before the first is due.
    begin = await bank.now() + timedelta(seconds=10 + plan.spike / 2000)
    await bank.fill(plan.spike, due=Due(begin, timedelta(seconds=SPIKE_SECONDS) / plan.spike))
    async with _settling(at, SETTLERS):
        ended = await bank.drained(plan.spike)
    await bank.prove()
    async with at.superuser() as connection:
        deadlocks = await bench_payment.deadlocks(connection) - before
    # The last of them is due after that second, and ends so much later.
    rate = plan.spike / (SPIKE_SECONDS + ended.worst / 1000)
    return [
        plain("spike", f"{plan.spike} in one second, {SETTLERS} settlers", rate, "payments/s"),
        plain("spike", "lateness p50", ended.p50, "ms"),
        at_most("spike", "early", ended.early, 0, "payments"),
        at_most("spike", "lost", plan.spike - ended.ended, 0, "payments"),
        at_most("spike", "deadlocks", deadlocks, 0, ""),
    ]


@asynccontextmanager
async def _settling(at: Testbed, count: int) -> AsyncIterator[None]:
    """Run the loops of so many nodes that settle."""
    mine = at.node
    nodes = [
        Node(settings=mine.settings, database=mine.database, roles=["settlement"])
        for _ in range(count)
    ]
    for node in nodes:
        await node.refresh_settings()  # which keep proofs away
    loops = [
        loop for node in nodes for loop in (*node.housekeeping(), *settlement_parts.loops(node))
    ]
    async with running(loops):
        yield


ARMS: Final[Mapping[str, Arm[PaymentPlan]]] = {
    "settle": settle,
    "payer": payer,
    "decided": decided,
    "life": lambda at, plan: life.payment(at, plan.settled // 2, plan.accounts),
    "accept": repeated(payment_http.accept),
    "processes": repeated(payment_http.processes),
    "bulk": payment_http.bulk,
    "spike": spike,
    "steady": payment_http.steady,
    "status": payment_http.status,
}

SUITE: Final = Suite(ARMS, PaymentPlan(), QUICK)
