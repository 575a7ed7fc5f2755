"""procrastinate: jobs deferred in batches, executed by one process with 30 at once."""

import asyncio
from typing import Any

from procrastinate import App, PsycopgConnector

from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.peers.contract import END_SECONDS, PeerOrder, PeerRates, chunks


async def _measure(order: PeerOrder) -> PeerRates:
    app = App(connector=PsycopgConnector(conninfo=order.dsn))
    done = 0
    ended = asyncio.Event()

    async def noop(order_number: int) -> None:  # noqa: ARG001 - what a job is given
        nonlocal done
        done += 1
        if done == order.count:
            ended.set()

    deferrer = app.task(name="noop")(noop).configure()
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        watch = Stopwatch()
        for many in chunks(order.count):
            calls: list[dict[str, Any]] = [{"order_number": 4711}] * many
            await deferrer.batch_defer_async(*calls)
        accepted = watch.rate(order.count)
        watch = Stopwatch()
        running = asyncio.create_task(
            app.run_worker_async(
                concurrency=30, fetch_job_polling_interval=0.5, delete_jobs="always",
                install_signal_handlers=False,
            )
        )  # fmt: skip
        async with asyncio.timeout(END_SECONDS):
            await ended.wait()
        executed = watch.rate(order.count)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return PeerRates(accepted=accepted, executed=executed)


def measure(order: PeerOrder) -> PeerRates:
    """Measure procrastinate; psycopg asks for the standard event loop."""
    return asyncio.run(_measure(order))
