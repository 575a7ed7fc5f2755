"""Schedules as a client makes, sees, previews and shares them."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from conftest import Api
from support.schedule import PULL, create


async def test_every_answer_shows_all_policies(api: Api) -> None:
    made = await create(api, cron="30 2 * * *", timezone="America/New_York")
    assert made["dst"] == {"gap": "shift_forward", "repeated": "first"}
    assert made["misfire"]["policy"] == "fire_once"
    assert made["overlap"] == "allow"
    assert made["jitter_seconds"] == 0
    assert made["insufficient_funds"]["policy"] == "fail"
    assert made["status"] == "ACTIVE"
    assert made["version"] == 1
    assert made["next_due_at"] is not None
    hourly = await create(api, cron="*/15 * * * *", timezone="America/New_York")
    assert hourly["dst"] == {"gap": "skip", "repeated": "both"}
    shown = await api.call("GET", f"/schedules/{made['schedule_id']}")
    assert {**shown.body, "warnings": []} == made
    listed = await api.call("GET", "/schedules?limit=1")
    assert len(listed.body["schedules"]) == 1
    rest = await api.call("GET", f"/schedules?cursor={listed.body['next_cursor']}")
    assert [each["schedule_id"] for each in rest.body["schedules"]] == [hourly["schedule_id"]]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "* * *"}, "cron"),
        ({"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "rrule"),
        ({"rrule": "FREQ=SOMETIMES"}, "rrule"),
        ({"cron": "@daily", "timezone": "Mars/Olympus"}, "timezone"),
        ({"cron": "@daily", "timezone": "../../etc/passwd"}, "timezone"),
        ({"every_seconds": 0}, "every_seconds"),
        ({}, "cron"),
        ({"cron": "@daily", "every_seconds": 60}, "every_seconds"),
        ({"cron": "@daily", "start_at": "2040-01-02T00:00:00Z", "end_at": "2040-01-01T00:00:00Z"},
         "end_at"),
        ({"cron": "@daily", "end_at": "2020-01-01T00:00:00Z"}, "end_at"),
        ({"cron": "@daily", "calendar": "nowhere"}, "calendar"),
        ({"cron": "@daily", "roll": "following"}, "roll"),
        ({"cron": "@daily", "jitter_seconds": -1}, "jitter_seconds"),
        ({"cron": "@daily", "dst": {"gap": "panic"}}, "dst.gap"),
        ({"cron": "@daily", "colour": "red"}, "colour"),
        ({"cron": "@daily", "template": {}}, "template"),
        ({"cron": "@daily", "template": {"job": {"destination": {"type": "webhook"}}}},
         "template.job.destination"),
        ({"cron": "@daily", "template": {"job": {"destination": {"type": "worker"},
                                                 "run_at": "2030-01-01T00:00:00Z"}}},
         "template.job.run_at"),
        ({"cron": "@daily", "template": {"payment": {"from_account_id": "a", "to_account_id": "b",
                                                     "amount": 5}}},
         "template.payment.from_account_id"),
        ({"cron": "@daily", "template": {"payment": {"from_account_id": "a", "to_account_id": "a",
                                                     "amount": 5}}},
         "template.payment.to_account_id"),
    ],
)  # fmt: skip
async def test_what_cannot_be_kept_is_refused_by_its_part(
    api: Api, fields: dict[str, Any], field: str
) -> None:
    answer = await api.call("POST", "/schedules", {"template": PULL, **fields})
    assert answer.status == 422, answer.body
    assert answer.body["field"] == field, answer.body
    assert (await api.call("GET", "/schedules")).body["schedules"] == []


async def test_the_shortest_interval_is_the_tenants(api: Api) -> None:
    put = await api.call("PUT", "/settings/schedule.min_interval_seconds", {"value": 300})
    assert put.status == 200, put.body
    await api.node.refresh_settings()
    for rule in ({"every_seconds": 299}, {"cron": "*/2 * * * *"}, {"cron": "* * * * * *"}):
        answer = await api.call("POST", "/schedules", {"template": PULL, **rule})
        assert answer.status == 422
        assert answer.body["field"] == next(iter(rule))
    await create(api, every_seconds=300)


async def test_a_preview_says_what_each_policy_does(api: Api) -> None:
    made = await create(
        api,
        cron="30 2 * * *",
        timezone="America/New_York",
        start_at="2031-03-08T00:00:00Z",
        jitter_seconds=600,
    )
    path = f"/schedules/{made['schedule_id']}/preview?count=3"
    coming = (await api.call("GET", path)).body["occurrences"]
    assert [each["scheduled_for"] for each in coming] == [
        "2031-03-08T07:30:00Z", "2031-03-09T07:30:00Z", "2031-03-10T06:30:00Z",
    ]  # fmt: skip
    assert coming[1]["notes"] == ["gap_shifted_forward"]
    assert coming[1]["nominal_local"] == "2031-03-09T02:30:00"
    assert coming[1]["local"] == "2031-03-09T03:30:00-04:00"
    shifts = {
        datetime.fromisoformat(each["due_at"]) - datetime.fromisoformat(each["scheduled_for"])
        for each in coming
    }
    assert len(shifts) == 1
    assert timedelta(0) <= shifts.pop() < timedelta(seconds=600)


async def test_a_calendar_closes_days_and_moves_what_falls_on_them(api: Api) -> None:
    holidays = ["2031-05-01"]
    body = {"name": "target2", "holidays": holidays}
    assert (await api.call("POST", "/calendars", body)).status == 201
    rules = {"cron": "0 9 1 * *", "start_at": "2031-04-30T00:00:00Z", "calendar": "target2"}
    skipped = await create(api, **rules)
    path = f"/schedules/{skipped['schedule_id']}"
    first = (await api.call("GET", f"{path}/preview?count=1")).body["occurrences"][0]
    assert (first["status"], first["notes"]) == ("SKIPPED_BY_CALENDAR", ["closed_day"])
    rolled = await create(api, **rules, roll="modified_following")
    path = f"/schedules/{rolled['schedule_id']}"
    first = (await api.call("GET", f"{path}/preview?count=1")).body["occurrences"][0]
    assert first["scheduled_for"] == "2031-05-02T09:00:00Z"
    assert first["notes"] == ["rolled_modified_following"]
    assert rolled["next_due_at"] == "2031-05-02T09:00:00Z"
    # Another holiday moves the timer of those that follow the calendar.
    holidays.append("2031-05-02")
    await api.call("POST", "/calendars", body)
    assert (await api.call("GET", path)).body["next_due_at"] == "2031-05-05T09:00:00Z"
    assert (await api.call("DELETE", "/calendars/target2")).status == 409
    for each in (skipped, rolled):
        assert (await api.call("DELETE", f"/schedules/{each['schedule_id']}")).status == 204
    assert (await api.call("GET", "/calendars")).body["calendars"][0]["name"] == "target2"
    assert (await api.call("GET", "/calendars/target2")).body["weekend"] == [6, 7]
    assert (await api.call("DELETE", "/calendars/target2")).status == 204
    assert (await api.call("GET", "/calendars/target2")).status == 404


async def test_the_same_key_creates_one_schedule(api: Api) -> None:
    body = {"template": PULL, "cron": "@daily"}
    key = {"Idempotency-Key": "a-schedule"}
    first = await api.call("POST", "/schedules", body, headers=key)
    again = await api.call("POST", "/schedules", body, headers=key)
    assert (first.status, again.status) == (201, 201)
    assert first.body == again.body
    assert again.headers["idempotency-replayed"] == "true"
    other = await api.call("POST", "/schedules", {**body, "cron": "@hourly"}, headers=key)
    assert (other.status, other.body["differs"]) == (422, ["cron"])
    assert len((await api.call("GET", "/schedules")).body["schedules"]) == 1


async def test_a_key_can_schedule_no_more_than_it_can_do(api: Api) -> None:
    only = await api.new_key("schedules:write", "schedules:read")
    body = {"template": PULL, "cron": "@daily"}
    answer = await api.call("POST", "/schedules", body, key=only)
    assert (answer.status, answer.body["field"]) == (403, "template")
    able = await api.new_key("schedules:write", "jobs:write")
    assert (await api.call("POST", "/schedules", body, key=able)).status == 201
    assert (await api.call("GET", "/schedules", key=able)).status == 403


async def test_another_tenants_schedule_looks_missing(api: Api) -> None:
    made = await create(api, cron="@daily")
    stranger = await api.new_key(tenant=await _other_tenant(api))
    path = f"/schedules/{made['schedule_id']}"
    for method, suffix, body in (
        ("GET", "", None), ("PATCH", "", {"cron": "@hourly"}), ("DELETE", "", None),
        ("POST", "/pause", {}), ("POST", "/trigger", None), ("GET", "/occurrences", None),
    ):  # fmt: skip
        assert (await api.call(method, path + suffix, body, key=stranger)).status == 404
    assert {**(await api.call("GET", path)).body, "warnings": []} == made


async def _other_tenant(api: Api) -> str:
    name = f"other-{api.tenant}"
    await api.node.database.writer.execute("INSERT INTO tenant (name) VALUES ($1)", name)
    return name
