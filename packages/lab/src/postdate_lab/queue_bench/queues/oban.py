"""Oban for Python: batches through `enqueue_many`, one process of workers. It needs Python 3.12."""

from collections.abc import Sequence
from typing import Any

from oban import Oban, worker
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

from postdate_lab.queue_bench.contract import Handler, Job, Order


class ObanQueue:
    """A queue of Oban."""

    async def open(self, order: Order, handler: Handler) -> None:
        """Install the tables where they are missing, and start the workers."""
        self._pool = AsyncConnectionPool(
            order.dsn, min_size=4, max_size=12, open=False, kwargs={"autocommit": True}
        )
        await self._pool.open()
        async with self._pool.connection() as connection:
            found = await connection.execute("SELECT to_regclass('public.oban_jobs') IS NOT NULL")
            row = await found.fetchone()
        if row is not None and not row[0]:
            await install(self._pool)

        @worker(queue="bench")
        class BenchWorker:
            async def process(self, job: Any) -> None:
                await handler(job.args)

        self._worker: Any = BenchWorker
        self._oban = Oban(pool=self._pool, queues={"bench": order.workers})
        await self._oban.start()

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Add jobs in one statement."""
        await self._oban.enqueue_many([self._worker.new(job) for job in jobs])

    async def depth(self) -> int:
        """Count the jobs that wait."""
        async with self._pool.connection() as connection:
            found = await connection.execute(
                "SELECT count(*) FROM oban_jobs WHERE state = 'available'"
            )
            row = await found.fetchone()
        return int(row[0]) if row else 0

    async def close(self) -> None:
        """Stop the workers and disconnect."""
        await self._oban.stop()
        await self._pool.close()


def make() -> ObanQueue:
    """Return the queue under test."""
    return ObanQueue()
