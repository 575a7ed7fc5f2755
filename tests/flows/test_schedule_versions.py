"""Changing a schedule or its calendar: nothing due is lost, and the past is not rewritten."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from conftest import Api, Clock, eventually
from postdate.core.setting.setting import Settings
from postdate.node import schedule as wiring
from postdate.scheduler.audit import Audit
from postdate.scheduler.expander import Expander
from support.schedule import book, create, drain, labels, set_to_morning

RACE_SECONDS = 4.0


@pytest.fixture
def expander(api: Api) -> Expander:
    return Expander(api.node.database, wiring.occurrences(api.node))


@pytest.fixture(autouse=True)
async def _only_ours(api: Api, clock: Clock) -> AsyncIterator[None]:
    """Start in the morning, and leave no schedule of another test due."""
    await set_to_morning(clock)
    yield
    await api.node.database.writer.execute("DELETE FROM timer WHERE lane_id = 1")


async def _patch(api: Api, schedule_id: str, **fields: Any) -> dict[str, Any]:
    answer = await api.call("PATCH", f"/schedules/{schedule_id}", fields)
    assert answer.status == 200, answer.body
    return dict(answer.body)


async def _move_to(api: Api, clock: Clock, at: datetime) -> None:
    now = await api.node.database.writer.fetchval("SELECT clock()")
    await clock.advance((at - now).total_seconds())


async def _caught_up(api: Api, node: Expander, schedule_id: str, last: datetime) -> bool:
    await node.run_once()
    handled: datetime = await api.node.database.writer.fetchval(
        "SELECT handled FROM schedule WHERE schedule_id = $1", schedule_id
    )
    return handled >= last - timedelta(seconds=1)


async def test_another_name_changes_nothing_that_is_due(
    api: Api, expander: Expander, clock: Clock
) -> None:
    policy = {"policy": "fire_all", "per_minute": 6000}
    made = await create(api, every_seconds=60, misfire=policy)
    await clock.advance(600)
    for number in range(40):
        await drain(expander)
        await _patch(api, made["schedule_id"], name=f"name {number}")
        await clock.advance(0.011)
    assert set(await labels(api, made["schedule_id"])) <= {"LATE", "FIRED"}
    assert len(await labels(api, made["schedule_id"])) == 10


async def test_another_name_in_an_outage_makes_no_second_version_catch_up(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=600)
    now: datetime = await api.node.database.writer.fetchval("SELECT clock()")
    # Half way between two occurrences, so that none is in time.
    await clock.advance(3600 + 300 - now.timestamp() % 600)
    await _patch(api, made["schedule_id"], name="another")
    await clock.advance(3600)
    await drain(expander)
    seen = await labels(api, made["schedule_id"])
    assert (seen.count("LATE"), seen[-1], set(seen)) == (1, "LATE", {"MISSED", "LATE"})


async def test_what_was_due_is_decided_by_the_version_before(
    api: Api, expander: Expander, clock: Clock
) -> None:
    skips = await create(api, every_seconds=60, misfire={"policy": "skip"})
    fires = await create(api, every_seconds=60, misfire={"policy": "fire_once"})
    await clock.advance(600)
    lane = {"job": {"destination": {"type": "worker"}, "lane": "other"}}
    for made in (skips, fires):
        changed = {"every_seconds": 3600, "template": lane, "misfire": {"policy": "fire_all"}}
        await _patch(api, made["schedule_id"], **changed)
    await clock.advance(120)
    await drain(expander)
    seen = [(row["status"], row["version"]) for row in await book(api, skips["schedule_id"])]
    assert seen == [("MISSED", 1)] * 10
    rows = await book(api, fires["schedule_id"])
    assert [(row["status"], row["version"]) for row in rows] == [("MISSED", 1)] * 9 + [("LATE", 1)]
    job = await api.call("GET", f"/jobs/{rows[-1]['job_id']}")
    assert job.body["lane"] == "ticks"
    assert await Audit(api.node.database, Settings()).run_once() == 0


async def test_what_was_late_keeps_its_pace_through_a_change(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60, misfire={"policy": "fire_all", "per_minute": 30})
    await clock.advance(600)
    assert await drain(expander) == 1
    await _patch(api, made["schedule_id"], every_seconds=3600)
    assert await drain(expander) == 0
    for _ in range(9):
        await clock.advance(2.1)
        assert await drain(expander) == 1
    assert [row["version"] for row in await book(api, made["schedule_id"])] == [1] * 10


async def test_changes_that_race_with_the_expander_lose_no_occurrence(api: Api) -> None:
    made = await create(api, every_seconds=1, misfire={"policy": "fire_all", "per_minute": 6000})
    schedule_id = made["schedule_id"]
    database = api.node.database.writer
    # Not the time after the answer: on a slow machine that is a later second.
    first = datetime.fromisoformat(made["created_at"])
    done = asyncio.Event()
    nodes = [Expander(api.node.database, wiring.occurrences(api.node)) for _ in range(2)]
    changes = 0

    async def expand(node: Expander) -> None:
        while not done.is_set():
            await node.run_once()
            await asyncio.sleep(0)

    async def change(turn: int) -> None:
        nonlocal changes
        while not done.is_set():
            fields: list[dict[str, Any]] = [{"name": f"{changes}"}, {"jitter_seconds": 0}, {}]
            fields[2]["overlap"] = "allow"
            lane = {"job": {"destination": {"type": "worker"}, "lane": f"ticks-{turn}"}}
            await _patch(api, schedule_id, **[*fields, {"template": lane}][changes % 4])
            changes += 1

    running = [asyncio.create_task(work) for work in (*map(expand, nodes), *map(change, (1, 2)))]
    await asyncio.wait(running, timeout=RACE_SECONDS)
    done.set()
    await asyncio.gather(*running)
    last: datetime = await database.fetchval("SELECT clock()")
    await eventually(partial(_caught_up, api, nodes[0], schedule_id, last))
    rows = [datetime.fromisoformat(r["scheduled_for"]) for r in await book(api, schedule_id)]
    begin = first.replace(microsecond=0)
    expected = [begin + timedelta(seconds=n) for n in range(1, int((last - begin).total_seconds()))]
    assert len(expected) > 2
    assert rows[: len(expected)] == expected
    assert set(await labels(api, schedule_id)) <= {"FIRED", "LATE"}
    assert changes > 20


async def test_a_change_just_before_and_after_the_due_instant_loses_nothing(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60)
    for turn in range(6):
        now = await api.node.database.writer.fetchval("SELECT clock()")
        seconds = 60 - now.timestamp() % 60
        # A few milliseconds on either side of the full minute, before the expander has looked.
        await clock.advance(seconds + (turn % 3 - 1) * 0.004)
        await _patch(
            api, made["schedule_id"], jitter_seconds=0, overlap=["allow", "skip"][turn % 2]
        )
        await clock.advance(1)
        await drain(expander)
    rows = [
        datetime.fromisoformat(r["scheduled_for"]) for r in await book(api, made["schedule_id"])
    ]
    assert rows == [rows[0] + timedelta(minutes=n) for n in range(len(rows))]
    assert len(rows) == 6


async def test_a_shorter_jitter_loses_nothing_that_waited_for_the_longer_one(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=3600, jitter_seconds=3000)
    shown = await api.call("GET", f"/schedules/{made['schedule_id']}/preview?count=1")
    [coming] = shown.body["occurrences"]
    nominal = datetime.fromisoformat(coming["scheduled_for"])
    shift = datetime.fromisoformat(coming["due_at"]) - nominal
    assert shift > timedelta(seconds=2), "a schedule whose place is at the very beginning"
    await _move_to(api, clock, nominal + shift / 2)
    await _patch(api, made["schedule_id"], jitter_seconds=0)
    await drain(expander)
    rows = await book(api, made["schedule_id"])
    assert [datetime.fromisoformat(row["scheduled_for"]) for row in rows] == [nominal]


async def test_a_schedule_that_had_ended_owes_nothing_for_the_time_between(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60, max_runs=1)
    await clock.advance(60)
    await drain(expander)
    await clock.advance(600)
    assert (await _patch(api, made["schedule_id"], max_runs=2))["status"] == "ACTIVE"
    await clock.advance(60)
    await drain(expander)
    assert await labels(api, made["schedule_id"]) == ["FIRED", "FIRED"]
    assert await Audit(api.node.database, Settings()).run_once() == 0


async def _calendar(api: Api, *holidays: datetime) -> None:
    body = {"name": "days", "holidays": [f"{day:%Y-%m-%d}" for day in holidays], "weekend": []}
    answer = await api.call("POST", "/calendars", body)
    assert answer.status == 201, answer.body


async def test_a_new_calendar_leaves_the_past_alone(
    api: Api, expander: Expander, clock: Clock
) -> None:
    now: datetime = await api.node.database.writer.fetchval("SELECT clock()")
    noon = now.astimezone(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    await _move_to(api, clock, noon + timedelta(days=1, hours=-1))
    day, following = noon + timedelta(days=1), noon + timedelta(days=2)
    await _calendar(api)
    opened = await create(api, cron="*/10 * * * *", calendar="days")
    await _calendar(api, day)
    closed = await create(api, cron="*/10 * * * *", calendar="days")
    await _calendar(api)
    for _ in range(3):
        await clock.advance(600)
        await drain(expander)
    assert await labels(api, opened["schedule_id"]) == ["FIRED"] * 3
    # What fired is not skipped afterwards, and what is closed from now on is.
    await _calendar(api, day, following)
    for _ in range(2):
        await clock.advance(600)
        await drain(expander)
    await _calendar(api)
    audit = Audit(api.node.database, Settings())
    assert await audit.run_once() == 0
    for made in (opened, closed):
        seen = await labels(api, made["schedule_id"])
        assert seen == ["FIRED"] * 3 + ["SKIPPED_BY_CALENDAR"] * 2
    missed = await api.call("GET", "/schedules?missed=true")
    assert missed.body["schedules"] == []


async def test_what_was_due_before_an_upload_is_decided_by_the_old_calendar(
    api: Api, expander: Expander, clock: Clock
) -> None:
    now: datetime = await api.node.database.writer.fetchval("SELECT clock()")
    noon = (now + timedelta(hours=13)).astimezone(UTC)
    noon = noon.replace(hour=12, minute=0, second=0, microsecond=0)
    await _calendar(api)
    policy = {"late_after_seconds": 86_400}
    made = await create(api, cron="*/10 * * * *", calendar="days", misfire=policy)
    await _move_to(api, clock, noon + timedelta(seconds=5))
    await drain(expander)
    before = len(await labels(api, made["schedule_id"]))
    await clock.advance(1200)
    await _calendar(api, noon)
    await clock.advance(1200)
    await drain(expander)
    seen = (await book(api, made["schedule_id"]))[before:] if before < 96 else None
    if seen is None:
        found = await api.call("GET", f"/schedules/{made['schedule_id']}/occurrences?limit=4")
        seen = list(reversed(found.body["occurrences"]))
    labelled = [row["status"] for row in seen][-4:]
    assert labelled == ["FIRED"] * 2 + ["SKIPPED_BY_CALENDAR"] * 2
    assert await Audit(api.node.database, Settings()).run_once() == 0


async def _tomorrow(api: Api) -> datetime:
    now: datetime = await api.node.database.writer.fetchval("SELECT clock()")
    noon = now.astimezone(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    return noon + timedelta(days=1)


async def test_what_rolled_back_and_ran_does_not_run_again_when_its_day_is_opened(
    api: Api, expander: Expander, clock: Clock
) -> None:
    day = await _tomorrow(api)
    following = day + timedelta(days=1)
    await _calendar(api, following)
    rule = {"cron": f"0 12 {following:%-d} {following:%-m} *", "roll": "preceding"}
    made = await create(api, **rule, calendar="days")
    await _move_to(api, clock, day + timedelta(seconds=5))
    await drain(expander)
    assert await labels(api, made["schedule_id"]) == ["FIRED"]
    await clock.advance(3600)
    await _calendar(api)
    for _ in range(3):
        await clock.advance(86_400 / 2)
        await drain(expander)
    assert await labels(api, made["schedule_id"]) == ["FIRED"]
    assert await Audit(api.node.database, Settings()).run_once() == 0


async def test_what_waited_for_a_later_day_is_not_lost_when_its_own_is_opened(
    api: Api, expander: Expander, clock: Clock
) -> None:
    day = await _tomorrow(api)
    await _calendar(api, day)
    rule = {"cron": f"0 12 {day:%-d} {day:%-m} *", "roll": "following"}
    made = await create(api, **rule, calendar="days")
    await _move_to(api, clock, day + timedelta(hours=1))
    assert await drain(expander) == 0
    await _calendar(api)
    assert await drain(expander) == 1
    for _ in range(3):
        await clock.advance(86_400 / 2)
        await drain(expander)
    [row] = await book(api, made["schedule_id"])
    assert (row["status"], row["notes"]) == ("FIRED", ["moved_by_calendar"])
    assert row["nominal_local"] == f"{day:%Y-%m-%dT%H:%M:%S}"
    assert await Audit(api.node.database, Settings()).run_once() == 0


async def test_the_same_calendar_again_is_no_new_version(api: Api) -> None:
    day = datetime(2031, 5, 1, tzinfo=UTC)
    for _ in range(3):
        await _calendar(api, day)
    many = await api.node.database.writer.fetchval(
        "SELECT count(*) FROM calendar_version v JOIN tenant t USING (tenant_id)"
        " WHERE t.name = $1 AND v.name = 'days'",
        api.tenant,
    )
    assert many == 1


async def test_old_versions_of_a_calendar_are_bounded(api: Api) -> None:
    day = datetime(2031, 5, 1, tzinfo=UTC)
    for number in range(60):
        await _calendar(api, day + timedelta(days=number))
    many = await api.node.database.writer.fetchval(
        "SELECT count(*) FROM calendar_version v JOIN tenant t USING (tenant_id)"
        " WHERE t.name = $1 AND v.name = 'days'",
        api.tenant,
    )
    assert many == 50
