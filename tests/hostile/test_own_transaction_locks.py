"""Nothing that a client's login can lock holds another tenant up."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from conftest import Api, admin, eventually
from postdate.database.connection import wakeup
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.halt.change import Halting
from postdate.halt.spec import Halts
from postdate.tenant.change.client_role import ClientRoles
from postdate.tenant.change.tenant import Tenants
from postdate.words.error import Code, RefusedError
from support.api_ledger import Ledger, open_ledger
from support.own_transaction import OwnRole, enqueue, own_role

NAMES = (
    "tenant_halt",
    "tenant_halt_change",
    "tenant_halt_client",
    "setting_change",
    "lane_change",
    "job_prune",
    "postdate.secret_key",
    "postdate.will_fail",
)
"""The advisory locks that our transactions once took: each was anybody's who could log in."""

TAKE = """SELECT pg_try_advisory_lock(hashtext(name)), pg_try_advisory_lock(hashtext(name), number)
            FROM unnest($1::text[]) AS name, generate_series(0, $2::integer) AS number"""
TABLES = """SELECT 'postdate.' || relname FROM pg_class
             WHERE relnamespace = 'postdate'::regnamespace AND relkind IN ('r', 'p')"""
CALLABLE = """SELECT proname FROM pg_proc WHERE pronamespace = 'postdate'::regnamespace
               AND has_function_privilege(oid, 'EXECUTE') ORDER BY 1"""
TENANT = "SELECT name FROM tenant JOIN client_role USING (tenant_id) WHERE role_name = $1"
LISTENERS = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
OF_ROLE = "SELECT tenant_id FROM client_role WHERE role_name = $1"
MODES = ("ACCESS SHARE", "ROW SHARE", "SHARE", "ACCESS EXCLUSIVE")


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


@pytest.fixture
async def stranger(
    server: Embedded, database_name: str, database: Database
) -> AsyncIterator[OwnRole]:
    """A role that is bound to a tenant of its own."""
    tenant = f"stranger{uuid4().hex[:8]}"
    await Tenants(database).create(tenant)
    async with own_role(server, database_name, database, tenant) as role:
        yield role


async def answers(ledger: Ledger) -> dict[str, int]:
    """Use what takes a lock that tenants, or nodes, share; return the statuses."""
    api, found = ledger.api, {}
    for name, method, path, body in (
        ("job", "POST", "/jobs", {"destination": {"type": "worker"}}),
        ("lane", "PATCH", "/lanes/default", {"weight": 2}),
        ("setting", "PUT", "/settings/job.max_lanes", {"value": 9}),
        ("kill", "PUT", "/kill-switch", {"note": "stolen"}),
        ("release", "DELETE", "/kill-switch", None),
    ):
        found[name] = (await asyncio.wait_for(api.call(method, path, body), 20)).status
    found["payment"] = (await ledger.order()).status
    return found


SERVED = {"job": 201, "lane": 200, "setting": 200, "kill": 200, "release": 200, "payment": 201}


async def test_no_advisory_lock_stops_another_tenant(
    ledger: Ledger, stranger: OwnRole, server: Embedded, database_name: str
) -> None:
    """On a server that lets every login take them, as PostgreSQL does when nobody forbids it."""
    let = f"{{}} EXECUTE ON ALL FUNCTIONS IN SCHEMA pg_catalog {{}} {stranger.name}"
    await admin(server, let.format("GRANT", "TO"), database_name)
    async with stranger.connect() as theirs:
        await theirs.fetch(TAKE, NAMES, 50)
        assert await answers(ledger) == SERVED
    await admin(server, let.format("REVOKE", "FROM"), database_name)


async def test_a_client_cannot_fill_the_memory_for_locks(stranger: OwnRole) -> None:
    async with stranger.connect() as theirs:
        for kind in ("lock", "xact_lock", "lock_shared", "xact_lock_shared"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await theirs.execute(f"SELECT pg_advisory_{kind}(n) FROM generate_series(1, 9) n")
        await theirs.execute("SELECT pg_advisory_unlock_all()")  # as drivers do


async def test_what_an_administrator_must_forbid_is_said(
    stranger: OwnRole, server: Embedded, database_name: str, database: Database
) -> None:
    lock = "EXECUTE ON FUNCTION pg_advisory_lock(bigint)"
    await admin(server, f"GRANT {lock} TO PUBLIC", database_name)
    tenant = await database.writer.fetchval(TENANT, stranger.name)
    assert await ClientRoles(database).bind(stranger.name, tenant) == f"REVOKE {lock} FROM PUBLIC"
    await admin(server, f"REVOKE {lock} FROM PUBLIC", database_name)


async def test_a_client_may_call_three_functions(stranger: OwnRole) -> None:
    async with stranger.connect() as theirs:
        callable_by_it = await theirs.fetch(CALLABLE)
    assert [row[0] for row in callable_by_it] == ["cancel", "enqueue", "schedule_payment"]


async def test_a_client_locks_none_of_our_tables(stranger: OwnRole, database: Database) -> None:
    tables = [row[0] for row in await database.writer.fetch(TABLES)]
    async with stranger.connect() as theirs:
        for table in tables:
            for mode in MODES:
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await theirs.execute(f"BEGIN; LOCK TABLE {table} IN {mode} MODE")
                await theirs.execute("ROLLBACK")


async def test_an_open_transaction_of_a_client_holds_up_its_own_switch_only(
    ledger: Ledger, stranger: OwnRole, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has asked, and made the checks of its commit run early: it keeps what a commit locks."""
    monkeypatch.setattr("postdate.halt.change.MAX_WAITS", 1)
    tenant_id = await database.writer.fetchval(OF_ROLE, stranger.name)
    halting = Halting(database, Halts())
    async with stranger.connect() as theirs, theirs.transaction():
        await enqueue(theirs)
        await theirs.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert await answers(ledger) == SERVED
        with pytest.raises(RefusedError) as refused:
            await halting.kill(tenant_id, "stolen", "cli")
        assert refused.value.refusal.code is Code.OVERLOADED
        assert await eventually(lambda: _named_at_readyz(ledger, stranger.name))
    await halting.kill(tenant_id, "stolen", "cli")


async def test_a_client_does_not_learn_the_channel_of_the_nodes(
    stranger: OwnRole, database: Database
) -> None:
    """Every login may send on a channel that it knows by name; nodes hear theirs alone."""
    async with database.connection() as node:
        heard: list[str] = []
        listening = asyncio.create_task(wakeup.listen(node, lambda: heard.append(""), heard.append))
        await eventually(lambda: _has(heard, ""))
        async with stranger.connect() as theirs:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await theirs.execute("SELECT name FROM postdate.wakeup_channel")
            assert await theirs.fetchval(LISTENERS) == 0
            await theirs.execute("SELECT pg_notify('postdate_due', '1')")
        async with database.connection() as other:
            await wakeup.send(other, "2")
        await eventually(lambda: _has(heard, "2"))
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    assert heard == ["", "2"]


async def _has(heard: list[str], text: str) -> bool:
    return text in heard


async def _named_at_readyz(ledger: Ledger, role: str) -> bool:
    async with ledger.api.session.get(f"{ledger.api.url}/readyz") as answer:
        told = await answer.json()
    return any(role in each["reason"] for each in told["degraded"] if each["name"] == "locks")
