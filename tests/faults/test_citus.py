"""A Citus cluster under settlement: a node killed, a shard moved, a node added. Exact all the same.

The cluster is formed from the server that POSTDATE_TEST_CITUS names: docs/operate/shards.md.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from conftest import eventually, owner_dsn, scratch
from faults.sweep_money import identity
from postdate.account.change.account import Accounts
from postdate.account.change.adjustment import Adjustments
from postdate.account.spec import AccountSpec
from postdate.account.store import entry as entry_store
from postdate.account.store import repair as repair_store
from postdate.account.store.account import key_of
from postdate.account.view.account import MAX_VERSION
from postdate.core.ids import new_id
from postdate.core.money import ISSUER
from postdate.database.connection import opening
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import LockNotAvailableError, TransientError
from postdate.database.embedded import Embedded
from postdate.database.shard import attachment
from postdate.halt import store as halt
from postdate.ledger.prove import reconcile
from postdate.payment.store import settlement
from postdate.prover.checker import prove
from postdate.publisher.meter import PublisherMeter
from postdate.publisher.sealer import Sealer
from postdate.publisher.verify import verify
from postdate.schema import migrate
from postdate.tenant.store import tenant as tenant_store
from postdate.words.error import StartError
from support import citus
from support.bank import Bank, DuePayment, settler
from support.pause import wait_out

needs_citus = pytest.mark.skipif(
    not citus.DIRECTORY, reason="no Citus: POSTDATE_TEST_CITUS names no server directory"
)
DATABASE = "postdate"
ACCOUNTS = 40
PAYMENTS = 600


async def test_a_server_without_citus_is_refused(server: Embedded, database_name: str) -> None:
    if citus.SUITES:
        pytest.skip("this server has Citus")
    with pytest.raises(StartError, match="this database has no Citus"):
        await migrate.migrate(owner_dsn(server, database_name), citus=True)


@pytest.fixture(scope="module")
async def formed() -> AsyncIterator[citus.CitusCluster]:
    """A coordinator and two workers whose commits are durable."""
    with scratch() as directory:
        async with citus.cluster(directory, settings={}) as cluster:
            await cluster.make_database(DATABASE)
            yield cluster


@pytest.fixture
async def sharded(formed: citus.CitusCluster) -> AsyncIterator[Database]:
    """The pools of a node, which go through the coordinator."""
    opened = await opening.connect(formed.credentials.login.app_dsn(), writers=6, readers=2)
    await opened.writer.execute(
        """INSERT INTO setting (tenant_id, name, value, operator, changed_by)
           VALUES (0, 'payment.unsafe_commits', '"accept"', true, 'tests') ON CONFLICT DO NOTHING"""
    )
    yield opened
    await opened.close()


async def _bank(database: Database) -> Bank:
    async with database.write() as connection:
        tenant_id = await tenant_store.create(connection, f"t-{uuid4().hex}")
    assert tenant_id is not None
    bank, operator = Bank(database, tenant_id), identity(tenant_id)
    accounts, adjustments = Accounts(database), Adjustments(database)
    for number in range(ACCOUNTS):
        await accounts.create(operator, AccountSpec(account_id=f"a{number}"))
        await adjustments.adjust(operator, f"a{number}", 10_000, "test", f"k{number}")
    at = await bank.now() - timedelta(seconds=1)
    for first in range(0, PAYMENTS, 100):
        await bank.pay(
            [
                DuePayment(f"a{number % ACCOUNTS}", f"a{(number * 7 + 1) % ACCOUNTS}", 1, at)
                for number in range(first, first + 100)
                if number % ACCOUNTS != (number * 7 + 1) % ACCOUNTS
            ]
        )
    return bank


async def _until_settled(database: Database, bank: Bank) -> None:
    """Settle in small batches, as a node does, through everything that happens meanwhile."""
    one = settler(database, 25)
    while await _open_timers(database, bank):
        with suppress(TransientError, TimeoutError):
            await one.run_once(25)
        await wait_out(0.01)


async def _open_timers(database: Database, bank: Bank) -> int:
    while True:
        with suppress(TransientError, asyncpg.PostgresError, OSError, TimeoutError):
            async with database.connection() as connection:
                found: int = await connection.fetchval(
                    "SELECT count(*) FROM timer WHERE tenant_id = $1 AND due_at < 'infinity'",
                    bank.tenant_id,
                )
                return found
        await wait_out(0.2)


async def _survives(database: Database, disturb: Callable[[], Awaitable[object]]) -> None:
    """Settle everything while something happens, and find every amount where it belongs."""
    bank = await _bank(database)
    before = await bank.balances()
    many = await _open_timers(database, bank)
    assert many > PAYMENTS // 2
    async with asyncio.timeout(400):
        await asyncio.gather(
            _until_settled(database, bank), _until_settled(database, bank), disturb()
        )
    after = await bank.balances()
    assert sum(balance for balance, _, _ in after.values()) == 0
    assert {name: held for name, (_, held, _) in after.items()} == dict.fromkeys(before, 0)
    completed = await database.writer.fetchval(
        "SELECT count(*) FROM outcome WHERE tenant_id = $1 AND status = 'COMPLETED'",
        bank.tenant_id,
    )
    assert completed == many
    entries = await database.writer.fetchval(
        "SELECT count(*) FROM entry WHERE tenant_id = $1 AND type = 'PAYMENT'", bank.tenant_id
    )
    assert entries == 2 * many
    sealer = Sealer(database, PublisherMeter(CollectorRegistry()))
    while await sealer.run_once(1000):
        pass
    assert (await prove(database, bank.tenant_id)).findings == []
    assert (await verify(database, {})).ok


@needs_citus
@pytest.mark.soak
async def test_a_statement_gathers_what_lies_with_other_payers(sharded: Database) -> None:
    bank = await _bank(sharded)
    await _until_settled(sharded, bank)
    stood = await bank.balances()
    for name in ("a1", "a8", ISSUER):
        key = key_of(bank.tenant_id, name)
        balance, _, version = stood[name]
        async with sharded.read(bank.tenant_id) as reader:
            now = await entry_store.statement(reader, key, None, MAX_VERSION, 5)
            then = await entry_store.statement(reader, key, await bank.now(), MAX_VERSION, 5)
            whole = await entry_store.between(reader, key, 0, version)
        assert now is not None
        assert (now[0].balance, now[0].version) == (balance, version)
        assert now == then
        assert [each.version for each in whole] == list(range(1, version + 1))
        assert sum(each.amount for each in whole) == balance
        assert now[1] == whole[:-6:-1]
        async with sharded.write() as connection:
            said = await repair_store.read_evidence(connection, key)
            assert (said.version, said.entries, said.amounts) == (version, version, balance)
            assert await repair_store.jumps(connection, key) == []
    assert await reconcile(sharded, key_of(bank.tenant_id, "a1").bucket, bank.tenant_id) == []


async def _prepared(cluster: citus.CitusCluster) -> int:
    total = 0
    for node in cluster.nodes:
        connection = await asyncpg.connect(node.credentials.superuser_dsn(DATABASE))
        total += await connection.fetchval("SELECT count(*) FROM pg_prepared_xacts")
        await connection.close()
    return total


@needs_citus
@pytest.mark.soak
async def test_a_database_node_is_killed_under_settlement(
    formed: citus.CitusCluster, sharded: Database
) -> None:
    victim = formed.nodes[1]

    async def kill_and_restart() -> None:
        for _ in range(2):
            await wait_out(1.5)
            victim.kill()
            await wait_out(1)
            await formed.start([victim])

    await _survives(sharded, kill_and_restart)

    async def recovered() -> bool:
        return await _prepared(formed) == 0

    await eventually(recovered, 60)


@needs_citus
@pytest.mark.soak
async def test_settlement_goes_on_while_the_database_node_that_it_is_attached_to_is_away(
    formed: citus.CitusCluster, sharded: Database
) -> None:
    async with sharded.connection() as connection:
        owners = await attachment.owners(connection)
    victim = formed.nodes[1]
    near = next(each for each in owners.values() if each.port == victim.port)
    await attachment.attach(sharded, near)
    assert await _near_port(sharded) == victim.port

    async def kill_and_restart() -> None:
        await wait_out(1.5)
        victim.kill()
        await wait_out(1)
        assert await _near_port(sharded) == formed.coordinator.port
        await formed.start([victim])

    await _survives(sharded, kill_and_restart)

    async def back() -> bool:
        return await _near_port(sharded) == victim.port

    await eventually(back, 60)


async def _near_port(database: Database) -> int:
    async with database.near.connection() as connection:
        port: int = await connection.fetchval("SELECT current_setting('port')::integer")
    return port


@needs_citus
@pytest.mark.soak
async def test_a_switch_waits_for_what_began_at_any_database_node(sharded: Database) -> None:
    async with sharded.connection() as connection:
        owners = await attachment.owners(connection)
    await attachment.attach(sharded, owners[0])
    async with sharded.near.write() as moving:
        await halt.share(moving)
        with pytest.raises(LockNotAvailableError):
            async with sharded.write() as switching:
                await halt.wait_alone(switching)
    async with sharded.write() as switching:
        await halt.wait_alone(switching)


async def _grown_by(connection: Connection, payment_id: UUID) -> int:
    """Return by how many bytes a hundred more calls of a statement make a session grow."""
    sizes: list[int] = []
    for _ in range(2):
        for _ in range(100):
            await settlement.terms(connection, 1, payment_id)
        sizes.append(
            await connection.fetchval(
                "SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts"
            )
        )
    return sizes[1] - sizes[0]


@needs_citus
@pytest.mark.soak
async def test_a_session_at_the_owner_keeps_no_plan_of_each_statement(sharded: Database) -> None:
    """Citus 14 keeps one of every call of a plan for all values: 0.3 MB for a row by its key."""
    async with sharded.connection() as connection:
        owners = await attachment.owners(connection)
    await attachment.attach(sharded, owners[0])
    payment_id = new_id(0, sharded.unix_ms())
    grown = {}
    async with sharded.near.connection() as connection:
        grown["ours"] = await _grown_by(connection, payment_id)
        for mode in ("auto", "force_generic_plan"):
            await connection.execute(f"SET plan_cache_mode = '{mode}'")
            grown[mode] = await _grown_by(connection, payment_id)
        await connection.execute("SET plan_cache_mode = 'force_custom_plan'")
    print(f"bytes that 100 more calls add: {grown}", flush=True)
    assert grown["ours"] < 1_000_000
    # Else nothing is seen here any more of what our setting is for.
    assert grown["force_generic_plan"] > 10_000_000


@needs_citus
@pytest.mark.soak
async def test_a_shard_is_moved_under_settlement(
    formed: citus.CitusCluster, sharded: Database
) -> None:
    async def move() -> None:
        connection = await asyncpg.connect(formed.credentials.superuser_dsn(DATABASE))
        try:
            [(shard, source)] = await connection.fetch(
                """SELECT shardid, nodeport FROM citus_shards
                    WHERE table_name = 'postdate.timer'::regclass ORDER BY shardid LIMIT 1"""
            )
            target = next(node.port for node in formed.nodes[1:] if node.port != source)
            await connection.execute(
                f"""SELECT citus_move_shard_placement({shard}, '127.0.0.1', {source},
                           '127.0.0.1', {target}, shard_transfer_mode => 'auto')""",
                timeout=300,
            )
            now = await connection.fetchval(
                "SELECT nodeport FROM citus_shards WHERE shardid = $1", shard
            )
            assert now == target
        finally:
            await connection.close()

    await _survives(sharded, move)


@needs_citus
@pytest.mark.soak
async def test_a_node_is_added_and_takes_shards_under_settlement(
    formed: citus.CitusCluster, sharded: Database
) -> None:
    password = formed.coordinator.login.password
    added = citus.new_node(formed.coordinator.home.parent / "added", password)
    formed.nodes.append(added)
    await formed.start([added])
    await formed.prepare_node(DATABASE, added)

    async def add() -> None:
        connection = await asyncpg.connect(formed.credentials.superuser_dsn(DATABASE))
        try:
            await connection.execute(
                f"SELECT citus_add_node('127.0.0.1', {added.port})", timeout=120
            )
            await connection.execute("SELECT rebalance_table_shards()", timeout=300)
            held = await connection.fetchval(
                "SELECT count(*) FROM citus_shards WHERE nodeport = $1 AND citus_table_type = "
                "'distributed'",
                added.port,
            )
            assert held > 0
        finally:
            await connection.close()

    await _survives(sharded, add)
