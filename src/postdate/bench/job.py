"""`postdate bench jobs`: ratios measured in one run, on one PostgreSQL."""

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from postdate.bench import database as bench
from postdate.bench import peer as peers
from postdate.bench.arm import Arm, run_arms
from postdate.bench.receiver import receiving
from postdate.bench.testbed import (
    Ground,
    Measure,
    Watch,
    at_least,
    at_most,
    percentile,
    plain,
)
from postdate.bench.worker import Accepting, Bench, bare
from postdate.model.job.job import Webhook

ROUNDS: Final = 3
PROCRASTINATE_MOST: Final = 1000
FEW: Final = 10_000
PINNED_MOST: Final = 400_000
FILL_MOST: Final = 50_000
"""The most timers of one statement and bucket: no statement of a node may take half a minute."""

LOADED_SECONDS: Final = 10


@dataclass(slots=True, frozen=True)
class Plan:
    """How much to measure."""

    count: int
    pending: int


async def execute(at: Ground, plan: Plan) -> list[Measure]:
    """Run jobs that do nothing, in turns with pgqueuer and with bare SQL."""
    peers.need()
    ours, accepted, limits, theirs, enqueued = [], [], [], [], []
    wal = (0.0, 0.0)
    for number in range(ROUNDS):
        lane, adding, worker = await at.lane(), Accepting(at), Bench(at, "worker")
        before = await at.wal()
        watch = Watch()
        await adding.add(lane, [None] * plan.count)
        accepted.append(watch.rate(plan.count))
        middle = await at.wal()
        await at.settle()
        begun = await at.wal()
        watch = Watch()
        async with worker.running():
            await worker.until(plan.count)
            ours.append(watch.rate(plan.count))
        wal = ((middle - before) / plan.count, (await at.wal() - begun) / plan.count)
        await adding.add(lane, [None] * plan.count)
        await at.settle()
        limits.append(await bare(at, lane, plan.count, 1))
        peer = await peers.pgqueuer(at, plan.count // 2, number)
        enqueued.append(peer[0])
        theirs.append(peer[1])
    slow = await peers.procrastinate(at, min(plan.count, PROCRASTINATE_MOST))
    mine, limit, peer_rate = map(statistics.median, (ours, limits, theirs))
    return [
        plain("accept", "postdate, bulk", statistics.median(accepted), "jobs/s"),
        plain("accept", "pgqueuer, bulk", statistics.median(enqueued), "jobs/s"),
        plain("accept", "procrastinate, bulk", slow[0], "jobs/s"),
        at_least(
            "accept", "postdate : pgqueuer",
            statistics.median(accepted) / statistics.median(enqueued), 1.3,
        ),
        plain("accept", "write-ahead log", wal[0], "bytes/job"),
        plain("execute", "postdate, no-op in process", mine, "jobs/s"),
        plain("execute", "limit: bare SQL claim + delete", limit, "jobs/s"),
        plain("execute", "pgqueuer", peer_rate, "jobs/s"),
        plain("execute", "procrastinate", slow[1], "jobs/s"),
        at_least("execute", "postdate : pgqueuer", mine / peer_rate, 2),
        at_least("execute", "postdate : limit", mine / limit, 0.5),
        plain("execute", "write-ahead log", wal[1], "bytes/job"),
    ]  # fmt: skip


async def pinned(at: Ground, plan: Plan) -> list[Measure]:
    """Claim while an open snapshot keeps every dead row in place."""
    count = min(plan.count * 10, PINNED_MOST)
    lane, adding, worker = await at.lane(), Accepting(at), Bench(at, "worker")
    await adding.add(lane, [None] * count)
    await at.settle()
    async with at.pinned(), worker.running():
        watch = Watch()
        await worker.until(count)
        rate = watch.rate(count)
    return [
        plain("pinned", f"executions under a pinned snapshot ({count})", rate, "jobs/s"),
        at_most("pinned", "claim p99", percentile(worker.claim_ms, 0.99), 25, "ms"),
    ]


async def pending(at: Ground, plan: Plan) -> list[Measure]:
    """Claim beside few and beside many jobs of the far future."""
    lane, adding = await at.lane(), Accepting(at)
    costs: dict[int, float] = {}
    filled = 0
    for size in (FEW, plan.pending):
        async with at.node.database.connection() as connection:
            each = (size - filled) // lane.width
            for first in range(0, each, FILL_MOST):
                many = min(FILL_MOST, each - first)
                await bench.fill(connection, lane.tenant_id, lane.lane_id, lane.buckets, many)
        filled = size
        rounds = []
        for _ in range(ROUNDS):
            await adding.add(lane, [None] * plan.count)
            await at.settle()
            rounds.append(await bare(at, lane, plan.count, 1))
        costs[size] = 1e6 / max(rounds)
    return [
        plain("pending", f"claim + delete beside {FEW}", costs[FEW], "us/job"),
        plain("pending", f"claim + delete beside {plan.pending}", costs[plan.pending], "us/job"),
        at_most("pending", "ratio", costs[plan.pending] / costs[FEW], 1.3, "x"),
    ]


async def fairness(at: Ground, plan: Plan) -> list[Measure]:
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


async def lateness(at: Ground, _: Plan) -> list[Measure]:
    """Run 500 jobs a second, accepted one second ahead, whatever the worker does meanwhile."""
    lane, adding, worker = await at.lane(), Accepting(at), Bench(at, "worker")
    rate, steps = 500, LOADED_SECONDS * 20
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
        plain("lateness", "p50 at 500/s", late.p50, "ms"),
        at_most("lateness", "p99 at 500/s", late.p99, 250, "ms"),
    ]


async def webhooks(at: Ground, plan: Plan) -> list[Measure]:
    """Call a receiver in a process of its own on this machine."""
    count = plan.count // 2
    lane, adding = await at.lane("push"), Accepting(at)
    worker = Bench(at, "webhook", at.node.outgoing.webhook.deliver)
    async with receiving() as receiver:
        await adding.add(lane, [None] * count, Webhook(url=receiver.url))
        await at.settle()
        watch, used = Watch(), receiver.cpu_seconds()
        async with worker.running():
            await worker.until(count)
            rate = watch.rate(count)
        share = (receiver.cpu_seconds() - used) * rate / count
        arrived = await receiver.count()
    if arrived < count:
        raise RuntimeError(f"only {arrived} of {count} webhooks arrived")
    return [
        at_least("webhooks", "to a local receiver", rate, 2500, "jobs/s"),
        plain("webhooks", "one core's share taken by the receiver", share, "cores"),
    ]


ARMS: Final[Mapping[str, Arm[Plan]]] = {
    "execute": execute,
    "pinned": pinned,
    "pending": pending,
    "fairness": fairness,
    "lateness": lateness,
    "webhooks": webhooks,
}


async def run(count: int, pending_count: int, only: Sequence[str]) -> list[Measure]:
    """Run the arms one after another on one server."""
    return await run_arms(ARMS, Plan(count, pending_count), only)
