"""Sealing: everything that is committed, once, in an order that no late commit can spoil."""

import asyncio
from typing import Any

import asyncpg
import pytest

from conftest import Clock, admin
from postdate.core.ids import floor_id, new_id
from postdate.database.connection.database import Database
from postdate.database.connection.error import CommitUnknownError, UnavailableError
from postdate.database.embedded import Embedded
from postdate.event.spec.types import EVENT_TYPES
from postdate.event.store import seal
from postdate.publisher import sealer as module
from postdate.publisher.sealer import Sealer
from postdate.publisher.verify import verify
from support.event import (
    check_chains,
    emit,
    new_event,
    of_subject,
    seal_all,
    sealer,
    subjects,
    tell,
)


async def test_events_are_sealed_once_and_without_gaps(database: Database, tenant_id: int) -> None:
    things = subjects(database, 200)
    await emit(database, *(new_event(tenant_id, subject) for subject in things))
    assert await seal_all(database) == 200
    assert await seal_all(database) == 0
    found = await check_chains(database)
    assert {link.subject for link in found if link.tenant_id == tenant_id} == set(things)


@pytest.mark.parametrize("most", [7, 1000])
async def test_any_number_of_events_is_sealed_in_order(
    database: Database, tenant_id: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEAL_LIMIT", most)
    things = subjects(database, 40)
    for kind in ("job.accepted", "job.retried", "job.completed"):
        await emit(database, *(new_event(tenant_id, thing, kind) for thing in things))
    assert await seal_all(database, chunk=1) == 120
    found = await check_chains(database)
    for thing in things:
        assert of_subject(found, thing) == ["job.accepted", "job.retried", "job.completed"]


async def test_events_of_one_insert_keep_their_order(database: Database, tenant_id: int) -> None:
    [thing] = subjects(database, 1)
    kinds = [each for each in EVENT_TYPES if each.startswith("account.")]
    await emit(database, *(new_event(tenant_id, thing, kind) for kind in kinds))
    await seal_all(database)
    assert of_subject(await check_chains(database), thing) == kinds


async def test_a_late_commit_is_sealed_and_holds_nobody_up(
    database: Database, tenant_id: int
) -> None:
    [late, soon] = subjects(database, 2)
    async with database.write() as connection:
        await tell(connection, new_event(tenant_id, late))
        await emit(database, new_event(tenant_id, soon))
        runner = sealer(database)
        assert await runner.run_once(64) == 1
        assert await runner.run_once(64) == 0
    assert await runner.run_once(64) == 1
    assert of_subject(await check_chains(database), late) == ["job.accepted"]


async def test_a_rolled_back_event_leaves_no_gap(database: Database, tenant_id: int) -> None:
    [gone, there] = subjects(database, 2)
    async with database.write() as connection:
        await tell(connection, new_event(tenant_id, gone))
        await emit(database, new_event(tenant_id, there))
        await seal_all(database)
        await connection.execute("ROLLBACK; BEGIN")
    await seal_all(database)
    assert of_subject(await check_chains(database), gone) == []


async def test_a_transaction_may_follow_one_that_began_after_it(
    database: Database, tenant_id: int
) -> None:
    """The older of the two transactions tells the later event, while a third is open."""
    [thing, other] = subjects(database, 2)
    async with database.write() as between, database.write() as older:
        await older.fetchval("SELECT pg_current_xact_id()::text")
        await tell(between, new_event(tenant_id, other))
        await emit(database, new_event(tenant_id, thing, "job.accepted"))
        await tell(older, new_event(tenant_id, thing, "job.completed"))
        await older.execute("COMMIT; BEGIN")
        await seal_all(database)
    await seal_all(database)
    assert of_subject(await check_chains(database), thing) == ["job.accepted", "job.completed"]


async def test_sealers_share_the_buckets(database: Database, tenant_id: int) -> None:
    sealers = [sealer(database) for _ in range(4)]
    waves = 12

    async def tell_all() -> None:
        for _ in range(waves):
            things = subjects(database, 64)
            await emit(database, *(new_event(tenant_id, thing) for thing in things))

    async def seal_on() -> int:
        count, runner = 0, sealers.pop()
        while not telling.done():
            count += await runner.run_once(5)
            await asyncio.sleep(0)
        return count

    telling = asyncio.create_task(tell_all())
    counts = await asyncio.gather(*(seal_on() for _ in range(4)))
    await telling
    counts.append(await seal_all(database))
    assert sum(counts) == waves * 64
    await check_chains(database)


@pytest.mark.parametrize("step", ["advance", "insert", "move"])
async def test_a_death_half_way_leaves_nothing(
    server: Embedded,
    database: Database,
    tenant_id: int,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    whole = getattr(seal, step)

    async def dies(connection: asyncpg.Connection, *arguments: Any) -> Any:
        done = await whole(connection, *arguments)
        pid = await connection.fetchval("SELECT pg_backend_pid()")
        await admin(server, f"SELECT pg_terminate_backend({pid}, 5000)")
        return done

    [thing] = subjects(database, 1)
    await emit(database, new_event(tenant_id, thing))
    monkeypatch.setattr(seal, step, dies)
    with pytest.raises((CommitUnknownError, UnavailableError)):
        await sealer(database).run_once(64)
    monkeypatch.undo()
    assert await seal_all(database) == 1
    await check_chains(database)


async def test_a_quiet_database_is_asked_one_small_question(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = sealer(database)
    await runner.run_once(64)
    monkeypatch.setattr(seal, "take", None)
    assert await runner.run_once(64) == 0
    monkeypatch.undo()
    await emit(database, *(new_event(tenant_id, t) for t in subjects(database, 1)))
    assert await runner.run_once(64) == 1


async def emit_late(database: Database, tenant_id: int, late: str) -> Sealer:
    """Have a sealer look at the whole outbox; then an event comes that should have come before."""
    runner = sealer(database)
    for _ in range(2):
        await runner.run_once(64)
    [thing] = subjects(database, 1)
    await emit(database, new_event(tenant_id, thing))
    await database.writer.execute(f"UPDATE outbox SET time = time - interval '{late}'")
    return runner


async def test_a_commit_a_minute_late_is_found_by_the_next_look(
    database: Database, tenant_id: int
) -> None:
    """Nobody bounds the transactions of clients: theirs may take longer than ours."""
    runner = await emit_late(database, tenant_id, "1 minute")
    assert await runner.run_once(64) == 1


async def test_dead_rows_of_the_outbox_are_not_walked_again(
    database: Database, tenant_id: int
) -> None:
    """A commit that comes later than any should is found by the look at the whole outbox."""
    runner = await emit_late(database, tenant_id, "1 hour")
    assert await runner.run_once(64) == 0
    runner._mark.full_at = 0.0
    assert await runner.run_once(64) == 1


async def test_a_locked_row_of_the_outbox_keeps_only_its_own_subject_waiting(
    server: Embedded, database: Database, database_name: str, tenant_id: int
) -> None:
    [held, free] = subjects(database, 2)
    await emit(database, new_event(tenant_id, held))
    await emit(database, new_event(tenant_id, held, "job.retried"))
    await emit(database, new_event(tenant_id, free))
    runner = sealer(database)
    stranger = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    async with stranger.transaction():
        await stranger.execute(
            "SELECT FROM postdate.outbox WHERE subjects = ARRAY[$1::uuid] "
            "AND types = '{job.accepted}' FOR UPDATE",
            held,
        )
        assert await runner.run_once(64) == 1
        assert await runner.run_once(64) == 0
    await stranger.close()
    assert await runner.run_once(64) == 2
    found = await check_chains(database)
    assert of_subject(found, held) == ["job.accepted", "job.retried"]
    assert of_subject(found, free) == ["job.accepted"]


async def test_what_was_copied_in_the_outbox_is_sealed_once(
    database: Database, tenant_id: int
) -> None:
    [thing] = subjects(database, 1)
    await emit(database, new_event(tenant_id, thing))
    await database.writer.execute(
        "INSERT INTO outbox SELECT bucket, tenant_id, time + interval '1 ms', types, subjects, "
        "events, digests FROM outbox WHERE $1 = ANY (subjects)",
        thing,
    )
    await seal_all(database)
    assert of_subject(await check_chains(database), thing) == ["job.accepted"]


async def test_what_came_after_a_locked_row_waits_through_a_third(
    server: Embedded, database: Database, database_name: str, tenant_id: int
) -> None:
    """A row that shares a subject with one that waits comes after it, and so on."""
    held, between, last = (new_id(7, database.unix_ms()) for _ in range(3))
    await emit(database, new_event(tenant_id, held))
    await emit(
        database,
        new_event(tenant_id, held, "job.completed"),
        new_event(tenant_id, between),
    )
    await emit(
        database,
        new_event(tenant_id, between, "job.completed"),
        new_event(tenant_id, last),
    )
    runner = sealer(database)
    stranger = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    async with stranger.transaction():
        await stranger.execute(
            "SELECT FROM postdate.outbox WHERE subjects = ARRAY[$1::uuid] FOR UPDATE", held
        )
        assert await runner.run_once(64) == 0
    await stranger.close()
    assert await runner.run_once(64) == 5
    found = await check_chains(database)
    assert of_subject(found, held) == ["job.accepted", "job.completed"]
    assert of_subject(found, between) == ["job.accepted", "job.completed"]


async def test_a_seal_is_found_though_the_clock_leapt_before_its_node_noticed(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    """Its id was days older than what it sealed, and `events verify` called that unsealed."""
    await seal_all(database)
    await clock.advance(3 * 86_400)  # nobody synchronizes: a node does so once a second
    await emit(database, *(new_event(tenant_id, each) for each in subjects(database, 3)))
    assert await seal_all(database) == 3
    assert (await verify(database, {})).findings == []
    [(newest, now)] = await database.writer.fetch(
        "SELECT seal_id, clock() FROM seal WHERE tenant_id = $1 ORDER BY position DESC LIMIT 1",
        tenant_id,
    )
    assert newest >= floor_id(int(now.timestamp() * 1000) - 60_000)


@pytest.mark.parametrize(
    "change",
    [
        "time = 'infinity'",
        "time = '-infinity'",
        "time = '20000-01-01'",
        "types = '{NULL}'",
        "subjects = '{NULL}'",
        "subjects = ARRAY[subjects]",
        "events = ARRAY[events]",
    ],
)
async def test_the_outbox_takes_no_row_that_could_not_be_sealed(
    server: Embedded, database: Database, tenant_id: int, change: str
) -> None:
    """One such row would keep the events of every tenant from being sealed."""
    [thing] = subjects(database, 1)
    await emit(database, new_event(tenant_id, thing))
    name = await database.writer.fetchval("SELECT current_database()")
    with pytest.raises((asyncpg.CheckViolationError, asyncpg.FeatureNotSupportedError)):
        await admin(server, f"UPDATE postdate.outbox SET {change}", name)
    await seal_all(database)
    assert of_subject(await check_chains(database), thing) == ["job.accepted"]
