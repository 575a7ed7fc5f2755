"""Unique keys without HTTP: races of two nodes, proofs, repair, retention."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from conftest import Clock
from postdate.core.ids import bucket_of
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.job.accept.intake import JobIntake
from postdate.job.accept.request import AcceptedJob
from postdate.job.change.unique_repair import repair_unique
from postdate.job.store import job_unique
from postdate.job.store.job_unique import slot_of
from postdate.lane.store.lane import LaneDirectory
from postdate.prover.checker import prove
from postdate.words.error import Code
from postdate.worker.retention import Retention
from support.event import seal_all
from support.job import ask, make_intake

DAY = 24 * 3600
MANY = 500
KEY = {"key": "reindex-7"}
HOLDS, NAMES = "waiting_job_holds_its_unique_key", "unique_key_names_its_job"


async def accept(
    intake: JobIntake, tenant_id: int, unique: dict[str, Any] | None = None, **members: Any
) -> AcceptedJob:
    asked = ask(tenant_id, unique=unique or KEY, **{"delay_seconds": 50, **members})
    [made] = await intake.accept([asked])
    assert isinstance(made, AcceptedJob), made
    return made


async def rows(database: Database, tenant_id: int) -> list[UUID | None]:
    found = await database.writer.fetch(
        "SELECT job_id FROM job_unique WHERE tenant_id = $1 ORDER BY key", tenant_id
    )
    return [row[0] for row in found]


async def waiting(database: Database, tenant_id: int) -> int:
    count: int = await database.writer.fetchval(
        "SELECT count(*) FROM timer WHERE tenant_id = $1 AND claimed_at IS NULL", tenant_id
    )
    return count


async def findings(database: Database, tenant_id: int) -> set[str]:
    """Return the proofs that fail, but for that of the fixture's tenant, made without event."""
    await seal_all(database, 500)
    found = {each.check for each in (await prove(database, tenant_id)).findings}
    return found - {"tenant_is_as_sealed"}


async def test_a_thousand_calls_of_two_nodes_make_one_waiting_job(
    database: Database, tenant_id: int
) -> None:
    nodes = [make_intake(database) for _ in range(2)]
    ways = ["keep", "replace"]
    asked = [
        (node, ask(tenant_id, delay_seconds=50, payload=number, unique={**KEY, "on_conflict": way}))
        for number in range(MANY // len(ways))
        for way in ways
        for node in nodes
    ]
    answers = await asyncio.gather(*(node.submit(each) for node, each in asked))
    made = [each for each in answers if isinstance(each, AcceptedJob)]
    assert len(made) == len(asked) == 2 * MANY
    assert sum(each.status == 201 for each in made) == 1
    assert len({each.subject for each in made}) == 1
    assert await waiting(database, tenant_id) == 1
    assert await findings(database, tenant_id) == set()


async def test_batches_in_opposite_orders_lock_keys_in_one_order(
    database: Database, tenant_id: int
) -> None:
    nodes = [make_intake(database) for _ in range(2)]
    keys = [str(number) for number in range(40)]

    async def run(node: JobIntake, order: list[str]) -> None:
        asked = [ask(tenant_id, delay_seconds=50, unique={"key": key}) for key in order]
        assert all(isinstance(each, AcceptedJob) for each in await node.accept(asked))

    await asyncio.gather(
        *(
            run(node, keys[::way])
            for _ in range(5)
            for node, way in zip(nodes, (1, -1), strict=True)
        )
    )
    assert await waiting(database, tenant_id) == len(keys)


async def test_a_claim_under_way_is_waited_for(database: Database, tenant_id: int) -> None:
    intake = make_intake(database)
    first = await accept(intake, tenant_id, delay_seconds=0)
    async with database.write() as connection:
        await connection.execute(
            "UPDATE timer SET claimed_at = clock(), token = 1, due_at = clock() + interval '1 min' "
            "WHERE bucket = $1 AND subject = $2",
            bucket_of(first.subject),
            first.subject,
        )
        second = asyncio.create_task(accept(intake, tenant_id))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(second), 0.1)
    assert (await second).status == 201


async def test_a_refused_job_leaves_no_row(database: Database, tenant_id: int) -> None:
    intake = make_intake(database)
    await accept(intake, tenant_id, {"key": "other"})
    await intake.accept([ask(tenant_id, unique=KEY, run_at="2001-01-01T00:00:00Z")])
    assert len(await rows(database, tenant_id)) == 1


async def test_sql_and_python_place_a_key_alike(database: Database, tenant_id: int) -> None:
    for key in ("a", "\u00e4\U0001f600", "x" * 255):
        slot = slot_of(tenant_id, key)
        found = await database.writer.fetchrow(
            "SELECT job_unique_hash($1, $2) AS hash, "
            "job_unique_bucket(job_unique_hash($1, $2)) AS bucket",
            tenant_id,
            key,
        )
        assert found is not None
        assert (found["bucket"], found["hash"]) == (slot.bucket, slot.hash)


async def test_a_missing_row_is_found_and_repaired(database: Database, tenant_id: int) -> None:
    intake = make_intake(database)
    first = await accept(intake, tenant_id)
    await database.writer.execute("DELETE FROM job_unique WHERE tenant_id = $1", tenant_id)
    assert await findings(database, tenant_id) == {HOLDS}
    [plan] = await repair_unique(database, tenant_id, write=False)
    assert (plan.subject, plan.done) == (first.subject, "would be named again")
    [step] = await repair_unique(database, tenant_id, write=True)
    assert step.done == "named again"
    assert await findings(database, tenant_id) == set()
    assert (await accept(intake, tenant_id)).subject == first.subject


async def test_two_waiting_jobs_are_found_and_one_must_go(
    database: Database, tenant_id: int
) -> None:
    intake = make_intake(database)
    await accept(intake, tenant_id)
    await database.writer.execute("DELETE FROM job_unique WHERE tenant_id = $1", tenant_id)
    second = await accept(intake, tenant_id)
    assert await findings(database, tenant_id) == {HOLDS}
    [step] = await repair_unique(database, tenant_id, write=True)
    assert step.done == f"is held by {second.subject}, which waits too: cancel one of them"


async def test_a_stray_row_is_found_and_forgotten(database: Database, tenant_id: int) -> None:
    other = await accept(make_intake(database), tenant_id, {"key": "other"})
    async with database.write() as connection:
        await job_unique.lock(connection, [slot_of(tenant_id, "x")])
        await job_unique.name(connection, {slot_of(tenant_id, "x"): other.subject})
    assert await findings(database, tenant_id) == {NAMES}
    [step] = await repair_unique(database, tenant_id, write=True)
    assert step.done == "forgotten"
    assert await rows(database, tenant_id) == [other.subject]
    assert await findings(database, tenant_id) == set()


async def test_a_job_that_lost_its_timer_keeps_its_key(database: Database, tenant_id: int) -> None:
    intake = make_intake(database)
    first = await accept(intake, tenant_id)
    await database.writer.execute("DELETE FROM timer WHERE tenant_id = $1", tenant_id)
    [refused] = await intake.accept([ask(tenant_id, unique=KEY, delay_seconds=50)])
    assert not isinstance(refused, AcceptedJob)
    assert refused.refusal.code is Code.CONFLICT
    assert str(first.subject) in refused.refusal.detail


async def test_nothing_is_kept_of_a_key_whose_job_was_pruned(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    intake = make_intake(database, LaneDirectory(database))
    made = {key: (await accept(intake, tenant_id, {"key": key})).subject for key in ("a", "b")}
    await database.writer.execute(
        """WITH gone AS (DELETE FROM timer WHERE bucket = $1 AND subject = $2 RETURNING *)
           INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, finished_at)
           SELECT bucket, tenant_id, subject, 1, 'COMPLETED', due_at, clock() FROM gone""",
        bucket_of(made["a"]),
        made["a"],
    )
    await clock.advance(31 * DAY)
    retention = Retention(database, Settings())
    while await retention.run_once(1000):
        pass
    assert await rows(database, tenant_id) == [made["b"]]


async def test_many_debounces_seal_a_bounded_state(database: Database, tenant_id: int) -> None:
    intake = make_intake(database)
    rule = {**KEY, "on_conflict": "debounce", "max_delay_seconds": 10_000}
    replaced = await accept(intake, tenant_id, {**KEY, "on_conflict": "replace"}, payload="old")
    await accept(intake, tenant_id, {**KEY, "on_conflict": "replace"}, payload="new")
    for number in range(12):
        await accept(intake, tenant_id, rule, delay_seconds=100 + number)
    assert await findings(database, tenant_id) == set()
    said: str = await database.writer.fetchval(
        "SELECT state_text('revision', $1, $2, NULL)", tenant_id, replaced.subject
    )
    assert said.count("(") == 9
