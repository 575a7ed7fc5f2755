"""A database that may lose what it confirms accepts no payments, unless the operator says so."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conftest import Api, admin, app_dsn, eventually
from postdate.database.connection import durability, opening
from postdate.database.connection.database import Database
from postdate.database.durability_rule import Durability
from postdate.database.embedded import Embedded, binaries, runas
from postdate.node import http as edge
from support.api_ledger import open_ledger
from support.embedded_server import query


async def read(database: Database) -> Durability:
    async with database.connection() as connection:
        return await durability.read(connection)


@pytest.fixture
async def unsafe(api: Api) -> AsyncIterator[Api]:
    """An API before a server whose commits are not durable."""
    api.node.safety.replace(Durability(synchronous_commit="off"))
    yield api
    api.node.safety.replace(Durability())


async def test_payments_are_refused_with_a_stable_code_and_readiness_says_why(unsafe: Api) -> None:
    ledger = await open_ledger(unsafe)
    answer = await ledger.order()
    assert (answer.status, answer.body["code"]) == (503, "commits_not_durable")
    assert "Retry-After" in answer.headers
    assert await ledger.held() == 0
    reasons = {found.name: found.reason for found in await edge.not_ready(unsafe.node)}
    assert "synchronous_commit" in reasons["payments"]
    unsafe.node.safety.replace(Durability())
    assert (await ledger.order()).status == 201
    assert "payments" not in {found.name for found in await edge.not_ready(unsafe.node)}


async def test_what_counts_is_how_our_own_sessions_are_set_up(
    server: Embedded, database_name: str, database: Database
) -> None:
    assert await read(database) == Durability(
        fsync=False, full_page_writes=False, synchronous_commit="off"
    )
    await admin(server, f"ALTER DATABASE {database_name} SET synchronous_commit = 'local'")
    fresh = await opening.connect(app_dsn(server, database_name), writers=1, readers=1)
    try:
        assert (await read(fresh)).synchronous_commit == "local"
    finally:
        await fresh.close()
        await admin(server, f"ALTER DATABASE {database_name} RESET synchronous_commit")


@pytest.fixture
async def followable(server: Embedded) -> AsyncIterator[str]:
    """The address of the server, which lets itself be followed for a while."""
    dsn = server.credentials.superuser_dsn("postgres")
    hba_file = Path(str(await query(dsn, "SHOW hba_file")))
    before = await asyncio.to_thread(hba_file.read_text)
    more = before + "local replication postgres scram-sha-256\n"
    await asyncio.to_thread(hba_file.write_text, more)
    await query(dsn, "SELECT pg_reload_conf()")
    yield dsn
    await asyncio.to_thread(hba_file.write_text, before)
    await query(dsn, "SELECT pg_reload_conf()")


async def test_whoever_follows_the_server_is_counted(
    database: Database, followable: str, tmp_path: Path
) -> None:
    assert (await read(database)).standbys == 0
    follower = await asyncio.create_subprocess_exec(
        binaries.locate(runas.choose(None)).path("pg_receivewal"),
        *("--no-loop", "--directory", str(tmp_path)),
        *("--dbname", followable),
    )
    try:

        async def followed() -> bool:
            return (await read(database)).standbys == 1

        await eventually(followed)
    finally:
        follower.terminate()
        await follower.wait()
