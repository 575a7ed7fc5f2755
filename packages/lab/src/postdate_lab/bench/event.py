"""`postdate bench events`: sealing, delivery to a queue, lag, and subscriptions that only wait."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from postdate.core.ids import BUCKETS, new_ids
from postdate.destination.spec.destination import DestinationSpec, DestinationType
from postdate.event.store import event as event_store
from postdate.event.store.event import NewEvent
from postdate.job.spec.job import Queue
from postdate.node import publisher as publisher_parts
from postdate.publisher.meter import PublisherMeter
from postdate.publisher.sealer import Sealer
from postdate.subscription.spec import SubscriptionSpec
from postdate_lab.bench.arm import Arm, Suite, repeated
from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.nats import Nats, nats_server
from postdate_lab.bench.testbed import (
    Measure,
    Testbed,
    admin,
    at_least,
    at_most,
    plain,
    processor_goals,
    running,
)
from postdate_lab.bench.worker import Accepting, Bench

BATCH: Final = 1000
LAG_RATE: Final = 1000
MAX_IDLE: Final = 100
IDLE_ROUNDS: Final = 3
NAME: Final = "bench"
SEAL_MICROSECONDS: Final = (5, 3)
"""The most that sealing an event may take of Python and of PostgreSQL."""


@dataclass(slots=True, frozen=True)
class EventPlan:
    """How much to measure."""

    rounds: int = 3
    events: int = 100_000
    delivered: int = 30_000
    jobs: int = 40_000
    seconds: int = 20


async def seal(at: Testbed, plan: EventPlan) -> list[Measure]:
    """Seal events that were committed a thousand at a time."""
    source = await Source.begin(at)
    await source.record(plan.events)
    await at.settle()
    sealer = Sealer(at.node.database, PublisherMeter(CollectorRegistry()))
    before, used, watch = await at.wal(), at.processor(), Stopwatch()
    done = 0
    while more := await sealer.run_once():
        done += more
    rate, written = watch.rate(done), await at.wal() - before
    cost = at.processor().per_item(used, max(done, 1))
    if done < plan.events:
        raise RuntimeError(f"{done} of {plan.events} events were sealed")
    return [
        at_least("seal", f"{plan.events} events", rate, 50_000, "events/s"),
        plain("seal", "write-ahead log", written / done, "bytes/event"),
        *processor_goals("seal", "an event", [cost], SEAL_MICROSECONDS),
    ]


async def deliver(at: Testbed, plan: EventPlan) -> list[Measure]:
    """Deliver sealed events to one NATS subscription."""
    async with nats_server(at.home) as broker:
        source = await Source.begin(at)
        await source.record(plan.delivered)
        await at.seal()
        await source.subscribe(broker, start="beginning")
        watch = Stopwatch()
        async with publishing(at):
            await broker.until(plan.delivered)
            rate = watch.rate(plan.delivered)
    return [at_least("deliver", "to one NATS subscription", rate, 3000, "events/s")]


async def lag(at: Testbed, plan: EventPlan) -> list[Measure]:
    """Commit 1,000 events a second; measure from the commit to the broker's confirmation."""
    count = LAG_RATE * plan.seconds
    async with nats_server(at.home) as broker:
        source = await Source.begin(at)
        await source.subscribe(broker, start="beginning")
        async with publishing(at):
            began = time.monotonic()
            for step in range(plan.seconds * 20):
                await source.record(LAG_RATE // 20)
                ahead = began + (step + 1) / 20 - time.monotonic()
                await asyncio.sleep(max(0.0, ahead))
            await broker.until(count)
        late = await broker.lags()
    return [
        plain("lag", "p50 at 1,000 events/s", late.p50, "ms"),
        at_most("lag", "p99 at 1,000 events/s", late.p99, 1000, "ms"),
    ]


async def queue(at: Testbed, plan: EventPlan) -> list[Measure]:
    """Run jobs whose destination is a NATS subject, from claim to recorded."""
    async with nats_server(at.home) as broker:
        lane, adding = await at.lane("push"), Accepting(at)
        await _register(at, lane.tenant_id, broker)
        worker = Bench(at, "queue", at.node.outgoing.queue.deliver)
        await adding.add(lane, [None] * plan.jobs, Queue(name=NAME, subject=broker.subject))
        await at.settle()
        watch = Stopwatch()
        async with worker.running():
            await worker.until(plan.jobs)
            rate = watch.rate(plan.jobs)
        await broker.until(plan.jobs)
    return [at_least("queue", "jobs to NATS, claimed to recorded", rate, 5000, "jobs/s")]


async def idle(at: Testbed, plan: EventPlan) -> list[Measure]:
    """Measure what subscriptions cost that have nothing to do."""
    seconds = min(plan.seconds, 5)
    async with nats_server(at.home) as broker:
        source = await Source.begin(at)
        await at.settle()
        without = await _idle_share(at, seconds)
        await source.subscribe(broker)
        for _ in range(MAX_IDLE - 1):
            await source.subscribe(broker, registered=True)
        many = await _idle_share(at, seconds)
    return [
        plain("idle", "publisher without subscriptions", without, "% of a core"),
        plain("idle", f"publisher with {MAX_IDLE} that wait", many, "% of a core"),
        at_most("idle", "what they add", many - without, 1, "% of a core"),
    ]


class Source:
    """A tenant that has events to tell."""

    def __init__(self, at: Testbed, tenant_id: int) -> None:
        self._at = at
        self._database = at.node.database
        self._tenant_id = tenant_id

    @classmethod
    async def begin(cls, at: Testbed) -> "Source":
        """Make the tenant."""
        tenant_id, _ = await at.tenant()
        return cls(at, tenant_id)

    async def record(self, count: int) -> None:
        """Commit a number of events of as many subjects, a thousand at a time."""
        for first in range(0, count, BATCH):
            buckets = [n % BUCKETS for n in range(min(BATCH, count - first))]
            subjects = new_ids(buckets, self._database.unix_ms())
            data = {"destination": "worker", "lane": "default"}
            async with self._database.write() as connection:
                await event_store.insert(
                    connection,
                    [NewEvent(self._tenant_id, each, KIND, "bench", data) for each in subjects],
                )

    async def subscribe(
        self, broker: Nats, *, start: str = "now", registered: bool = False
    ) -> None:
        """Subscribe a NATS subject to everything."""
        if not registered:
            await _register(self._at, self._tenant_id, broker)
        spec = SubscriptionSpec(
            destination=Queue(name=NAME, subject=broker.subject), types=[KIND], start=start
        )
        await publisher_parts.intake(self._at.node).create(admin(self._tenant_id), spec)


KIND: Final = "job.retried"


async def _register(at: Testbed, tenant_id: int, broker: Nats) -> None:
    await at.node.outgoing.destinations.create(
        admin(tenant_id),
        DestinationSpec(
            name=NAME, type=DestinationType.QUEUE, kind="nats", config={"servers": [broker.url]}
        ),
    )


@asynccontextmanager
async def publishing(at: Testbed) -> AsyncIterator[None]:
    """Run the loops of the publisher's role until the block ends."""
    node = at.node
    node.registry = CollectorRegistry()
    loops = publisher_parts.loops(node)
    node.loops[:] = loops
    try:
        async with running(loops):
            yield
    finally:
        node.loops.clear()


async def _idle_share(at: Testbed, seconds: float) -> float:
    """Return the share of a core that the publisher and the database take while nothing happens."""
    async with publishing(at):
        shares = []
        for _ in range(IDLE_ROUNDS):
            began = at.cpu_seconds()
            await asyncio.sleep(seconds)
            shares.append((at.cpu_seconds() - began) / seconds * 100)
        # The quietest: what the arms before have left to the database ends in the first ones.
        return min(shares)


ARMS: Final[Mapping[str, Arm[EventPlan]]] = {
    "seal": repeated(seal),
    "deliver": repeated(deliver),
    "lag": lag,
    "queue": queue,
    "idle": idle,
}
QUICK: Final = EventPlan(rounds=1, events=2000, delivered=500, jobs=500, seconds=1)
SUITE: Final = Suite(ARMS, EventPlan(), QUICK)
