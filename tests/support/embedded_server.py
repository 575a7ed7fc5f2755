"""Helpers of the tests that kill servers and put them back."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE

import asyncpg

from postdate.database.embedded import Embedded, Login
from postdate.database.embedded.probe import UNANSWERED

QUICK = {"shared_buffers": "16MB"}
LONG_WORK = "INSERT INTO load SELECT generate_series(1, 1000000000)"
RUN_AND_HANG = """
import asyncio, concurrent.futures.thread, os, sys
from pathlib import Path
from postdate.database.embedded import Embedded

if len(sys.argv) > 2:
    # Not by the parent: the interpreter itself may lie where that user cannot read it.
    os.setgroups([]), os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))

async def main():
    server = Embedded(Path(sys.argv[1]))
    await server.start()
    print("pid", server.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def query(dsn: str, text: str) -> object:
    connection = await asyncpg.connect(dsn, timeout=5)
    try:
        return await connection.fetchval(text)
    finally:
        await connection.close()


async def until(check: Callable[[], Awaitable[bool]], seconds: float = 15) -> float:
    """Wait until the check holds and say how long it took."""
    began = time.monotonic()
    while not await check():
        assert time.monotonic() - began < seconds, "waited too long"
        await asyncio.sleep(0.02)
    return time.monotonic() - began


async def serves(login: Login) -> bool:
    try:
        return await query(login.app_dsn(), "SELECT 1") == 1
    except UNANSWERED:
        return False


def mode(path: Path) -> int:
    return S_IMODE(path.lstat().st_mode)


async def orphaned(data_dir: Path, *uid: str) -> int:
    """Start a server in another process, kill that process, and give the postmaster's number."""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN_AND_HANG, str(data_dir), *uid, stdout=subprocess.PIPE, cwd="/"
    )
    assert parent.stdout is not None
    try:
        async with asyncio.timeout(20):
            while not (line := await parent.stdout.readline()).startswith(b"pid"):
                assert line, "it ended"
    finally:
        with suppress(ProcessLookupError):
            parent.kill()
        await parent.wait()
    return int(line.split()[1])


async def works(server: Embedded) -> bool:
    """Say whether the long work has begun to fill its table."""
    dsn = server.credentials.superuser_dsn("postdate")
    return bool(await query(dsn, "SELECT pg_relation_size('load') > 1000000"))


async def kill_and_wait(server: Embedded, login: Login) -> float:
    before = server.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)

    async def back() -> bool:
        return server.pid not in {None, before} and await serves(login)

    return await until(back)


def sleeper(uid: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], user=uid if os.geteuid() == 0 else None)


def names(folder: Path, part: str) -> list[str]:
    """List the entries whose name has this part."""
    return [entry.name for entry in folder.iterdir() if part in entry.name]
