"""What a server asks its database for while nothing happens, and how soon it is ready."""

import asyncio
import re
import time
from pathlib import Path
from typing import Final

import asyncpg

from postdate.database.embedded import credentials, data_paths
from postdate_lab.bench.server_process import serving, serving_alone
from postdate_lab.bench.testbed import Measure, Testbed, at_most, plain

SETTLING_SECONDS: Final = 10
IDLE_SECONDS: Final = 30
MAX_STATEMENTS: Final = 5
MAX_READY_SECONDS: Final = 1.2
STARTS: Final = 3

_STATEMENT: Final = re.compile(rb" LOG:  (?:statement|execute [^:]*): ")
_WATCH: Final = (
    "ALTER SYSTEM SET log_statement = 'all'",
    "ALTER SYSTEM SET autovacuum = off",
    "SELECT pg_reload_conf()",
)


async def idle(at: Testbed, part: float) -> list[Measure]:
    """Start a server on a migrated database, then one with its own, and let that one idle.

    `part` shortens the waiting: 1 is the whole of it.
    """
    ready = [await _ready(at) for _ in range(STARTS if part >= 1 else 1)]
    data_dir = at.home / "alone"
    async with serving_alone(data_dir):
        pass  # makes the cluster
    async with serving_alone(data_dir) as served:
        counted = await _statements(data_dir, part)
    return [
        at_most("idle", "ready after a warm start", sorted(ready)[len(ready) // 2],
                MAX_READY_SECONDS, "s"),
        plain("idle", "the same with a PostgreSQL of its own", served.ready_seconds, "s"),
        at_most("idle", "statements of all roles", counted, MAX_STATEMENTS, "1/s"),
    ]  # fmt: skip


async def _ready(at: Testbed) -> float:
    async with serving(at) as served:
        return served.ready_seconds


async def _statements(data_dir: Path, part: float) -> float:
    """Count the statements in the log of the server, those that begin and commit included."""
    known = credentials.read(data_dir)
    if known is None:
        raise RuntimeError(f"{data_dir} has no server")
    connection = await asyncpg.connect(known.superuser_dsn())
    try:
        for statement in _WATCH:
            await connection.execute(statement)
    finally:
        await connection.close()
    log = data_dir / known.home / data_paths.LOG
    await asyncio.sleep(SETTLING_SECONDS * part)
    first, began = log.stat().st_size, time.monotonic()
    await asyncio.sleep(IDLE_SECONDS * part)
    seconds = time.monotonic() - began
    return len(_STATEMENT.findall(log.read_bytes()[first:])) / seconds
