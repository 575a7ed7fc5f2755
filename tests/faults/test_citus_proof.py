"""A proof over shards while a commit is visible on one of them only: no finding, it waits."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from uuid import uuid4

import asyncpg
import pytest

from conftest import eventually
from faults.sweep_money import identity
from faults.test_citus import DATABASE, formed, needs_citus, sharded
from postdate.account.change.account import Accounts
from postdate.account.change.adjustment import Adjustments
from postdate.account.spec import AccountSpec
from postdate.account.store.account import key_of
from postdate.database.connection import opening
from postdate.database.connection.database import Database
from postdate.database.connection.error import UnavailableError
from postdate.database.shard import attachment
from postdate.database.shard.commits import held_up
from postdate.proof import prove as prove_store
from postdate.prover.checker import prove
from postdate.publisher.verify import verify
from postdate.tenant.store import tenant as tenant_store
from support import citus
from support.pause import wait_out

__all__ = ["formed", "sharded"]

pytestmark = [needs_citus, pytest.mark.soak]

PREPARED = """SELECT pid FROM pg_stat_activity
               WHERE query LIKE 'PREPARE TRANSACTION%' AND state = 'idle'"""
IN_COMMIT = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
SOMETHING = "SELECT pg_logical_emit_message(true, 'tests', '')"
WAITING = """SELECT count(*) FROM pg_locks
              WHERE relation = 'pg_dist_transaction'::regclass AND NOT granted"""
HOLDERS = """SELECT pid FROM pg_locks
              WHERE relation = 'pg_dist_transaction'::regclass AND mode = 'ShareLock'"""
END_HOLDER = f"SELECT pg_terminate_backend(pid) FROM ({HOLDERS}) holder"


async def _ask(node: citus.DatabaseNode, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(node.credentials.superuser_dsn(DATABASE))
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


async def _until_one_waits(coordinator: citus.DatabaseNode) -> asyncio.Task[object]:
    """Commit something again and again until it waits."""

    async def waits() -> bool:
        return bool(await _ask(coordinator, IN_COMMIT)) or committing.done()

    while True:
        committing = asyncio.create_task(_ask(coordinator, SOMETHING))
        await eventually(waits, 60)
        if not committing.done():
            return committing


@asynccontextmanager
async def _commits_wait(coordinator: citus.DatabaseNode) -> AsyncIterator[None]:
    """Have no commit of the coordinator end by itself: it waits for a standby that never comes."""
    await _ask(coordinator, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    await _ask(coordinator, "SELECT pg_reload_conf()")
    try:
        await _until_one_waits(coordinator)
        yield
    finally:
        await _ask(coordinator, "ALTER SYSTEM RESET synchronous_standby_names")
        await _ask(coordinator, "SELECT pg_reload_conf()")


async def _far_account(database: Database, tenant_id: int) -> str:
    """Open an account that lies on another worker than the issuer, whose money it gets."""
    async with database.connection() as connection:
        owners = await attachment.owners(connection)
    place = {n: owners[key_of(tenant_id, n).bucket].port for n in ("issuer", *map(str, range(64)))}
    name = next(name for name, port in place.items() if port != place["issuer"])
    await Accounts(database).create(identity(tenant_id), AccountSpec(account_id=name))
    await Adjustments(database).adjust(identity(tenant_id), name, 100, "test", "first")
    return name


@asynccontextmanager
async def _half_committed(
    cluster: citus.CitusCluster, commit: Coroutine[object, object, object]
) -> AsyncIterator[None]:
    """Commit something over two workers of which one shows it and the other does not yet."""
    shows, hides = cluster.nodes[1:3]
    stopped: list[int] = []

    async def prepared() -> bool:
        pids = [await _ask(node, PREPARED) for node in (shows, hides)]
        stopped[:] = [row["pid"] for row in pids[1]]
        return all(pids)

    async def committed() -> bool:
        return not await _ask(shows, "SELECT FROM pg_prepared_xacts")

    async with _commits_wait(cluster.coordinator):
        committing = asyncio.create_task(commit)
        await eventually(prepared, 60)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
    try:
        await eventually(committed, 60)
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        await committing


@asynccontextmanager
async def _unheld(_: Database) -> AsyncIterator[None]:
    """Hold nothing up."""
    yield


async def test_what_one_node_shows_first_is_no_finding(
    formed: citus.CitusCluster, sharded: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sharded.write() as connection:
        tenant_id = await tenant_store.create(connection, f"t-{uuid4().hex}")
    assert tenant_id is not None
    name = await _far_account(sharded, tenant_id)

    async def waits() -> bool:
        return bool((await _ask(formed.coordinator, WAITING))[0][0])

    more = Adjustments(sharded).adjust(identity(tenant_id), name, 100, "test", "second")
    async with _half_committed(formed, more):
        with monkeypatch.context() as patched:
            patched.setattr(prove_store, "held_up", _unheld)
            half = await prove(sharded, tenant_id)
        assert "ledger_sums_to_zero" in {each.check for each in half.findings}
        proving = asyncio.create_task(prove(sharded, tenant_id))
        await eventually(waits, 60)
    assert (await proving).findings == []
    assert (await verify(sharded, {})).ok


@pytest.fixture
async def hurried(
    formed: citus.CitusCluster, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Database]:
    """The pools of a node whose transactions end after five seconds."""
    monkeypatch.setattr(opening, "TRANSACTION_SECONDS", 5)
    monkeypatch.setattr(opening, "ANSWER_SECONDS", 0)
    opened = await opening.connect(formed.credentials.login.app_dsn(), writers=2, readers=1)
    yield opened
    await opened.close()


async def test_a_table_may_be_copied_for_longer_than_a_transaction_of_ours_takes(
    formed: citus.CitusCluster, hurried: Database
) -> None:
    [(shard,)] = await _ask(
        formed.nodes[1],
        "SELECT shard_name FROM citus_shards WHERE table_name = 'postdate.account'::regclass "
        "AND nodeport = current_setting('port')::integer LIMIT 1",
    )
    holder = await asyncpg.connect(formed.nodes[1].credentials.superuser_dsn(DATABASE))
    await holder.execute("SET citus.enable_manual_changes_to_shards = on")
    async with holder.transaction():
        await holder.execute(f"LOCK TABLE {shard} IN ACCESS EXCLUSIVE MODE")
        proving = asyncio.create_task(prove(hurried))
        await wait_out(8)
        assert not proving.done()
    await holder.close()
    assert (await proving).findings is not None


async def test_a_proof_whose_fence_was_lost_is_not_believed(
    formed: citus.CitusCluster, sharded: Database
) -> None:
    async def ended() -> bool:
        return not await _ask(formed.coordinator, HOLDERS)

    async def lose_the_fence() -> None:
        async with held_up(sharded):
            await _ask(formed.coordinator, END_HOLDER)
            await eventually(ended, 30)

    with pytest.raises(UnavailableError, match="could commit meanwhile"):
        await lose_the_fence()
