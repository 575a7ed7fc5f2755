"""Wire the advance of test clocks: the stages of live tenants, run one step at a time."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from prometheus_client import CollectorRegistry

from postdate.job.accept.intake import JobIntake
from postdate.job.store import job_cancel
from postdate.lane.store.lane import Lane
from postdate.node import schedule
from postdate.node.node import Node
from postdate.payment.change.approval import Approvals
from postdate.publisher.deliverer import AT_ONCE, Deliverer
from postdate.publisher.meter import PublisherMeter
from postdate.publisher.sealer import Sealer
from postdate.scheduler.expander import Expander
from postdate.scheduler.meter import ScheduleMeter
from postdate.settlement.halt_end import HaltEnds
from postdate.settlement.settler import Settler
from postdate.test_clock import store
from postdate.test_clock.change.test_clock import TestClocks
from postdate.worker.expirer import MAX_CANCELLED, end_cancelled
from postdate.worker.single_run import SingleRuns

SEALED_SECONDS: Final = 0.005
"""How soon to retry when another sealer works on the same outbox."""

MAX_SEALINGS: Final = 400


class TenantStages:
    """The stages, created for each advance, so that nothing of other clocks is remembered."""

    def __init__(self, node: Node, accepting: JobIntake, tenant_id: int) -> None:
        database, runtime, outgoing = node.database, node.runtime, node.outgoing
        # Counted separately: test clocks say nothing about this server's performance.
        meter = PublisherMeter(CollectorRegistry())
        # Breakers count the failures of seconds; here a year may pass in one.
        handlers = {"webhook": outgoing.webhook.attempt, "queue": outgoing.queue.attempt}
        self._database = database
        self._tenant_id = tenant_id
        self._on_accept = node.on_accept
        self._halts = HaltEnds(database, lambda: None)
        self._approvals = Approvals(database)
        self._expander = Expander(
            database, schedule.occurrences(node, accepting), ScheduleMeter(), runtime
        )
        self._settler = Settler(database, runtime, node.node_id)
        self._jobs = SingleRuns(
            database=database,
            node_id=node.node_id,
            settings=runtime,
            handlers=handlers,
            cipher=outgoing.cipher,
        )
        self._sealer = Sealer(database, meter)
        self._deliverer = Deliverer(database, handlers, runtime, node.node_id, meter)

    async def thaw(self) -> None:
        """Bring back what waited for halts that have ended."""
        await self._halts.run_once()

    async def expire(self) -> None:
        """End payments that were not approved in time."""
        await self._approvals.run_once()

    async def end_cancelled(self) -> None:
        """End jobs whose workers did not stop by the deadline of a cancel."""
        async with self._database.connection() as connection:
            due = await job_cancel.due(connection, MAX_CANCELLED, self._tenant_id)
        await end_cancelled(self._database, due)

    async def expand(self) -> None:
        """Expand schedules."""
        await self._expander.run_once()

    async def settle(self, keys: Sequence[tuple[int, UUID]]) -> None:
        """Settle payments, given in order."""
        await self._settler.settle(keys)

    async def run(self, lane: Lane, bucket: int, low: datetime) -> None:
        """Run the first job of a bucket's lane."""
        await self._jobs.run_once(lane, bucket, low)

    async def deliver(self) -> None:
        """Deliver events to subscriptions, and wait until each has its turn."""
        await self._deliverer.run_once(AT_ONCE)
        await self._deliverer.drain()

    async def seal(self) -> None:
        """Seal until no event of the tenant waits; another sealer may be working on some."""
        for _ in range(MAX_SEALINGS):
            async with self._database.connection() as connection:
                if not await store.unsealed(connection, self._tenant_id):
                    return
            if not await self._sealer.run_once():
                await asyncio.sleep(SEALED_SECONDS)

    def wake_pullers(self, lane_id: int) -> None:
        """Tell workers that wait for jobs of a lane that some are due."""
        for hook in self._on_accept:
            hook(lane_id, 0.0)


def clocks(node: Node, accepting: JobIntake) -> TestClocks:
    """Build the service that advances test clocks."""
    return TestClocks(node.database, lambda tenant_id: TenantStages(node, accepting, tenant_id))
