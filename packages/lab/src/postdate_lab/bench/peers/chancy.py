"""Chancy: jobs pushed in batches, run by the asyncio executor of one worker."""

import asyncio
from typing import Final

from chancy import Chancy, Queue, Worker, job

from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.peers.contract import END_SECONDS, PeerOrder, PeerRates

QUEUE: Final = "bench"


class _Tally:
    """How many have run. Chancy imports a job by name, so it cannot be a closure."""

    wanted = 0
    done = 0
    ended: asyncio.Event


@job(queue=QUEUE)
async def noop(*, order: int) -> None:
    """Count itself."""
    del order
    _Tally.done += 1
    if _Tally.done == _Tally.wanted:
        _Tally.ended.set()


async def _measure(order: PeerOrder) -> PeerRates:
    _Tally.wanted, _Tally.ended = order.count, asyncio.Event()
    async with Chancy(order.dsn) as chancy:
        await chancy.migrate()
        queue = Queue(QUEUE, executor=Chancy.Executor.Async, eager_polling=True)
        await chancy.declare(queue, upsert=True)
        jobs = [noop.job.with_kwargs(order=4711)] * order.count
        watch = Stopwatch()
        async for _ in chancy.push_many(jobs):
            pass
        accepted = watch.rate(order.count)
        watch = Stopwatch()
        async with Worker(chancy, register_signal_handlers=False):
            async with asyncio.timeout(END_SECONDS):
                await _Tally.ended.wait()
            executed = watch.rate(order.count)
    return PeerRates(accepted=accepted, executed=executed)


def measure(order: PeerOrder) -> PeerRates:
    """Measure Chancy."""
    return asyncio.run(_measure(order))
