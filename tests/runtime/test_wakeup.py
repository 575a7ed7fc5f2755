"""Hints between processes."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from conftest import admin, eventually
from postdate.database.connection.database import Database
from postdate.database.connection.query import query
from postdate.database.embedded import Embedded
from postdate.runtime import wakeup as wakeup_module
from postdate.runtime.wakeup import MAX_LANES, Wakeup


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


async def test_a_flood_is_not_listened_to(
    database: Database, other: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeup_module, "FLOODED_SECONDS", 0.2)
    monkeypatch.setattr(wakeup_module, "HEARD_PER_SECOND", 500)
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    watching = asyncio.create_task(watch())
    async with database.connection() as connection:
        channel = await connection.fetchval(query("wakeup_channel"))
        await connection.execute(
            "SELECT pg_notify($1, g::text) FROM generate_series(1, 50000) g", channel
        )

    async def heard_again() -> bool:
        # Begun anew, which wakes all.
        return None in other.heard

    await eventually(heard_again)
    watching.cancel()
    assert len(other.heard) <= 2 * MAX_LANES
    assert longest < 0.5

    async def heard() -> bool:
        # Nobody listens until the pause is over.
        other.wakeup.hint(21, 0.0)
        return other.heard[-1:] == [21]

    await eventually(heard)


@pytest.mark.parametrize(
    "text", ["", "*", "\u00b2", "-1", "1,,2", "9" * 7999, "1," * 3999, "1,x", "+1", "1_0", "\u0661"]
)
async def test_whatever_a_hint_says_it_wakes_all(database: Database, text: str) -> None:
    wakeup, heard = Wakeup(database), list[int | None]()
    wakeup.listeners.append(heard.append)
    assert not wakeup._on_notification(text)
    await asyncio.sleep(0)
    assert heard == [None]


async def test_hints_that_arrive_together_are_passed_on_together(database: Database) -> None:
    wakeup, heard = Wakeup(database), list[int | None]()
    wakeup.listeners.append(heard.append)
    for _ in range(3):
        wakeup._on_notification("7,8")
    await asyncio.sleep(0)
    assert sorted(filter(None, heard)) == [7, 8]
    heard.clear()
    for lane_id in range(MAX_LANES + 1):
        wakeup._on_notification(str(lane_id))
    await asyncio.sleep(0)
    assert heard == [None]
