"""Lists at size: a page costs the same whatever the filter passes over."""

from typing import Any

import msgspec
import pytest

from postdate.database.connection.database import Database
from postdate.job.store import job_list
from postdate.job.store.job_list import Filter, Position
from postdate.lane.store.lane import Lane, LaneDirectory
from postdate.tenant.store import tenant as tenant_store
from support.job import ask, make_intake

JOBS = 100_000
STEP = 10_000
"""Rows made by one statement: each ends well before its time-out on a busy machine too."""

BLOCKS_MOST = 8_000
"""Pages of memory that one page of a list may look at; the tables have several times as many."""

BLOCKS_NONE = 200
"""The same where nothing lies at that end of the index: all the others must not be passed over."""

FILL = """
WITH made AS (
    SELECT n, (SELECT array_agg(b) FROM unnest($1::smallint[]) AS b) AS buckets
      FROM generate_series($4::integer + 1, $4 + $5) AS n),
ids AS (
    SELECT n, buckets[1 + n % 8] AS bucket,
           overlay(overlay(uuid_send(uuid_floor(clock() - n * interval '1 second'))
                   PLACING set_byte('\\x7000', 1, buckets[1 + n % 8]) FROM 7)
                   PLACING int8send(n::bigint) FROM 9) AS id
      FROM made),
job_rows AS (
    INSERT INTO job (bucket, tenant_id, job_id, lane_id, due_at, effective_at, destination)
    SELECT bucket, $2, encode(id, 'hex')::uuid, $3, clock() + n * interval '1 second', clock(),
           '{"type": "worker"}' FROM ids),
timers AS (
    INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
    SELECT bucket, $2, $3, encode(id, 'hex')::uuid, clock() + n * interval '1 second' FROM ids
     WHERE n % 2 = 0)
INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, finished_at, code)
SELECT bucket, $2, encode(id, 'hex')::uuid, 1,
       CASE WHEN n % 1000 = 1 THEN 'FAILED' ELSE 'COMPLETED' END, clock(), clock(), 'x' FROM ids
 WHERE n % 2 = 1
"""


@pytest.fixture(scope="module")
async def lane(database: Database) -> Lane:
    """A lane with half its jobs done, a few of them failed, the others pending."""
    async with database.write() as connection:
        tenant_id = await tenant_store.create(connection, "large")
    assert tenant_id is not None
    lanes = LaneDirectory(database)
    await make_intake(database, lanes).accept([ask(tenant_id, delay_seconds=1)])
    (lane,) = await lanes.of_tenant(tenant_id)
    for first in range(0, JOBS, STEP):
        buckets = list(lane.buckets)
        await database.writer.execute(FILL, buckets, tenant_id, lane.lane_id, first, STEP)
    await database.writer.execute("ANALYZE")
    return lane


def walk(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in walk(child))]


async def explain(connection: Any, text: str, values: tuple[Any, ...]) -> dict[str, Any]:
    rows = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}", *values)
    (explained,) = msgspec.json.decode(rows[0][0])
    plan: dict[str, Any] = explained["Plan"]
    return plan


FILTERS: list[dict[str, Any]] = [
    {},
    {"status": "PENDING"},
    {"status": "READY"},
    {"status": "RUNNING"},
    {"status": "UNKNOWN"},
    {"status": "COMPLETED"},
    {"status": "FAILED"},
    {"status": "CANCELLED"},
]


@pytest.mark.parametrize("members", FILTERS)
async def test_a_page_of_a_large_list_is_cheap(
    database: Database, lane: Lane, members: dict[str, Any]
) -> None:
    seen: list[tuple[str, tuple[Any, ...]]] = []

    class Noting:
        async def fetch(self, text: str, *values: Any) -> list[Any]:
            seen.append((text, values))
            return list(await connection.fetch(text, *values))

    wanted = Filter(tenant_id=lane.tenant_id, **members)
    async with database.read(lane.tenant_id) as connection:
        noting: Any = Noting()
        found = await job_list.page(noting, wanted, [lane], None, 20)
        plans = [await explain(connection, *one) for one in seen]
    large = [
        node.get("Relation Name", "")
        for plan in plans
        for node in walk(plan)
        if node["Node Type"] in {"Seq Scan", "Bitmap Heap Scan"} and node["Actual Rows"] > 1000
    ]
    assert not large
    most = BLOCKS_NONE if members.get("status") in {"READY", "UNKNOWN"} else BLOCKS_MOST
    assert sum(plan["Shared Hit Blocks"] for plan in plans) < most
    if members.get("status") in {None, "PENDING", "COMPLETED", "FAILED"}:
        assert len(found.job_ids) == 20


async def test_counting_a_large_lane_stops_where_it_is_told(database: Database, lane: Lane) -> None:
    async with database.read(lane.tenant_id) as connection:
        counts = (await job_list.count(connection, [lane], 100))[lane.lane_id]
    assert counts.capped
    assert counts.ready + counts.pending <= 800


@pytest.mark.parametrize("limit", [7, 100])
async def test_pages_together_give_everything_once_and_in_order(
    database: Database, lane: Lane, limit: int
) -> None:
    wanted = Filter(tenant_id=lane.tenant_id, status="FAILED")
    after: Position | None = None
    found: list[Any] = []
    async with database.read(lane.tenant_id) as connection:
        expected = await connection.fetch(
            "SELECT subject FROM outcome WHERE tenant_id = $1 AND status = 'FAILED'"
            " ORDER BY subject DESC",
            lane.tenant_id,
        )
        while True:
            page = await job_list.page(connection, wanted, [lane], after, limit)
            found += page.job_ids
            after = page.following
            if after is None:
                break
    assert found == [row[0] for row in expected]


async def test_a_page_that_a_short_walk_does_not_fill_is_filled_by_a_long_one(
    database: Database, lane: Lane
) -> None:
    """Half of the jobs have ended: of the few that a short walk sees, too few."""
    wanted = Filter(tenant_id=lane.tenant_id, status="COMPLETED", lanes=[lane])
    async with database.read(lane.tenant_id) as connection:
        page = await job_list.page(connection, wanted, [lane], None, 100)
    assert len(page.job_ids) == 100
