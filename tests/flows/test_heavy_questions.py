"""Questions that are too much for a thread: a process gives the same answers."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from conftest import Api, Clock, eventually
from postdate.core.work import TooMuchWorkError
from postdate.database.connection import off_loop
from postdate.database.connection.compute_pool import ComputePool, PoolLimits
from postdate.foresight.view.load import LoadViews
from support.schedule import set_to_morning

DAY = timedelta(days=1)
WORKER = {"type": "worker"}
PAY = {"from_account_id": "ada", "to_account_id": "bob", "amount": 700}
RULES: tuple[dict[str, Any], ...] = (
    {"cron": "*/10 * * * *", "template": {"job": {"destination": WORKER, "lane": "night"}}},
    {
        "rrule": "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0",
        "timezone": "Europe/Berlin",
        "max_runs": 90,
        "jitter_seconds": 600,
        "template": {"job": {"destination": WORKER, "lane": "day"}},
    },
    {"every_seconds": 7000, "calendar": "bank", "template": {"job": {"destination": WORKER}}},
    {
        "cron": "0 8 * * 1-5",
        "insufficient_funds": {"policy": "retry", "retry_seconds": 100_000},
        "template": {"payment": PAY},
    },
)


async def _fill(api: Api) -> list[str]:
    """Make accounts, a calendar and a few schedules; return the ids of these."""
    for name in ("ada", "bob"):
        await api.call("POST", "/accounts", {"account_id": name})
    credit = {"amount": 5000, "reason": "start"}
    headers = {"Idempotency-Key": "credit"}
    await api.call("POST", "/accounts/ada/adjustments", credit, headers=headers)
    calendar = {"name": "bank", "holidays": ["2027-01-01"]}
    assert (await api.call("POST", "/calendars", calendar)).status == 201
    made = [await api.call("POST", "/schedules", each) for each in RULES]
    assert [each.status for each in made] == [201] * len(RULES), [each.body for each in made]
    return [each.body["schedule_id"] for each in made]


async def _answers(api: Api, schedules: list[str], until: str, since: str) -> list[str]:
    draft = {
        "changes": [
            {"type": "freeze", "from_at": since, "until_at": until},
            {"type": "pause_schedule", "schedule_id": schedules[0]},
        ],
        "until_at": until,
    }
    asked: list[tuple[str, str, Any]] = [
        ("GET", f"/foresight/load?by=lane&until_at={until}&jobs_per_second=0.001", None),
        ("GET", f"/foresight/load?until_at={until}&jitter_seconds=900", None),
        ("GET", f"/foresight/money?until_at={until}", None),
        ("GET", f"/foresight/money?until_at={until}&account_id=ada", None),
        ("POST", "/change-sets", draft),
        ("POST", "/schedules/preview", {**RULES[1], "count": 100}),
        *(("GET", f"/schedules/{each}/preview?count=50", None) for each in schedules),
    ]
    found = [await api.call(*each) for each in asked]
    assert {each.status for each in found} <= {200, 201}, [each.body for each in found]
    return [_timeless(each.body.get("effect", each.body)) for each in found]


def _timeless(body: dict[str, Any]) -> str:
    """Return an answer without the instant at which it was asked."""
    text = msgspec.json.encode(body).decode()
    return text.replace(str(body.get("from_at")), "now")


async def test_a_process_answers_as_a_thread_does(
    api: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_to_morning(clock)
    now = await clock.database.writer.fetchval("SELECT clock()")
    until, since = ((now + n * DAY).strftime("%Y-%m-%dT%H:%M:%SZ") for n in (200, 3))
    schedules = await _fill(api)
    in_threads = await _answers(api, schedules, until, since)
    pool, asked = ComputePool(PoolLimits(idle_seconds=0.5)), []
    submit = pool.submit

    def counted(*arguments: Any) -> Any:
        asked.append(getattr(arguments[1], "__name__", "partial"))
        return submit(*arguments)

    monkeypatch.setattr(pool, "submit", counted)
    monkeypatch.setattr(off_loop, "POOL", pool)
    monkeypatch.setattr(off_loop, "_within_allowance", _no_allowance)
    try:
        assert await _answers(api, schedules, until, since) == in_threads
    finally:
        pool.close()
    assert {"load_view", "listed", "_settled", "_both", "preview_stored"} <= {*asked}


def _no_allowance(*_: object) -> None:
    raise TooMuchWorkError


async def test_a_question_ends_when_its_client_hangs_up(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = ComputePool(PoolLimits(idle_seconds=60))
    monkeypatch.setattr(off_loop, "POOL", pool)
    monkeypatch.setattr(off_loop, "_within_allowance", _no_allowance)
    monkeypatch.setattr(LoadViews, "answered", _sleep_in_process)

    async def computes() -> bool:
        return bool(pool.pids)

    async def ended() -> bool:
        return not pool.pids and not off_loop._under_way

    asking = asyncio.create_task(api.call("GET", "/foresight/load"))
    try:
        assert await eventually(computes)
        asking.cancel()
        assert await eventually(ended)
    finally:
        pool.close()


async def _sleep_in_process(_: LoadViews, tenant_id: int, *__: object) -> None:
    await off_loop.in_process(tenant_id, time.sleep, 60)
