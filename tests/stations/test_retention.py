"""Retention, walked step by step."""

from datetime import timedelta
from uuid import UUID

from conftest import Clock
from postdate.core.ids import bucket_of, new_id
from postdate.core.setting.setting import Settings, Stored
from postdate.database.connection.database import Database
from postdate.intake.store import KeyScope, key_of
from postdate.job.accept.request import AcceptedJob
from postdate.job.store import progress
from postdate.job.store.progress import LogRow, NewProgress
from postdate.lane.store.lane import LaneDirectory
from postdate.worker.retention import Retention
from support.job import ask, make_intake

DAY = 24 * 3600


async def accept(
    database: Database, lanes: LaneDirectory, tenant_id: int, key: str | None = None
) -> UUID:
    (accepted,) = await make_intake(database, lanes).accept([ask(tenant_id, key=key)])
    assert isinstance(accepted, AcceptedJob)
    return accepted.job.job_id


async def complete(database: Database, job_id: UUID) -> None:
    await database.writer.execute(
        """WITH gone AS (DELETE FROM timer WHERE bucket = $1 AND subject = $2 RETURNING *)
           INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, finished_at)
           SELECT bucket, tenant_id, subject, 1, 'COMPLETED', due_at, clock() FROM gone""",
        bucket_of(job_id),
        job_id,
    )


async def walk(database: Database, settings: Settings) -> None:
    retention = Retention(database, settings)
    while await retention.run_once(1000):
        pass


async def jobs(database: Database, tenant_id: int) -> set[UUID]:
    rows = await database.writer.fetch("SELECT job_id FROM job WHERE tenant_id = $1", tenant_id)
    return {row["job_id"] for row in rows}


async def test_only_what_ended_long_ago_is_removed(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lanes = LaneDirectory(database)
    old = await accept(database, lanes, tenant_id)
    waiting = await accept(database, lanes, tenant_id)
    late = await accept(database, lanes, tenant_id)
    await complete(database, old)
    await clock.advance(20 * DAY)
    await complete(database, late)
    await clock.advance(11 * DAY)
    await walk(database, Settings())
    assert await jobs(database, tenant_id) == {waiting, late}
    await clock.advance(20 * DAY)
    await walk(database, Settings())
    assert await jobs(database, tenant_id) == {waiting}


async def test_progress_and_logs_go_with_their_job(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lanes = LaneDirectory(database)
    old, late = [await accept(database, lanes, tenant_id) for _ in range(2)]
    async with database.write() as writing:
        for job_id in (old, late):
            await progress.put(writing, tenant_id, job_id, NewProgress(50, b"half", b"1"))
            await progress.put_log(writing, tenant_id, job_id, 1, LogRow(0, b'["line"]'))
    await complete(database, old)
    await clock.advance(20 * DAY)
    await complete(database, late)
    await clock.advance(11 * DAY)
    await walk(database, Settings())
    for table in ("job_progress", "attempt_log"):
        rows = await database.writer.fetch(
            f"SELECT job_id FROM {table} WHERE tenant_id = $1", tenant_id
        )
        assert [row["job_id"] for row in rows] == [late], table


async def test_a_tenant_may_keep_everything(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lanes = LaneDirectory(database)
    job_id = await accept(database, lanes, tenant_id)
    await complete(database, job_id)
    await clock.advance(400 * DAY)
    stored = Stored(tenant_id, "job.retention_days", 0)
    await walk(database, Settings({(tenant_id, "job.retention_days"): stored}))
    assert await jobs(database, tenant_id) == {job_id}


async def test_a_walk_goes_on_where_it_stopped(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    """More jobs than one step takes, the open ones in between."""
    lanes = LaneDirectory(database)
    first = await accept(database, lanes, tenant_id)
    bucket = bucket_of(first)
    open_ids = [new_id(bucket, database.unix_ms()) for _ in range(1200)]
    await database.writer.execute(
        """INSERT INTO job (bucket, tenant_id, job_id, lane_id, due_at, effective_at, destination)
           SELECT $1, $2, id, 16, clock(), clock(), '{}' FROM unnest($3::uuid[]) AS id""",
        bucket,
        tenant_id,
        open_ids,
    )
    last = max(open_ids)
    await database.writer.execute(
        """INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, finished_at)
           VALUES ($1, $2, $3, 1, 'COMPLETED', clock(), clock())""",
        bucket,
        tenant_id,
        last,
    )
    await clock.advance(31 * DAY)
    await walk(database, Settings())
    assert await jobs(database, tenant_id) == {first, *open_ids} - {last}


async def keys(database: Database, tenant_id: int) -> set[UUID]:
    rows = await database.writer.fetch(
        "SELECT key FROM idempotency WHERE tenant_id = $1", tenant_id
    )
    return {row["key"] for row in rows}


def hash_of(tenant_id: int, key: str) -> UUID:
    return key_of(tenant_id, KeyScope.JOB, key).hash


async def test_a_key_is_forgotten_a_week_after_its_job_has_ended_and_not_before(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lanes = LaneDirectory(database)
    job_id = await accept(database, lanes, tenant_id, key="k")
    await clock.advance(9 * 365 * DAY)
    await walk(database, Settings())
    assert await keys(database, tenant_id) == {hash_of(tenant_id, "k")}
    await complete(database, job_id)
    await clock.advance(timedelta(days=6, hours=23).total_seconds())
    await walk(database, Settings())
    assert await keys(database, tenant_id) == {hash_of(tenant_id, "k")}
    await clock.advance(2 * 3600)
    await walk(database, Settings())
    assert await keys(database, tenant_id) == set()


async def test_a_walk_over_keys_goes_past_those_that_are_kept(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    """More keys of open jobs than one step takes stand in front of an old one."""
    lanes = LaneDirectory(database)
    job_id = await accept(database, lanes, tenant_id, key="an open job")
    insert = """INSERT INTO idempotency (bucket, tenant_id, scope, key, fingerprint, subject,
                                         created_at, kept)
                SELECT 7, $1, $2, hash::uuid, hash::uuid, $4::uuid, clock(), ''
                  FROM generate_series(1, $5) AS n, lpad(to_hex($3 + n), 32, '0') AS hash"""
    write = database.writer.execute
    await write(insert, tenant_id, KeyScope.JOB, 0, job_id, 1200)
    await write(insert, tenant_id, KeyScope.JOB, 5000, None, 1)
    await write(insert, tenant_id, KeyScope.PAYMENT, 6000, None, 1)
    await clock.advance(8 * DAY)
    await walk(database, Settings())
    left = await keys(database, tenant_id)
    assert UUID(int=5001) not in left
    kept = {UUID(int=6001), UUID(int=1), UUID(int=1200), hash_of(tenant_id, "an open job")}
    assert kept <= left
