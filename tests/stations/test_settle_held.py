"""What the database settles itself ends as Python would have decided, one by one."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from conftest import app_dsn
from postdate.account.store.account import key_of
from postdate.core.ids import BUCKETS, new_id
from postdate.core.money import MAX_BALANCE
from postdate.database.connection import opening
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.ledger import held as held_ledger
from postdate.ledger.locked import LockedAccounts
from postdate.ledger.prove import prove
from postdate.payment.store import held_payment as held_store
from postdate.payment.store.held_payment import HeldPayments
from postdate.settlement.settler import Settler
from support.bank import Bank, DuePayment, drain, settler

NAMES = "abcdef"
PAYMENTS = 120


@pytest.fixture(autouse=True)
async def quiet(database: Database) -> AsyncIterator[None]:
    """Leave nothing that would come due during the next test."""
    yield
    await database.writer.execute("DELETE FROM timer")


@dataclass
class Tally:
    """How many payments the database took off the queue, and how many batches it refused."""

    taken: int = 0
    uneven: int = 0


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    found, settle, take = Tally(), held_ledger.settle, held_store.take

    async def counted(connection: Any, held: HeldPayments, settling: Any) -> float:
        try:
            began = await settle(connection, held, settling)
        except Exception:
            found.uneven += 1
            raise
        found.taken += len(held)
        return began

    async def refused(connection: Any, keys: Any) -> HeldPayments | None:
        held = await take(connection, keys)
        found.uneven += held is None
        return held

    monkeypatch.setattr(held_ledger, "settle", counted)
    monkeypatch.setattr(held_store, "take", refused)
    return found


async def new_bank(database: Database) -> Bank:
    tenant: int = await database.writer.fetchval(
        "INSERT INTO tenant (name) VALUES ($1) RETURNING tenant_id", f"t-{uuid4().hex}"
    )
    return Bank(database, tenant)


async def history(bank: Bank, seed: int) -> list[UUID]:
    """The same payments for every bank, all held: ties, chains, and accounts that are in the way.

    With some seeds an account is frozen or almost full, or some payments hold nothing.
    """
    dice = random.Random(seed)
    await bank.open(dict.fromkeys(NAMES, 10_000))
    at = (await bank.now()).replace(microsecond=0)
    unheld = seed % 4 == 3
    wishes = []
    for number in range(PAYMENTS):
        payer, payee = dice.sample(NAMES, 2)
        due = at - timedelta(seconds=dice.choice([3, 3, 2, 1.5]))
        # Distinct milliseconds, so that the order does not depend on each bank's buckets.
        bucket = key_of(bank.tenant_id, payer).bucket
        identifier = new_id(bucket, bank.database.unix_ms() + number)
        hold = not (unheld and dice.random() < 0.05)
        wishes.append(
            DuePayment(payer, payee, dice.randint(1, 60), due, hold, payment_id=identifier)
        )
    made = await bank.pay(wishes)
    await disturb(bank, seed)
    return made


async def disturb(bank: Bank, seed: int) -> None:
    changes = {
        1: "UPDATE account SET frozen_at = clock() WHERE tenant_id = $1 AND account_id = 'c'",
        2: "UPDATE account SET balance = $2::bigint - 100 "
        "WHERE tenant_id = $1 AND account_id = 'd'",
    }
    if change := changes.get(seed % 4):
        arguments = [bank.tenant_id, MAX_BALANCE][: 2 if "$2" in change else 1]
        await bank.database.writer.execute(change, *arguments)


async def result(bank: Bank, payments: list[UUID]) -> Any:
    """Everything that settling leaves, by the number of the payment."""
    number = {payment: n for n, payment in enumerate(payments)}
    entries = await bank.database.writer.fetch(
        "SELECT account_id, version, amount, balance, payment_id FROM entry WHERE tenant_id = $1 "
        "AND payment_id IS NOT NULL ORDER BY account_id, version",
        bank.tenant_id,
    )
    outcomes = await bank.database.writer.fetch(
        "SELECT subject, attempt, status, code, error, from_version, to_version, actor, "
        "execution_id, transfer_id IS NULL FROM outcome WHERE tenant_id = $1",
        bank.tenant_id,
    )
    return (
        await bank.balances(),
        [(*row[:4], number[row[4]]) for row in entries],
        sorted((number[row[0]], *row[1:]) for row in outcomes),
        [await bank.events(payment) for payment in payments],
    )


@pytest.mark.parametrize("seed", range(12))
async def test_the_database_settles_as_python_decides(
    database: Database, tally: Tally, seed: int
) -> None:
    banks = [await new_bank(database) for _ in range(2)]
    results = []
    for bank, in_python in zip(banks, (False, True), strict=True):
        payments = await history(bank, seed)
        tally.taken = 0
        one = settler(database, [1, 7, 50, 1000][seed // 4 + seed % 2])
        if in_python:
            one.decide_in_python()
        assert await drain(one) == PAYMENTS
        assert bool(tally.taken) == (not in_python) or tally.uneven
        results.append(await result(bank, payments))
        if seed % 4 != 2:  # there money was invented to fill an account
            assert (await prove(database, bank.tenant_id)).findings == []
    assert results[0] == results[1]


async def test_a_whole_batch_is_settled_without_a_decision(
    database: Database, tally: Tally
) -> None:
    bank = await new_bank(database)
    payments = await history(bank, 0)
    assert await drain(settler(database)) == len(payments)
    assert (tally.taken, tally.uneven) == (len(payments), 0)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE account SET frozen_at = clock() WHERE tenant_id = $1 AND account_id = 'b'",
        f"UPDATE account SET balance = {MAX_BALANCE} WHERE tenant_id = $1 AND account_id = 'b'",
    ],
    ids=["frozen", "full"],
)
async def test_what_fails_falls_out_and_the_others_are_paid(
    database: Database, tally: Tally, change: str
) -> None:
    bank = await new_bank(database)
    await bank.open({"a": 100, "b": 0, "c": 0})
    fails, paid = await bank.due("a", "b", 5), await bank.due("a", "c", 6)
    await database.writer.execute(change, bank.tenant_id)
    assert await drain(settler(database)) == 2
    assert tally.uneven == 1
    statuses = [(await bank.outcome(each))["status"] for each in (fails, paid)]
    assert statuses == ["FAILED", "COMPLETED"]
    assert (await bank.balances())["a"][:2] == (94, 0)


async def test_a_wrong_bucket_of_the_payee_sends_no_money_astray(
    database: Database, tally: Tally
) -> None:
    bank = await new_bank(database)
    await bank.open({"a": 100, "b": 0})
    await database.writer.execute(
        "UPDATE account SET held = 5 WHERE tenant_id = $1 AND account_id = 'a'", bank.tenant_id
    )
    payer, payee = (key_of(bank.tenant_id, name) for name in "ab")
    payment = new_id(payer.bucket, database.unix_ms())
    await database.writer.execute(
        "INSERT INTO payment (bucket, to_bucket, tenant_id, payment_id, from_account, to_account, "
        "amount, due_at, hold) VALUES ($1, $2, $3, $4, 'a', 'b', 5, clock(), true)",
        payer.bucket, (payee.bucket + 1) % BUCKETS, bank.tenant_id, payment,
    )  # fmt: skip
    await database.writer.execute(
        "INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at) "
        "VALUES ($1, $2, 0, $3, clock() - interval '1 s')",
        payer.bucket, bank.tenant_id, payment,
    )  # fmt: skip
    assert await drain(settler(database)) == 1
    assert tally.uneven == 1
    balances = await bank.balances()
    assert (balances["a"], balances["b"]) == ((95, 0, 2), (5, 0, 1))


async def test_a_timer_without_its_payment_takes_none_with_it(
    database: Database, tally: Tally
) -> None:
    bank = await new_bank(database)
    await bank.open({"a": 100, "b": 0})
    paid = await bank.due("a", "b", 5)
    lost = new_id(key_of(bank.tenant_id, "a").bucket, database.unix_ms())
    await database.writer.execute(
        "INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at) "
        "VALUES ($1, $2, 0, $3, clock() - interval '2 s')",
        key_of(bank.tenant_id, "a").bucket, bank.tenant_id, lost,
    )  # fmt: skip
    await drain(settler(database, **{"payment.retry_seconds": 3000.0}))
    assert tally.uneven
    assert (await bank.outcome(paid))["status"] == "COMPLETED"
    assert (await bank.timer(lost))["token"] == 1


async def test_columns_are_those_of_the_function(database: Database) -> None:
    names = await database.writer.fetchval(
        "SELECT proargnames FROM pg_proc WHERE proname = 'settlement_take'"
    )
    assert tuple(names[4:]) == HeldPayments.__struct_fields__
    assert names[3] == "even"


async def test_four_settlers_share_payees_without_a_time_out(
    server: Embedded, database_name: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each payer is in one bucket; the few payees are in every batch of every settler."""
    bank = await new_bank(database)
    payers = [f"payer-{number}" for number in range(100)]
    await bank.open(dict.fromkeys(payers, 100) | dict.fromkeys("xyz", 0))
    at = await bank.now()
    dice = random.Random(4)
    wishes = [
        DuePayment(payer, dice.choice("xyz"), 1, at - timedelta(milliseconds=dice.randrange(900)))
        for payer in payers
        for _ in range(100)
    ]
    await bank.pay(wishes)
    waited: list[Any] = []
    find = LockedAccounts.find

    async def found(locked: LockedAccounts, keys: Any) -> bool:
        waited.append(keys)
        return await find(locked, keys)

    monkeypatch.setattr(LockedAccounts, "find", found)
    dsn = app_dsn(server, database_name)
    nodes = [await opening.connect(dsn, writers=2, readers=1) for _ in range(4)]
    counts = [0] * len(nodes)

    async def work(number: int, one: Settler) -> None:
        while sum(counts) < len(wishes):
            counts[number] += await one.run_once(1000)
            await asyncio.sleep(0)

    try:
        await asyncio.gather(*(work(n, settler(node)) for n, node in enumerate(nodes)))
    finally:
        for node in nodes:
            await node.close()
    assert sum(counts) == len(wishes)
    assert all(counts), counts
    assert waited == []
    balances = await bank.balances()
    assert sum(balances[name][0] for name in "xyz") == len(wishes)
    assert (await prove(database, bank.tenant_id)).findings == []
