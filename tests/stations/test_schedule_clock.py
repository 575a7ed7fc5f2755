"""Schedules and a clock that was wrong: what the audit puts back, and what it leaves alone."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from conftest import Api, Clock
from postdate.core.setting.setting import Settings
from postdate.ledger.prove import prove
from postdate.node import schedule as wiring
from postdate.runtime import node as node_store
from postdate.scheduler.audit import Audit
from postdate.scheduler.expander import Expander
from support.log import capture_logs
from support.schedule import book, create, drain, labels, set_to_morning


@pytest.fixture(autouse=True)
async def _morning(clock: Clock) -> AsyncIterator[None]:
    """Start in the morning, and leave no schedule of another test."""
    await set_to_morning(clock)
    yield
    await clock.database.writer.execute("DELETE FROM timer WHERE lane_id = 1")
    await clock.database.writer.execute("UPDATE schedule SET deleted_at = clock()")


@pytest.fixture
def expander(api: Api) -> Expander:
    return Expander(api.node.database, wiring.occurrences(api.node))


async def _events(api: Api, schedule_id: str, kind: str) -> list[dict[str, Any]]:
    rows = await api.node.database.writer.fetch(
        "SELECT data FROM event WHERE subject = $1 AND type = $2", schedule_id, kind
    )
    return [row["data"] for row in rows]


async def _tenant_id(api: Api) -> int:
    number = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    return int(number)


async def _beat(api: Api) -> None:
    """Let a worker be alive: without one, that is the problem, and not what it leaves undone."""
    async with api.node.database.connection() as connection:
        await node_store.beat(connection, uuid4(), "n", ["worker"], "1")


async def test_a_schedule_that_came_too_far_goes_on_from_the_present(
    api: Api, expander: Expander, clock: Clock
) -> None:
    """The clock was two hours ahead, and believed: the book reaches into the future."""
    made = await create(api, every_seconds=60)
    schedule_id, database = made["schedule_id"], api.node.database
    await clock.advance(60)
    await drain(expander)
    await clock.advance(7200)
    await drain(expander)
    await clock.advance(-7200)
    assert (await labels(api, schedule_id)).count("MISSED") > 90
    audit, watch = Audit(database, Settings()), api.node.overdue
    await audit.run_once()
    await _beat(api)
    await watch.run_once()
    assert any("did not fire" in each for each in watch.sentences())
    # What was made remains made, what was only booked is taken back, and the book says so.
    early = ["LATE", "FIRED"]
    assert await labels(api, schedule_id) == ["FIRED", *early]
    [told] = await _events(api, schedule_id, "schedule.put_back")
    assert told["count"] > 90
    expander.look_everywhere()  # as it does twice a minute
    await drain(expander)
    for _ in range(2):
        await clock.advance(60)
        assert await drain(expander) == 1
    assert await labels(api, schedule_id) == ["FIRED", "FIRED", "FIRED", *early]
    assert (await prove(database, await _tenant_id(api))).findings == []
    await audit.run_once()
    await watch.run_once()
    assert watch.sentences() == []
    # At the instant of the one that was made early nothing is made again.
    await clock.advance(7200)
    await drain(expander)
    rows = await book(api, schedule_id)
    assert len({row["scheduled_for"] for row in rows}) == len(rows)
    assert (await prove(database, await _tenant_id(api))).findings == []
    await api.call("DELETE", f"/schedules/{schedule_id}")


async def test_a_clock_that_was_set_back_takes_nothing_out_of_the_book(
    api: Api, expander: Expander, clock: Clock
) -> None:
    """What a pause had skipped would run: with the clock an hour behind, the book is the past."""
    made = await create(api, every_seconds=60, misfire={"policy": "fire_all"})
    path, database = f"/schedules/{made['schedule_id']}", api.node.database
    await api.call("POST", f"{path}/pause")
    for _ in range(10):
        await clock.advance(60)
        await drain(expander)
    await api.call("POST", f"{path}/resume")
    await clock.advance(60)
    await drain(expander)
    before = await labels(api, made["schedule_id"])
    assert before == ["SKIPPED_BY_PAUSE"] * 10 + ["FIRED"]
    now: datetime = await database.writer.fetchval("SELECT clock()")
    await clock.advance(-400)
    with capture_logs() as logs:
        await Audit(database, Settings(), node_clock=lambda: now).run_once()
    assert "schedule.put_back" not in {each["event"] for each in logs}
    assert "schedule.silent" in {each["event"] for each in logs}
    expander.look_everywhere()
    await drain(expander)
    await clock.advance(460)
    await drain(expander)
    assert await labels(api, made["schedule_id"]) == [*before, "FIRED"]
    await api.call("DELETE", path)


async def test_a_clock_that_is_behind_lets_nothing_run_from_before_the_schedule_was_made(
    api: Api, expander: Expander, clock: Clock
) -> None:
    """The node's clock went back as well, and the audit cannot know."""
    made = await create(api, every_seconds=60, misfire={"policy": "fire_all"})
    for _ in range(3):
        await clock.advance(60)
        await drain(expander)
    await clock.advance(-3600)
    await Audit(api.node.database, Settings()).run_once()
    expander.look_everywhere()
    for _ in range(2):
        await clock.advance(60)
        await drain(expander)
    await clock.advance(3480)
    expander.look_everywhere()  # as it does twice a minute
    for _ in range(6):
        await clock.advance(60)
        await drain(expander)
    rows = await book(api, made["schedule_id"])
    # It goes through what is in its book already, a minute each, and makes nothing of that again.
    assert [row["status"] for row in rows[:4]] == ["FIRED", "FIRED", "FIRED", "LATE"]
    assert min(row["scheduled_for"] for row in rows) > made["created_at"]
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_a_schedule_that_ended_in_the_future_goes_on(
    api: Api, expander: Expander, clock: Clock
) -> None:
    now = await api.node.database.writer.fetchval("SELECT clock()")
    made = await create(
        api, every_seconds=60, end_at=(now + timedelta(hours=1)).isoformat(),
        misfire={"policy": "skip"},
    )  # fmt: skip
    await clock.advance(7200)
    await drain(expander)
    path = f"/schedules/{made['schedule_id']}"
    assert (await api.call("GET", path)).body["next_due_at"] is None
    await clock.advance(-7200)
    await Audit(api.node.database, Settings()).run_once()
    expander.look_everywhere()  # as it does twice a minute
    await drain(expander)
    await clock.advance(60)
    assert await drain(expander) == 1
    assert await labels(api, made["schedule_id"]) == ["FIRED"]
    await api.call("DELETE", path)
