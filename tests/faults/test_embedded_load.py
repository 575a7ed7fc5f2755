"""Starts that take long: a machine with far too much to do, and a long log to replay."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import asyncpg
import pytest

from conftest import scratch
from postdate.database.embedded import Embedded
from support.embedded_server import orphaned, query
from support.serve_process import Served, postmaster_file

pytestmark = pytest.mark.soak

LOAD = 40
LOAD_SECONDS = int(os.environ.get("POSTDATE_TEST_LOAD_SECONDS", "3600"))
ROUNDS = 30
SERVED_ROUNDS = int(os.environ.get("POSTDATE_TEST_SERVED_ROUNDS", str(ROUNDS)))
READY_SECONDS = 300.0
BUSY = f"import time\nend = time.monotonic() + {LOAD_SECONDS}\nwhile time.monotonic() < end: pass"
WAL_BYTES = 2 * 1024**3
FILL = "INSERT INTO load SELECT n, repeat(md5(n::text), 40) FROM generate_series(1, 150000) n"


@contextmanager
def busy_machine() -> Iterator[None]:
    """Run as many loops as make the load, each of which ends by itself in any case."""
    with ExitStack() as running:
        command = [sys.executable, "-S", "-c", BUSY]
        loops = [subprocess.Popen(command, start_new_session=True) for _ in range(LOAD)]
        for loop in loops:
            running.callback(loop.wait)
            running.callback(loop.kill)
        yield
        assert all(loop.poll() is None for loop in loops), "the load ended before the test"


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    with scratch() as directory:
        one = Served(directory / "data")
        await one.start()
        await one.ready()
        yield one
        await one.stop()


async def test_a_killed_postgresql_recovers_each_time_at_a_load_of_40(
    data_dir: Path,
) -> None:
    with busy_machine():
        for number in range(ROUNDS):
            server, began = Embedded(data_dir), time.monotonic()
            login = await server.start()
            print(f"recovered after {time.monotonic() - began:.1f} s", flush=True)
            await query(login.owner_dsn(), f"CREATE TABLE round_{number} AS SELECT 1 AS n")
            assert server.pid is not None
            os.killpg(server.pid, signal.SIGKILL)
            await server.stop()
    server = Embedded(data_dir)
    login = await server.start()
    count = "SELECT count(*) FROM pg_class WHERE relname LIKE 'round_%'"
    assert await query(login.owner_dsn(), count) == ROUNDS
    await server.stop()
    assert "immediate shutdown" not in (data_dir / "postgres.log").read_text()


async def test_server_of_a_killed_parent_is_adopted_at_a_load_of_40(data_dir: Path) -> None:
    pid = await orphaned(data_dir)
    server = Embedded(data_dir)
    with busy_machine():
        began = time.monotonic()
        await server.start()
        print(f"adopted after {time.monotonic() - began:.1f} s", flush=True)
        assert server.pid == pid
    await server.stop()


async def test_killed_with_everything_it_serves_again_at_a_load_of_40(served: Served) -> None:
    with busy_machine():
        for _ in range(SERVED_ROUNDS):
            assert served.process
            group = int(postmaster_file(served.directory).read_text().split()[0])
            os.killpg(served.process.pid, signal.SIGKILL)
            os.killpg(group, signal.SIGKILL)
            await served.process.communicate()
            await served.start()
            took = await served.ready(READY_SECONDS)
            print(f"serving after {took:.1f} s", flush=True)
    assert "immediate shutdown" not in (served.directory / "postgres.log").read_text()


@pytest.fixture
async def lazy_server(data_dir: Path) -> AsyncIterator[Embedded]:
    """A server that makes no checkpoint by itself."""
    settings = {"max_wal_size": "20GB", "checkpoint_timeout": "1d", "shared_buffers": "64MB"}
    server = Embedded(data_dir, settings=settings)
    yield server
    await server.stop()


async def test_long_log_is_replayed_to_its_end(lazy_server: Embedded, data_dir: Path) -> None:
    login = await lazy_server.start()
    connection = await asyncpg.connect(login.owner_dsn())
    await connection.execute("CREATE TABLE load (n bigint, words text)")
    size, position = 0, "SELECT (pg_current_wal_lsn() - '0/0')::bigint"
    began = await connection.fetchval(position)
    while size < WAL_BYTES:
        await connection.execute("TRUNCATE load")
        await connection.execute(FILL, timeout=120)
        size = await connection.fetchval(position) - began
    connection.terminate()
    assert lazy_server.pid is not None
    os.killpg(lazy_server.pid, signal.SIGKILL)
    await lazy_server.stop()
    again = time.monotonic()
    await lazy_server.start()
    print(f"{size / 1e9:.2f} GB of WAL replayed in {time.monotonic() - again:.1f} s")
    assert await query(login.owner_dsn(), "SELECT count(*) FROM load") == 150_000
    said = (data_dir / "postgres.log").read_text()
    assert "immediate shutdown" not in said
    assert "redo done" in said
