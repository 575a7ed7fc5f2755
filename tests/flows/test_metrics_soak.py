"""With a million timers, a tenth of them overdue: what a reading and a scrape cost."""

import time

import pytest

from conftest import Api
from postdate.database.connection.query import query
from support.worker import make_lane

pytestmark = pytest.mark.soak

TIMERS = 1_000_000
CHUNK = 25_000
SCRAPES = 20
SCRAPE_CPU_MS = 50.0

FILL = """
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
SELECT ($3::smallint[])[n % cardinality($3::smallint[]) + 1], $1, $2, gen_random_uuid(),
       clock() + (n - $4::integer) * interval '1 second'
  FROM generate_series($5::integer + 1, $6::integer) AS n
"""


async def test_a_scrape_and_a_reading_stay_cheap(api: Api, tenant_id: int) -> None:
    lane = await make_lane(api.node.database, tenant_id, "soak")
    for first in range(0, TIMERS, CHUNK):
        async with api.node.database.write() as connection:
            await connection.execute(
                FILL, tenant_id, lane.lane_id, lane.buckets, TIMERS // 10, first, first + CHUNK
            )
    await api.node.lanes.refresh()
    await api.node.vitals.run_once()
    began = time.monotonic()
    await api.node.vitals.run_once()
    reading_ms = (time.monotonic() - began) * 1000
    walls = []
    cpu = time.process_time()
    for _ in range(SCRAPES):
        began = time.monotonic()
        async with api.session.get(f"{api.url}/metrics") as response:
            text = await response.text()
        walls.append((time.monotonic() - began) * 1000)
    cpu_ms = (time.process_time() - cpu) * 1000 / SCRAPES
    walls.sort()
    print(
        f"reading {reading_ms:.1f} ms; scrape {walls[SCRAPES // 2]:.1f} ms median, "
        f"{walls[-1]:.1f} ms most, {cpu_ms:.1f} ms CPU with its client, {len(text)} bytes"
    )
    assert 'postdate_backlog{kind="push"}' in text
    assert cpu_ms <= SCRAPE_CPU_MS


async def test_the_backlog_is_read_from_the_index(api: Api) -> None:
    async with api.node.database.connection() as connection:
        now = await connection.fetchval("SELECT clock()")
        rows = await connection.fetch(
            "EXPLAIN " + query("vital_backlog"), [0, 1], [16, 16], [now, now], 100
        )
    plan = "\n".join(row[0] for row in rows)
    assert "timer_due" in plan
    assert "Seq Scan on timer" not in plan
