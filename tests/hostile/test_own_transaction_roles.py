"""A client's role reaches its tenant and the three functions, and nothing else."""

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import uuid4

import asyncpg
import pytest

from conftest import Api
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.tenant.change.tenant import Tenants
from support.api_ledger import Ledger, open_ledger
from support.own_transaction import (
    OwnRole,
    all_is_proved,
    enqueue,
    own_role,
    pay,
    refusal,
    status,
)


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


@pytest.fixture
async def role(
    ledger: Ledger, server: Embedded, database_name: str, database: Database
) -> AsyncIterator[OwnRole]:
    async with own_role(server, database_name, database, ledger.api.tenant) as role:
        yield role


@pytest.fixture
async def own(role: OwnRole) -> AsyncIterator[asyncpg.Connection]:
    async with role.connect() as connection:
        yield connection


async def test_another_tenant_is_out_of_reach(
    ledger: Ledger,
    own: asyncpg.Connection,
    server: Embedded,
    database_name: str,
    database: Database,
) -> None:
    job_id, payment_id = await enqueue(own), await pay(own)
    other = f"other{uuid4().hex[:8]}"
    await Tenants(database).create(other)
    async with own_role(server, database_name, database, other) as stranger:
        async with stranger.connect() as theirs:
            await theirs.execute(f"SET postdate.tenant_id = '{ledger.tenant_id}'")
            with contextlib.suppress(asyncpg.PostgresError):
                await theirs.execute("SET ROLE postdate_client")
            for subject in (job_id, payment_id):
                with pytest.raises(asyncpg.PostgresError) as refused:
                    await theirs.execute("SELECT postdate.cancel($1)", subject)
                assert refusal(refused.value)["code"] == "not_found"
            with pytest.raises(asyncpg.PostgresError) as refused:
                await pay(theirs)
            assert refusal(refused.value)["code"] == "unknown_account"


async def test_a_role_without_a_tenant_can_do_nothing(
    server: Embedded, database_name: str, database: Database
) -> None:
    async with own_role(server, database_name, database, None) as nobody:
        async with nobody.connect() as theirs:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await enqueue(theirs)


async def test_limits_of_a_role_hold(
    ledger: Ledger, server: Embedded, database_name: str, database: Database
) -> None:
    limits = {"scopes": ["payments:write"], "accounts": ["alice"], "max_amount": 50}
    bound = own_role(server, database_name, database, ledger.api.tenant, **limits)
    async with bound as limited, limited.connect() as theirs:
        for call in (enqueue(theirs), pay(theirs, 51)):
            with pytest.raises(asyncpg.PostgresError) as refused:
                await call
            assert refusal(refused.value)["code"] == "forbidden"
        await pay(theirs, 50)
    assert await ledger.held() == 50


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM postdate.account",
        "SELECT * FROM postdate.client_request",
        "SELECT * FROM postdate.client_role",
        "INSERT INTO postdate.client_request (tenant_id) VALUES (1)",
        "UPDATE postdate.account SET balance = 1",
        "SELECT postdate.client_accept()",
        "SELECT postdate.client_bind('x', 1, '{}', NULL, NULL, 'me')",
        "SELECT postdate.account_hold('{}', '{}', '{}', '{}', '{}', '{}')",
        "SET ROLE postdate_owner",
        "SET ROLE postdate_writer",
    ],
)
async def test_a_role_may_only_call_the_three(own: asyncpg.Connection, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await own.execute(statement)


async def test_tables_of_the_client_do_not_stand_before_ours(
    ledger: Ledger, own: asyncpg.Connection
) -> None:
    await own.execute("""CREATE TEMP TABLE account AS SELECT 1 AS bucket, 'alice' AS account_id;
                         CREATE TEMP TABLE client_role (role_name text, tenant_id integer);
                         CREATE TEMP TABLE timer (x integer); CREATE TEMP TABLE job (x integer);
                         GRANT ALL ON account, client_role, timer, job TO PUBLIC""")
    with pytest.raises(asyncpg.PostgresError) as refused:
        await pay(own, 5000)
    assert refusal(refused.value)["code"] == "insufficient_funds"
    assert await status(ledger, f"/jobs/{await enqueue(own)}") == "READY"


async def test_settings_of_the_session_change_nothing(
    ledger: Ledger, own: asyncpg.Connection
) -> None:
    await own.execute("""SET client_encoding = 'LATIN1'; SET timezone = 'Asia/Tokyo';
                         SET datestyle = 'German'; SET search_path = pg_temp;
                         SET standard_conforming_strings = on""")
    sent = own.fetchval(
        """SELECT postdate.enqueue('{"type": "worker"}', payload => '"gr\\u00fc\\u00df"',
                  description => 'gr' || chr(252), run_at => now() + '1 day')"""
    )
    job_id = await sent
    seen = (await ledger.api.call("GET", f"/jobs/{job_id}")).body
    assert seen["description"] == "grü"
    await all_is_proved(ledger)


async def test_a_client_sets_no_clock(ledger: Ledger, own: asyncpg.Connection) -> None:
    async with own.transaction():
        await own.execute("SET postdate.clock = '2001-01-01T00:00:00Z'")
        job_id = await enqueue(own)
        await own.execute("SET postdate.clock = '2099-01-01T00:00:00Z'")
    created = (await ledger.api.call("GET", f"/jobs/{job_id}")).body["created_at"]
    now = await own.fetchval("SELECT to_json(now()) #>> '{}'")
    assert created[:4] == now[:4]
    # The id begins with the milliseconds of the instant at which it was asked for.
    assert str(datetime.fromtimestamp((job_id.int >> 80) / 1000, UTC).year) == now[:4]
