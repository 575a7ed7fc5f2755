"""procrastinate: batches of deferred tasks, one process of workers."""

import asyncio
from collections.abc import Sequence
from typing import Any

from procrastinate import App, PsycopgConnector

from postdate_lab.queue_bench.contract import Handler, Job, Order


class ProcrastinateQueue:
    """A queue of procrastinate."""

    async def open(self, order: Order, handler: Handler) -> None:
        """Install the tables where they are missing, and start the workers."""
        self._app = App(connector=PsycopgConnector(conninfo=order.dsn))

        async def run(created_at: str, padding: str) -> None:
            await handler({"created_at": created_at, "padding": padding})

        self._task = self._app.task(name="bench")(run).configure()
        await self._app.open_async()
        found = await self._app.connector.execute_query_one_async(
            "SELECT to_regclass('public.procrastinate_jobs') IS NOT NULL AS found"
        )
        if not found["found"]:
            await self._app.schema_manager.apply_schema_async()
        self._running = asyncio.create_task(
            self._app.run_worker_async(
                concurrency=order.workers, fetch_job_polling_interval=0.05,
                delete_jobs="never", install_signal_handlers=False,
            )
        )  # fmt: skip

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Defer jobs in one statement."""
        calls: list[dict[str, Any]] = [dict(job) for job in jobs]
        await self._task.batch_defer_async(*calls)

    async def depth(self) -> int:
        """Count the jobs that wait."""
        found = await self._app.connector.execute_query_one_async(
            "SELECT count(*) AS count FROM procrastinate_jobs"
            " WHERE status NOT IN ('doing', 'succeeded', 'failed')"
        )
        return int(found["count"])

    async def close(self) -> None:
        """Stop the workers and disconnect."""
        self._running.cancel()
        await asyncio.wait({self._running}, timeout=4)
        await self._app.close_async()


def make() -> ProcrastinateQueue:
    """Return the queue under test."""
    return ProcrastinateQueue()
