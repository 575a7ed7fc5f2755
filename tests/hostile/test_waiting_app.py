"""A client that asks while the server starts keeps no connection to what ends with the start."""

import asyncio

import pytest

from postdate.api.waiting import WaitingApp
from postdate.http.listener import bind
from postdate.http.server import HttpServer


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/api/v1/jobs"])
async def test_each_answer_of_a_start_ends_its_connection(path: str) -> None:
    """Kept open, the connection was closed under the first request after the start."""
    listener = bind("127.0.0.1", 0)
    serving = asyncio.create_task(HttpServer(WaitingApp(lambda: "a test"), listener).run())
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    async with asyncio.timeout(5):
        head, _, _ = (await reader.read()).partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    writer.close()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
