"""What an open overview and a scrape take from the work itself, on and off in one run.

Processor time of the server and its database, not of the clients. The console works by the clock
(cells every two seconds, vital signs and scrapes every fifteen), so what it takes is told best by a
server that does nothing else; how much of the whole that is, by one that does all it can.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from statistics import median
from typing import Any

import aiohttp
import psutil
import pytest

from conftest import scratch
from support.serve_process import Served

pytestmark = pytest.mark.soak

PENDING = 20_000
BATCH = 500
QUIET_SECONDS = 16.0
LOAD_SECONDS = 20.0
ROUNDS = 4
CALM = 0.005
SCRAPE_SECONDS = 15.0
MOST = 0.03


@dataclass
class MeasuredServer:
    """A running server with work to come, and a client of it."""

    server: Served
    session: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def cpu_seconds(self) -> float:
        """Give the processor time of the server and its database so far."""
        assert self.server.process is not None
        own = psutil.Process(self.server.process.pid)
        times = [each.cpu_times() for each in [own, *own.children(recursive=True)]]
        # What a backend that has ended used up is counted with its parent.
        return float(
            sum(t.user + t.system + t.children_user + t.children_system for t in times[1:])
            + times[0].user
            + times[0].system
        )

    async def accept(self, many: int, **fields: Any) -> None:
        spec = {"destination": {"type": "worker"}, **fields}
        body = {"jobs": [spec] * many}
        key = {"Authorization": f"Bearer {self.server.key}"}
        async with self.session.post(
            f"{self.url}/api/v1/jobs/batch", json=body, headers=key
        ) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()

    async def load(self, seconds: float) -> int:
        """Accept as much as it takes for so long."""
        until, done = time.monotonic() + seconds, 0

        async def client() -> None:
            nonlocal done
            while time.monotonic() < until:
                await self.accept(BATCH, lane="busy", delay_seconds=86_400)
                done += BATCH

        await asyncio.gather(client(), client())
        return done


@asynccontextmanager
async def watched(measured: MeasuredServer) -> AsyncIterator[list[int]]:
    """Keep an overview open and scrape, as somebody on call does; count what came."""
    seen = [0, 0]

    async def stream(session: aiohttp.ClientSession) -> None:
        async with session.get(f"{measured.url}/overview/stream", timeout=None) as answer:
            assert answer.status == 200
            async for line in answer.content:
                seen[0] += line.startswith(b"event: cells")

    async def poll_metrics(session: aiohttp.ClientSession) -> None:
        while True:
            async with session.get(f"{measured.url}/metrics") as answer:
                seen[1] += len(await answer.read()) > 0
            await asyncio.sleep(SCRAPE_SECONDS)

    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        form = {"key": measured.server.key, "next": "/"}
        async with session.post(
            f"{measured.url}/login", data=form, headers={"origin": measured.url}
        ) as answer:
            assert answer.status == 200
        going = [asyncio.create_task(each(session)) for each in (stream, poll_metrics)]
        try:
            yield seen
        finally:
            for task in going:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


@pytest.fixture
async def measured() -> AsyncIterator[MeasuredServer]:
    with scratch() as directory:
        home = directory / "home"
        home.mkdir(mode=0o711)
        server = Served(home, env={"POSTDATE_LOG_LEVEL": "error"})
        await server.start()
        await server.ready()
        async with aiohttp.ClientSession() as session:
            made = MeasuredServer(server, session)
            for number in range(PENDING // BATCH):
                due = {"delay_seconds": 60 * (number + 1)} if number else {}
                await made.accept(BATCH, lane=f"lane-{number % 3}", **due)
            yield made
        await server.stop()


async def wait_and_measure(measured: MeasuredServer, seconds: float) -> float:
    """Wait, and give the processor seconds of each second."""
    began, cpu = time.monotonic(), measured.cpu_seconds()
    await asyncio.sleep(seconds)
    return (measured.cpu_seconds() - cpu) / (time.monotonic() - began)


async def settled(measured: MeasuredServer) -> None:
    """Wait until what was accepted is sealed and swept: two quiet looks that agree."""
    before = await wait_and_measure(measured, 5.0)
    for _ in range(20):
        now = await wait_and_measure(measured, 5.0)
        if abs(now - before) < CALM:
            return
        before = now


async def test_console_and_metrics_take_a_small_part(measured: MeasuredServer) -> None:
    await settled(measured)
    off, on = [], []
    cells = 0
    for _ in range(ROUNDS):
        off.append(await wait_and_measure(measured, QUIET_SECONDS))
        async with watched(measured) as seen:
            on.append(await wait_and_measure(measured, QUIET_SECONDS))
        cells += seen[0]
        assert min(seen) > 0, "nobody watched"
    began, cpu = time.monotonic(), measured.cpu_seconds()
    jobs = await measured.load(LOAD_SECONDS)
    seconds = time.monotonic() - began
    busy = (measured.cpu_seconds() - cpu) / seconds
    quiet, watching = median(off), median(on)
    share = (watching - quiet) / busy
    print(
        f"quiet {quiet * 1e3:.1f} ms of processor a second, watched {watching * 1e3:.1f} ms "
        f"({cells} times cells), working {busy * 1e3:.0f} ms for {jobs / seconds:,.0f} jobs a "
        f"second: {share:.2%} of the work"
    )
    assert share <= MOST
