"""The arms of `postdate bench payments` that go over HTTP, to a server of their own."""

import asyncio
import statistics
from datetime import timedelta
from typing import Final

from postdate_lab.bench import payment_database as bench_payment
from postdate_lab.bench import transfer as transfers
from postdate_lab.bench.arm import middle
from postdate_lab.bench.bank import Bank, open_bank
from postdate_lab.bench.load import LoadReport
from postdate_lab.bench.loader import LoadOrder, load
from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.payment_database import Due
from postdate_lab.bench.payment_plan import PaymentPlan
from postdate_lab.bench.server_process import RunningServer, key_for, serving
from postdate_lab.bench.testbed import (
    Measure,
    Processor,
    Testbed,
    at_least,
    at_most,
    plain,
    processor_goals,
)

PROCESSES: Final = (1, 2)
ACCEPT_MICROSECONDS: Final = (220, 110)
READ_MICROSECONDS: Final = (400, 180)
"""The most that each may take of Python and of PostgreSQL."""


async def accept(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Schedule payments one by one over HTTP, with all roles in the process and with one."""
    report, cost = await _accepted(at, plan)
    alone, alone_cost = await _accepted(at, plan, "--role", "api")
    return [
        *processor_goals("accept", "one process", [cost], ACCEPT_MICROSECONDS),
        at_least("accept", "one process", report.per_second, 3000, "payments/s"),
        at_most("accept", "one process, p95", report.p95_ms, 100, "ms"),
        *processor_goals("accept", "role api alone", [alone_cost], ACCEPT_MICROSECONDS),
        plain("accept", "role api alone", alone.per_second, "payments/s"),
        plain("accept", "role api alone, p95", alone.p95_ms, "ms"),
    ]


async def processes(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Schedule the same with several processes on one port, which share the connections of one."""
    found = []
    for count in PROCESSES:
        what = f"POSTDATE_API_PROCESSES={count}"
        report, cost = await _accepted(at, plan, processes=count)
        found += [
            plain("processes", what, report.per_second, "payments/s"),
            plain("processes", f"{what}, p95", report.p95_ms, "ms"),
            plain("processes", f"{what}, processor of Python", cost.python, "us"),
            plain("processes", f"{what}, processor of PostgreSQL", cost.database, "us"),
        ]
    return found


async def _accepted(
    at: Testbed, plan: PaymentPlan, *arguments: str, processes: int = 1
) -> tuple[LoadReport, Processor]:
    bank = await open_bank(at, plan.accounts)
    async with serving(at, *arguments, processes=processes) as served:
        order = LoadOrder(
            url=served.url, key=await key_for(bank), kind="schedule", count=plan.accepted,
            accounts=bank.names, connections=128,
        )  # fmt: skip
        report, cost = await _sent(at, served, order)
    await _all_accepted(bank, report, 201, plan.accepted)
    return report, cost


async def bulk(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Schedule payments by the thousand: over HTTP, and straight through intake."""
    bank = await open_bank(at, plan.accounts)
    async with serving(at) as served:
        order = LoadOrder(
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
    batches = bank.requests(plan.bulk, delay_seconds=9999)
    await at.settle()
    watch = Stopwatch()
    await asyncio.gather(bank.accept(batches[::2]), bank.accept(batches[1::2]))
    return watch.rate(sum(map(len, batches)))


async def _sent(
    at: Testbed, served: RunningServer, order: LoadOrder
) -> tuple[LoadReport, Processor]:
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
        order = LoadOrder(
            url=served.url, key=await key_for(bank), kind="status", count=plan.asked,
            payment_ids=[str(one) for one in ids], per_second=plan.rate,
        )  # fmt: skip
        rounds = [_shown(plan, *await _sent(at, served, order)) for _ in range(plan.rounds)]
    return middle(rounds)


def _shown(plan: PaymentPlan, report: LoadReport, cost: Processor) -> list[Measure]:
    if report.statuses != {200: plan.asked}:
        raise RuntimeError(f"not every payment was shown: {report}")
    what = f"at {plan.rate}/s, {plan.stored} stored"
    return [
        plain("status", "answered", report.per_second, "requests/s"),
        *processor_goals("status", f"at {plan.rate}/s", [cost], READ_MICROSECONDS),
        at_most("status", f"p95 {what}", report.p95_ms, 50, "ms"),
        plain("status", f"p99 {what}", report.p99_ms, "ms"),
    ]


async def steady(at: Testbed, plan: PaymentPlan) -> list[Measure]:
    """Accept at a rate for a while, due 1 to 20 s later, while the same process settles."""
    bank = await open_bank(at, plan.accounts)
    count = plan.rate * plan.seconds
    async with serving(at) as served:
        order = LoadOrder(
            url=served.url, key=await key_for(bank), kind="schedule", count=count,
            accounts=bank.names, delay_seconds=(1, 20), per_second=plan.rate,
        )  # fmt: skip
        report = await load(order)
        await _all_accepted(bank, report, 201, count)
        ended = await bank.drained(count)
    await bank.prove()
    return [
        plain("steady", "accepted", report.per_second, "payments/s"),
        plain("steady", "accept p95", report.p95_ms, "ms"),
        plain("steady", "accept p99", report.p99_ms, "ms"),
        plain("steady", "lateness p50", ended.p50, "ms"),
        at_most("steady", "lateness p99", ended.p99, 500, "ms"),
        at_most("steady", "early", ended.early, 0, "payments"),
        at_most("steady", "lost", count - ended.ended, 0, "payments"),
    ]
