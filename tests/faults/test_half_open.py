"""A node whose connections fall silent, unclosed, in a transaction that holds locks."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from conftest import app_dsn, eventually
from faults import sweep
from faults.pg_proxy import Fault, Plan
from faults.sweep import Nodes, Operation, Sweep
from faults.sweep_jobs import Claim, Permit, WorkerOperation
from faults.sweep_money import AcceptPayment, CancelPayment, MoneyOperation, Settle
from postdate.database.connection import database, opening, writer
from postdate.database.connection.database import ANSWER_SECONDS, TRANSACTION_SECONDS
from postdate.database.connection.error import TransientError
from postdate.database.connection.session import keep_alive
from postdate.database.connection.writer import ACQUIRE_SECONDS
from postdate.database.embedded import Embedded
from support.bank import settler

OTHERS_SECONDS = 15.0
"""By when another node has done what the silent one held, with the time-outs as they are."""

SILENT_SECONDS = TRANSACTION_SECONDS + 2 * ANSWER_SECONDS + 2 * ACQUIRE_SECONDS
"""By when the silent node has given up its transaction, and the next, and says so."""

OPERATIONS = [Settle, Claim, Permit]


@pytest.fixture
async def nodes(server: Embedded, database_name: str) -> AsyncIterator[Nodes]:
    async with sweep.nodes(server, app_dsn(server, database_name)) as opened:
        yield opened


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten every time-out by which silence is noticed, so that the test need not wait."""
    writing = opening.WRITER_SETTINGS | {"idle_in_transaction_session_timeout": "1s"}
    monkeypatch.setattr(opening, "WRITER_SETTINGS", writing)
    monkeypatch.setattr(opening, "TRANSACTION_SECONDS", 2)
    for module in (opening, database):
        for name in ("ANSWER_SECONDS", "ACQUIRE_SECONDS", "CONNECT_SECONDS"):
            monkeypatch.setattr(module, name, 1)


def other_node(operation: Operation) -> Callable[[], Awaitable[bool]]:
    """Give a step of the other node, which says whether all is done."""

    async def settled() -> bool:
        assert isinstance(operation, MoneyOperation)
        await settler(operation.nodes.direct).run_once()
        return await operation.count("outcome") == 4

    async def worked() -> bool:
        assert isinstance(operation, WorkerOperation)
        await operation._step(operation.second)
        return not await operation._open_jobs(operation.jobs)

    return settled if isinstance(operation, MoneyOperation) else worked


async def go_on_in_silence(nodes: Nodes, make: type[Operation], most: float) -> None:
    """Let a node fall silent at its first commit; the other goes on, and it recovers itself."""
    position = (await Sweep(nodes, make).statements()).index("COMMIT")
    operation = make(nodes)
    await operation.prepare()
    proxy = nodes.proxy
    began = time.monotonic()
    plan = proxy.arm(Plan(Fault.DELAY, position, meanwhile=proxy.fall_silent))
    acting = asyncio.create_task(operation.act())
    await eventually(lambda: _hit(plan))
    await eventually(other_node(operation), most, 0.05)
    others = time.monotonic() - began
    await asyncio.wait([acting], timeout=SILENT_SECONDS)
    assert acting.done(), "the silent node still waits for an answer"
    error = acting.exception()
    assert error is None or isinstance(error, TransientError), error
    silent = time.monotonic() - began
    proxy.speak_again()
    await operation.finish()
    if isinstance(operation, WorkerOperation):
        # What it was not sure of goes back by itself, when its connections are new.
        await asyncio.wait_for(operation.first.runner.wait_idle(), SILENT_SECONDS)
    recovered = time.monotonic() - began
    assert await operation.violations() == []
    print(
        f"{make.name}: the other went on after {others:.1f} s; the silent one gave up after "
        f"{silent:.1f} s and was well after {recovered:.1f} s"
    )


async def _hit(plan: Plan) -> bool:
    return plan.hits > 0


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("make", [Settle, Claim], ids=lambda each: each.name)
async def test_others_go_on_when_a_node_falls_silent(
    server: Embedded, database_name: str, make: type[Operation]
) -> None:
    async with sweep.nodes(server, app_dsn(server, database_name)) as nodes:
        await go_on_in_silence(nodes, make, OTHERS_SECONDS)


@pytest.mark.usefixtures("quick")
async def test_a_silent_connection_is_broken_off_and_not_asked_to_be_given_back(
    server: Embedded, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking waits for an answer, for a new connection, and for nothing in between."""
    monkeypatch.setattr(database, "ACQUIRE_SECONDS", 4)
    async with sweep.nodes(server, app_dsn(server, database_name)) as nodes:
        async with nodes.proxied.look_up():
            pass
        await nodes.proxy.fall_silent()
        began = time.monotonic()
        with pytest.raises(TransientError):
            async with nodes.proxied.look_up():
                pass
        assert time.monotonic() - began < 4.5
        nodes.proxy.speak_again()


@pytest.mark.parametrize("make", [AcceptPayment, CancelPayment], ids=lambda each: each.name)
async def test_who_writes_gives_a_silent_connection_up_long_before_a_statement_may_end(
    server: Embedded, database_name: str, monkeypatch: pytest.MonkeyPatch, make: type[Operation]
) -> None:
    for name in ("BEGIN_SECONDS", "ACQUIRE_SECONDS"):
        monkeypatch.setattr(writer, name, 1)
    async with sweep.nodes(server, app_dsn(server, database_name)) as nodes:
        operation = make(nodes)
        await operation.prepare()
        async with nodes.proxied.connection():
            pass
        await nodes.proxy.fall_silent()
        async with asyncio.timeout(TRANSACTION_SECONDS):
            with pytest.raises(TransientError):
                await operation.act()
        nodes.proxy.speak_again()
        await operation.finish()
        assert await operation.violations() == []


@pytest.mark.soak
@pytest.mark.parametrize("make", OPERATIONS, ids=lambda each: each.name)
async def test_others_go_on_within_seconds_when_a_node_falls_silent(
    nodes: Nodes, make: type[Operation]
) -> None:
    await go_on_in_silence(nodes, make, OTHERS_SECONDS)


async def test_a_socket_to_the_server_notices_a_machine_that_is_gone() -> None:
    listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        transport, _ = await asyncio.get_running_loop().create_connection(
            asyncio.Protocol, "127.0.0.1", port
        )
        keep_alive(transport)
        held = transport.get_extra_info("socket")
        assert held.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle = held.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        each = held.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
        count = held.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        assert idle + each * count <= OTHERS_SECONDS
        assert held.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 12_000
        transport.abort()


async def test_every_connection_of_the_pools_keeps_alive(
    server: Embedded, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[object] = []
    monkeypatch.setattr("postdate.database.connection.session.keep_alive", kept.append)
    opened = await opening.connect(app_dsn(server, database_name), writers=2, readers=2)
    try:
        async with opened.connection(), opened.connection():
            assert len(kept) == 3  # two that write, one that reads
        with pytest.raises(TimeoutError):
            async with opened.connection(), opened.connection(), opened.connection(0.05):
                pass
    finally:
        await opened.close()
