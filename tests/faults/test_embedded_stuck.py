"""A held, slow or suspended postdate harms no PostgreSQL; one that is really stuck is replaced."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import aiohttp
import psutil
import pytest

from conftest import eventually, scratch
from postdate.database.embedded import Embedded, judge
from postdate.database.embedded.process import members
from support.embedded_server import query, serves, until
from support.serve_process import Served, postmaster_file

FEW_CHECKS = 3


@asynccontextmanager
async def watched(server: Embedded) -> AsyncIterator[int]:
    """Start and watch a server, and give the number of its postmaster."""
    await server.start()
    watch = asyncio.create_task(server.watch())
    try:
        assert server.pid is not None
        yield server.pid
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "SILENT_CHECKS", FEW_CHECKS)


def hold_interpreter(seconds: float) -> None:
    """Hold not only the loop: no other thread runs for long."""
    until_then = time.monotonic() + seconds
    while time.monotonic() < until_then:
        sum(range(100_000_000))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("hold", "seconds"),
    [
        (time.sleep, FEW_CHECKS + 2.0),
        pytest.param(time.sleep, 30.0, marks=pytest.mark.soak),
        pytest.param(hold_interpreter, 30.0, marks=pytest.mark.soak),
    ],
)
async def test_held_event_loop_restarts_no_server(
    own_server: Embedded, hold: Callable[[float], None], seconds: float
) -> None:
    async with watched(own_server) as pid:
        hold(seconds)
        assert own_server.pid == pid
        # What would have been decided meanwhile comes now.
        await until(partial(serves, own_server.credentials.login))
        await until(partial(serves, own_server.credentials.login))
        assert own_server.pid == pid


@pytest.mark.usefixtures("impatient")
async def test_suspended_postmaster_is_replaced(own_server: Embedded) -> None:
    async with watched(own_server) as pid:
        os.kill(pid, signal.SIGSTOP)

        async def replaced() -> bool:
            return own_server.pid not in {None, pid} and await serves(own_server.credentials.login)

        await until(replaced, 40)
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.usefixtures("impatient")
async def test_slow_statement_on_a_moving_server_costs_no_restart(own_server: Embedded) -> None:
    """The watchdog's own session hangs while others work."""
    async with watched(own_server) as pid:
        dsn = own_server.credentials.superuser_dsn()
        find = "SELECT pid FROM pg_stat_activity WHERE usename = 'postgres' AND query = 'SELECT 1'"

        async def beaten() -> bool:
            return bool(await query(dsn, find))

        await until(beaten)
        held = int(str(await query(dsn, find)))
        os.kill(held, signal.SIGSTOP)
        try:
            busy = "SELECT sum(i) FROM generate_series(1, 10000) i, pg_sleep(0.1)"
            until_then = time.monotonic() + FEW_CHECKS + 3
            while time.monotonic() < until_then:
                await query(dsn, busy)
            assert own_server.pid == pid
        finally:
            os.kill(held, signal.SIGCONT)
            os.kill(held, signal.SIGTERM)


async def crashed(served: Served) -> None:
    """Start a server and kill it with its PostgreSQL, which then has to recover."""
    process = await served.start()
    await served.ready()
    postmaster = int(postmaster_file(served.directory).read_text().splitlines()[0])
    os.killpg(process.pid, signal.SIGKILL)
    os.killpg(postmaster, signal.SIGKILL)
    await process.communicate()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    with scratch() as directory:
        one = Served(directory / "data")
        yield one
        if one.process and one.process.returncode is None:
            await one.stop()


async def wait_suspended(pid: int, seconds: float) -> None:
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("seconds", [4.0, pytest.param(20.0, marks=pytest.mark.soak)])
async def test_postdate_suspended_after_the_launch_comes_up(served: Served, seconds: float) -> None:
    await crashed(served)
    process = await served.start()

    async def launched() -> bool:
        return bool(members(served.directory / "cluster"))

    await eventually(launched, 30, 0.01)
    await wait_suspended(process.pid, seconds)
    await served.ready()
    assert "postgres_stuck" not in served.log.read_text()


async def test_start_that_takes_long_says_so_and_can_be_stopped(served: Served) -> None:
    """Its recovery asks an archive that does not answer."""
    await crashed(served)
    cluster = postmaster_file(served.directory).parent
    with (cluster / "postgresql.conf").open("a") as file:
        file.write("restore_command = 'sleep 3; exit 1'\n")
    (cluster / "recovery.signal").touch()
    process = await served.start()

    async def says_why() -> bool:
        try:
            status, answer = await asyncio.wait_for(served.get("/readyz"), 5)
        except (TimeoutError, aiohttp.ClientError):
            return False
        assert isinstance(answer, dict)
        return status == 503 and "waiting for" in answer["reasons"][0]["reason"]

    await eventually(says_why, 30)
    assert (await served.get("/healthz"))[0] == 200
    status, refusal = await served.get("/api/v1/payments")
    assert isinstance(refusal, dict)
    assert (status, refusal["code"]) == (503, "unavailable")
    assert await asyncio.wait_for(served.stop(), 20) == 0
    assert process.returncode == 0
    assert members(cluster) == []
