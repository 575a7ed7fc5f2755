"""What the overview says is coming, against a plain count of the same rows."""

from collections import Counter

import pytest

from postdate.model.ids import BUCKETS
from postdate.store.connection.database import Database
from postdate.store.operate.overview import DueCount, Places
from postdate.store.timer.timer import LANE_PAYMENT
from postdate.views.monitor import forecast as module
from postdate.views.monitor.forecast import _chart, forecast

LANE = 700
EVERY_PLACE: Places = (
    [*range(BUCKETS), *range(8)],
    [LANE_PAYMENT] * BUCKETS + [LANE] * 8,
)
TIMERS = """
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
SELECT {bucket}, $1, $2, gen_random_uuid(),
       clock() + n % {minutes} * interval '1 minute' + interval '30 s'
  FROM generate_series(1, $3::integer) AS n
"""
BOTH = {False: 1.0, True: 1.0}


async def _fill(database: Database, tenant_id: int, jobs: int, payments: int) -> None:
    async with database.write() as connection:
        narrow = TIMERS.format(bucket="n % 8", minutes=90)
        wide = TIMERS.format(bucket="hashint4(n) & 63", minutes=1440)
        await connection.execute(narrow, tenant_id, LANE, jobs)
        await connection.execute(wide, tenant_id, LANE_PAYMENT, payments)


async def test_what_comes_is_counted_exactly_and_per_minute(
    database: Database, tenant_id: int
) -> None:
    await _fill(database, tenant_id, 2000, 3000)
    await _fill(database, tenant_id + 1000, 50, 4000)
    async with database.read(tenant_id) as connection:
        found = await forecast(connection, tenant_id, EVERY_PLACE)
    jobs = Counter(n % 90 for n in range(1, 2001))
    payments = Counter(n % 1440 for n in range(1, 3001))
    assert found.error_percent is None
    assert found.hour.jobs == [jobs[minute] for minute in range(60)]
    assert found.hour.payments == [payments[minute] for minute in range(60)]
    assert found.day.total == 5000
    assert found.day.whole


async def test_beyond_the_limit_the_error_is_told_and_holds(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXACT_LIMIT", 1000)
    await _fill(database, tenant_id, 1000, 9000)
    held = 0
    async with database.read(tenant_id) as connection:
        monkeypatch.setattr(module, "SAMPLE_LIMIT", 1000)
        monkeypatch.setattr(module, "SAMPLED_LANE_BUCKETS", 8)
        monkeypatch.setattr(module, "WALK_LIMIT", 100_001)
        for _ in range(40):
            found = await forecast(connection, tenant_id, EVERY_PLACE)
            assert found.error_percent is not None
            assert 0 < found.error_percent < 50
            held += abs(found.day.total - 10_000) <= 100 * found.error_percent
    assert held >= 30  # 19 of 20 are expected; 30 of 40 would fail once in a million runs


async def test_another_tenant_cannot_be_counted(database: Database, tenant_id: int) -> None:
    await _fill(database, tenant_id, 10, 10)
    async with database.read(tenant_id + 1) as connection:
        found = await forecast(connection, tenant_id, EVERY_PLACE)
    assert found.day.total == 0


async def test_the_charts_end_where_the_counting_did() -> None:
    rows = [
        DueCount(0, None, False, 3, 9, 1900.0),
        DueCount(0, None, True, 2, 9, 1900.0),
        DueCount(None, 1, True, 9, 9, 1900.0),
    ]
    hour, day = _chart(rows, BOTH, 1, 60), _chart(rows, BOTH, 15, 96)
    assert hour.jobs == [3] + [0] * 30 + [None] * 29
    assert hour.payments == [2] + [0] * 30 + [None] * 29
    assert day.payments == [2, 0] + [None] * 94
    assert not day.whole
    late = [DueCount(1439, None, False, 4, 4, 86400.0)]
    assert _chart(late, BOTH, 15, 96).jobs == [0] * 95 + [4]
