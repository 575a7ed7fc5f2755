"""The load of the bench omits nothing: a server that stands still makes every request late."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from postdate_lab.bench.load import Load, LoadRequest

STALL_SECONDS = 0.4


@asynccontextmanager
async def stalling() -> AsyncIterator[str]:
    """Serve requests at once, but for one, which keeps the only worker busy."""
    served, busy, never = 0, asyncio.Lock(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                async with busy:
                    served += 1
                    with suppress(TimeoutError):
                        await asyncio.wait_for(never.wait(), STALL_SECONDS if served == 1 else 0)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        except asyncio.IncompleteReadError:
            writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_stall_counts_for_every_request_that_was_meant_to_be_sent_meanwhile() -> None:
    wanted = [LoadRequest("GET", "/")] * 40
    async with stalling() as url:
        # Two connections cannot send what was meant for the time of the stall: it is late all the
        # same. Whoever measures from the sending would see two slow requests of forty.
        report = await Load(wanted, per_second=100).run(url, "key", connections=2)
    assert report.requests == 40
    assert report.p50_ms > STALL_SECONDS * 1000 / 4
    assert report.p99_ms >= STALL_SECONDS * 1000 * 0.9


async def test_an_open_load_is_not_quicker_than_its_rate() -> None:
    async with stalling() as url:
        report = await Load([LoadRequest("GET", "/")] * 100, per_second=100).run(url, "key")
    assert report.seconds >= 0.98
    assert report.statuses == {200: 100}
