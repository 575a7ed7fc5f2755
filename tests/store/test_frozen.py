"""What a release applied is not changed afterwards, and its databases can be upgraded."""

import asyncpg
import msgspec
import pytest

from conftest import admin, app_dsn, owner_dsn
from postdate.database.connection import opening
from postdate.database.embedded import Embedded
from postdate.proof import catalog
from postdate.schema import migrate
from postdate.schema.migrate import Migration, known
from tidy import freeze, schema
from tidy.freeze import FrozenSchema

NAME = "upgraded_from_frozen"


@pytest.fixture
async def dsn(server: Embedded) -> str:
    await admin(server, f"DROP DATABASE IF EXISTS {NAME} WITH (FORCE)")
    await admin(server, f"CREATE DATABASE {NAME} OWNER postdate_owner")
    return owner_dsn(server, NAME)


@pytest.fixture
def frozen() -> FrozenSchema:
    found = freeze.read()
    if found is None:
        pytest.skip("nothing is frozen yet: `make freeze` does it")
    return found


async def apply(frozen: FrozenSchema, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an empty database one of the frozen release."""
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "known", lambda: frozen.migrations)
        patch.setattr(migrate, "known_functions", lambda: frozen.functions)
        await migrate.migrate(dsn)


async def described(server: Embedded) -> list[str]:
    database = await opening.connect(app_dsn(server, NAME), writers=1, readers=1)
    async with database.connection() as connection:
        found = sorted("\t".join(each) for each in await catalog.lines(connection))
    await database.close()
    return found


def test_a_migration_that_was_released_is_not_changed(frozen: FrozenSchema) -> None:
    assert freeze.changed(frozen, known()) == [], "add a migration instead"


async def test_a_database_of_the_last_release_becomes_one_of_this(
    frozen: FrozenSchema, server: Embedded, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await apply(frozen, dsn, monkeypatch)
    await migrate.migrate(dsn)
    assert await described(server) == schema.CATALOG.read_text().splitlines()[1:]


async def test_a_frozen_schema_is_upgraded_by_what_comes_later(
    server: Embedded, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = freeze.freeze()
    again = msgspec.json.decode(msgspec.json.encode(now), type=FrozenSchema)
    await apply(again, dsn, monkeypatch)
    assert await described(server) == schema.CATALOG.read_text().splitlines()[1:]
    later = Migration(len(known()) + 1, "9999_grows", "ALTER TABLE node ADD COLUMN zone text")
    monkeypatch.setattr(migrate, "known", lambda: [*now.migrations, later])
    assert await migrate.migrate(dsn) == ["9999_grows"]
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval("SELECT count(zone) FROM postdate.node") == 0
    await connection.close()


def test_a_changed_migration_is_named() -> None:
    now = freeze.freeze()
    first, *rest = now.migrations
    edited = msgspec.structs.replace(first, sql=first.sql + " ")
    assert freeze.changed(now, [edited, *rest]) == [first.name]
    assert freeze.changed(now, rest) == [first.name]
    assert freeze.changed(now, now.migrations) == []
