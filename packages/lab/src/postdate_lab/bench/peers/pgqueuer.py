"""pgqueuer: jobs in batches through its asyncpg pool, executed by one process."""

import asyncio
from datetime import timedelta
from typing import Final

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.peers.contract import END_SECONDS, PAYLOAD, PeerOrder, PeerRates, chunks

DEQUEUE: Final = 200


async def _measure(order: PeerOrder) -> PeerRates:
    async with asyncpg.create_pool(order.dsn, min_size=4, max_size=10) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        await queries.install()
        watch = Stopwatch()
        for many in chunks(order.count):
            await queries.enqueue(
                ["noop"] * many, [PAYLOAD.encode()] * many, [0] * many,
                execute_after=[timedelta(0)] * many,
            )  # fmt: skip
        accepted = watch.rate(order.count)
        await pool.execute("VACUUM (ANALYZE)")
        await pool.execute("CHECKPOINT")
        return PeerRates(accepted=accepted, executed=await _execute(driver, order.count))


async def _execute(driver: AsyncpgPoolDriver, count: int) -> float:
    queue = PgQueuer(driver)
    done = 0
    ended = asyncio.Event()

    async def noop(_: Job) -> None:
        nonlocal done
        done += 1
        if done == count:
            ended.set()

    queue.entrypoint("noop")(noop)
    watch = Stopwatch()
    running = asyncio.create_task(
        queue.run(batch_size=DEQUEUE, dequeue_timeout=timedelta(seconds=1))
    )
    async with asyncio.timeout(END_SECONDS):
        await ended.wait()
    rate = watch.rate(count)
    queue.shutdown.set()
    await running
    return rate


def measure(order: PeerOrder) -> PeerRates:
    """Measure pgqueuer."""
    return uvloop.run(_measure(order))
