"""Accepting jobs, without HTTP: batches, groups, races, hints."""

import asyncio
from typing import Any

import asyncpg
import pytest

from postdate.core.ids import bucket_of
from postdate.database.connection.database import Database
from postdate.database.connection.error import (
    DatabaseError,
    LockNotAvailableError,
    UnavailableError,
)
from postdate.intake.idempotency import Refused
from postdate.job.accept.intake import JobAnswer
from postdate.job.accept.request import AcceptedJob, JobRequest
from postdate.job.store import job_view
from postdate.lane.store.lane import LaneDirectory
from postdate.words.error import Code, RefusedError
from support.job import ask, make_intake
from support.log import capture_logs

VARIETY: list[dict[str, Any]] = [
    {},
    {"payload": {"n": 1}, "delay_seconds": 60},
    {"payload_base64": "AAE=", "content_type": "image/png"},
    {"payload_ref": "s3://x", "lane": "other"},
    {"destination": {"type": "webhook", "url": "https://example.com/a"}, "metadata": {"k": [1]}},
    {"run_at": "2030-01-01T00:00:00Z", "expires_at": "2030-02-01T00:00:00Z", "description": "d"},
    {"run_at": "2030-01-01T00:00:00Z", "spread_seconds": 100, "retry": {"max_attempts": 2}},
    {"timeout_seconds": 3, "delay_seconds": 60},
    {"run_at": "2001-01-01T00:00:00Z"},
    {"lane": "not a lane"},
    {"payload": 1, "payload_ref": "x"},
]


async def stored(database: Database, result: JobAnswer) -> dict[str, Any]:
    """Show what was written for a result, but for what is new each time."""
    if isinstance(result, Refused):
        return {"code": result.refusal.code, "field": result.refusal.field}
    assert isinstance(result, AcceptedJob)
    tenant_id, job_id = result.request.tenant_id, result.job.job_id
    async with database.write() as connection:
        row = (await job_view.find(connection, tenant_id, [job_id], payload=True))[job_id]
    shown = {name: getattr(row, name) for name in row.__struct_fields__}
    offset = row.due_at - row.created_at if result.request.spec.delay_seconds else None
    for name in ("job_id", "created_at", "effective_at", "timer_due_at"):
        del shown[name]
    if not result.request.spec.run_at:
        del shown["due_at"]
    assert row.timer_due_at == row.effective_at >= row.due_at
    return {**shown, "offset": offset, "late": row.effective_at == row.due_at}


async def test_the_outcome_does_not_depend_on_the_batch_size(
    database: Database, tenant_id: int
) -> None:
    intake = make_intake(database)
    asks = [ask(tenant_id, **members) for members in VARIETY * 2]
    together = await intake.accept(asks)
    alone = [(await intake.accept([one]))[0] for one in asks]
    for one, other in zip(together, alone, strict=True):
        assert await stored(database, one) == await stored(database, other)


async def test_every_column_of_a_mixed_batch_lands_in_its_own_row(
    database: Database, tenant_id: int
) -> None:
    results = await make_intake(database).accept([ask(tenant_id, **m) for m in VARIETY[:8]])
    rows = [await stored(database, result) for result in results]
    assert [row["payload"] for row in rows[:3]] == [None, b'{"n":1}', b"\x00\x01"]
    assert [row["content_type"] for row in rows[:4]] == [
        None, "application/json", "image/png", None,
    ]  # fmt: skip
    assert [row["payload_ref"] for row in rows] == [None] * 3 + ["s3://x"] + [None] * 4
    assert [row["lane"] for row in rows] == ["default"] * 3 + ["other"] + ["default"] * 4
    assert [row["metadata"] for row in rows] == [None] * 4 + [{"k": [1]}] + [None] * 3
    assert [row["description"] for row in rows] == [None] * 5 + ["d"] + [None] * 2
    assert [row["spread_seconds"] for row in rows] == [None] * 6 + [100, None]
    assert [row["policy"] is None for row in rows] == [True] * 6 + [False] * 2


async def test_a_job_lies_in_a_bucket_of_its_lane_with_timer_and_event(
    database: Database, tenant_id: int
) -> None:
    lanes = LaneDirectory(database)
    results = await make_intake(database, lanes).accept([ask(tenant_id) for _ in range(100)])
    (lane,) = await lanes.of_tenant(tenant_id)
    ids = [result.job.job_id for result in results if isinstance(result, AcceptedJob)]
    assert len(set(ids)) == 100
    assert {bucket_of(job_id) for job_id in ids} == set(lane.buckets)
    rows = await database.writer.fetch(
        """SELECT j.bucket, e.type, e.actor, e.data->>'lane' AS lane
             FROM job j JOIN timer t ON t.bucket = j.bucket AND t.subject = j.job_id
             CROSS JOIN LATERAL fact_of_subject(j.tenant_id, j.job_id) AS e
            WHERE j.tenant_id = $1 AND j.bucket = bucket_of(j.job_id) AND t.lane_id = $2""",
        tenant_id,
        lane.lane_id,
    )
    assert len(rows) == 100
    assert {tuple(row[1:]) for row in rows} == {("job.accepted", "test", "default")}


async def test_requests_at_the_same_time_share_commits(database: Database, tenant_id: int) -> None:
    intake = make_intake(database)
    await intake.submit(ask(tenant_id))
    results = await asyncio.gather(*(intake.submit(ask(tenant_id)) for _ in range(200)))
    instants = {result.created_at for result in results if isinstance(result, AcceptedJob)}
    assert len(results) == 200
    assert len(instants) <= 4


async def test_one_bad_request_of_a_group_harms_no_other(
    database: Database, tenant_id: int
) -> None:
    intake = make_intake(database)
    asks = [ask(tenant_id), ask(tenant_id, lane="not a lane"), ask(tenant_id)]
    kinds = [type(r) for r in await asyncio.gather(*(intake.submit(one) for one in asks))]
    assert kinds == [AcceptedJob, Refused, AcceptedJob]


async def test_two_nodes_with_one_key_make_one_job(database: Database, tenant_id: int) -> None:
    nodes = [make_intake(database) for _ in range(4)]
    for number in range(10):
        asks = [ask(tenant_id, key=f"k{number}") for _ in nodes]
        results = await asyncio.gather(
            *(node.submit(one) for node, one in zip(nodes, asks, strict=True))
        )
        accepted = [result for result in results if isinstance(result, AcceptedJob)]
        assert sorted(each.replayed for each in accepted) == [False, True, True, True]
        first, *again = [each.body for each in accepted]
        assert again == [first] * 3
    count = await database.writer.fetchval(
        "SELECT count(*) FROM job WHERE tenant_id = $1", tenant_id
    )
    assert count == 10


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DatabaseError("a row that nobody understands"), Code.INTERNAL),
        (UnavailableError("the connection is gone"), Code.OUTCOME_UNKNOWN),
        (LockNotAvailableError("somebody locks the table"), Code.OUTCOME_UNKNOWN),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_an_answer_that_cannot_be_read_again_repeats_no_commit(
    database: Database,
    tenant_id: int,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    code: Code,
) -> None:
    """Jobs without a key are made by the same commit; nothing would stop a second one."""
    intake = make_intake(database)
    await intake.submit(ask(tenant_id, key="known"))
    replay = intake.strategy.replay

    async def cannot(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(intake.strategy, "replay", cannot)
    asks = [ask(tenant_id, key="known"), *(ask(tenant_id) for _ in range(5))]
    with capture_logs():
        again, *made = await asyncio.gather(*(intake.submit(one) for one in asks))
    assert {type(each) for each in made} == {AcceptedJob}
    assert isinstance(again, Refused)
    assert again.refusal.code is code
    count = "SELECT count(*) FROM job WHERE tenant_id = $1"
    assert await database.writer.fetchval(count, tenant_id) == 6
    monkeypatch.setattr(intake.strategy, "replay", replay)
    assert (await intake.submit(asks[0])).replayed


async def test_a_connection_that_cannot_be_given_back_repeats_no_commit(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit has its answer; what becomes of the connection is another matter."""
    intake = make_intake(database)
    await intake.submit(ask(tenant_id))
    release = asyncpg.Pool.release

    async def lose(*given: Any) -> None:
        await release(*given)
        raise TimeoutError

    monkeypatch.setattr(asyncpg.Pool, "release", lose)
    with capture_logs():
        results = await asyncio.gather(*(intake.submit(ask(tenant_id)) for _ in range(5)))
    monkeypatch.undo()
    assert {type(each) for each in results} == {AcceptedJob}
    count = "SELECT count(*) FROM job WHERE tenant_id = $1"
    assert await database.writer.fetchval(count, tenant_id) == 6


async def test_the_same_key_twice_at_once_in_one_process_is_in_flight(
    database: Database, tenant_id: int
) -> None:
    intake = make_intake(database)
    first = asyncio.create_task(intake.submit(ask(tenant_id, key="k")))
    await asyncio.sleep(0)
    with pytest.raises(RefusedError, match="idempotency_in_flight"):
        await intake.submit(ask(tenant_id, key="k"))
    assert isinstance(await first, AcceptedJob)


async def test_lanes_are_told_after_the_commit_with_the_soonest_instant(
    database: Database, tenant_id: int
) -> None:
    told: list[tuple[int, float]] = []
    lanes = LaneDirectory(database)
    intake = make_intake(
        database, lanes, on_accept=[lambda lane_id, seconds: told.append((lane_id, seconds))]
    )
    asks: list[JobRequest] = [
        ask(tenant_id, delay_seconds=30),
        ask(tenant_id, delay_seconds=20),
        ask(tenant_id, lane="b"),
        ask(tenant_id, lane="bad lane"),
    ]
    await intake.accept(asks)
    names = {lanes.by_id[lane_id].name: seconds for lane_id, seconds in told}
    assert names == {"default": 20.0, "b": 0.0}
