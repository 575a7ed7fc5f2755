"""A worker in a process of its own, to be killed, stopped and restarted by the fault tests.

Its handler appends a line to a log when it starts and when it ends; `--die point:n` kills the
process the n-th time it reaches a named point.
"""

import argparse
import asyncio
import os
import signal
import time
from pathlib import Path

import uvloop

from postdate.database.connection import opening
from postdate.job.spec.outcome import Completed, Delivery, Outcome
from postdate.job.spec.tally import Tally
from postdate.node import worker as worker_role
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.worker.worker import JobWorker


async def wait_for_work(seconds: float) -> None:
    """Take as long as the work would: what is killed must be killed in its middle."""
    await asyncio.sleep(seconds)


class Logged:
    """The handler: its effect is a line in a file."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._file = path.open("a", buffering=1)
        self._seconds = seconds

    async def __call__(self, delivery: Delivery) -> Outcome:
        self._note("start", delivery)
        await wait_for_work(self._seconds)
        self._note("end", delivery)
        return Completed()

    def _note(self, word: str, delivery: Delivery) -> None:
        at = time.monotonic()
        self._file.write(f"{word} {delivery.job_id} {delivery.token} {at} {os.getpid()}\n")


class Deadly:
    """Kills this process at a named point, the n-th time."""

    def __init__(self, point: str) -> None:
        self._name, _, count = point.partition(":")
        self._left = int(count or 1)

    async def __call__(self, name: str) -> None:
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


async def run(options: argparse.Namespace) -> None:
    database = await opening.connect(options.dsn, writers=6, readers=1)
    node = Node(
        settings=ProcessSettings(data_dir=options.log.parent), database=database, roles=["worker"]
    )
    worker = JobWorker(
        database=database,
        node_id=node.node_id,
        lanes=node.lanes,
        settings=node.runtime,
        handlers={"webhook": Logged(options.log, options.seconds)},
        tally=Tally(),
        window_size=options.window,
        checkpoint=Deadly(options.die),
    )
    await node.refresh_settings()
    care = worker_role.care_loops(worker, 5)
    loops = [*node.housekeeping(), *worker_role.hinted_claims(node, worker, care[0]), *care]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    going = [asyncio.create_task(loop.run()) for loop in loops]
    print("ready", flush=True)
    await stop.wait()
    for loop in loops:
        loop.stop()
    await asyncio.gather(*going)
    await database.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--window", type=int, default=100)
    parser.add_argument("--die", default="never")
    uvloop.run(run(parser.parse_args()))
