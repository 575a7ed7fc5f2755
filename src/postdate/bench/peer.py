"""The peers: pgqueuer and procrastinate, on the same PostgreSQL, each the way its docs say."""

import asyncio
from datetime import timedelta
from typing import Any, Final

import asyncpg

from postdate.bench.testbed import Ground, Watch
from postdate.model.error import StartError

BATCH: Final = 1000
DEQUEUE: Final = 200
PAYLOAD: Final = b'{"order":4711,"to":"someone@example.com"}'


def need() -> None:
    """Say what to do when the peers are not installed."""
    try:
        import pgqueuer  # noqa: F401
        import procrastinate  # noqa: F401
    except ImportError as error:
        raise StartError(
            "the peers are not installed: run `uv sync --group bench`, or choose other arms "
            f"with --only ({error.name} is missing)"
        ) from error


async def pgqueuer(ground: Ground, count: int, number: int) -> tuple[float, float]:
    """Give the rates of pgqueuer: enqueued in batches, executed by one process."""
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgPoolDriver
    from pgqueuer.models import Job
    from pgqueuer.queries import Queries

    name = f"pgqueuer_{number}"
    dsn = await ground.database(name)
    async with asyncpg.create_pool(dsn, min_size=4, max_size=10) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        await queries.install()
        watch = Watch()
        for first in range(0, count, BATCH):
            many = min(BATCH, count - first)
            await queries.enqueue(
                ["noop"] * many, [PAYLOAD] * many, [0] * many,
                execute_after=[timedelta(0)] * many,
            )  # fmt: skip
        enqueued = watch.rate(count)
        await ground.settle(name)
        queue = PgQueuer(driver)
        done = 0
        ended = asyncio.Event()

        async def noop(_: Job) -> None:
            nonlocal done
            done += 1
            if done == count:
                ended.set()

        queue.entrypoint("noop")(noop)
        watch = Watch()
        running = asyncio.create_task(
            queue.run(batch_size=DEQUEUE, dequeue_timeout=timedelta(seconds=1))
        )
        async with asyncio.timeout(600):
            await ended.wait()
        executed = watch.rate(count)
        queue.shutdown.set()
        await running
    return enqueued, executed


async def procrastinate(ground: Ground, count: int) -> tuple[float, float]:
    """Give the rates of procrastinate: deferred in batches, executed by one process."""
    from procrastinate import App, PsycopgConnector

    dsn = await ground.database("procrastinate")
    app = App(connector=PsycopgConnector(conninfo=dsn))
    done = 0
    ended = asyncio.Event()

    async def noop(order: int) -> None:
        nonlocal done
        done += order
        if done == count:
            ended.set()

    deferrer = app.task(name="noop")(noop).configure()
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        watch = Watch()
        for first in range(0, count, BATCH):
            many = min(BATCH, count - first)
            calls: list[dict[str, Any]] = [{"order": 1}] * many
            await deferrer.batch_defer_async(*calls)
        deferred = watch.rate(count)
        watch = Watch()
        running = asyncio.create_task(
            app.run_worker_async(
                concurrency=30, fetch_job_polling_interval=0.5, delete_jobs="always",
                install_signal_handlers=False,
            )
        )  # fmt: skip
        async with asyncio.timeout(600):
            await ended.wait()
        executed = watch.rate(count)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return deferred, executed
