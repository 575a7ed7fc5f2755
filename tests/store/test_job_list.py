"""Lists at size: a page costs the same whatever the filter passes over."""

from typing import Any

import msgspec
import pytest

from job_ground import ask, make_intake
from postdate.store import job_list
from postdate.store import tenant as tenant_store
from postdate.store.database import Database
from postdate.store.job_list import Filter
from postdate.store.lane import Lane, LaneDirectory

JOBS = 100_000
BLOCKS_MOST = 20_000
"""Pages of memory that one page of a list may look at; the tables have several times as many."""

FILL = """
WITH made AS (
    SELECT n, (SELECT array_agg(b) FROM unnest($1::smallint[]) AS b) AS buckets
      FROM generate_series(1, $4) AS n),
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
INSERT INTO outcome (bucket, tenant_id, subject, token, status, due_at, finished_at, code)
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
    (lane,) = lanes.of_tenant(tenant_id)
    await database.writer.execute(FILL, list(lane.buckets), tenant_id, lane.lane_id, JOBS)
    await database.writer.execute("ANALYZE")
    return lane


def walk(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in walk(child))]


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
        text, values = seen[0]
        rows = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}", *values)
    (explained,) = msgspec.json.decode(rows[0][0])
    nodes = walk(explained["Plan"])
    large = [
        node.get("Relation Name", "")
        for node in nodes
        if node["Node Type"] in {"Seq Scan", "Bitmap Heap Scan"} and node["Actual Rows"] > 1000
    ]
    assert not large
    assert explained["Plan"]["Shared Hit Blocks"] < BLOCKS_MOST
    if members.get("status") in {None, "PENDING", "COMPLETED", "FAILED"}:
        assert len(found.job_ids) == 20


async def test_counting_a_large_lane_stops_where_it_is_told(database: Database, lane: Lane) -> None:
    async with database.read(lane.tenant_id) as connection:
        counts = (await job_list.count(connection, [lane], 100))[lane.lane_id]
    assert counts.capped
    assert counts.ready + counts.pending <= 800
