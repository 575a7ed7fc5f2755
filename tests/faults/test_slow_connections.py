"""Many connections that hardly send anything must not be felt by those who do."""

import asyncio
import os
import statistics
import time
from contextlib import suppress

import aiohttp
import pytest

from conftest import scratch
from support.serve_process import Served

SLOW = 500
SECONDS = float(os.environ.get("POSTDATE_TEST_SLOW_SECONDS", "60"))
NOISE_SECONDS = 0.005
"""Below this a quantile says more about the machine than about the server."""


async def wait_turn(seconds: float) -> None:
    """Keep a pace: being slow is what these connections are for."""
    await asyncio.sleep(seconds)


async def dawdle(port: int, until: float) -> None:
    """Send a request a byte a second, and begin again whenever the server has had enough."""
    head = b"POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\n" + b"x-slow: y\r\n" * 50
    while time.monotonic() < until:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            for byte in head:
                if time.monotonic() >= until or writer.is_closing():
                    break
                writer.write(bytes([byte]))
                await wait_turn(1)
            writer.close()


async def p99(served: Served, seconds: float) -> float:
    """Ask as an ordinary client does, one request after the other; give the 99th percentile."""
    times = []
    headers = {"Authorization": f"Bearer {served.key}"}
    until = time.monotonic() + seconds
    async with aiohttp.ClientSession(headers=headers) as session:
        while time.monotonic() < until:
            began = time.monotonic()
            url = f"http://127.0.0.1:{served.port}/api/v1/jobs"
            async with session.post(url, json={"destination": {"type": "worker"}}) as answer:
                assert answer.status == 201
                await answer.read()
            times.append(time.monotonic() - began)
            await wait_turn(0.01)
    return statistics.quantiles(times, n=100)[98]


@pytest.mark.soak
async def test_slow_connections_are_not_felt_by_others() -> None:
    with scratch() as directory:
        served = Served(directory / "data")
        (directory / "data").mkdir()
        await served.start()
        try:
            await served.ready()
            await p99(served, 3)
            alone = await p99(served, SECONDS)
            until = time.monotonic() + SECONDS + 2
            slow = [asyncio.create_task(dawdle(served.port, until)) for _ in range(SLOW)]
            await wait_turn(2)
            beside = await p99(served, SECONDS)
            await asyncio.gather(*slow)
        finally:
            await served.stop()
    print(f"p99 alone {alone * 1000:.1f} ms, beside {SLOW} slow ones {beside * 1000:.1f} ms")
    assert beside <= 2 * max(alone, NOISE_SECONDS)
