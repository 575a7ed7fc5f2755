"""The server around the shell: its port, its signals, its drain, its streams."""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from postdate.http.deadline import Deadline
from postdate.http.endpoint import Call, Reply
from postdate.http.listener import bind
from postdate.http.server import ServerLimits
from postdate.words.error import StartError
from support.log import capture_logs
from support.raw_http import Running, make_app, read_answer, serving, until
from support.sample_app import endpoint


class Latch:
    """Handlers that a test opens when it wants, and what became of them."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.ended: list[str] = []

    async def wait(self, _: Call[Any, None, None]) -> Reply:
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.ended.append("cut off")
            raise
        self.ended.append("done")
        return Reply(b"{}")

    async def poll(self, call: Call[Any, None, None]) -> Reply:
        await call.draining.wait()
        return Reply(b'{"leases":[]}')

    async def watch(self, call: Call[Any, None, None]) -> Reply:
        await call.disconnected()
        self.ended.append("client gone")
        return Reply()

    async def tick(self, _: Call[Any, None, None]) -> Reply:
        async def chunks() -> AsyncIterator[bytes]:
            try:
                yield b"data: tick\n\n"
                await self.open.wait()
            finally:
                self.ended.append("stream closed")

        return Reply(chunks(), headers={"Content-Type": "text/event-stream"})

    async def break_off(self, _: Call[Any, None, None]) -> Reply:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"half"
            raise RuntimeError("broken stream")

        return Reply(chunks())

    def app(self) -> Any:
        handlers = (self.wait, self.poll, self.watch, self.tick, self.break_off)
        return make_app(
            [
                endpoint("GET", f"/{handler.__name__}", handler, scope=None, returns=None)
                for handler in handlers
            ]
        )


async def connect(running: Running, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request on a connection that stays open, and see it being served."""
    before = len(running.app.active)
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(f"GET /api/v1{path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    await until(lambda: len(running.app.active) == before + 1)
    return reader, writer


async def test_a_request_in_flight_finishes_while_new_ones_are_refused() -> None:
    latch = Latch()
    async with serving(latch.app()) as running:
        reader, writer = await connect(running, "/wait")
        running.server.stop()
        await until_refused(running)
        assert not running.task.done()
        latch.open.set()
        assert (await read_answer(reader)).status == 200
        await asyncio.wait_for(running.task, 5)
        writer.close()
    assert latch.ended == ["done"]


async def until_refused(running: Running) -> None:
    async with asyncio.timeout(5):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", running.port)
            except ConnectionRefusedError:
                return
            writer.close()
            await asyncio.sleep(0.005)


async def test_the_drain_is_bounded() -> None:
    latch = Latch()
    with capture_logs() as logs:
        async with serving(latch.app(), ServerLimits(drain_seconds=0.1)) as running:
            _, writer = await connect(running, "/wait")
            running.server.stop()
            await asyncio.wait_for(running.task, 5)
            writer.close()
    assert latch.ended == ["cut off"]
    assert [entry["count"] for entry in logs if entry["event"] == "requests cut off"] == [1]


async def test_a_request_whose_client_has_gone_is_waited_for_too() -> None:
    latch = Latch()
    async with serving(latch.app()) as running:
        _, writer = await connect(running, "/wait")
        writer.close()
        running.server.stop()
        await until_refused(running)
        latch.open.set()
        await asyncio.wait_for(running.task, 5)
    assert latch.ended == ["done"]


async def test_a_long_poll_ends_when_the_server_drains() -> None:
    async with serving(Latch().app()) as running:
        reader, writer = await connect(running, "/poll")
        running.server.stop()
        assert (await read_answer(reader)).json == {"leases": []}
        await asyncio.wait_for(running.task, 5)
        writer.close()


async def test_readiness_says_draining_during_the_grace() -> None:
    async with serving(Latch().app(), ServerLimits(grace_seconds=0.5)) as running:
        assert (await running.ask("GET", "/readyz")).status == 200
        running.server.stop()
        answer = await running.ask("GET", "/readyz")
        assert answer.status == 503
        stops = ["reads", "writes"]
        draining = {"name": "server", "reason": "draining", "stops": stops}
        assert answer.json["reasons"] == [draining]
        assert (await running.ask("GET", "/healthz")).status == 200


async def test_the_server_leaves_the_signal_handlers_alone() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    async with serving(Latch().app()) as running:
        await running.ask("GET", "/healthz")
        assert before == [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]


async def test_a_taken_port_is_told_in_one_sentence() -> None:
    async with serving(Latch().app()) as running:
        sentence = f"port {running.port} on 127.0.0.1 is taken: .*POSTDATE_PORT"
        with pytest.raises(StartError, match=sentence):
            bind("127.0.0.1", running.port)
    bind("127.0.0.1", running.port).close()


def test_a_foreign_address_is_told_in_one_sentence() -> None:
    with pytest.raises(StartError, match="POSTDATE_HOST"):
        bind("192.0.2.1", 0)
    with pytest.raises(StartError, match="POSTDATE_HOST"):
        bind("no.such.host.invalid", 0)


async def test_a_handler_sees_its_client_go() -> None:
    latch = Latch()
    async with serving(latch.app()) as running:
        _, writer = await connect(running, "/watch")
        writer.close()
        await until(lambda: latch.ended == ["client gone"])


async def test_a_handler_sees_its_client_go_though_another_request_waits() -> None:
    latch = Latch()
    async with serving(latch.app()) as running:
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
        head = " HTTP/1.1\r\nhost: x\r\n\r\n"
        writer.write(f"GET /api/v1/watch{head}GET /healthz{head}".encode())
        await until(lambda: len(running.app.active) == 1)
        writer.close()
        await until(lambda: latch.ended == ["client gone"])


async def test_a_stream_ends_with_its_client() -> None:
    latch = Latch()
    async with serving(latch.app()) as running:
        reader, writer = await connect(running, "/tick")
        assert b"200 OK" in await reader.readline()
        writer.close()
        await until(lambda: latch.ended == ["stream closed"])


async def test_a_broken_stream_is_logged_and_visibly_cut() -> None:
    with capture_logs() as logs:
        async with serving(Latch().app()) as running:
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(b"GET /api/v1/break_off HTTP/1.1\r\nhost: x\r\n\r\n")
            received = await asyncio.wait_for(reader.read(), 5)
            writer.close()
    assert received.endswith(b"half\r\n")
    assert [e["event"] for e in logs if e["log_level"] == "error"] == ["answer broken off"]


async def test_a_deadline_is_a_timeout_only_when_it_fired() -> None:
    with pytest.raises(TimeoutError), Deadline(0.01):
        await asyncio.Event().wait()
    with Deadline(5) as deadline:
        await asyncio.sleep(0)
    assert not deadline.expired


async def test_a_deadline_lets_a_foreign_cancellation_pass() -> None:
    async def guarded() -> None:
        with Deadline(5):
            await asyncio.Event().wait()

    running = asyncio.create_task(guarded())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
