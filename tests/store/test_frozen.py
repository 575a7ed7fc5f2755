"""What a release applied is not changed afterwards, and its databases can be upgraded."""

import asyncio
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import asyncpg
import msgspec
import pytest

from conftest import admin, app_dsn, owner_dsn, scratch
from postdate.database.connection import opening
from postdate.database.embedded import Embedded
from postdate.proof import catalog
from postdate.schema import migrate
from postdate.schema.migrate import Migration, known
from support.serve_process import Served
from tidy import freeze, schema
from tidy.freeze import FrozenSchema

NAME = "upgraded_from_frozen"
KEPT = {"account": "account_id", "payment": "payment_id", "schedule": "schedule_id", "lane": "lane"}
"""What is compared across an upgrade, and by which field."""


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


@pytest.mark.process
async def test_a_data_directory_of_the_last_release_goes_on_living(frozen: FrozenSchema) -> None:
    """The code of that commit makes it, with accounts, payments, jobs and schedules."""
    with scratch() as directory:
        then = Served(directory / "data", command=_checked_out(frozen.commit, directory / "then"))
        await then.start()
        before = await _lived_in(then)
        now = Served(directory / "data")
        await now.start()
        try:
            await now.ready()
            after = await asyncio.to_thread(_listed, now)
        finally:
            assert await now.stop() == 0
        assert {each.partition(" ")[0] for each in before} == set(KEPT)
        assert set(before) <= set(after)
        upgraded = [each.name for each in known() if each.version > len(frozen.migrations)]
        assert all(name in now.log.read_text() for name in upgraded)


def _checked_out(commit: str, directory: Path) -> Path:
    """Write the sources of a commit, and the command that runs them instead of ours."""
    packed = directory.with_suffix(".tar")
    archive = ("git", "-C", str(freeze.ROOT), "archive", "-o", str(packed), commit)
    ran = subprocess.run((*archive, *freeze.SOURCES), capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(f"this clone does not have the commit of the release: {ran.stderr.strip()}")
    with tarfile.open(packed) as found:
        found.extractall(directory, filter="data")
    ours = [str(freeze.ROOT / each) for each in freeze.SOURCES]
    theirs = [str(directory / each) for each in freeze.SOURCES]
    command = directory / "postdate"
    command.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"sys.path[:] = [*{theirs}, *(each for each in sys.path if each not in {ours})]\n"
        "from postdate.cli.main import main\nmain()\n"
    )
    command.chmod(0o755)
    return command


async def _lived_in(served: Served) -> list[str]:
    """Fill the server with the demonstration of its own release, list what it has, and stop it."""
    try:
        await served.ready()
        await asyncio.to_thread(_command, served, "demo")
        return await asyncio.to_thread(_listed, served)
    finally:
        assert await served.stop() == 0


def _listed(served: Served) -> list[str]:
    """List what stays as it is while time passes."""
    return [
        f"{noun} {each[key]}"
        for noun, key in KEPT.items()
        for each in msgspec.json.decode(_command(served, noun, "list", "--limit", "100"))
        if noun != "payment" or each["status"] == "COMPLETED"
    ]


def _command(served: Served, *words: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    env |= {"POSTDATE_URL": served.url, "POSTDATE_API_KEY": served.key}
    ran = subprocess.run(
        (str(served.command), *words, "--json"),
        env=env, cwd=served.directory.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


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
