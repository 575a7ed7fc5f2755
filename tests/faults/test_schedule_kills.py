"""Three expanders and a killer: every tick of a schedule fires exactly once."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest

from conftest import Api, Clock, eventually, owner_dsn
from postdate.database.connection.database import Connection
from postdate.database.connection.error import UnavailableError
from postdate.database.embedded import Embedded
from postdate.node import schedule as wiring
from postdate.schedule.change.occurrence import OccurrenceIntake
from postdate.schedule.spec.firing import Fired, Firing
from postdate.scheduler.expander import Expander
from postdate.words.error import Refusal
from support.schedule import create
from support.schedule_killer import BROKEN, patiently, until_done_expand, until_done_kill

TICKS = 1000
STRIDE = 25
KILLS_LEAST = 6


async def _handled(api: Api, schedule_id: str) -> datetime:
    while True:
        try:
            found: datetime = await api.node.database.writer.fetchval(
                "SELECT handled FROM schedule WHERE schedule_id = $1", schedule_id
            )
        except BROKEN:
            continue
        return found


async def _passed(api: Api, schedule_id: str, until: datetime) -> bool:
    return await _handled(api, schedule_id) >= until


async def test_a_thousand_ticks_of_three_nodes_with_kills(
    api: Api, clock: Clock, server: Embedded, database_name: str
) -> None:
    made = await create(api, every_seconds=1)
    schedule_id = made["schedule_id"]
    first = await _handled(api, schedule_id)
    admin = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    done = asyncio.Event()
    nodes = [Expander(api.node.database, wiring.occurrences(api.node)) for _ in range(3)]
    running = [asyncio.create_task(until_done_expand(node, done)) for node in nodes]
    kills: list[int] = []
    killing = asyncio.create_task(until_done_kill(admin, database_name, done, kills))
    turn = 0
    try:
        async with asyncio.timeout(100):
            # A quick machine is through with the ticks before there were kills to speak of.
            while turn * STRIDE < TICKS or len(kills) < KILLS_LEAST:
                turn += 1
                await patiently(partial(clock.set, turn * STRIDE))
                until = first + timedelta(seconds=turn * STRIDE)
                await eventually(partial(_passed, api, schedule_id, until), 50)
    finally:
        done.set()
        await asyncio.gather(*running)
        await killing
        await admin.close()
    await _check(server, database_name, schedule_id, first)
    assert (await api.call("DELETE", f"/schedules/{schedule_id}")).status == 204


async def _check(server: Embedded, name: str, schedule_id: str, first: datetime) -> None:
    owner = await asyncpg.connect(owner_dsn(server, name))
    await owner.execute("SET search_path = postdate")
    rows = await owner.fetch(
        "SELECT scheduled_for, status, subject FROM occurrence WHERE schedule_id = $1 ORDER BY 1",
        schedule_id,
    )
    jobs = await owner.fetch(
        "SELECT job_id, due_at FROM job WHERE schedule_id = $1 ORDER BY due_at", schedule_id
    )
    await owner.close()
    begin = first.replace(microsecond=0)
    ticks = [begin + timedelta(seconds=n) for n in range(1, len(rows) + 1)]
    assert len(rows) >= TICKS
    assert [row["scheduled_for"] for row in rows] == ticks
    assert {row["status"] for row in rows} == {"FIRED"}
    assert [job["due_at"] for job in jobs] == ticks
    assert {job["job_id"] for job in jobs} == {row["subject"] for row in rows}


class _Dying:
    """Makes the jobs, then dies before the book is written, the first few times."""

    def __init__(self, firings: OccurrenceIntake, deaths: int) -> None:
        self._firings = firings
        self.deaths = deaths

    async def fire(
        self, connection: Connection, firings: Sequence[Firing], now: datetime
    ) -> list[Fired | Refusal]:
        made = await self._firings.fire(connection, firings, now)
        if self.deaths:
            self.deaths -= 1
            raise UnavailableError("killed between the job and the book")
        return made

    async def cancel(self, connection: Connection, running: Any) -> None:
        await self._firings.cancel(connection, running)

    def announce(self, fired: Any) -> None:
        self._firings.announce(fired)


async def test_a_death_between_job_and_book_leaves_neither(api: Api, clock: Clock) -> None:
    made = await create(api, every_seconds=3600)
    await clock.advance(3600)
    dying = _Dying(wiring.occurrences(api.node), deaths=2)
    expander = Expander(api.node.database, dying)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await expander.run_once()
    assert await expander.run_once() == 1
    assert await expander.run_once() == 0
    jobs = await api.call("GET", f"/jobs?schedule_id={made['schedule_id']}")
    assert len(jobs.body["jobs"]) == 1
