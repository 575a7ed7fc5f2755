"""Load ahead from the API, every slot against a naive count of what was made."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from conftest import INTERNAL_TOKEN, Api, Clock
from postdate.foresight.view.load import LoadNaming
from postdate.foresight.view.rules import OTHERS
from postdate.tenant.change.tenant import Tenants
from support.schedule import set_to_morning

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
WINDOWS = ((timedelta(hours=1), 1), (DAY, 1), (40 * DAY, 1440))
WORKER: dict[str, Any] = {"type": "worker"}
HOOK = {"type": "webhook", "url": "http://127.0.0.1:8080/hook"}
LANES = ("default", "day", "night", "mail")
BATCH = 1000


class Due(NamedTuple):
    """One thing that becomes due."""

    kind: str
    lane: str
    destination: str
    at: datetime
    scheduled: bool = False


def _name(due: Due, by: str, tenant: str) -> str:
    return {"total": "", "lane": due.lane, "destination": due.destination, "tenant": tenant}[by]


async def _batch(api: Api, kind: str, items: list[dict[str, Any]]) -> None:
    for first in range(0, len(items), BATCH):
        body = {kind: items[first : first + BATCH]}
        answer = await api.call("POST", f"/{kind}/batch", body)
        refused = [each for each in answer.body["outcomes"] if each["status"] != 201]
        assert not refused, refused[0]


async def _store(api: Api, begin: datetime, count: int) -> list[Due]:
    """Store jobs and payments, most of them soon; some are due before the window begins."""
    draw, found = random.Random(count), []
    jobs, payments = [], []
    for number in range(count):
        span = draw.choice((5, 60, 1440, 45 * 1440))
        at = begin + timedelta(seconds=draw.randrange(-120, span * 60))
        if number % 3 == 0:
            found.append(Due("payments", "", "", at))
            pay = {"from_account_id": "ada", "to_account_id": "bob", "amount": 1}
            key = {"idempotency_key": f"p{number}", "scheduled_time": at.isoformat()}
            payments.append({**pay, **key})
            continue
        lane, hook = draw.choice(LANES), draw.random() < 0.5
        found.append(Due("jobs", lane, HOOK["url"] if hook else "worker", at))
        target = {**HOOK, "url": f"{HOOK['url']}?n={number}"} if hook else WORKER
        jobs.append({"destination": target, "lane": lane, "run_at": at.isoformat()})
    for name in ("ada", "bob"):
        await api.call("POST", "/accounts", {"account_id": name})
    credit = {"amount": count, "reason": "start"}
    headers = {"Idempotency-Key": "credit"}
    await api.call("POST", "/accounts/ada/adjustments", credit, headers=headers)
    await _batch(api, "jobs", jobs)
    await _batch(api, "payments", payments)
    return found


def _each_minute(begin: datetime, zone: str, asks: Callable[[datetime], bool]) -> list[datetime]:
    info = ZoneInfo(zone)
    minutes = (begin + n * MINUTE for n in range(40 * 1440))
    return [at for at in minutes if asks(at.astimezone(info))]


async def _schedule(api: Api, begin: datetime) -> list[Due]:
    """Make schedules of several kinds, one of them paused, and look at every minute for each."""
    half_past = (begin + 30 * MINUTE).isoformat()
    job = {"destination": WORKER, "lane": "night"}
    hook = {"destination": HOOK, "lane": "day"}
    pay = {"from_account_id": "ada", "to_account_id": "bob", "amount": 1}
    every_ten = {"cron": "*/10 * * * *", "template": {"job": job}}
    interval = {"every_seconds": 5400, "start_at": half_past, "template": {"job": hook}}
    daily = "FREQ=DAILY;BYHOUR=9;BYMINUTE=30;BYSECOND=0"
    berlin = {"rrule": daily, "timezone": "Europe/Berlin", "template": {"job": hook}}
    paid = {"cron": "0 8 * * 1-5", "template": {"payment": pay}}
    never = {"every_seconds": 60, "template": {"job": job}}
    made = [
        await api.call("POST", "/schedules", each)
        for each in (every_ten, interval, berlin, paid, never)
    ]
    assert [each.status for each in made] == [201] * 5, made
    await api.call("POST", f"/schedules/{made[-1].body['schedule_id']}/pause", {"note": "no"})

    def tell(kind: str, lane: str, to: str, instants: list[datetime]) -> Iterator[Due]:
        return (Due(kind, lane, to, at, scheduled=True) for at in instants)

    tens = _each_minute(begin, "UTC", lambda at: at.minute % 10 == 0)
    steps = [begin + (30 + n * 90) * MINUTE for n in range(40 * 16)]
    mornings = _each_minute(begin, "Europe/Berlin", lambda at: (at.hour, at.minute) == (9, 30))
    eight = _each_minute(
        begin, "UTC", lambda at: (at.hour, at.minute) == (8, 0) and at.strftime("%a")[0] != "S"
    )
    return [
        *tell("jobs", "night", "worker", tens),
        *tell("jobs", "day", HOOK["url"], steps + mornings),
        *tell("payments", "", "", eight),
    ]


def _compare(found: dict[str, Any], due: list[Due], by: str, slot: int, tenant: str) -> None:
    """Count everything once more, slot by slot."""
    begin, until = (datetime.fromisoformat(found[name]) for name in ("from_at", "until_at"))
    assert (found["error_percent"], found["known_until"]) == (None, found["until_at"])
    assert found["slot_seconds"] == slot * 60
    slots: dict[tuple[str, str], Counter[int]] = {}
    for each in due:
        if each.at < until:
            own = slots.setdefault((each.kind, _name(each, by, tenant)), Counter())
            if each.at >= begin:
                own[(each.at - begin) // (slot * MINUTE)] += 1
    wanted = [each for each in found["series"] if by != "tenant" or each["name"] == tenant]
    told = {
        (each["kind"], each["name"]): {at: n for at, n in enumerate(each["counts"]) if n}
        for each in wanted
    }
    assert told == {series: dict(own) for series, own in slots.items()}
    within = [each for each in due if begin <= each.at < until]
    made = sum(each.scheduled for each in within)
    assert sum(each["scheduled"] for each in wanted) == made
    assert sum(each["stored"] for each in wanted) == len(within) - made


async def _compare_all(api: Api, begin: datetime, due: list[Due]) -> None:
    for (length, slot), by in (
        (each, by) for each in WINDOWS for by in ("total", "lane", "destination")
    ):
        window = f"from_at={begin:%Y-%m-%dT%H:%M:00Z}&until_at={begin + length:%Y-%m-%dT%H:%M:00Z}"
        found = (await api.call("GET", f"/foresight/load?by={by}&{window}")).body
        _compare(found, due, by, slot, api.tenant)
        for queue in found["queues"]:
            own = [each for each in due if each.kind == queue["kind"]]
            assert queue["backlog"] == sum(each.at < begin for each in own)
            assert queue["total"] == sum(begin <= each.at < begin + length for each in own)
        headers = {"X-Internal-Auth": INTERNAL_TOKEN}
        found = (await api.call("GET", f"/internal/foresight/load?{window}", headers=headers)).body
        _compare(found, due, "tenant", slot, api.tenant)


async def _begin(clock: Clock) -> datetime:
    await set_to_morning(clock)
    now: datetime = await clock.database.writer.fetchval("SELECT clock()")
    return now.replace(second=0, microsecond=0) + 10 * MINUTE


async def test_every_slot_equals_a_naive_count(api: Api, clock: Clock) -> None:
    begin = await _begin(clock)
    other = replace(api, tenant=f"{api.tenant}-b")
    tenants = Tenants(api.node.database)
    await tenants.create(other.tenant)
    other.key = (await tenants.issue(other.tenant, ["admin"])).key
    due = {
        each.tenant: await _store(each, begin, count) for each, count in ((api, 300), (other, 90))
    }
    due[api.tenant] += await _schedule(api, begin)
    for each in (api, other):
        await _compare_all(each, begin, due[each.tenant])


@pytest.mark.soak
async def test_every_slot_of_a_hundred_thousand_equals_a_naive_count(
    api: Api, clock: Clock
) -> None:
    begin = await _begin(clock)
    due = await _store(api, begin, 100_000) + await _schedule(api, begin)
    await _compare_all(api, begin, due)


async def test_slots_that_are_too_short_for_the_window_are_refused_before_counting(
    api: Api, clock: Clock
) -> None:
    begin = await _begin(clock)
    until = (begin + 360 * DAY).strftime("%Y-%m-%dT%H:%M:%SZ")
    refused = await api.call("GET", f"/foresight/load?by=lane&slot_seconds=60&until_at={until}")
    assert refused.status == 422
    assert (refused.body["code"], refused.body["field"]) == ("invalid_field", "slot_seconds")
    least = int(re.search(r"at least (\d+)", refused.body["detail"])[1])  # type: ignore[index]
    for seconds, status in ((least - 60, 422), (least, 200)):
        window = f"by=lane&slot_seconds={seconds}&until_at={until}"
        assert (await api.call("GET", f"/foresight/load?{window}")).status == status


def test_the_tenants_beyond_the_largest_keep_their_common_name() -> None:
    """The operator's answer was a 500 as soon as 25 tenants had schedules."""
    naming = LoadNaming("tenant", [], {7: "acme"})
    assert [naming.of_scheduled(name) for name in ("7", "8", OTHERS)] == ["acme", "8", OTHERS]
