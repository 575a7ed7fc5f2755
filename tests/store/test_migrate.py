import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from conftest import admin, owner_dsn, scratch
from postdate.model.errors import StartError
from postdate.store import database as database_store
from postdate.store import migrate
from postdate.store.embedded import Embedded
from postdate.store.migrate import Migration, known, pending


def numbered(*texts: str) -> list[Migration]:
    return [Migration(n, f"{n:04}_x", text) for n, text in enumerate(texts, start=1)]


def test_what_is_applied_is_not_pending() -> None:
    migrations = numbered("a", "b", "c")
    applied = {m.version: m.checksum for m in migrations[:2]}
    assert pending(applied, migrations) == migrations[2:]
    assert pending({}, migrations) == migrations


def test_a_newer_schema_is_refused() -> None:
    with pytest.raises(StartError, match="schema version 3, this postdate knows only 2"):
        pending({3: "x"}, numbered("a", "b"))


def test_an_edited_migration_is_refused() -> None:
    with pytest.raises(StartError, match="0001_x was applied in another form"):
        pending({1: "other"}, numbered("a"))


@pytest.fixture
async def empty(server: Embedded) -> str:
    name = "empty_migrate"
    await admin(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await admin(server, f"CREATE DATABASE {name} OWNER postdate_owner")
    return owner_dsn(server, name)


async def test_a_dry_run_says_everything_and_changes_nothing(empty: str) -> None:
    names = [m.name for m in known()]
    assert await migrate.migrate(empty, dry_run=True) == names
    connection = await asyncpg.connect(empty)
    assert await connection.fetchval("SELECT to_regnamespace('postdate')") is None
    await connection.close()


async def test_migrators_that_meet_apply_each_file_once(empty: str) -> None:
    done = await asyncio.gather(*(migrate.migrate(empty) for _ in range(4)))
    assert max(done, key=len) == [m.name for m in known()]
    assert sum(map(len, done)) == len(known())


async def test_a_kill_half_way_is_taken_up_again(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second file dies in its middle: the first stays, the second leaves nothing."""
    whole = known()
    broken = [*whole[:1], Migration(2, "0002_dies", "CREATE TABLE half (); SELECT 1/0")]
    monkeypatch.setattr(migrate, "known", lambda: broken)
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate.migrate(empty)
    monkeypatch.setattr(migrate, "known", lambda: whole)
    assert await migrate.migrate(empty) == [m.name for m in whole[1:]]
    connection = await asyncpg.connect(empty)
    assert await connection.fetchval("SELECT to_regclass('postdate.half')") is None
    await connection.close()


async def test_a_read_only_database_is_refused(server: Embedded, empty: str) -> None:
    await admin(server, "ALTER DATABASE empty_migrate SET default_transaction_read_only = on")
    with pytest.raises(StartError, match="read-only"):
        await migrate.migrate(empty)


@pytest.fixture
async def bare() -> AsyncIterator[Embedded]:
    """A server of its own, whose roles a test may take away."""
    with scratch() as directory:
        embedded = Embedded(directory, settings={"fsync": "off"})
        await embedded.start()
        connection = await asyncpg.connect(embedded.credentials.superuser_dsn())
        await connection.execute("CREATE DATABASE other")
        await connection.execute("DROP DATABASE postdate")
        for role in ("owner", "app", "writer", "reader"):
            await connection.execute(f"DROP ROLE postdate_{role}")
        await connection.close()
        yield embedded
        await embedded.stop()


async def test_an_external_database_needs_one_address_or_prepared_roles(bare: Embedded) -> None:
    superuser = bare.credentials.superuser_dsn("other")
    connection = await asyncpg.connect(superuser)
    await connection.execute("CREATE ROLE weak LOGIN PASSWORD 'weak'")
    weak = superuser.replace("postgres:" + bare.credentials.superuser_password, "weak:weak")
    with pytest.raises(StartError, match="CREATE ROLE postdate_owner"):
        await migrate.migrate(weak)
    assert await migrate.migrate(superuser) == [m.name for m in known()]
    opened = await database_store.connect(superuser)
    assert await opened.writer.fetchval("SELECT current_user") == "postdate_writer"
    await opened.close()
    with pytest.raises(StartError, match="may not act as postdate_writer"):
        await database_store.connect(weak)
    await connection.execute("GRANT postdate_writer, postdate_reader TO weak")
    opened = await database_store.connect(weak)
    assert await opened.reader.fetchval("SELECT current_user") == "postdate_reader"
    await opened.close()
    await connection.execute("CREATE ROLE mig LOGIN PASSWORD 'mig' IN ROLE postdate_owner")
    assert await migrate.migrate(weak.replace("weak:weak", "mig:mig")) == []
    await connection.close()
