"""A broken commit is an unknown one, and a broken connection is replaced."""

import asyncio
from datetime import UTC, datetime
from uuid import uuid4

import asyncpg
import pytest

from conftest import admin, eventually
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import CommitUnknownError, UnavailableError
from postdate.database.connection.session import connect_alone
from postdate.database.embedded import Embedded

AT_COMMIT = """
CREATE TEMPORARY TABLE late (x integer);
CREATE FUNCTION pg_temp.late() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {}; RETURN NULL; END$$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION pg_temp.late();
INSERT INTO late VALUES (1)
"""
"""Something that happens while the commit is under way."""

ARRAYS = "SELECT $1::uuid[], $2::timestamptz[], $3::bigint[], $4::bytea[]"


async def backend(connection: Connection) -> int:
    pid: int = await connection.fetchval("SELECT pg_backend_pid()")
    return pid


SLEEPING = "SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $1"


async def test_a_connection_that_dies_during_the_commit_leaves_the_outcome_unknown(
    database: Database, server: Embedded
) -> None:
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def commit() -> None:
        async with database.write() as connection:
            started.set_result(await backend(connection))
            await connection.execute(AT_COMMIT.format("PERFORM pg_sleep(30)"))

    committing = asyncio.create_task(commit())
    pid = await started
    superuser = await asyncpg.connect(server.credentials.superuser_dsn())
    await eventually(lambda: superuser.fetchval(SLEEPING, pid))
    await superuser.execute("SELECT pg_terminate_backend($1)", pid)
    await superuser.close()
    with pytest.raises(CommitUnknownError):
        await committing


async def test_a_connection_that_dies_before_the_commit_is_only_lost(
    database: Database, server: Embedded
) -> None:
    async def commit() -> None:
        async with database.write() as connection:
            await admin(server, f"SELECT pg_terminate_backend({await backend(connection)}, 5000)")

    with pytest.raises(UnavailableError):
        await commit()
    assert await database.writer.fetchval("SELECT 1") == 1


async def test_an_error_before_the_commit_is_a_rollback(database: Database) -> None:
    async def fail() -> None:
        async with database.write() as connection:
            await connection.execute("INSERT INTO tenant (name) VALUES ('rolled-back')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    found = await database.writer.fetchval("SELECT 1 FROM tenant WHERE name = 'rolled-back'")
    assert found is None


async def test_a_warning_at_commit_leaves_the_outcome_unknown(database: Database) -> None:
    """PostgreSQL answers a cancelled wait for the standby with success and a warning."""

    async def commit() -> None:
        async with database.write() as connection:
            await connection.execute(AT_COMMIT.format("RAISE WARNING 'local only'"))

    with pytest.raises(CommitUnknownError, match="local only"):
        await commit()


async def idle_backends(pool: asyncpg.Pool) -> list[int]:
    """Open some connections, let them idle, and name their backends."""
    held = [await pool.acquire() for _ in range(3)]
    pids = [await connection.fetchval("SELECT pg_backend_pid()") for connection in held]
    for connection in held:
        await pool.release(connection)
    return pids


async def test_connections_that_died_while_idle_are_replaced_unseen(
    database: Database, server: Embedded, tenant_id: int
) -> None:
    for pool in (database.writer, database.reader):
        pids = await idle_backends(pool)
        await admin(server, f"SELECT pg_terminate_backend(p, 5000) FROM unnest(ARRAY{pids}) p")
    async with database.read(tenant_id) as connection:
        assert await connection.fetchval("SELECT 1") == 1
    async with database.write() as connection:
        assert await connection.fetchval("SELECT 1") == 1


async def test_a_process_asks_once_what_an_array_is(server: Embedded) -> None:
    asked: list[str] = []
    for _ in range(2):
        session = await connect_alone(server.credentials.superuser_dsn(), 5, {})
        asked.clear()
        session.add_query_logger(lambda record: asked.append(record.query))
        given = [(uuid4(), datetime.now(UTC), 7, b"x")]
        ids, times, numbers, data = zip(*given, strict=True)
        row = await session.fetchrow(ARRAYS, ids, times, numbers, data)
        assert row is not None
        assert [tuple(each) for each in row] == [ids, times, numbers, data]
        await session.close()
    assert asked == [ARRAYS]
