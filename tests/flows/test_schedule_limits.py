"""Previews and backfills hold to the limits of a schedule, and tell the same as what fires."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from conftest import Api, Clock
from postdate.node import schedule as wiring
from postdate.scheduler.expander import Expander
from support.schedule import PULL, book, create, drain, labels, set_to_morning


@pytest.fixture
def expander(api: Api) -> Expander:
    return Expander(api.node.database, wiring.occurrences(api.node))


@pytest.fixture(autouse=True)
async def _only_ours(api: Api, clock: Clock) -> AsyncIterator[None]:
    """Start in the morning, and leave no schedule of another test due."""
    await set_to_morning(clock)
    yield
    await api.node.database.writer.execute("DELETE FROM timer WHERE lane_id = 1")


async def _now(api: Api) -> datetime:
    found: datetime = await api.node.database.writer.fetchval("SELECT clock()")
    return found


async def _backfill(api: Api, schedule_id: str, hours: int = 1) -> list[dict[str, Any]]:
    now = await _now(api)
    span = {"from": (now - timedelta(hours=hours)).isoformat(), "until": now.isoformat()}
    path = f"/schedules/{schedule_id}/backfill"
    planned = await api.call("POST", path, span)
    done = await api.call("POST", path, {**span, "dry_run": False})
    assert done.status == 200, done.body
    assert done.body["runs"] == planned.body["runs"]
    return list(done.body["occurrences"])


def _ran(items: list[dict[str, Any]]) -> list[str]:
    return [item["scheduled_for"] for item in items if item["action"] == "run"]


async def test_a_preview_ends_at_max_runs(api: Api, expander: Expander, clock: Clock) -> None:
    made = await create(api, every_seconds=60, max_runs=3)
    path = f"/schedules/{made['schedule_id']}/preview?count=10"
    assert len((await api.call("GET", path)).body["occurrences"]) == 3
    await clock.advance(60)
    await drain(expander)
    assert len((await api.call("GET", path)).body["occurrences"]) == 2


async def test_a_backfill_counts_against_max_runs_and_the_last_ends_the_schedule(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60, max_runs=5)
    await clock.advance(60)
    await drain(expander)
    items = await _backfill(api, made["schedule_id"])
    assert len(_ran(items)) == 4
    assert [i["left_out"] for i in items if i["action"] == "left_out"] == ["max_runs"] * 55
    shown = (await api.call("GET", f"/schedules/{made['schedule_id']}")).body
    assert (shown["runs"], shown["status"], shown["next_due_at"]) == (5, "ENDED", None)
    await clock.advance(120)
    assert await drain(expander) == 0


@pytest.mark.parametrize(("overlap", "which"), [("skip", 0), ("buffer_one", 0), ("allow", None)])
async def test_a_backfill_lets_runs_overlap_only_where_they_may(
    api: Api, overlap: str, which: int | None
) -> None:
    made = await create(api, every_seconds=60, overlap=overlap)
    items = await _backfill(api, made["schedule_id"])
    everything = [item["scheduled_for"] for item in items]
    assert _ran(items) == (everything if which is None else [everything[which]])
    # What it made is open: the next backfill has nothing it may run, and no live one overlaps it.
    again = await _backfill(api, made["schedule_id"])
    assert _ran(again) == []
    if which is not None:
        assert again[-1]["left_out"] == "overlap"


async def test_a_backfill_with_cancel_running_leaves_one_job_open(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60, overlap="cancel_running")
    await clock.advance(60)
    await drain(expander)
    items = await _backfill(api, made["schedule_id"])
    assert len(_ran(items)) == 1
    assert (await api.call("POST", f"/schedules/{made['schedule_id']}/trigger")).status == 201
    jobs = (await api.call("GET", f"/jobs?schedule_id={made['schedule_id']}")).body["jobs"]
    statuses = sorted(job["status"] for job in jobs)
    assert statuses == ["CANCELLED", "CANCELLED", "READY"]


async def test_cancel_running_leaves_one_job_open_after_a_hiccup(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=1, overlap="cancel_running")
    await clock.advance(9)
    await drain(expander)
    jobs = (await api.call("GET", f"/jobs?schedule_id={made['schedule_id']}&limit=100")).body[
        "jobs"
    ]
    opened = [job for job in jobs if job["status"] != "CANCELLED"]
    assert len(jobs) >= 9
    assert len(opened) == 1
    rows = await book(api, made["schedule_id"])
    assert opened[0]["job_id"] == rows[-1]["job_id"]
    assert {row["status"] for row in rows} == {"FIRED"}


async def test_what_rolls_onto_one_instant_is_one_run_in_preview_backfill_and_live(
    api: Api, expander: Expander, clock: Clock
) -> None:
    """An excluded date inside a closure: the days on both sides of it roll back to one instant."""
    now = await _now(api)
    days = [(now + timedelta(days=n)).date() for n in range(1, 6)]
    body = {"name": "gap", "weekend": [], "holidays": [day.isoformat() for day in days[1:4]]}
    assert (await api.call("POST", "/calendars", body)).status == 201
    made = await create(
        api,
        cron="0 12 * * *",
        calendar="gap",
        roll="preceding",
        exclude_dates=[days[2].isoformat()],
        misfire={"late_after_seconds": 86_400},
    )
    path = f"/schedules/{made['schedule_id']}"
    coming = (await api.call("GET", f"{path}/preview?count=6")).body["occurrences"]
    begin = next(n for n, one in enumerate(coming) if one["nominal_local"][:10] == f"{days[0]}")
    runs = [one for one in coming[begin:] if one["status"] is None]
    assert runs[0]["merged"] == [f"{days[1]}T12:00:00", f"{days[3]}T12:00:00"]
    assert len({one["scheduled_for"] for one in runs}) == len(runs)
    neighbour = await create(api, every_seconds=3600, misfire={"late_after_seconds": 86_400})
    last = datetime.fromisoformat(coming[-1]["scheduled_for"])
    while (left := (last - await _now(api)).total_seconds() + 1) > 0:
        await clock.advance(min(left, 80_000))
        await drain(expander)
    rows = await book(api, made["schedule_id"])
    live = [(r["scheduled_for"], r["nominal_local"]) for r in rows if r["status"] == "FIRED"]
    said = [(o["scheduled_for"], o["nominal_local"]) for o in coming if o["status"] is None]
    assert live[: len(said)] == said
    absorbed = f"absorbed_{days[3]}T12:00:00"
    assert any(absorbed in row["notes"] for row in rows)
    assert "FIRED" in await labels(api, neighbour["schedule_id"])
    again = await create(
        api,
        cron="0 12 * * *",
        calendar="gap",
        roll="preceding",
        exclude_dates=[days[2].isoformat()],
    )
    items = await _backfill(api, again["schedule_id"], hours=24 * 10)
    filled = await book(api, again["schedule_id"])
    assert any(absorbed in row["notes"] for row in filled)
    assert set(said) <= {(i["scheduled_for"], i["nominal_local"]) for i in items}


async def test_an_unsaved_rule_is_shown_in_words_with_what_the_clock_does(api: Api) -> None:
    rule = {
        "cron": "30 2 * * *",
        "timezone": "America/New_York",
        "start_at": "2031-03-08T00:00:00Z",
        "template": PULL,
        "count": 2,
    }
    shown = (await api.call("POST", "/schedules/preview", rule)).body
    assert shown["warnings"] == []
    assert "02:30" in shown["words"]
    assert [each["notes"] for each in shown["occurrences"]] == [[], ["gap_shifted_forward"]]
    assert (await api.call("GET", "/schedules")).body["schedules"] == []
    days = {"holidays": ["2031-03-10"], "weekend": [7]}
    closed = {**rule, "calendar": days, "roll": "following", "count": 3}
    notes = (await api.call("POST", "/schedules/preview", closed)).body["occurrences"]
    assert [each["scheduled_for"][:10] for each in notes] == [
        "2031-03-08", "2031-03-11", "2031-03-12",
    ]  # fmt: skip
    assert notes[1]["merged"] != []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "never_fires"),
        ({"cron": "* * * * * *"}, "too_often"),
        ({"cron": "0 9 29 2 *"}, "leap_day_only"),
        ({"every_seconds": 60, "misfire": {"policy": "fire_all", "per_minute": 1}},
         "never_recovers"),
    ],
)  # fmt: skip
async def test_a_preview_warns_of_each_doubtful_rule(
    api: Api, fields: dict[str, Any], code: str
) -> None:
    await api.call("PUT", "/settings/schedule.min_interval_seconds", {"value": 5})
    await api.node.refresh_settings()
    shown = await api.call("POST", "/schedules/preview", fields)
    assert shown.status == 200, shown.body
    assert [each["code"] for each in shown.body["warnings"]] == [code]


async def test_a_schedule_that_never_recovers_is_warned_of_when_it_is_made(api: Api) -> None:
    made = await create(api, every_seconds=60, misfire={"policy": "fire_all", "per_minute": 1})
    assert [each["code"] for each in made["warnings"]] == ["never_recovers"]
    path = f"/schedules/{made['schedule_id']}"
    mended = await api.call("PATCH", path, {"misfire": {"policy": "fire_all", "per_minute": 2}})
    assert mended.body["warnings"] == []


@pytest.mark.parametrize(
    ("fields", "status", "field"),
    [
        ({"cron": "61 * * * *"}, 422, "cron"),
        ({"cron": "@daily", "roll": "following"}, 422, "roll"),
        ({"cron": "@daily", "calendar": "nowhere"}, 422, "calendar"),
        ({"cron": "@daily", "calendar": {"weekend": [1, 2, 3, 4, 5, 6, 7]}}, 422, None),
        ({"cron": "@daily", "count": 101}, 422, "count"),
        ({"cron": "@daily", "template": {}}, 422, "template"),
        ({"cron": "@daily", "template": {"payment": {"from_account_id": "a",
          "to_account_id": "b", "amount": 5}}}, 422, "template.payment.from_account_id"),
    ],
)  # fmt: skip
async def test_what_no_other_rule_would_mend_is_refused(
    api: Api, fields: dict[str, Any], status: int, field: str | None
) -> None:
    answer = await api.call("POST", "/schedules/preview", fields)
    assert answer.status == status, answer.body
    assert field is None or answer.body["field"] == field


async def test_a_preview_needs_what_its_template_needs(api: Api) -> None:
    reader = await api.new_key("schedules:read")
    body = {"cron": "@daily"}
    assert (await api.call("POST", "/schedules/preview", body, key=reader)).status == 200
    full = await api.call("POST", "/schedules/preview", {**body, "template": PULL}, key=reader)
    assert (full.status, full.body["field"]) == (403, "template")
