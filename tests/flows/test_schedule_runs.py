"""Schedules at work: expansion, policies, pauses, triggers, backfills, and the book of them."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from conftest import Api, Clock
from postdate.node import schedule as wiring
from postdate.prover.checker import prove
from postdate.scheduler.expander import Expander
from support.event import seal_all
from support.schedule import book, create, drain, labels, set_to_morning


@pytest.fixture
def expander(api: Api) -> Expander:
    return Expander(api.node.database, wiring.occurrences(api.node))


@pytest.fixture(autouse=True)
async def _only_ours(api: Api, clock: Clock) -> AsyncIterator[None]:
    """Start in the morning, and leave no schedule of another test due."""
    await set_to_morning(clock)
    yield
    await api.node.database.writer.execute("DELETE FROM timer WHERE lane_id = 1")


async def test_a_due_schedule_makes_one_job_for_each_occurrence(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60, misfire={"policy": "fire_all"})
    assert await drain(expander) == 0
    for _ in range(3):
        await clock.advance(60)
        assert await drain(expander) == 1
        assert await drain(expander) == 0
    rows = await book(api, made["schedule_id"])
    assert [row["status"] for row in rows] == ["FIRED"] * 3
    instants = [datetime.fromisoformat(row["scheduled_for"]) for row in rows]
    assert all(at.timestamp() % 60 == 0 for at in instants)
    assert instants[2] - instants[0] == timedelta(minutes=2)
    jobs = (await api.call("GET", f"/jobs?schedule_id={made['schedule_id']}")).body["jobs"]
    assert {job["job_id"] for job in jobs} == {row["job_id"] for row in rows}
    assert {job["due_at"] for job in jobs} == {row["scheduled_for"] for row in rows}
    shown = await api.call("GET", f"/schedules/{made['schedule_id']}")
    assert shown.body["runs"] == 3


async def test_after_an_outage_the_policy_decides(
    api: Api, expander: Expander, clock: Clock
) -> None:
    now = await api.node.database.writer.fetchval("SELECT clock()")
    # Away from an occurrence: all four schedules must begin with the same one.
    await clock.advance(700 - now.timestamp() % 600)
    once = await create(api, every_seconds=600)
    skip = await create(api, every_seconds=600, misfire={"policy": "skip"})
    every = await create(api, every_seconds=600, misfire={"policy": "fire_all", "per_minute": 6000})
    bound = await create(
        api,
        every_seconds=600,
        misfire={"policy": "fire_all", "max_lateness_seconds": 1800, "per_minute": 6000},
    )
    now = await api.node.database.writer.fetchval("SELECT clock()")
    # Half way between two occurrences, six hours later: none of them is fresh.
    await clock.advance(6 * 3600 + 300 - now.timestamp() % 600)
    for _ in range(50):
        await drain(expander)
        await clock.advance(0.011)
    assert await labels(api, once["schedule_id"]) == ["MISSED"] * 35 + ["LATE"]
    assert await labels(api, skip["schedule_id"]) == ["MISSED"] * 36
    assert await labels(api, every["schedule_id"]) == ["LATE"] * 36
    assert await labels(api, bound["schedule_id"]) == ["MISSED"] * 33 + ["LATE"] * 3
    missed = await api.call("GET", "/schedules?missed=true")
    assert {each["schedule_id"] for each in missed.body["schedules"]} == {
        once["schedule_id"], skip["schedule_id"], bound["schedule_id"],
    }  # fmt: skip
    events = await api.node.database.writer.fetch(
        "SELECT data FROM event WHERE subject = $1 AND type = 'schedule.missed'",
        skip["schedule_id"],
    )
    assert sum(row["data"]["count"] for row in events) == 36


async def test_catching_up_is_paced(api: Api, expander: Expander, clock: Clock) -> None:
    made = await create(api, every_seconds=60, misfire={"policy": "fire_all", "per_minute": 30})
    await clock.advance(3600)
    assert await drain(expander) == 1
    assert await drain(expander) == 0
    await clock.advance(2.1)
    assert await drain(expander) == 1
    assert await labels(api, made["schedule_id"]) == ["LATE", "LATE"]


async def test_a_pause_is_noted_for_each_occurrence(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60)
    path = f"/schedules/{made['schedule_id']}"
    paused = await api.call("POST", f"{path}/pause", {"note": "the receiver moves"})
    assert (paused.body["status"], paused.body["paused_note"]) == ("PAUSED", "the receiver moves")
    await clock.advance(180)
    await drain(expander)
    # Occurrences of the pause that were not expanded before it ended are skipped all the same.
    await clock.advance(60)
    resumed = await api.call("POST", f"{path}/resume")
    assert resumed.body["status"] == "ACTIVE"
    await drain(expander)
    await clock.advance(60)
    await drain(expander)
    assert await labels(api, made["schedule_id"]) == ["SKIPPED_BY_PAUSE"] * 4 + ["FIRED"]


async def test_a_second_pause_forgets_nothing_of_the_first(
    api: Api, expander: Expander, clock: Clock
) -> None:
    """Nobody expanded meanwhile: what the first pause skipped ran late, because of the second."""
    made = await create(api, every_seconds=60)
    path = f"/schedules/{made['schedule_id']}"
    for call, seconds in (("pause", 120), ("resume", 1), ("pause", 60)):
        assert (await api.call("POST", f"{path}/{call}", {})).status == 200
        await clock.advance(seconds)
    await drain(expander)
    assert await labels(api, made["schedule_id"]) == ["SKIPPED_BY_PAUSE"] * 3


async def test_overlap_is_skipped_buffered_or_cancelled(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = {
        policy: await create(api, every_seconds=60, overlap=policy)
        for policy in ("allow", "skip", "buffer_one", "cancel_running")
    }
    for _ in range(3):
        await clock.advance(60)
        await drain(expander)
    seen = {policy: await labels(api, each["schedule_id"]) for policy, each in made.items()}
    assert seen["allow"] == ["FIRED"] * 3
    assert seen["skip"] == ["FIRED", "SKIPPED_BY_OVERLAP", "SKIPPED_BY_OVERLAP"]
    assert seen["buffer_one"] == ["FIRED", "SKIPPED_BY_OVERLAP", "BUFFERED"]
    assert seen["cancel_running"] == ["FIRED"] * 3
    rows = await book(api, made["cancel_running"]["schedule_id"])
    statuses = [(await api.call("GET", f"/jobs/{row['job_id']}")).body["status"] for row in rows]
    assert statuses == ["CANCELLED", "CANCELLED", "READY"]
    rows = await book(api, made["buffer_one"]["schedule_id"])
    assert (await api.call("POST", f"/jobs/{rows[0]['job_id']}/cancel")).status == 200
    await clock.advance(1.5)
    await drain(expander)
    after = await book(api, made["buffer_one"]["schedule_id"])
    assert [row["status"] for row in after] == ["FIRED", "SKIPPED_BY_OVERLAP", "FIRED"]
    assert after[2]["job_id"] is not None


async def test_a_change_is_a_new_version_from_the_next_occurrence_on(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60)
    path = f"/schedules/{made['schedule_id']}"
    await clock.advance(60)
    await drain(expander)
    changed = await api.call("PATCH", path, {"cron": "0 0 1 1 *", "timezone": "Asia/Tokyo"})
    assert changed.status == 200, changed.body
    assert (changed.body["version"], changed.body["every_seconds"]) == (2, None)
    assert changed.body["dst"]["repeated"] == "first"
    assert changed.body["next_due_at"].endswith("-12-31T15:00:00Z")
    assert (await api.call("PATCH", path, {"cron": "0 0 30 2 *"})).body["field"] == "cron"
    assert (await api.call("PATCH", path, {})).status == 422
    assert (await api.call("GET", path)).body["version"] == 2
    await clock.advance(3600)
    assert await drain(expander) == 0
    rows = await book(api, made["schedule_id"])
    assert [(row["status"], row["version"]) for row in rows] == [("FIRED", 1)]


async def test_max_runs_and_end_at_end_a_schedule(
    api: Api, expander: Expander, clock: Clock
) -> None:
    runs = await create(api, every_seconds=60, max_runs=2)
    until = await api.node.database.writer.fetchval("SELECT clock()") + timedelta(seconds=150)
    ends = await create(api, every_seconds=60, end_at=until.isoformat())
    for _ in range(5):
        await clock.advance(60)
        await drain(expander)
    for each, most in ((runs, 2), (ends, 3)):
        shown = (await api.call("GET", f"/schedules/{each['schedule_id']}")).body
        assert (shown["status"], shown["next_due_at"]) == ("ENDED", None)
        assert len(await labels(api, each["schedule_id"])) in {most, most - 1}
    preview = await api.call("GET", f"/schedules/{runs['schedule_id']}/preview")
    assert preview.body["occurrences"] == []


async def test_trigger_runs_once_now_even_when_paused(api: Api) -> None:
    made = await create(api, cron="@yearly")
    path = f"/schedules/{made['schedule_id']}"
    await api.call("POST", f"{path}/pause", {})
    first = await api.call("POST", f"{path}/trigger")
    assert first.status == 201, first.body
    second = await api.call("POST", f"{path}/trigger")
    assert first.body["job_id"] != second.body["job_id"]
    rows = await book(api, made["schedule_id"])
    assert [(row["status"], row["cause"]) for row in rows] == [("FIRED", "trigger")] * 2


async def test_backfill_is_a_dry_run_first_and_skips_what_ran(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60, misfire={"policy": "skip", "per_minute": 60})
    path = f"/schedules/{made['schedule_id']}"
    await clock.advance(60)
    await drain(expander)
    await clock.advance(300)
    await drain(expander)
    before = await labels(api, made["schedule_id"])
    assert before.count("MISSED") == 4
    now = await api.node.database.writer.fetchval("SELECT clock()")
    span = {"from": (now - timedelta(hours=1)).isoformat(), "until": now.isoformat()}
    planned = await api.call("POST", f"{path}/backfill", span)
    assert planned.status == 200, planned.body
    assert planned.body["dry_run"] is True
    assert await labels(api, made["schedule_id"]) == before
    done = await api.call("POST", f"{path}/backfill", {**span, "dry_run": False})
    assert done.body["runs"] == planned.body["runs"] == 58
    again = await api.call("POST", f"{path}/backfill", {**span, "dry_run": False})
    assert again.body["runs"] == 0
    assert {item["action"] for item in again.body["occurrences"]} == {"ran_already"}
    after = await labels(api, made["schedule_id"])
    assert after.count("LATE") == 58
    assert after.count("MISSED") == 0
    due = sorted(item["due_at"] for item in done.body["occurrences"] if item["action"] == "run")
    assert datetime.fromisoformat(due[1]) - datetime.fromisoformat(due[0]) == timedelta(seconds=1)
    ahead = {"from": now.isoformat(), "until": (now + timedelta(days=1)).isoformat()}
    assert (await api.call("POST", f"{path}/backfill", ahead)).body["field"] == "until"


async def test_a_deleted_schedule_is_gone_and_fires_no_more(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60)
    path = f"/schedules/{made['schedule_id']}"
    await clock.advance(60)
    assert await drain(expander) == 1
    assert (await api.call("DELETE", path)).status == 204
    await clock.advance(120)
    assert await drain(expander) == 0
    # What it did can still be read.
    assert await labels(api, made["schedule_id"]) == ["FIRED"]
    for method, suffix in (("GET", ""), ("GET", "/preview"),
                           ("POST", "/trigger"), ("POST", "/resume"), ("DELETE", "")):  # fmt: skip
        assert (await api.call(method, path + suffix)).status == 404


async def test_an_occurrence_is_merged_into_the_job_that_waits_under_its_unique_key(
    api: Api, expander: Expander, clock: Clock
) -> None:
    job = {"destination": {"type": "worker"}, "unique": {"key": "sync", "on_conflict": "replace"}}
    made = await create(api, every_seconds=60, template={"job": {**job, "payload": 1}})
    for _ in range(3):
        await clock.advance(60)
        await drain(expander)
    rows = await book(api, made["schedule_id"])
    assert [row["status"] for row in rows] == ["FIRED", "SKIPPED_BY_UNIQUE", "SKIPPED_BY_UNIQUE"]
    shown = (await api.call("GET", f"/jobs/{rows[0]['job_id']}")).body
    assert (shown["revision"], shown["status"]) == (2, "READY")
    seen = (await api.call("GET", f"/schedules/{made['schedule_id']}")).body
    assert seen["runs"] == 1
    triggered = await api.call("POST", f"/schedules/{made['schedule_id']}/trigger")
    assert triggered.body["job_id"] == rows[0]["job_id"]
    await seal_all(api.node.database, 500)
    tenant_id = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    assert (await prove(api.node.database, tenant_id)).findings == []
