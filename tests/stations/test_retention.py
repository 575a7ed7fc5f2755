"""Retention, walked step by step."""

from datetime import timedelta
from uuid import UUID

from conftest import Clock
from job_ground import ask, make_intake
from postdate.intake.job_batch import Accepted
from postdate.model.ids import bucket_of, new_id
from postdate.model.setting import Settings, Stored
from postdate.store.database import Database
from postdate.store.lane import LaneDirectory
from postdate.worker.retention import Retention

DAY = 24 * 3600


async def accept(
    database: Database, lanes: LaneDirectory, tenant_id: int, key: str | None = None
) -> UUID:
    (accepted,) = await make_intake(database, lanes).accept([ask(tenant_id, key=key)])
    assert isinstance(accepted, Accepted)
    return accepted.job.job_id


async def complete(database: Database, job_id: UUID) -> None:
    await database.writer.execute(
        """WITH gone AS (DELETE FROM timer WHERE bucket = $1 AND subject = $2 RETURNING *)
           INSERT INTO outcome (bucket, tenant_id, subject, token, status, due_at, finished_at)
           SELECT bucket, tenant_id, subject, 1, 'COMPLETED', due_at, clock() FROM gone""",
        bucket_of(job_id),
        job_id,
    )


async def walk(database: Database, lanes: LaneDirectory, settings: Settings) -> None:
    retention = Retention(database, lanes, settings)
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
    await walk(database, lanes, Settings())
    assert await jobs(database, tenant_id) == {waiting, late}
    await clock.advance(20 * DAY)
    await walk(database, lanes, Settings())
    assert await jobs(database, tenant_id) == {waiting}


async def test_a_tenant_may_keep_everything(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lanes = LaneDirectory(database)
    job_id = await accept(database, lanes, tenant_id)
    await complete(database, job_id)
    await clock.advance(400 * DAY)
    stored = Stored(tenant_id, "job.retention_days", 0)
    await walk(database, lanes, Settings({(tenant_id, "job.retention_days"): stored}))
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
        """INSERT INTO outcome (bucket, tenant_id, subject, token, status, due_at, finished_at)
           VALUES ($1, $2, $3, 1, 'COMPLETED', clock(), clock())""",
        bucket,
        tenant_id,
        last,
    )
    await clock.advance(31 * DAY)
    await walk(database, lanes, Settings())
    assert await jobs(database, tenant_id) == {first, *open_ids} - {last}


async def test_keys_are_forgotten_after_a_week_and_not_before(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lanes = LaneDirectory(database)
    await accept(database, lanes, tenant_id, key="k")

    async def known() -> int:
        return int(
            await database.writer.fetchval(
                "SELECT count(*) FROM idempotency WHERE tenant_id = $1", tenant_id
            )
        )

    await clock.advance(timedelta(days=6, hours=23).total_seconds())
    await walk(database, lanes, Settings())
    assert await known() == 1
    await clock.advance(2 * 3600)
    await walk(database, lanes, Settings())
    assert await known() == 0
