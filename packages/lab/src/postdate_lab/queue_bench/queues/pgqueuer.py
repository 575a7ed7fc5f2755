"""pgqueuer: batches through its asyncpg pool, one process of workers."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job as QueuedJob
from pgqueuer.queries import Queries

from postdate_lab.queue_bench.contract import Handler, Job, Order

ENTRYPOINT: Final = "bench"


class PgqueuerQueue:
    """A queue of pgqueuer."""

    async def open(self, order: Order, handler: Handler) -> None:
        """Install the tables where they are missing, and start the workers."""
        self._pool = await asyncpg.create_pool(order.dsn, min_size=4, max_size=12)
        driver = AsyncpgPoolDriver(self._pool)
        self._queries = Queries(driver)
        if not await self._pool.fetchval("SELECT to_regclass('public.pgqueuer') IS NOT NULL"):
            await self._queries.install()
        self._app = PgQueuer(driver)

        async def run(job: QueuedJob) -> None:
            await handler(json.loads(job.payload or b"{}"))

        self._app.entrypoint(ENTRYPOINT, concurrency_limit=order.workers)(run)
        self._running = asyncio.create_task(
            self._app.run(
                batch_size=max(1, order.workers), dequeue_timeout=timedelta(milliseconds=50)
            )
        )

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Add jobs in one statement."""
        count = len(jobs)
        payloads: list[bytes | None] = [json.dumps(job).encode() for job in jobs]
        await self._queries.enqueue([ENTRYPOINT] * count, payloads, [0] * count)

    async def depth(self) -> int:
        """Count the jobs that wait."""
        return int(
            await self._pool.fetchval("SELECT count(*) FROM pgqueuer WHERE status = 'queued'")
        )

    async def close(self) -> None:
        """Stop the workers and disconnect."""
        self._app.shutdown.set()
        await asyncio.wait({self._running}, timeout=4)
        self._running.cancel()
        self._pool.terminate()


def make() -> PgqueuerQueue:
    """Return the queue under test."""
    return PgqueuerQueue()
