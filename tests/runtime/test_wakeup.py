"""Hints between processes."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from conftest import admin, eventually
from postdate.runtime.wakeup import MAX_LANES, Wakeup
from postdate.store.connection.database import Database
from postdate.store.embedded import Embedded


class Listening:
    """A process that listens and notes what it hears."""

    def __init__(self, database: Database) -> None:
        self.wakeup = Wakeup(database)
        self.heard: list[int | None] = []
        self.wakeup.listeners.append(self.heard.append)
        self.running = asyncio.create_task(self.wakeup.run())


@pytest.fixture
async def other(database: Database) -> AsyncIterator[Listening]:
    process = Listening(database)

    async def listens() -> bool:
        return bool(process.heard)

    await eventually(listens)
    process.heard.clear()
    yield process
    process.running.cancel()
    await asyncio.gather(process.running, return_exceptions=True)


async def test_what_is_soon_is_told_to_other_processes(
    database: Database, other: Listening
) -> None:
    wakeup = Wakeup(database)
    wakeup.hint(17, 0.0)
    wakeup.hint(18, 0.5)
    wakeup.hint(19, 3600.0)
    assert await wakeup.send() == 2
    assert await wakeup.send() == 0

    async def both() -> bool:
        return other.heard == [17, 18]

    await eventually(both)


async def test_a_burst_is_one_notification(database: Database, other: Listening) -> None:
    wakeup = Wakeup(database)
    for lane_id in range(MAX_LANES + 1):
        wakeup.hint(lane_id, 0.0)
    await wakeup.send()

    async def once() -> bool:
        return other.heard == [None]

    await eventually(once)


async def test_a_process_hears_again_after_its_connection_broke(
    server: Embedded, database_name: str, other: Listening
) -> None:
    await admin(
        server,
        """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE query LIKE 'LISTEN%' AND datname = current_database()""",
        database_name,
    )

    async def again() -> bool:
        return None in other.heard

    await eventually(again)
    other.heard.clear()
    other.wakeup.hint(21, 0.0)

    async def heard() -> bool:
        return 21 in other.heard

    await eventually(heard)
