"""Postdate as its users have it: a server on the database, jobs and workers over HTTP.

The queues beside it talk to PostgreSQL from the benchmark's own process. Here the server does, in
a process of its own, so each job crosses HTTP three times: in, out to the worker, and its end.
"""

import asyncio
import ctypes
import os
import signal
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from postdate.client import AsyncClient, Lease, Worker
from postdate_lab.bench.machine import free_port
from postdate_lab.queue_bench.contract import Handler, Job, Order

if TYPE_CHECKING:
    from postdate.client.models.jobs import BatchJobParams

LANE: Final = "bench"
KEY: Final = "pd_" + "b" * 40
READY_SECONDS: Final = 50.0
DIE_WITH_PARENT: Final = 1
"""`prctl(PR_SET_PDEATHSIG)`: a harness that kills the adapter means the whole system."""


class PostdateQueue:
    """A server of its own, a client that adds jobs, and a worker."""

    async def open(self, order: Order, handler: Handler) -> None:
        """Start the server, and wait until it is ready; start the worker."""
        self._home = TemporaryDirectory(prefix="pdq")
        port = free_port()
        self._url = f"http://127.0.0.1:{port}"
        self._server = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("postdate"), "serve",
            env=_environment(order, port, self._home.name),
            stdin=asyncio.subprocess.DEVNULL, stdout=sys.stderr, preexec_fn=_die_with_parent,
        )  # fmt: skip
        async with asyncio.timeout(READY_SECONDS):
            while not await asyncio.to_thread(_ready, self._url):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.1)
        self._client = AsyncClient(self._url, KEY)
        worker = Worker(self._url, KEY, concurrency=order.workers)

        @worker.handler(LANE)
        async def run(lease: Lease) -> None:
            await handler(lease.payload)

        self._worker = worker
        self._working = asyncio.create_task(worker.run())

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Add jobs in one request."""
        params: list[BatchJobParams] = [
            {"destination": {"type": "worker"}, "lane": LANE, "payload": job} for job in jobs
        ]
        made = await self._client.jobs.create_many(jobs=params)
        refused = [each for each in made.outcomes if each.status >= 300]  # noqa: PLR2004 - HTTP
        if refused:
            raise RuntimeError(f"{len(refused)} of {len(jobs)} were refused: {refused[0]}")

    async def depth(self) -> int:
        """Count the jobs that wait."""
        return (await self._client.lanes.get(LANE)).ready

    async def close(self) -> None:
        """Stop the worker and the server."""
        self._worker.stop()
        await asyncio.wait({self._working}, timeout=3)
        self._working.cancel()
        await self._client.close()
        if self._server.returncode is None:
            self._server.send_signal(signal.SIGTERM)
        await self._server.wait()
        self._home.cleanup()


def _environment(order: Order, port: int, home: str) -> dict[str, str]:
    others = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    return others | {
        "POSTDATE_DATABASE_URL": order.dsn,
        "POSTDATE_DATA_DIR": home,
        "POSTDATE_PORT": str(port),
        "POSTDATE_ADMIN_KEY": KEY,
        "POSTDATE_LOG_LEVEL": "error",
    }


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer:  # noqa: S310 - loopback
            return bool(answer.status == 200)  # noqa: PLR2004 - HTTP
    except OSError:
        return False


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)


def make() -> PostdateQueue:
    """Return the queue under test."""
    return PostdateQueue()
