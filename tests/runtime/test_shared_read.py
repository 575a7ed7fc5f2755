"""What loops ask in the same moment is one statement, and each gets its own answer."""

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from postdate.database.connection import combined
from postdate.database.connection.combined import Question
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import DatabaseError, LockNotAvailableError
from postdate.database.embedded import Embedded
from postdate.halt import store as halt
from postdate.runtime import node
from postdate.runtime.loop import POLL_SECONDS, next_tick
from postdate.runtime.shared_read import SHARED_SECONDS, SharedReads
from postdate.setting import store as setting
from postdate.timer import timer
from postdate.timer.timer import LANE_PAYMENT, LONG_AGO


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the questions of each statement."""
    counts: list[int] = []
    ask = combined.ask

    async def counting(connection: Connection, questions: list[Question], *given: Any) -> Any:
        counts.append(len(questions))
        return await ask(connection, questions, *given)

    monkeypatch.setattr(combined, "ask", counting)
    return counts


async def test_what_is_asked_together_is_one_statement(
    database: Database, asked: list[int]
) -> None:
    reads = SharedReads(database)
    at = datetime(2030, 1, 1, tzinfo=UTC)
    number, pair, none = await asyncio.gather(
        reads.fetchval("SELECT $1::integer + 1", 41),
        reads.fetchrow("SELECT $2::text, $1::timestamptz", at, "x"),
        reads.fetch("SELECT 1 WHERE $1::boolean", False),
    )
    assert (number, tuple(pair), list(none)) == (42, ("x", at), [])
    assert asked == [3]


async def test_the_refresh_of_a_node_is_one_statement_and_says_what_single_ones_say(
    database: Database, tenant_id: int, asked: list[int]
) -> None:
    async with database.connection() as connection:
        await node.beat(connection, uuid4(), "n", ["api", "worker"], "1")
        values = 3, tenant_id, LANE_PAYMENT, uuid4(), LONG_AGO
        await connection.execute(
            "INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at) "
            "VALUES ($1, $2, $3, $4, $5)",
            *values,
        )
        alone = [await node.list_live(connection), await setting.load(connection)]
        heads = await timer.heads(connection, [(3, LANE_PAYMENT, LONG_AGO)])
    reads = SharedReads(database)
    nodes, settings, halts, found = await asyncio.gather(
        node.list_live(reads),
        setting.load(reads),
        halt.load(reads),
        timer.heads(reads, [(3, LANE_PAYMENT, LONG_AGO)]),
    )
    assert [nodes, settings] == alone
    assert halts == []
    assert [head.due_at for head in found] == [head.due_at for head in heads]
    assert asked == [4]


async def test_a_question_that_fails_costs_the_others_nothing(database: Database) -> None:
    reads = SharedReads(database)
    answers = await asyncio.gather(
        reads.fetchval("SELECT 1"), reads.fetchval("SELECT 1 / 0"), return_exceptions=True
    )
    assert answers[0] == 1
    assert isinstance(answers[1], DatabaseError)


async def test_a_table_that_somebody_locks_holds_up_no_question_about_another(
    database: Database, asked: list[int], server: Embedded, database_name: str
) -> None:
    """The others wait for it once, for a moment; it is asked alone until it is answered."""
    reads = SharedReads(database)

    async def waited(question: str) -> float:
        began = time.monotonic()
        assert await reads.fetchval(question) is not None
        return time.monotonic() - began

    free, held = "SELECT 1", "SELECT count(*) FROM tenant"
    stranger = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    try:
        async with stranger.transaction():
            await stranger.execute("LOCK TABLE postdate.tenant IN ACCESS EXCLUSIVE MODE")
            blocked = asyncio.create_task(reads.fetchval(held))
            first = await waited(free)
            second = await waited(free)
            blocked_too = asyncio.create_task(reads.fetchval(held))
            third = await waited(free)
            with pytest.raises(LockNotAvailableError):
                await blocked
        with suppress(LockNotAvailableError):  # it may have begun so early that it gave up too
            assert await blocked_too is not None
    finally:
        await stranger.close()
    assert first < SHARED_SECONDS + 1.0, "it waits no longer than they share an answer"
    assert max(second, third) < SHARED_SECONDS
    assert max(asked[1:]) == 1, "nobody is asked together with it again"
    await waited(held)
    asked.clear()
    await asyncio.gather(reads.fetchval(held), reads.fetchval(free))
    assert asked == [2], "all is well: they are asked together"


@pytest.mark.parametrize("poll_seconds", [POLL_SECONDS, 1.0, 2.0, 5.0])
def test_the_ticks_of_slow_loops_are_ticks_of_all(poll_seconds: float) -> None:
    tick = next_tick(1000.3, poll_seconds)
    assert 1000.3 < tick <= 1000.3 + poll_seconds + POLL_SECONDS
    assert round(tick / POLL_SECONDS, 6) % 1 == 0
    assert next_tick(tick - 0.001) > tick
