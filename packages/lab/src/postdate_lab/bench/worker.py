"""Our own arms: a worker in this process, with a handler that does nothing or calls a webhook."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

import msgspec

from postdate.database.connection import clock
from postdate.job.accept.request import AcceptedJob, JobRequest
from postdate.job.spec.job import JobDestination, JobSpec
from postdate.job.spec.job import Worker as ToWorker
from postdate.job.spec.outcome import Completed, Delivery, JobHandler, Outcome
from postdate.job.spec.tally import Tally
from postdate.lane.store.lane import Lane
from postdate.lease import store as lease
from postdate.node import job as job_parts
from postdate.node.worker import care_loops, claim_loops
from postdate.timer.timer import LONG_AGO
from postdate.worker.runner import LimitsOf
from postdate.worker.worker import JobWorker
from postdate_lab.bench import database as bench
from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.testbed import Testbed, running

BATCH: Final = 1000
MAX_BARE: Final = 500
"""The most timers of one claim by bare SQL, which nobody waits for."""

PAYLOAD: Final = msgspec.Raw(b'{"order":4711,"to":"someone@example.com"}')
DONE: Final = Completed()


async def noop(_: Delivery) -> Outcome:
    """Do nothing, successfully."""
    return DONE


def plain_job(_: int) -> Mapping[str, Any]:
    """Give a job no field that it needs not."""
    return {}


class Accepting:
    """Takes jobs in by the thousand, through the intake that the API uses."""

    def __init__(self, testbed: Testbed) -> None:
        self._database = testbed.node.database
        self._intake = job_parts.intake(testbed.node)

    async def now(self) -> datetime:
        """Ask the database for its time."""
        async with self._database.connection() as connection:
            return await clock.now(connection)

    async def add(
        self,
        lane: Lane,
        dues: Sequence[datetime | None],
        to: JobDestination | None = None,
        fields: Callable[[int], Mapping[str, Any]] = plain_job,
    ) -> None:
        """Accept a job for each instant; None means now. `fields` are those of its number."""
        destination = to or ToWorker()
        for first in range(0, len(dues), BATCH):
            asks = [
                JobRequest(
                    tenant_id=lane.tenant_id,
                    spec=JobSpec(
                        destination=destination,
                        payload=PAYLOAD,
                        lane=lane.name,
                        run_at=due,
                        **fields(number),
                    ),
                )
                for number, due in enumerate(dues[first : first + BATCH], first)
            ]
            results = await self._intake.accept(asks)
            if not all(isinstance(result, AcceptedJob) for result in results):
                raise RuntimeError(f"refused: {results[0]}")


class Bench:
    """A worker with its loops, counting what it ran and timing its claims."""

    def __init__(
        self,
        testbed: Testbed,
        kind: str,
        handler: JobHandler = noop,
        limits_of: LimitsOf | None = None,
    ) -> None:
        self._handler = handler
        self.done = 0
        self.claim_ms: list[float] = []
        node = testbed.node
        self.worker = JobWorker(
            database=node.database,
            node_id=node.node_id,
            lanes=node.lanes,
            settings=node.runtime,
            handlers={kind: self._count},
            tally=Tally(),
            limits_of=limits_of or node.outgoing.directory.limits_of,
        )

    async def _count(self, delivery: Delivery) -> Outcome:
        outcome = await self._handler(delivery)
        self.done += 1
        return outcome

    async def _step(self, limit: int) -> int:
        began = time.monotonic()
        claims = await self.worker.claimer.claim(limit)
        if claims:
            self.claim_ms.append((time.monotonic() - began) * 1000)
        await self.worker.runner.admit()
        return sum(len(claim.executions) for claim in claims)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the loops of the worker role until the block ends."""
        await self.worker.claimer.refresh()
        worker = self.worker
        loops = [*claim_loops(worker, self._step), *care_loops(worker, drain_seconds=5)]
        async with running(loops):
            yield

    async def until(self, count: int, seconds: float = 600) -> None:
        """Wait until so many have run and been recorded."""
        async with asyncio.timeout(seconds):
            while self.done < count or len(self.worker.runner):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.005)


async def bare(testbed: Testbed, lane: Lane, count: int, connections: int) -> float:
    """Claim and delete timers with bare SQL; give the rate. This is the limit of the design."""
    left = count

    async def work(buckets: Sequence[int]) -> None:
        nonlocal left
        marks = dict.fromkeys(buckets, LONG_AGO)
        open_buckets = list(buckets)
        async with testbed.node.database.connection() as connection:
            while open_buckets:
                bucket = open_buckets[0]
                place = (bucket, lane.lane_id)
                claims = await lease.claim(
                    connection, place, marks[bucket], MAX_BARE, 30.0, testbed.node.node_id
                )
                if not claims:
                    open_buckets.pop(0)
                    continue
                marks[bucket] = max(claim.ready_at for claim in claims)
                ids, tokens = zip(*((c.subject, c.token) for c in claims), strict=True)
                await bench.delete(connection, bucket, ids, tokens)
                left -= len(claims)

    watch = Stopwatch()
    await asyncio.gather(*(work(lane.buckets[n::connections]) for n in range(connections)))
    if left:
        raise RuntimeError(f"{left} timers were not claimed")
    return watch.rate(count)
