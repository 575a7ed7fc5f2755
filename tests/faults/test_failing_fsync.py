"""The disk refuses to confirm: nothing unsaved is acknowledged, and the watchdog gets out of it."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import pytest

from postdate.database.embedded import Embedded
from postdate.database.embedded.probe import UNANSWERED
from support.embedded_server import query, until
from support.pause import wait_out

SOURCE = Path(__file__).with_name("failing_fsync.c")
LEFT_SECONDS = 15.0
"""Within how long the watchdog must leave a recovery that does not get on."""

SERVING_SECONDS = 40.0
"""Within how long after the disk is well again it must serve; a busy machine recovers slowly."""

BROKEN_SECONDS = 4.0
REFUSED = (*UNANSWERED, asyncpg.PostgresError)

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is here (Debian: gcc)"),
]


class Disk:
    """The two files that make it fail or hang."""

    def __init__(self, directory: Path) -> None:
        self.fails = directory / "fails"
        self.hangs = directory / "hangs"


@pytest.fixture
def disk(empty_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Build the library that comes between PostgreSQL and its disk."""
    library = empty_dir / "failing_fsync.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    library.chmod(0o755)
    found = Disk(empty_dir)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("FSYNC_FAILS", str(found.fails))
    monkeypatch.setenv("FSYNC_HANGS", str(found.hangs))
    yield found
    for flag in (found.fails, found.hangs):
        flag.unlink(missing_ok=True)


@asynccontextmanager
async def watched(server: Embedded) -> AsyncIterator[str]:
    """Run a server with its watchdog and one table; give its address."""
    await server.start()
    watching = asyncio.create_task(server.watch())
    dsn = server.credentials.superuser_dsn("postgres")
    await query(dsn, "CREATE TABLE kept (number integer)")
    try:
        yield dsn
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def insert(dsn: str, number: int) -> bool:
    """Insert a row; say whether it was acknowledged."""
    try:
        await asyncio.wait_for(query(dsn, f"INSERT INTO kept VALUES ({number})"), 2)
    except REFUSED:
        return False
    return True


async def insert_for(dsn: str, seconds: float, numbers: Iterator[int]) -> list[int]:
    """Insert rows one after the other, and return those that were acknowledged."""
    end, acknowledged = time.monotonic() + seconds, []
    while time.monotonic() < end:
        number = next(numbers)
        if await insert(dsn, number):
            acknowledged.append(number)
        else:
            await wait_out(0.05)
    return acknowledged


async def serving_after(dsn: str, numbers: Iterator[int]) -> float:
    """Wait until a row is acknowledged again; say how long that took."""

    async def serves() -> bool:
        return await insert(dsn, next(numbers))

    return await until(serves, 60)


async def stored(dsn: str) -> set[int]:
    connection = await asyncpg.connect(dsn)
    try:
        return {row[0] for row in await connection.fetch("SELECT number FROM kept")}
    finally:
        await connection.close()


async def test_nothing_is_acknowledged_that_fsync_refused(own_server: Embedded, disk: Disk) -> None:
    numbers = iter(range(10**6))
    async with watched(own_server) as dsn:
        kept = await insert_for(dsn, 0.5, numbers)
        assert kept
        disk.fails.touch()
        assert await insert_for(dsn, BROKEN_SECONDS, numbers) == []
        disk.fails.unlink()
        seconds = await serving_after(dsn, numbers)
        kept += await insert_for(dsn, 0.5, numbers)
        assert set(kept) <= await stored(dsn)
    print(f"serving {seconds:.1f} s after fsync worked again")
    assert seconds <= SERVING_SECONDS


async def test_fsync_errors_during_recovery_are_left_behind(
    own_server: Embedded, disk: Disk
) -> None:
    numbers = iter(range(10**6))
    async with watched(own_server) as dsn:
        kept = await insert_for(dsn, 0.5, numbers)
        disk.fails.touch()
        kill(own_server)
        assert await insert_for(dsn, BROKEN_SECONDS, numbers) == []
        disk.fails.unlink()
        seconds = await serving_after(dsn, numbers)
        assert set(kept) <= await stored(dsn)
    print(f"serving {seconds:.1f} s after fsync worked again")
    assert seconds <= SERVING_SECONDS


async def test_a_recovery_that_hangs_for_ever_is_left_by_an_immediate_stop(
    own_server: Embedded, disk: Disk
) -> None:
    numbers = iter(range(10**6))
    async with watched(own_server) as dsn:
        kept = await insert_for(dsn, 0.5, numbers)
        disk.hangs.touch()
        stuck = own_server.pid
        kill_a_backend(own_server)
        await wait_out(1)
        disk.hangs.unlink()

        async def another() -> bool:
            return own_server.pid not in {None, stuck}

        seconds = 1 + await until(another, 60)
        serving = seconds + await serving_after(dsn, numbers)
        assert set(kept) <= await stored(dsn)
    print(f"stopped and started again after {seconds:.1f} s, serving after {serving:.1f} s")
    assert seconds <= LEFT_SECONDS


def kill(server: Embedded) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)


def kill_a_backend(server: Embedded) -> None:
    """Kill a process of the server: the postmaster lives on, and recovers."""
    path = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    with suppress(ProcessLookupError):
        os.kill(int(path.read_text().split()[0]), signal.SIGKILL)
