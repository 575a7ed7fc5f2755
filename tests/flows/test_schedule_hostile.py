"""Schedules asked for by somebody who means no good: refused, never an answer of 500."""

import time
from typing import Any

import pytest

from conftest import Api
from support.schedule import PULL, create

ODD: list[dict[str, Any]] = [
    {"start_at": "9999-12-31T23:59:59-14:00"},
    {"start_at": "0001-01-01T00:00:00+14:00"},
    {"end_at": "9999-12-31T23:59:59Z"},
    {"start_at": "2026-01-01T00:00:00"},
    {"name": "nul \u0000 inside"},
    {"name": "x" * 300},
    {"timezone": "\u0000"},
    {"timezone": ""},
    {"timezone": "UTC\n"},
    {"calendar": "\u0000"},
    {"calendar": "x" * 10_000},
    {"exclude_dates": ["0001-01-01", "9999-12-31"]},
    {"exclude_dates": ["2026-02-30"]},
    {"exclude_dates": ["2026-01-01"] * 1001},
    {"max_runs": 2**31},
    {"jitter_seconds": 10**9},
    {"cron": "* * * * * * *"},
    {"cron": "\u0000 * * * *"},
    {"cron": "٣ * * * *"},
    {"cron": "1-0 * * * *"},
    {"cron": "*/0 * * * *"},
    {"cron": "L-3 * * * *"},
    {"cron": "0 0 * * MON#6"},
    {"cron": "0 0 31W * *"},
    {"cron": "0 0 29 2 MON#5"},
    {"cron": "@every 5m"},
    {"cron": "," * 100},
    {"cron": "0 " * 5000},
    {"cron": None, "rrule": "FREQ=DAILY;UNTIL=99991231T235959Z"},
    {"cron": None, "rrule": "FREQ=YEARLY;INTERVAL=99999"},
    {"cron": None, "rrule": "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=3;BYMINUTE=1;BYSECOND=1"},
    {"cron": None, "rrule": "FREQ=DAILY;COUNT=10001"},
    {"cron": None, "rrule": "FREQ=DAILY;BYMONTHDAY=٣"},
    {"cron": None, "rrule": "RRULE:FREQ=DAILY\nEXDATE:20260101"},
    {"cron": None, "every_seconds": 1.5},
    {"cron": None, "every_seconds": 2**63},
    {"misfire": {"per_minute": 0}},
    {"misfire": {"policy": "fire_once", "extra": 1}},
    {"template": {"job": {"destination": {"type": "worker"}, "lane": "\u0000"}}},
    {"template": {"job": {"destination": {"type": "worker"}, "metadata": {"a": "\u0000"}}}},
    {"template": {"job": {"destination": {"type": "worker"}, "description": "\u0000"}}},
    {"template": {"job": {"destination": {"type": "worker"}, "payload": "\u0000"}}},
    {"template": {"job": {"destination": {"type": "worker"}}, "payment": None}},
    {"template": {"payment": {"from_account_id": "\u0000", "to_account_id": "b", "amount": 1}}},
]


@pytest.mark.parametrize("fields", ODD, ids=str)
async def test_odd_values_are_refused_or_kept_but_never_break(
    api: Api, fields: dict[str, Any]
) -> None:
    body = {"template": PULL, "cron": "@daily", **fields}
    body = {name: value for name, value in body.items() if value is not None}
    began = time.monotonic()
    answer = await api.call("POST", "/schedules", body)
    assert answer.status in {201, 400, 403, 422}, answer.body
    assert time.monotonic() - began < 5
    if answer.status == 201:
        path = f"/schedules/{answer.body['schedule_id']}"
        assert (await api.call("GET", path)).status == 200
        assert (await api.call("GET", f"{path}/preview?count=100")).status == 200
        assert (await api.call("POST", f"{path}/trigger")).status in {201, 422}
        assert (await api.call("DELETE", path)).status == 204


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/pause", {"note": "\u0000"}),
        ("POST", "/backfill", {"from": "0001-01-01T00:00:00+14:00", "until": "2026-01-01T00:00Z"}),
        ("POST", "/backfill", {"from": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}),
        ("POST", "/backfill", {"from": "1500-01-01T00:00:00Z", "until": "1500-01-09T00:00:00Z"}),
        ("GET", "/preview?count=101", None),
        ("GET", "/preview?count=-1", None),
        ("GET", "/occurrences?cursor=abc", None),
        ("GET", "/occurrences?status=lost", None),
        ("PATCH", "", {"cron": None}),
        ("PATCH", "", {"timezone": "Nowhere"}),
        ("PATCH", "", {"start_at": "9999-12-31T23:59:59-14:00"}),
    ],
)  # fmt: skip
async def test_odd_requests_are_refused(
    api: Api, method: str, path: str, body: dict[str, Any] | None
) -> None:
    made = await create(api, cron="0 0 * * *", timezone="Asia/Tokyo")
    answer = await api.call(method, f"/schedules/{made['schedule_id']}{path}", body)
    assert 400 <= answer.status < 500, answer.body


@pytest.mark.parametrize(
    "body",
    [
        {"name": "a b", "holidays": []},
        {"name": "\u0000", "holidays": []},
        {"name": "all", "holidays": [], "weekend": [1, 2, 3, 4, 5, 6, 7]},
        {"name": "all", "holidays": [], "weekend": [0]},
        {"name": "all", "holidays": ["2026-02-30"]},
    ],
)
async def test_odd_calendars_are_refused(api: Api, body: dict[str, Any]) -> None:
    assert (await api.call("POST", "/calendars", body)).status == 422
    assert (await api.call("GET", "/calendars/%00")).status == 404
    assert (await api.call("DELETE", "/calendars/%00")).status == 404
