"""An account that a stranger holds costs its own payments, and nobody else's."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from conftest import eventually
from postdate.account.change.adjustment import Adjustments
from postdate.account.store.account import key_of
from postdate.core.identity import Identity, Scope
from postdate.database.connection.database import TRANSACTION_SECONDS, Database
from postdate.database.embedded import Embedded
from postdate.intake.idempotency import Refused
from postdate.ledger.locked import FIRST_SECONDS, LockedAccounts
from postdate.ledger.prove import prove
from postdate.payment.accept.intake import PaymentAnswer, PaymentIntake
from postdate.payment.accept.request import PaymentRequest as Order
from postdate.payment.spec.payment import PaymentOrder
from postdate.proof.prove import snapshot
from postdate.runtime.loop import Loop
from postdate.settlement.settler import MAX_LOOK, Settler
from postdate.tenant.store import tenant as tenant_store
from postdate.words.error import Code
from support.bank import Bank, DuePayment, drain, settings, settler
from support.pause import wait_out

LATE_SECONDS = 2.0


@pytest.fixture(autouse=True)
async def quiet(database: Database) -> AsyncIterator[None]:
    """Leave nothing that would come due during the next test."""
    yield
    await database.writer.execute("DELETE FROM timer")


async def new_bank(database: Database) -> Bank:
    async with database.write() as connection:
        tenant_id = await tenant_store.create(connection, f"t-{uuid4().hex}")
    assert tenant_id is not None
    made = Bank(database, tenant_id)
    await made.open({"alice": 100_000, "bob": 0, "carol": 0})
    return made


@pytest.fixture
async def stranger(server: Embedded, database_name: str) -> AsyncIterator[asyncpg.Connection]:
    """A session that is none of ours: nothing of ours ends it."""
    connection = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    yield connection
    await connection.close()


@asynccontextmanager
async def holding(stranger: asyncpg.Connection, bank: Bank, name: str) -> AsyncIterator[None]:
    """Hold an account's row, as somebody's forgotten transaction would."""
    key = key_of(bank.tenant_id, name)
    async with stranger.transaction():
        await stranger.execute(
            "SELECT FROM postdate.account WHERE bucket = $1 AND tenant_id = $2 AND account_id = $3 "
            "FOR UPDATE",
            *key,
        )
        yield


@asynccontextmanager
async def running(one: Settler) -> AsyncIterator[None]:
    """Run a settler as a node does."""
    loop = Loop("settlement", one.run_once, limit=MAX_LOOK, next_due=one.next_due)
    going = asyncio.create_task(loop.run())
    try:
        yield
    finally:
        loop.stop()
        await going


def who(bank: Bank) -> Identity:
    scopes = frozenset({Scope.ADMIN})
    return Identity(tenant_id=bank.tenant_id, tenant="t", key_id="k", scopes=scopes)


async def schedule(payments: PaymentIntake, bank: Bank, payer: str) -> tuple[PaymentAnswer, float]:
    """Accept a payment, and say how long that took."""
    began = time.monotonic()
    order = PaymentOrder(from_account_id=payer, to_account_id="bob", amount=1, delay_seconds=600)
    answer = await payments.submit(who(bank), Order(order, uuid4().hex))
    return answer, time.monotonic() - began


async def spread(bank: Bank, seconds: float, each_second: int) -> list[UUID]:
    """Schedule payments that come due one after the other; half of them look for their money."""
    at = await bank.now()
    wishes = [
        DuePayment("alice", "bob", 1, at + timedelta(seconds=n / each_second), hold=n % 2 == 0)
        for n in range(int(seconds * each_second))
    ]
    return await bank.pay(wishes)


async def lateness(bank: Bank) -> list[float]:
    rows = await bank.database.writer.fetch(
        """SELECT extract(epoch FROM started_at - due_at)::float8 FROM outcome
            WHERE tenant_id = $1 ORDER BY 1""",
        bank.tenant_id,
    )
    return [row[0] for row in rows]


async def hold_for(seconds: float, database: Database, stranger: asyncpg.Connection) -> float:
    """Hold one tenant's account that long while it and another tenant pay; give the other's p99."""
    victim, other = await new_bank(database), await new_bank(database)
    await spread(victim, seconds, 20)
    due = await spread(other, seconds - 1, 20)
    async with running(settler(database)):
        async with holding(stranger, victim, "alice"):
            over = await other.now() + timedelta(seconds=seconds)

            async def passed() -> bool:
                return await other.now() >= over

            await eventually(passed, seconds=seconds + 10, step=0.2)
            late = await lateness(other)
            assert len(late) == len(due), f"{len(late)} of {len(due)} settled beside the lock"
            assert await lateness(victim) == []

        async def caught_up() -> bool:
            return len(await lateness(victim)) == int(seconds * 20)

        await eventually(caught_up)
    for bank in (victim, other):
        assert (await prove(database, bank.tenant_id)).findings == []
    return late[int(len(late) * 0.99)]


async def test_other_tenants_are_settled_while_a_stranger_holds_an_account(
    database: Database, stranger: asyncpg.Connection
) -> None:
    assert await hold_for(3.0, database, stranger) <= LATE_SECONDS


@pytest.mark.soak
async def test_for_a_minute_other_tenants_are_settled_beside_a_held_account(
    database: Database, stranger: asyncpg.Connection
) -> None:
    p99 = await hold_for(60.0, database, stranger)
    print(f"an account held for 60 s: the other tenant's lateness p99 {p99 * 1000:.0f} ms")
    assert p99 <= LATE_SECONDS


async def test_a_held_account_costs_no_other_account_of_its_tenant(
    database: Database, stranger: asyncpg.Connection
) -> None:
    bank = await new_bank(database)
    await bank.adjust("carol", 10)
    held = await bank.due("alice", "bob", 1, ago=3.0, hold=False)
    await bank.open({"dave": 0})
    free = await bank.due("carol", "dave", 1, ago=2.0, hold=False)
    behind = await bank.due("bob", "dave", 1, ago=1.0, hold=False)
    one = settler(database)
    async with holding(stranger, bank, "alice"):
        await drain(one)
        assert (await bank.outcome(free))["status"] == "COMPLETED"
        # What alice pays bob, bob spends: his payment does not overtake hers.
        assert await bank.outcome(held) is None
        assert await bank.outcome(behind) is None

    async def settled() -> bool:
        await drain(one)
        return bool(await bank.outcome(behind))

    await eventually(settled)
    for payment in (held, behind):
        assert (await bank.outcome(payment))["status"] == "COMPLETED"


async def test_a_busy_head_of_held_payments_hides_nothing(
    database: Database, stranger: asyncpg.Connection
) -> None:
    victim, other = await new_bank(database), await new_bank(database)
    at = await victim.now()
    many = [DuePayment("alice", "bob", 1, at - timedelta(seconds=9))] * 300
    await victim.pay(many)
    free = await other.due("alice", "bob", 1)
    one = settler(database)
    async with holding(stranger, victim, "alice"):
        for _ in range(20):
            await one.run_once(64)
            if await other.outcome(free):
                break
        assert (await other.outcome(free))["status"] == "COMPLETED"
        assert (await one.next_due() or 0) > 0, "it would look again without a pause"

    async def settled() -> bool:
        await one.run_once(64)
        return len(await lateness(victim)) == len(many)

    await eventually(settled)


async def test_others_are_accepted_while_a_stranger_holds_a_payer(
    database: Database, stranger: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postdate.intake.busy_account.WAIT_SECONDS", 1.0)
    victim, other = await new_bank(database), await new_bank(database)
    payments = PaymentIntake(database, settings())
    async with holding(stranger, victim, "alice"):
        told = await asyncio.gather(
            *(schedule(payments, bank, "alice") for _ in range(20) for bank in (victim, other))
        )
    assert not any(isinstance(answer, Refused) for answer, _ in told[1::2])
    assert max(seconds for _, seconds in told[1::2]) < LATE_SECONDS
    refusals = {answer.refusal.code for answer, _ in told[::2] if isinstance(answer, Refused)}
    assert refusals == {Code.OVERLOADED}
    # It is free again, and nobody has to wait for that to be noticed by a restart.
    assert not isinstance((await schedule(payments, victim, "alice"))[0], Refused)


async def test_others_are_adjusted_while_a_stranger_holds_an_account(
    database: Database, stranger: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postdate.intake.busy_account.WAIT_SECONDS", 0.2)
    victim, other = await new_bank(database), await new_bank(database)
    adjustments = Adjustments(database)

    async def adjust(bank: Bank, number: int) -> Code | None:
        answer = await adjustments.adjust(who(bank), "carol", 1, "test", f"k{number}")
        return answer.refusal.code if isinstance(answer, Refused) else None

    async with holding(stranger, victim, "carol"):
        told = await asyncio.gather(*(adjust(b, n) for n in range(5) for b in (victim, other)))
    assert (set(told[1::2]), set(told[::2])) == ({None}, {Code.OVERLOADED})


async def test_who_is_held_is_found_without_waiting(
    database: Database, stranger: asyncpg.Connection
) -> None:
    bank = await new_bank(database)
    keys = [key_of(bank.tenant_id, name) for name in ("alice", "bob", "carol", "nobody")]
    locked = LockedAccounts(database)
    async with holding(stranger, bank, "bob"):
        assert await locked.find(keys)
        assert [key in locked for key in keys] == [False, True, False, False]

    async def forgotten() -> bool:
        await locked.look_again()
        return len(locked) == 0

    await eventually(forgotten)
    assert not await locked.find(keys)


@pytest.mark.parametrize("pool", ["writer", "reader"])
async def test_every_connection_ends_a_node_that_is_gone(database: Database, pool: str) -> None:
    async with getattr(database, pool).acquire() as connection:
        rows = await connection.fetch(
            "SELECT name, setting, boot_val FROM pg_settings WHERE name = ANY ($1)",
            [
                "transaction_timeout",
                "idle_in_transaction_session_timeout",
                "statement_timeout",
                "lock_timeout",
                "client_connection_check_interval",
            ],
        )
        # On a unix socket they say 0, yet the client has asked for them.
        asked = await connection.fetch(
            "SELECT name FROM pg_settings WHERE name LIKE 'tcp\\_%' AND source = 'client'"
        )
    assert len(asked) == 4
    assert len(rows) == 5
    assert all(row["setting"] != row["boot_val"] for row in rows)
    shown = {row["name"]: int(row["setting"]) for row in rows}
    assert shown["transaction_timeout"] == TRANSACTION_SECONDS * 1000
    assert database.bounds_transactions


async def test_a_proof_takes_as_long_as_it_takes(database: Database) -> None:
    async with snapshot(database) as connection:
        for name in ("transaction_timeout", "statement_timeout"):
            assert await connection.fetchval("SELECT current_setting($1)", name) == "0"
    async with database.connection() as connection:
        assert await connection.fetchval("SHOW transaction_timeout") == f"{TRANSACTION_SECONDS}s"


async def test_two_requests_that_look_again_at_once_forget_an_account_once(
    database: Database, stranger: asyncpg.Connection
) -> None:
    bank = await new_bank(database)
    locked = LockedAccounts(database)
    key = key_of(bank.tenant_id, "alice")
    async with holding(stranger, bank, "alice"):
        assert await locked.find([key])
    await wait_out(FIRST_SECONDS)
    await asyncio.gather(locked.look_again(), locked.look_again())
    assert key not in locked
