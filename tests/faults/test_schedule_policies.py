"""Every misfire policy with every overlap policy, with kills, against an oracle of the book."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from typing import Any

import asyncpg
import pytest

from conftest import Api, Clock, eventually
from postdate.database.connection.database import Connection
from postdate.database.connection.error import UnavailableError
from postdate.database.embedded import Embedded
from postdate.node import schedule as wiring
from postdate.schedule.change.occurrence import OccurrenceIntake
from postdate.schedule.spec.firing import Fired, Firing
from postdate.scheduler.expander import Expander
from postdate.words.error import Refusal
from support.schedule import create
from support.schedule_book_oracle import BookOracle
from support.schedule_killer import SPARED, patiently, until_done_expand, until_done_kill

MISFIRES = ("fire_once", "fire_all", "skip")
OVERLAPS = ("allow", "skip", "buffer_one", "cancel_running")
ROUNDS = ((1, False), (6, False), (2, True), (4, True))
"""How many minutes each round brings, and whether all open jobs are ended before it."""

INTO_THE_MINUTE = timedelta(seconds=20)
LATE_AFTER = 75
"""The last minute of a round is 20 s old, and in time; the one before it is 80 s old, and late."""

DEATHS = 0.15
MINUTE = timedelta(minutes=1)


class _Mortal(OccurrenceIntake):
    """Dies now and then after the jobs were made, or after others were cancelled for them."""

    draw: random.Random

    async def fire(
        self, connection: Connection, firings: Sequence[Firing], now: datetime
    ) -> list[Fired | Refusal]:
        made = await super().fire(connection, firings, now)
        self._maybe_die()
        return made

    async def cancel(self, connection: Connection, running: Any) -> None:
        await super().cancel(connection, running)
        if running:
            self._maybe_die()

    def _maybe_die(self) -> None:
        if self.draw.random() < DEATHS:
            raise UnavailableError("killed before the commit")


@dataclass
class BookedSchedules:
    """Twelve schedules, what their books must say, and a connection that nobody kills."""

    api: Api
    clock: Clock
    watch: asyncpg.Connection
    oracles: dict[str, BookOracle]

    async def now(self) -> datetime:
        found: datetime = await self.watch.fetchval("SELECT clock()")
        return found

    async def open_jobs(self) -> dict[str, int]:
        rows = await self.watch.fetch(
            "SELECT j.schedule_id::text, count(*) FROM job j"
            "  JOIN timer t ON t.bucket = j.bucket AND t.subject = j.job_id"
            " WHERE j.schedule_id = ANY ($1::uuid[]) GROUP BY 1",
            list(self.oracles),
        )
        return {row[0]: row[1] for row in rows}

    async def lonely(self) -> None:
        """Check that no schedule which keeps its runs apart has two jobs open, at any moment."""
        for schedule_id, many in (await self.open_jobs()).items():
            oracle = self.oracles[schedule_id]
            assert many == 1 or oracle.overlap == "allow", (oracle.misfire, oracle.overlap, many)

    async def settled(self, last: datetime) -> bool:
        await self.lonely()
        behind: int = await self.watch.fetchval(
            "SELECT count(*) FROM schedule WHERE schedule_id = ANY ($1::uuid[]) AND handled < $2",
            list(self.oracles),
            last,
        )
        return not behind

    async def released(self) -> bool:
        """Say whether what waited for open jobs has run."""
        await self.lonely()
        waiting: int = await self.watch.fetchval(
            "SELECT count(*) FROM schedule"
            " WHERE schedule_id = ANY ($1::uuid[]) AND buffered_for IS NOT NULL",
            list(self.oracles),
        )
        return not waiting

    async def end_open_jobs(self) -> None:
        jobs = await self.watch.fetch(
            "SELECT j.job_id::text FROM job j"
            "  JOIN timer t ON t.bucket = j.bucket AND t.subject = j.job_id"
            " WHERE j.schedule_id = ANY ($1::uuid[])",
            list(self.oracles),
        )
        for row in jobs:
            await eventually(partial(self._cancelled, row[0]))
        await eventually(self.released, 30)
        for oracle in self.oracles.values():
            oracle.end_open_jobs()

    async def _cancelled(self, job_id: str) -> bool:
        return (await self.api.call("POST", f"/jobs/{job_id}/cancel")).status in {200, 409}

    async def round(self, minutes: int) -> None:
        """Let some minutes pass unseen, then wait until all of them are in the books."""
        now = await self.now()
        begin = now.replace(second=0, microsecond=0)
        until = begin + minutes * MINUTE + INTO_THE_MINUTE
        await patiently(partial(self.clock.set, self.clock.seconds + (until - now).total_seconds()))
        for oracle in self.oracles.values():
            oracle.round([begin + n * MINUTE for n in range(1, minutes + 1)])
        await self.rename_all()
        await eventually(partial(self.settled, begin + minutes * MINUTE), 50)

    async def rename_all(self) -> None:
        """Change what must not matter, in the midst of the catching up."""
        for schedule_id in self.oracles:
            await eventually(partial(self._renamed, schedule_id))

    async def _renamed(self, schedule_id: str) -> bool:
        answer = await self.api.call("PATCH", f"/schedules/{schedule_id}", {"name": "renamed"})
        return answer.status == 200

    async def check(self) -> None:
        """Compare books and jobs with the oracle."""
        opened = await self.open_jobs()
        for schedule_id, oracle in self.oracles.items():
            named = (oracle.misfire, oracle.overlap)
            rows = await self.watch.fetch(
                "SELECT scheduled_for, status, subject FROM occurrence WHERE schedule_id = $1",
                schedule_id,
            )
            assert {row[0]: row[1] for row in rows} == oracle.book, named
            assert len(rows) == len(oracle.book), named
            jobs = await self.watch.fetch(
                "SELECT due_at, job_id FROM job WHERE schedule_id = $1", schedule_id
            )
            ran = {(row[0], row[2]) for row in rows if row[2] is not None}
            assert {tuple(job) for job in jobs} == ran, named
            assert len(jobs) == len(ran), named
            assert opened.get(schedule_id, 0) == oracle.open_jobs, named


async def _booked(api: Api, clock: Clock, watch: asyncpg.Connection) -> BookedSchedules:
    """Begin 20 seconds after a full minute."""
    await watch.execute("SET search_path = postdate")
    booked = BookedSchedules(api, clock, watch, {})
    now = await booked.now()
    begin = now.replace(second=0, microsecond=0) + MINUTE + INTO_THE_MINUTE
    await clock.advance((begin - now).total_seconds())
    for misfire, overlap in product(MISFIRES, OVERLAPS):
        late = {"policy": misfire, "late_after_seconds": LATE_AFTER, "per_minute": 6000}
        made = await create(api, every_seconds=60, overlap=overlap, misfire=late)
        booked.oracles[made["schedule_id"]] = BookOracle(misfire, overlap)
    return booked


async def _through_kills(
    api: Api,
    clock: Clock,
    server: Embedded,
    name: str,
    rounds: Sequence[tuple[int, bool]],
    seed: int = 5,
) -> None:
    admin = await asyncpg.connect(server.credentials.superuser_dsn(name))
    watch = await asyncpg.connect(
        server.credentials.superuser_dsn(name), server_settings={"application_name": SPARED}
    )
    booked = await _booked(api, clock, watch)
    done = asyncio.Event()
    mortal = wiring.occurrences(api.node)
    mortal.__class__ = _Mortal
    mortal.draw = random.Random(seed)  # type: ignore[attr-defined]
    nodes = [Expander(api.node.database, mortal) for _ in range(3)]
    running = [asyncio.create_task(until_done_expand(node, done)) for node in nodes]
    kills: list[int] = []
    running.append(asyncio.create_task(until_done_kill(admin, name, done, kills)))
    try:
        for minutes, ends in rounds:
            if ends:
                await booked.end_open_jobs()
            await booked.round(minutes)
    finally:
        done.set()
        await asyncio.gather(*running)
    await booked.check()
    assert kills
    for schedule_id in booked.oracles:
        assert (await api.call("DELETE", f"/schedules/{schedule_id}")).status == 204
    await watch.close()
    await admin.close()


@pytest.mark.soak
async def test_every_policy_keeps_its_book_through_kills(
    api: Api, clock: Clock, server: Embedded, database_name: str
) -> None:
    await _through_kills(api, clock, server, database_name, ROUNDS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_policy_keeps_its_book_through_many_rounds(
    api: Api, clock: Clock, server: Embedded, database_name: str, seed: int
) -> None:
    draw = random.Random(seed)
    rounds = [(draw.choice((1, 1, 2, 3, 5, 9, 30)), draw.random() < 0.4) for _ in range(40)]
    await _through_kills(api, clock, server, database_name, rounds, seed)


def test_the_oracle_knows_the_policies_by_heart() -> None:
    minutes = [datetime(2026, 1, 1, 0, n) for n in range(5)]  # noqa: DTZ001 - only compared
    oracle = BookOracle("fire_once", "buffer_one")
    oracle.round(minutes[:1])
    oracle.round(minutes[1:])
    said = ["FIRED", "MISSED", "MISSED", "SKIPPED_BY_OVERLAP", "BUFFERED"]
    assert list(oracle.book.values()) == said
    oracle.end_open_jobs()
    assert (oracle.book[minutes[-1]], oracle.open_jobs) == ("FIRED", 1)
