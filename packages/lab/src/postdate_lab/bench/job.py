"""`postdate bench jobs`: ratios measured in one run, on one PostgreSQL."""

import asyncio
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple

from postdate.job.spec.job import Webhook
from postdate.runtime.capacity import TENANT_PART
from postdate_lab.bench import database as bench
from postdate_lab.bench import growth, idle, keys, life, limit, limited, peer
from postdate_lab.bench.arm import Arm, Suite, repeated, show_progress
from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.receiver import Receiver, receiving
from postdate_lab.bench.server_process import working
from postdate_lab.bench.testbed import (
    Measure,
    Processor,
    Testbed,
    at_least,
    at_most,
    median,
    percentile,
    plain,
    processor_goals,
)
from postdate_lab.bench.worker import Accepting, Bench

OURS: Final = "postdate"
LIMIT: Final = "limit: bare claim + delete"
MAX_PINNED: Final = 400_000
LOADED_SECONDS: Final = 10
WHOLE_IDLE: Final = 8000
"""From this many jobs of a plan on, an idle server is watched for the whole time."""

EXECUTE_MICROSECONDS: Final = (10, 36)
"""The most that executing a job may take of Python and of PostgreSQL."""

SLOW_SECONDS: Final = 1.0
"""How long a receiver takes that is slower than all of ours."""

LIMIT_PER_SECOND: Final = 200
"""The rate of a limited lane or destination."""

WINDOW: Final = 100
"""Calls under way of one worker process; a single tenant fills a part of it."""

SHARE_SECONDS: Final = 6.0
"""How long two processes need to hear of each other and to share the buckets."""


@dataclass(slots=True, frozen=True, kw_only=True)
class JobPlan:
    """How much to measure."""

    count: int = 40_000
    slow_calls: int = 1000
    """Calls of a receiver that takes its time: many times as many as go at once."""
    limit_seconds: int = 5
    """How long the jobs of one limit take, when it gives what it allows."""
    rounds: int = 3


async def execute(at: Testbed, plan: JobPlan) -> list[Measure]:
    """Run jobs that do nothing, in turns with the peers and with bare SQL."""
    names = peer.installed()
    accepted: dict[str, list[float]] = defaultdict(list)
    executed: dict[str, list[float]] = defaultdict(list)
    logged: dict[str, list[float]] = defaultdict(list)
    used = []
    for number in range(plan.rounds):
        show_progress(f"  round {number + 1} of {plan.rounds}")
        ours = await _ours(at, plan.count)
        used.append(ours.processor)
        accepted[OURS].append(ours.accepted)
        executed[OURS].append(ours.executed)
        logged["accept"].append(ours.accept_wal)
        logged["execute"].append(ours.execute_wal)
        executed[LIMIT].append(await limit.claim_and_delete(at, plan.count))
        for name in list(names):
            rates = await peer.measure(at, name, plan.count // 2)
            if rates is None:
                names.remove(name)
                continue
            show_progress(
                f"  {name}: {rates.accepted:.0f} accepted, {rates.executed:.0f} executed a second"
            )
            accepted[name].append(rates.accepted)
            executed[name].append(rates.executed)
    return [
        *_compared("accept", accepted, {"pgqueuer": 2}),
        median("accept", "write-ahead log", logged["accept"], "bytes/job"),
        *_compared("execute", executed, {"pgqueuer": 4, LIMIT: 0.5}),
        median("execute", "write-ahead log", logged["execute"], "bytes/job"),
        *processor_goals("execute", "a job", used, EXECUTE_MICROSECONDS),
    ]


class _Ours(NamedTuple):
    accepted: float
    executed: float
    accept_wal: float
    execute_wal: float
    processor: Processor


async def _ours(at: Testbed, count: int) -> _Ours:
    """Accept and run a number of jobs; return both rates, and the WAL bytes of each job."""
    lane, adding, worker = await at.lane(), Accepting(at), Bench(at, "worker")
    before, watch = await at.wal(), Stopwatch()
    await adding.add(lane, [None] * count)
    accepted, accept_wal = watch.rate(count), (await at.wal() - before) / count
    await at.settle()
    before, used, watch = await at.wal(), at.processor(), Stopwatch()
    async with worker.running():
        await worker.until(count)
        executed = watch.rate(count)
    execute_wal = (await at.wal() - before) / count
    return _Ours(accepted, executed, accept_wal, execute_wal, at.processor().per_item(used, count))


def _compared(
    arm: str, rates: Mapping[str, Sequence[float]], targets: Mapping[str, float]
) -> list[Measure]:
    """List every rate, then ours against each that has a target: missed where it was left out."""
    ours = statistics.median(rates[OURS])
    against = {
        name: ours / statistics.median(rates[name]) if name in rates else 0 for name in targets
    }
    return [
        *(median(arm, name, found, "jobs/s") for name, found in rates.items()),
        *(
            at_least(arm, f"{OURS} : {name}", against[name], least)
            for name, least in targets.items()
        ),
    ]


async def pinned(at: Testbed, plan: JobPlan) -> list[Measure]:
    """Claim while an open snapshot keeps every dead row in place."""
    count = min(plan.count * 10, MAX_PINNED)
    lane, adding, worker = await at.lane(), Accepting(at), Bench(at, "worker")
    await adding.add(lane, [None] * count)
    await at.settle()
    async with at.pinned(), worker.running():
        watch = Stopwatch()
        await worker.until(count)
        rate = watch.rate(count)
    return [
        plain("pinned", f"executions under a pinned snapshot ({count})", rate, "jobs/s"),
        at_most("pinned", "claim p99", percentile(worker.claim_ms, 0.99), 20, "ms"),
    ]


async def fairness(at: Testbed, plan: JobPlan) -> list[Measure]:
    """Run a few jobs of one tenant beside the backlog of another."""
    busy, quiet, adding = await at.lane(), await at.lane(), Accepting(at)
    await adding.add(busy, [None] * (plan.count * 5))
    await at.settle()
    # After tidying up, which takes a while: what was due before the worker ran says nothing of it.
    now = await adding.now()
    dues = [now + timedelta(seconds=1 + n * LOADED_SECONDS / 100) for n in range(100)]
    await adding.add(quiet, dues)
    worker = Bench(at, "worker")
    async with worker.running():
        await worker.until(plan.count * 5 + 100)
    async with at.node.database.connection() as connection:
        late = await bench.lateness(connection, quiet.tenant_id)
    return [
        at_most("fairness", f"p99 lateness beside {plan.count * 5} due", late.p99, 1000, "ms"),
        plain("fairness", "worst lateness", late.worst, "ms"),
    ]


async def lateness(at: Testbed, _: JobPlan) -> list[Measure]:
    """Run 1,000 jobs a second, accepted one second ahead, whatever the worker does meanwhile."""
    lane, adding, worker = await at.lane(), Accepting(at), Bench(at, "worker")
    rate, steps = 1000, LOADED_SECONDS * 20
    async with worker.running():
        begun = await adding.now()
        for step in range(steps):
            first = begun + timedelta(seconds=1 + step / 20)
            many = rate // 20
            await adding.add(lane, [first + timedelta(seconds=n / rate) for n in range(many)])
            ahead = (begun + timedelta(seconds=step / 20) - await adding.now()).total_seconds()
            await asyncio.sleep(max(0.0, ahead))
        await worker.until(rate * LOADED_SECONDS)
    async with at.node.database.connection() as connection:
        late = await bench.lateness(connection, lane.tenant_id)
    return [
        plain("lateness", "p50 at 1,000/s", late.p50, "ms"),
        at_most("lateness", "p99 at 1,000/s", late.p99, 50, "ms"),
    ]


async def webhooks(at: Testbed, plan: JobPlan) -> list[Measure]:
    """Call a receiver in a process of its own on this machine."""
    count = plan.count // 2
    lane, adding = await at.lane("push"), Accepting(at)
    worker = Bench(at, "webhook", at.node.outgoing.webhook.deliver)
    async with receiving() as receiver:
        await adding.add(lane, [None] * count, Webhook(url=receiver.url))
        await at.settle()
        watch, used = Stopwatch(), receiver.cpu_seconds()
        async with worker.running():
            await worker.until(count)
            rate = watch.rate(count)
        share = (receiver.cpu_seconds() - used) * rate / count
        arrived = await receiver.count()
    if arrived < count:
        raise RuntimeError(f"only {arrived} of {count} webhooks arrived")
    return [
        at_least("webhooks", "to a local receiver", rate, 6000, "jobs/s"),
        plain("webhooks", "one core's share taken by the receiver", share, "cores"),
    ]


async def workers(at: Testbed, plan: JobPlan) -> list[Measure]:
    """Call a receiver that takes its time, with one worker process and with two, in turns."""
    rates: dict[int, list[float]] = defaultdict(list)
    cores = []
    async with receiving(SLOW_SECONDS) as receiver:
        for _ in range(plan.rounds):
            for processes in (1, 2):
                rate, busy = await _called(at, receiver, processes, plan.slow_calls)
                rates[processes].append(rate)
                cores.append(busy)
                show_progress(f"  {processes}: {rate:.0f} a second")
    one, two = (statistics.median(rates[processes]) for processes in (1, 2))
    by_window = WINDOW * TENANT_PART / SLOW_SECONDS
    return [
        plain("workers", "one process, as far as its window goes", by_window, "jobs/s"),
        median("workers", "one process", rates[1], "jobs/s"),
        median("workers", "two processes", rates[2], "jobs/s"),
        at_least("workers", "two : one", two / one, 1.7),
        plain("workers", "one process and the database, at most", max(cores), "cores"),
    ]


async def _called(
    at: Testbed, receiver: Receiver, processes: int, count: int
) -> tuple[float, float]:
    """Have processes call a receiver; return the rate, and how busy one and the database were."""
    lane, before = await at.lane("push"), await receiver.count()
    async with AsyncExitStack() as stack:
        starting = [working(at, WINDOW) for _ in range(processes)]
        first, *_ = [await stack.enter_async_context(each) for each in starting]
        await asyncio.sleep(SHARE_SECONDS)
        used, watch = at.processor(first.pid), Stopwatch()
        await Accepting(at).add(lane, [None] * count, Webhook(url=receiver.url))
        async with asyncio.timeout(600):
            while await receiver.count() < before + count:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.05)
        rate = watch.rate(count)
        cost = at.processor(first.pid).per_item(used, count)
    return rate, sum(cost) * rate / 1e6


async def life_of_job(at: Testbed, plan: JobPlan) -> list[Measure]:
    """Weigh what a job writes from its acceptance to its end."""
    return await life.job(at, plan.count // 2)


async def limits(at: Testbed, plan: JobPlan) -> list[Measure]:
    """Run jobs under each kind of limit, in turns with unlimited ones."""
    return await limited.limited(at, plan.rounds, LIMIT_PER_SECOND, plan.limit_seconds)


ARMS: Final[Mapping[str, Arm[JobPlan]]] = {
    "execute": execute,
    "life": life_of_job,
    "idle": lambda at, plan: idle.idle(at, min(1.0, plan.count / WHOLE_IDLE)),
    "growth": lambda at, plan: growth.growth(at, min(1.0, plan.count / WHOLE_IDLE)),
    "pinned": pinned,
    "fairness": fairness,
    "lateness": lateness,
    "webhooks": repeated(webhooks),
    "workers": workers,
    "limits": limits,
    "keys": lambda at, plan: keys.keys(at, plan.rounds, plan.count),
}

SUITE: Final = Suite(ARMS, JobPlan(), JobPlan(count=400, slow_calls=10, limit_seconds=1, rounds=1))
