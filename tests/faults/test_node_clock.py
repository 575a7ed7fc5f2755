"""A node whose own clock is a day wrong starts nothing early and nothing late."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from conftest import app_dsn, eventually
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from support.worker import add_jobs, make_lane

PROGRAM = Path(__file__).parents[1] / "support/worker_process.py"
LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
DELAY_SECONDS = 2.0
LATE_SECONDS = 5.0

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not here (Debian: faketime)"),
]


@pytest.mark.parametrize("wrong", ["+1d", "-1d"])
async def test_a_worker_with_a_wrong_clock_keeps_to_the_databases(
    server: Embedded, database_name: str, database: Database, tenant_id: int, tmp_path: Path,
    wrong: str,
) -> None:  # fmt: skip
    log = tmp_path / "log"
    arguments = ["--dsn", app_dsn(server, database_name), "--log", str(log)]
    wrong_clock = {"LD_PRELOAD": str(LIBRARY), "FAKETIME": wrong, "DONT_FAKE_MONOTONIC": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), *arguments, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **wrong_clock},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"ready\n"
        lane = await make_lane(database, tenant_id)
        asked = time.monotonic()
        await add_jobs(database, lane, 10, in_seconds=[DELAY_SECONDS])
        accepted = time.monotonic()

        async def all_started() -> bool:
            return log.exists() and log.read_text().count("start ") == 10

        await eventually(all_started, 60)
    finally:
        process.terminate()
        await process.communicate()
    started = [float(line.split()[3]) for line in log.read_text().splitlines() if "start" in line]
    assert min(started) >= asked + DELAY_SECONDS, "early"
    assert max(started) <= accepted + DELAY_SECONDS + LATE_SECONDS, "late"
