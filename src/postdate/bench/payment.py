"""`postdate bench payments`: what issue and docs promise of payments, measured in one run."""

import asyncio
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from postdate.bench import life, limit
from postdate.bench import payment_database as bench_payment
from postdate.bench import transfer as transfers
from postdate.bench.arm import Arm, run_arms
from postdate.bench.bank import Bank, open_bank
from postdate.bench.load import LoadReport
from postdate.bench.loader import Order, load
from postdate.bench.payment_database import Due, Shape
from postdate.bench.server_process import Served, key_for, serving
from postdate.bench.testbed import (
    Measure,
    Processor,
    Stopwatch,
    Testbed,
    at_least,
    at_most,
    median,
    plain,
    processor_goals,
    running,
)
from postdate.intake.accept.idempotency import Refused
from postdate.intake.payment.accept import MAX_BATCH as MAX_ASK
from postdate.intake.payment.accept import PaymentIntake
from postdate.intake.payment.request import PaymentRequest
from postdate.model.payment.payment import PaymentOrder
from postdate.model.tenant.identity import Identity, Scope
from postdate.node import settlement as settlement_parts
from postdate.node.node import Node

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
DRAIN_SECONDS: Final = 600
SETTLE_MICROSECONDS: Final = (30, 55)
ACCEPT_MICROSECONDS: Final = (220, 110)
READ_MICROSECONDS: Final = (400, 180)
"""The most that each may take of Python and of PostgreSQL."""


@dataclass(slots=True, frozen=True, kw_only=True)
class PaymentPlan:
    """How much to measure."""

    rounds: int = 3
    accounts: int = 10_000
    settled: int = 40_000
    naive: int = 4000
    accepted: int = 20_000
    bulk: int = 40_000
    stored: int = 1_000_000
    asked: int = 20_000
    rate: int = 1000
    seconds: int = 60
    spike: int = 100_000
    pgledger: Path | None = None


QUICK: Final = PaymentPlan(
    rounds=1, accounts=100, settled=2000, naive=100, accepted=200, bulk=2000, stored=4000,
    asked=200, rate=50, seconds=2, spike=2000,
)  # fmt: skip


async def settle(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Settle what is due, in turns with naive transactions, pgledger, and bare rows."""
    names = (await open_bank(at, plan.accounts)).names
    rivals = {"naive": await transfers.naive(at, names)}
    if plan.pgledger is None:
        print("settle: pgledger is skipped, for want of --pgledger", file=sys.stderr)
    else:
        rivals["pgledger"] = await transfers.pgledger(at, names, plan.pgledger)
    rates: dict[tuple[Shape, str], list[float]] = defaultdict(list)
    logged: dict[Shape, list[float]] = defaultdict(list)
    used: dict[Shape, list[Processor]] = defaultdict(list)
    for _ in range(plan.rounds):
        for shape in SHAPES:
            settled = await _ours(at, plan, shape)
            rates[shape, OURS].append(settled.rate)
            logged[shape].append(settled.wal)
            used[shape].append(settled.processor)
        for shape in COMPARED:
            hot = shape == "hot"
            wanted = transfers.pairs(range(plan.accounts), plan.settled, hot=hot)
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


async def _ours(at: Testbed, plan: PaymentPlan, shape: Shape) -> _Settled:
    """Settle so many payments of a new ledger; give the rate, and what each cost."""
    bank, count = await open_bank(at, plan.accounts), plan.settled
    await bank.fill(count, shape)
    before, used = await at.wal(), at.processor()
    rate = await transfers.ours(bank)
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


async def accept(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Schedule payments one by one over HTTP, with all roles in the process and with one."""
    found = []
    for what, arguments in (("one process", ()), ("role api alone", ("--role", "api"))):
        bank = await open_bank(at, plan.accounts)
        async with serving(at, *arguments) as served:
            order = Order(
                url=served.url, key=await key_for(bank), kind="schedule", count=plan.accepted,
                accounts=bank.names, connections=128,
            )  # fmt: skip
            report, cost = await _sent(at, served, order)
        await _all_accepted(bank, report, 201, plan.accepted)
        found += processor_goals("accept", what, [cost], ACCEPT_MICROSECONDS)
        if arguments:
            found.append(plain("accept", what, report.per_second, "payments/s"))
            found.append(plain("accept", f"{what}, p95", report.p95_ms, "ms"))
        else:
            found.append(at_least("accept", what, report.per_second, 3000, "payments/s"))
            found.append(at_most("accept", f"{what}, p95", report.p95_ms, 100, "ms"))
    return found


async def bulk(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Schedule payments by the thousand: over HTTP, and straight through intake."""
    bank = await open_bank(at, plan.accounts)
    async with serving(at) as served:
        order = Order(
            url=served.url, key=await key_for(bank), kind="batch", count=plan.bulk,
            accounts=bank.names, connections=4,
        )  # fmt: skip
        report, cost = await _sent(at, served, order)
    await _all_accepted(bank, report, 200, plan.bulk)
    direct = statistics.median([await _direct(at, plan) for _ in range(plan.rounds)])
    over_http = plan.bulk / report.seconds
    return [
        at_least("bulk", "POST /payments/batch", over_http, 10_000, "payments/s"),
        plain("bulk", "POST /payments/batch, processor", cost.python, "us/payment"),
        at_least("bulk", "intake alone", direct, 10_000, "payments/s"),
    ]


async def _direct(at: Testbed, plan: PaymentPlan) -> float:
    bank = await open_bank(at, plan.accounts)
    intake = PaymentIntake(at.node.database, at.node.runtime)
    actor = Identity(
        tenant_id=bank.tenant_id, tenant=bank.tenant, key_id="bench",
        scopes=frozenset({Scope.ADMIN}),
    )  # fmt: skip
    requested = [
        PaymentRequest(
            PaymentOrder(from_account_id=a, to_account_id=b, amount=1, delay_seconds=9999), f"{n}"
        )
        for n, (a, b) in enumerate(transfers.pairs(bank.names, plan.bulk, hot=False))
    ]
    await at.settle()
    watch = Stopwatch()

    async def send(first: int) -> None:
        for start in range(first, len(requested), 2 * MAX_ASK):
            answers = await intake.accept(actor, requested[start : start + MAX_ASK])
            if any(isinstance(answer, Refused) for answer in answers):
                raise RuntimeError("a payment was refused")

    await asyncio.gather(send(0), send(MAX_ASK))
    return watch.rate(len(requested))


async def _sent(at: Testbed, served: Served, order: Order) -> tuple[LoadReport, Processor]:
    """Send a load; give its report, and the microseconds of a processor that each item took."""
    before = at.processor(served.pid)
    report = await load(order)
    return report, at.processor(served.pid).per_item(before, order.count)


async def _all_accepted(bank: Bank, report: LoadReport, status: int, count: int) -> None:
    async with bank.testbed.superuser() as connection:
        stored = await bench_payment.count(connection, bank.tenant_id)
    if report.statuses != {status: report.requests} or stored != count:
        raise RuntimeError(f"of {count} payments {stored} are stored: {report}")


async def status(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Ask for payments at a rate, with many stored: a tenth of them settled, the rest open."""
    bank = await open_bank(at, plan.accounts)
    await bank.fill(plan.stored // 10)
    await transfers.ours(bank)
    later = Due(await bank.now() + timedelta(days=1), timedelta(milliseconds=1))
    await bank.fill(plan.stored - plan.stored // 10, due=later)
    async with at.superuser() as connection:
        ids = await bench_payment.sample(connection, bank.tenant_id, plan.asked)
    async with serving(at, "--role", "api") as served:
        order = Order(
            url=served.url, key=await key_for(bank), kind="status", count=plan.asked,
            payment_ids=[str(one) for one in ids], per_second=plan.rate,
        )  # fmt: skip
        report, cost = await _sent(at, served, order)
    if report.statuses != {200: plan.asked}:
        raise RuntimeError(f"not every payment was shown: {report}")
    what = f"p95 at {plan.rate}/s, {plan.stored} stored"
    return [
        plain("status", "answered", report.per_second, "requests/s"),
        *processor_goals("status", f"at {plan.rate}/s", [cost], READ_MICROSECONDS),
        at_most("status", what, report.p95_ms, 50, "ms"),
    ]


async def steady(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Accept at a rate for a while, due 1 to 20 s later, while the same process settles."""
    bank = await open_bank(at, plan.accounts)
    count = plan.rate * plan.seconds
    async with serving(at) as served:
        order = Order(
            url=served.url, key=await key_for(bank), kind="schedule", count=count,
            accounts=bank.names, delay_seconds=(1, 20), per_second=plan.rate,
        )  # fmt: skip
        report = await load(order)
        await _all_accepted(bank, report, 201, count)
        ended = await _drained(bank, count)
    await bank.prove()
    return [
        plain("steady", "accepted", report.per_second, "payments/s"),
        plain("steady", "accept p95", report.p95_ms, "ms"),
        plain("steady", "lateness p50", ended.p50, "ms"),
        at_most("steady", "lateness p99", ended.p99, 500, "ms"),
        at_most("steady", "early", ended.early, 0, "payments"),
        at_most("steady", "lost", count - ended.ended, 0, "payments"),
    ]


async def _drained(bank: Bank, count: int) -> bench_payment.PaymentLateness:
    """Wait until all have ended, at most for a while."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while True:
        ended = await bank.count_endings()
        if ended.ended >= count or time.monotonic() > deadline:
            return ended
        await asyncio.sleep(0.5)


async def spike(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Settle many payments that are due in the same second, with two settlers."""
    bank = await open_bank(at, plan.accounts)
    async with at.superuser() as connection:
        before = await bench_payment.deadlocks(connection)
    # Late enough that all are made, and the settlers asleep, before the first is due.
    begin = await bank.now() + timedelta(seconds=10 + plan.spike / 2000)
    await bank.fill(plan.spike, due=Due(begin, timedelta(seconds=1) / plan.spike))
    async with _settling(at, SETTLERS):
        ended = await _drained(bank, plan.spike)
    await bank.prove()
    async with at.superuser() as connection:
        deadlocks = await bench_payment.deadlocks(connection) - before
    rate = plan.spike / (ended.worst / 1000)
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
    loops = [
        loop for node in nodes for loop in (*node.housekeeping(), *settlement_parts.loops(node))
    ]
    async with running(loops):
        yield


ARMS: Final[Mapping[str, Arm[PaymentPlan]]] = {
    "settle": settle,
    "life": lambda at, plan: life.payment(at, plan.settled // 2, plan.accounts),
    "accept": accept,
    "bulk": bulk,
    "spike": spike,
    "steady": steady,
    "status": status,
}


async def run(plan: PaymentPlan, only: Sequence[str]) -> list[Measure]:
    """Run the arms one after another on one server."""
    return await run_arms(ARMS, plan, only)
