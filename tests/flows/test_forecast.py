"""What becomes due, against a plain count of the same rows and the same occurrences."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from conftest import INTERNAL_TOKEN, Api
from postdate.core.ids import BUCKETS
from postdate.database.connection.database import Database
from postdate.foresight.store import due as due_store
from postdate.foresight.store.due import DueWalk, WalkWindow
from postdate.foresight.view import due as module
from postdate.foresight.view.due import StoredDue, stored_due
from postdate.monitor.store.overview import Places
from postdate.timer.timer import LANE_PAYMENT

pytestmark = pytest.mark.own_database("foresight reads the due work of every tenant")

LANE = 700
EVERY_PLACE: Places = (
    [*range(BUCKETS), *range(8)],
    [LANE_PAYMENT] * BUCKETS + [LANE] * 8,
)
BEGIN = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=2)
TIMERS = """
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
SELECT {bucket}, $1, $2, gen_random_uuid(), $4::timestamptz + (n % {minutes} - 1) *
       interval '1 minute' + interval '30 s'
  FROM generate_series(1, $3::integer) AS n
"""


async def _fill(database: Database, tenant_id: int, jobs: int, payments: int) -> None:
    async with database.write() as connection:
        narrow = TIMERS.format(bucket="n % 8", minutes=90)
        wide = TIMERS.format(bucket="hashint4(n) & 63", minutes=1440)
        await connection.execute(narrow, tenant_id, LANE, jobs, BEGIN)
        await connection.execute(wide, tenant_id, LANE_PAYMENT, payments, BEGIN)


async def _due(database: Database, tenant_id: int, as_tenant: int | None = None) -> StoredDue:
    async with database.read(as_tenant or tenant_id) as connection:
        walk = partial(due_store.by_lane, connection, tenant_id)
        return await stored_due(connection, walk, EVERY_PLACE, BEGIN, BEGIN + timedelta(days=1))


def _minutes(found: StoredDue, key: int) -> dict[int, int]:
    [own] = [each for each in found.found if each.key == key]
    return dict(zip(own.minutes, own.counts, strict=True))


def _told(found: DueWalk) -> dict[int, int]:
    [own] = found.found
    return dict(zip(own.minutes, own.counts, strict=True))


async def test_what_is_stored_is_counted_exactly_and_per_minute(
    database: Database, tenant_id: int
) -> None:
    await _fill(database, tenant_id, 2000, 3000)
    await _fill(database, tenant_id + 1000, 50, 4000)
    found = await _due(database, tenant_id)
    assert found.error_percent is None
    assert _minutes(found, LANE) == Counter(n % 90 - 1 for n in range(1, 2001))
    assert _minutes(found, LANE_PAYMENT) == Counter(n % 1440 - 1 for n in range(1, 3001))
    assert found.backlog == 22 + 2  # one minute before the window begins


async def test_beyond_the_limit_the_error_is_told_and_holds(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _fill(database, tenant_id, 1000, 9000)
    monkeypatch.setattr(module, "SAMPLE_ROWS", 2000)
    held = 0
    async with database.read(tenant_id) as connection:
        walk = partial(due_store.by_lane, connection, tenant_id)
        until = BEGIN + timedelta(days=1)
        for _ in range(40):
            found = await stored_due(connection, walk, EVERY_PLACE, BEGIN, until, exact_limit=1000)
            assert found.error_percent is not None
            assert 0 < found.error_percent < 50
            total = sum(sum(each.counts) for each in found.found)
            held += abs(total - 10_000) <= 100 * found.error_percent
    assert held >= 30  # 19 of 20 are expected; 30 of 40 would fail once in a million runs


async def test_what_is_due_at_once_is_counted_one_by_one_however_long_the_window(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _fill(database, tenant_id, 2000, 0)
    monkeypatch.setattr(module, "PROBE_ROWS", 100)
    async with database.read(tenant_id) as connection:
        walk = partial(due_store.by_lane, connection, tenant_id)
        places: Places = (list(range(8)), [LANE] * 8)
        until = BEGIN + timedelta(days=40)
        found = await stored_due(connection, walk, places, BEGIN, until, exact_limit=20_000)
    assert (found.error_percent, found.known_until) == (None, until)
    assert _minutes(found, LANE) == Counter(n % 90 - 1 for n in range(1, 2001))


async def test_a_walk_that_is_cut_short_counts_whole_minutes_and_says_how_many(
    database: Database, tenant_id: int
) -> None:
    one_a_minute = TIMERS.format(bucket="n % 8", minutes=89)  # in each of the eight buckets
    async with database.write() as connection:
        await connection.execute(one_a_minute, tenant_id, LANE + 1, 8 * 89, BEGIN)
    places: Places = (list(range(8)), [LANE + 1] * 8)
    for limit, whole in ((11, 9), (1, -1), (89, 87), (90, None)):
        window = WalkWindow(
            begin=BEGIN,
            until=BEGIN + timedelta(days=1),
            lane_buckets=places,
            lane_bucket_limit=limit,
            walk_limit=0,
        )
        async with database.read(tenant_id) as connection:
            found = await due_store.by_lane(connection, tenant_id, window)
        known = window.until if whole is None else BEGIN + timedelta(minutes=whole)
        assert (found.walked, found.known_until) == (8 * min(limit, 89), known)
        counted = range(-1, 88 if whole is None else max(whole, 0))
        assert _told(found) == Counter(dict.fromkeys(counted, 8))


async def test_another_tenant_cannot_be_counted(database: Database, tenant_id: int) -> None:
    await _fill(database, tenant_id, 10, 10)
    assert (await _due(database, tenant_id, tenant_id + 1)).found == []


def _spec(**rule: object) -> dict[str, object]:
    job = {"destination": {"type": "worker"}, "lane": "night"}
    return {**rule, "template": {"job": job}}


async def test_load_counts_stored_jobs_and_schedules_once(api: Api) -> None:
    made = await api.call("POST", "/schedules", _spec(cron="*/10 * * * *"))
    assert made.status == 201
    await api.call("POST", "/schedules", _spec(every_seconds=60, jitter_seconds=3600))
    paused = await api.call("POST", "/schedules", _spec(every_seconds=60))
    await api.call("POST", f"/schedules/{paused.body['schedule_id']}/pause", {"note": "no"})
    due = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    for _ in range(3):
        job = {"destination": {"type": "worker"}, "lane": "night", "run_at": due}
        assert (await api.call("POST", "/jobs", job)).status == 201
    [series] = (await api.call("GET", "/foresight/load?by=lane&lane=night")).body["series"]
    assert (series["name"], series["stored"]) == ("night", 3)
    assert series["scheduled"] in range(144 + 1440 - 62, 144 + 1441)
    assert sum(series["counts"]) == series["stored"] + series["scheduled"]


async def test_load_says_when_it_will_be_late_and_what_jitter_changes(api: Api) -> None:
    for _ in range(5):
        await api.call("POST", "/schedules", _spec(cron="0 * * * *"))
    path = "/foresight/load?by=lane&jobs_per_second=0.02&jitter_seconds=3000"
    found = (await api.call("GET", path)).body
    [queue] = found["queues"]
    assert queue["capacity"] == {"per_second": 0.02, "source": "given", "at_least": False}
    assert queue["peak"]["count"] == 5
    assert queue["peak"]["at"].endswith(":00:00Z")
    worst = queue["lateness"]["worst"]
    assert worst["late_seconds"] == 190  # 5 due at once, 1.2 done in that minute
    assert worst["worst_hour"].endswith(":00:00Z")
    [spread] = found["spread"]["queues"]
    assert spread["peak"]["count"] < 5
    assert (spread["lateness"]["worst"] or {"late_seconds": 0})["late_seconds"] < 190
    year = (datetime.now(UTC) + timedelta(days=365)).strftime("%Y-%m-%dT%H:%M:%SZ")
    answer = await api.call("GET", f"/foresight/load?until_at={year}")
    assert answer.body["slot_seconds"] == 86_400
    assert abs(answer.body["queues"][0]["total"] - 5 * 24 * 365) <= 5


async def test_the_operator_sees_all_tenants_and_a_narrow_key_no_payments(api: Api) -> None:
    await api.call("POST", "/schedules", _spec(cron="0 * * * *"))
    headers = {"X-Internal-Auth": INTERNAL_TOKEN}
    found = (await api.call("GET", "/internal/foresight/load", headers=headers)).body
    names = {series["name"]: series["scheduled"] for series in found["series"]}
    assert names[api.tenant] in {23, 24}
    for name in ("ada", "bob"):
        await api.call("POST", "/accounts", {"account_id": name})
    pay = {"from_account_id": "ada", "to_account_id": "bob", "amount": 1}
    await api.call("POST", "/schedules", {"cron": "0 * * * *", "template": {"payment": pay}})
    key = await api.new_key("jobs:read")
    both, narrow = [
        (await api.call("GET", "/foresight/load", key=each)).body for each in (api.key, key)
    ]
    assert [queue["kind"] for queue in both["queues"]] == ["jobs", "payments"]
    assert [queue["kind"] for queue in narrow["queues"]] == ["jobs"]
    assert (both["schedules"], narrow["schedules"]) == (2, 1)
    wrong = await api.call("GET", "/foresight/load?lane=night")
    assert (wrong.status, wrong.body["field"]) == (422, "lane")


@pytest.mark.parametrize(
    ("window", "field"),
    [
        ("from_at=9999-12-31T23:59:59Z", "from_at"),
        ("from_at=0001-01-01T00:00:00%2B14:00", "from_at"),
        ("until_at=9999-12-31T23:59:59-14:00", "until_at"),
        ("from_at=5000-01-01T00:00:00Z&until_at=5000-02-01T00:00:00Z", "from_at"),
    ],
)
async def test_a_window_beyond_every_rule_is_refused(api: Api, window: str, field: str) -> None:
    refused = await api.call("GET", f"/foresight/load?{window}")
    assert (refused.status, refused.body["field"]) == (422, field)
    last = "from_at=2199-12-31T00:00:00Z&until_at=2200-01-01T00:00:00Z"
    await api.call("POST", "/schedules", _spec(cron="0 * * * *", timezone="Europe/Berlin"))
    assert (await api.call("GET", f"/foresight/load?{last}&jitter_seconds=86400")).status == 200
