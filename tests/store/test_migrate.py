import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from conftest import admin, app_dsn, owner_dsn, scratch
from postdate.database.connection import opening
from postdate.database.connection.error import DatabaseError
from postdate.database.embedded import Embedded
from postdate.node import database_address
from postdate.node.settings import ProcessSettings
from postdate.schema import migrate
from postdate.schema.migrate import (
    FunctionFile,
    Migration,
    Remembered,
    changed_functions,
    known,
    known_functions,
    pending,
)
from postdate.words.error import StartError

EVERYTHING = [*(m.name for m in known()), *(f.name for f in known_functions())]


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
    assert await migrate.migrate(empty, dry_run=True) == EVERYTHING
    connection = await asyncpg.connect(empty)
    assert await connection.fetchval("SELECT to_regnamespace('postdate')") is None
    await connection.close()


async def test_migrators_that_meet_apply_each_file_once(empty: str) -> None:
    done = await asyncio.gather(*(migrate.migrate(empty) for _ in range(4)))
    assert max(done, key=len) == EVERYTHING
    assert sum(map(len, done)) == len(EVERYTHING)


async def test_a_kill_half_way_is_taken_up_again(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second step dies in its middle: nothing is there, and the next run does it all."""
    broken = [*known(), Migration(2, "0002_dies", "CREATE TABLE half (); SELECT 1/0")]
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "known", lambda: broken)
        with pytest.raises(DatabaseError):
            await migrate.migrate(empty)
    assert await migrate.migrate(empty) == EVERYTHING
    connection = await asyncpg.connect(empty)
    assert await connection.fetchval("SELECT to_regclass('postdate.half')") is None
    await connection.close()


UPGRADE = Migration(
    2, "0002_grows", "ALTER TABLE node ADD COLUMN zone text; DROP FUNCTION claim_token;"
)
TIMER_LATER = FunctionFile(
    "timer",
    "CREATE OR REPLACE FUNCTION claim_token(random_bits integer) RETURNS text LANGUAGE sql AS "
    "$$SELECT zone FROM node LIMIT 1$$;",
)
"""What a later release may bring: a new column, and a function that now returns it."""


async def test_an_upgrade_applies_the_next_step_and_the_functions_that_changed(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate.migrate(empty)
    later = [TIMER_LATER if f.noun == "timer" else f for f in known_functions()]
    monkeypatch.setattr(migrate, "known", lambda: [*known(), UPGRADE])
    monkeypatch.setattr(migrate, "known_functions", lambda: later)
    names = ["0002_grows", "functions/timer"]
    assert await migrate.migrate(empty, dry_run=True) == names
    done = await asyncio.gather(*(migrate.migrate(empty) for _ in range(2)))
    assert sorted(done) == [[], names]
    connection = await asyncpg.connect(empty)
    await connection.execute(
        "SET search_path = postdate; INSERT INTO node (node_id, name, roles, version, zone) "
        "VALUES (gen_random_uuid(), 'a', '{}', '1', 'north')"
    )
    assert await connection.fetchval("SELECT claim_token(1)") == "north"
    await connection.close()


def test_only_functions_that_changed_are_applied() -> None:
    functions = [FunctionFile("a", "1"), FunctionFile("b", "1"), FunctionFile("c", "1")]
    same = Remembered(functions[0].checksum, "1.2.0")
    other = Remembered("other", "1.2.0")
    remembered = {"a": same, "b": other}
    assert changed_functions(remembered, functions, "1.2.0") == functions[1:]
    assert changed_functions(remembered, functions, "1.10.0") == functions[1:]


def test_an_older_release_leaves_the_functions_of_a_newer_one_alone() -> None:
    remembered = {"a": Remembered("other", "1.10.0")}
    assert changed_functions(remembered, [FunctionFile("a", "1")], "1.9.3") == []


async def test_every_body_of_a_function_passes_the_check_of_the_server(empty: str) -> None:
    """The runner applies them unchecked, since they name each other in any order."""
    await migrate.migrate(empty)
    connection = await asyncpg.connect(empty)
    await connection.execute("SET ROLE postdate_owner; SET search_path = postdate")
    for function in known_functions():
        await connection.execute(function.sql)
    twice = await connection.fetch(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'postdate'::regnamespace "
        "GROUP BY proname HAVING count(*) > 1"
    )
    assert twice == []
    await connection.close()


async def test_a_command_refuses_a_database_of_another_form(
    server: Embedded, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ProcessSettings(database_url=app_dsn(server, "empty_migrate"))
    await migrate.migrate(empty)
    async with database_address.opened(settings):
        pass
    monkeypatch.setattr(migrate, "known", lambda: [*known(), UPGRADE])
    with pytest.raises(StartError, match=r"0002_grows first.*run `postdate migrate`"):
        async with database_address.opened(settings):
            pass
    monkeypatch.setattr(migrate, "known", lambda: numbered("edited"))
    made = r"in another form .* by postdate \d.* on \d{4}-\d\d-\d\d .*to keep .*to discard"
    with pytest.raises(StartError, match=made):
        async with database_address.opened(settings):
            pass


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
    assert await migrate.migrate(superuser) == EVERYTHING
    opened = await opening.connect(superuser)
    assert await opened.writer.fetchval("SELECT current_user") == "postdate_writer"
    await opened.close()
    with pytest.raises(StartError, match="may not act as postdate_writer"):
        await opening.connect(weak)
    await connection.execute("GRANT postdate_writer, postdate_reader TO weak")
    opened = await opening.connect(weak)
    assert await opened.reader.fetchval("SELECT current_user") == "postdate_reader"
    await opened.close()
    await connection.execute("CREATE ROLE mig LOGIN PASSWORD 'mig' IN ROLE postdate_owner")
    assert await migrate.migrate(weak.replace("weak:weak", "mig:mig")) == []
    await connection.close()
