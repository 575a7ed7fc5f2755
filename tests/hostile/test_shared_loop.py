"""A stranger and a tenant do their worst at once: neither keeps the loop from others."""

import asyncio
from urllib.parse import urlsplit

from conftest import Api
from support.loop_holds import WATCH, described, server_holds

PIPELINED = b"GET / HTTP/1.1\r\nHost:\r\n\r\n" * 10_000


async def test_nobody_keeps_the_loop_to_himself(api: Api) -> None:
    WATCH.holds.clear()
    port = urlsplit(api.url).port
    strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
    for _, writer in strangers:
        writer.write(PIPELINED)
    body = {"destination": {"type": "worker"}, "payload": [1e308] * 30_000, "delay_seconds": 900}
    answers = await asyncio.gather(*(api.call("POST", "/jobs", body) for _ in range(3)))
    assert [answer.status for answer in answers] == [201] * 3
    for _, writer in strangers:
        writer.transport.abort()
    found = server_holds(list(WATCH.holds))
    assert not found, described(found)
