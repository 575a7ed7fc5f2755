"""Real concurrency: cancels against settlements, settlers against each other, money in circles."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from postdate.account.store.account import key_of
from postdate.core.identity import Identity, Scope
from postdate.core.ids import new_id
from postdate.database.connection.database import Database
from postdate.intake.idempotency import Refused
from postdate.ledger.prove import prove
from postdate.payment.accept.intake import PaymentIntake
from postdate.payment.accept.request import PaymentRequest as Order
from postdate.payment.change.change import PaymentChanges
from postdate.payment.spec.payment import PaymentOrder
from postdate.words.error import Code, RefusedError
from support.bank import Bank, DuePayment, drain, settings, settler


@pytest.fixture(autouse=True)
async def quiet(database: Database) -> AsyncIterator[None]:
    """Leave nothing that would come due during the next test."""
    yield
    await database.writer.execute("DELETE FROM timer")


@pytest.fixture
async def bank(database: Database, tenant_id: int) -> Bank:
    return Bank(database, tenant_id)


def who(bank: Bank) -> Identity:
    scopes = frozenset({Scope.ADMIN})
    return Identity(tenant_id=bank.tenant_id, tenant="t", key_id="k", scopes=scopes)


async def deadlocks(database: Database) -> int:
    count: int = await database.writer.fetchval(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    return count


async def cancelled(changes: PaymentChanges, bank: Bank, payment: UUID) -> str:
    """Cancel, and give the status that the answer speaks of."""
    try:
        await changes.cancel(who(bank), payment)
    except RefusedError as error:
        if error.refusal.code is not Code.PAYMENT_NOT_PENDING:
            raise
        return str(error.refusal.extra["payment_status"])
    return "CANCELLED"


async def test_a_cancel_wins_if_and_only_if_it_ends_the_timer_first(bank: Bank) -> None:
    rounds, each = 15, 24
    await bank.open({"a": 10_000, "b": 0})
    changes = PaymentChanges(bank.database, settings())
    told: dict[UUID, str] = {}
    dice = random.Random(3)
    for _ in range(rounds):
        at = await bank.now()
        payments = await bank.pay([DuePayment("a", "b", 1, at - timedelta(seconds=1))] * each)

        async def cancel_soon(payment: UUID) -> None:
            # By the database's pace: on a busy machine any number of turns of the loop is too few.
            for _ in range(dice.randrange(8)):
                await bank.now()
            told[payment] = await cancelled(changes, bank, payment)

        await asyncio.gather(
            drain(settler(bank.database), 5),
            drain(settler(bank.database), 7),
            *map(cancel_soon, payments),
        )
        await drain(settler(bank.database))
    for payment, status in told.items():
        assert (await bank.outcome(payment))["status"] == status
    won = sum(status == "CANCELLED" for status in told.values())
    assert 0 < won < rounds * each, "no race was run"
    balances = await bank.balances()
    assert balances["b"][0] == rounds * each - won
    assert balances["a"][:2] == (10_000 - balances["b"][0], 0)
    assert (await prove(bank.database, bank.tenant_id)).findings == []


async def test_two_settlers_settle_each_payment_once(bank: Bank) -> None:
    await bank.open({"a": 5000, "b": 5000, "c": 0, "d": 0})
    at = await bank.now()
    dice = random.Random(5)
    wishes = []
    for _ in range(600):
        payer, payee = dice.sample("abcd", 2)
        hold = payer in "ab" and dice.random() < 0.5
        wishes.append(DuePayment(payer, payee, 1, at - timedelta(seconds=dice.random()), hold))
    await bank.pay(wishes)
    before = await deadlocks(bank.database)
    both = [settler(bank.database, 7), settler(bank.database, 5)]
    counts = [0, 0]

    async def work(which: int) -> None:
        while sum(counts) < len(wishes):
            counts[which] += await both[which].run_once(20)
            await asyncio.sleep(0)

    await asyncio.gather(work(0), work(1))
    assert sum(counts) == len(wishes)
    assert all(counts), "one of them did everything"
    assert await deadlocks(bank.database) == before
    assert (await prove(bank.database, bank.tenant_id)).findings == []


async def test_without_a_hold_nobody_overtakes(bank: Bank) -> None:
    """b can pay c only with what a pays b, which another settler is at just now."""
    await bank.open({"a": 10, "b": 0, "c": 0})
    at = await bank.now()
    first, second = await bank.pay(
        [
            DuePayment("a", "b", 10, at - timedelta(seconds=2)),
            DuePayment("b", "c", 10, at - timedelta(seconds=1), hold=False),
        ]
    )
    async with bank.database.write() as connection:
        await connection.execute("SELECT 1 FROM timer WHERE subject = $1 FOR UPDATE", first)
        assert await settler(bank.database).run_once() == 0
    assert await bank.outcome(second) is None
    await drain(settler(bank.database))
    assert (await bank.outcome(second))["status"] == "COMPLETED"


async def test_sixteen_writers_in_circles_never_deadlock(bank: Bank) -> None:
    names = ["a", "b", "c", "d"]
    await bank.open(dict.fromkeys(names, 1000))
    held = settings()
    payments, changes = PaymentIntake(bank.database, held), PaymentChanges(bank.database, held)
    before = await deadlocks(bank.database)
    waiting: list[UUID] = []

    async def write(number: int) -> None:
        dice = random.Random(number)
        for turn in range(8):
            payer, payee = dice.sample(names, 2)
            if dice.random() < 0.5:
                payer, payee = payee, payer
            order = PaymentOrder(
                from_account_id=payer, to_account_id=payee, amount=3, delay_seconds=1
            )
            answers = await payments.accept(
                who(bank), [Order(order, f"k-{number}-{turn}-{n}") for n in range(3)]
            )
            assert not any(isinstance(answer, Refused) for answer in answers)
            due = await bank.now() - timedelta(seconds=1)
            waiting.extend(await bank.pay([DuePayment(payer, payee, 2, due)]))
            if dice.random() < 0.5:
                await cancelled(changes, bank, dice.choice(waiting))

    async def settle() -> None:
        one = settler(bank.database)
        while not done.is_set():
            await one.run_once(9)
            await asyncio.sleep(0)

    done = asyncio.Event()
    settling = [asyncio.create_task(settle()) for _ in range(3)]
    await asyncio.gather(*(write(number) for number in range(16)))
    done.set()
    await asyncio.gather(*settling)
    assert await deadlocks(bank.database) == before
    assert (await prove(bank.database, bank.tenant_id)).findings == []


async def history(bank: Bank, seed: int, held: str) -> list[UUID]:
    """The same payments for every bank: chains, ties, too little money; ids in the same order.

    The accounts that are `held` are rich, and what they pay was held.
    """
    dice = random.Random(seed)
    opened = {"a": 100, "b": 60, "c": 0, "d": 0, "e": 5}
    await bank.open(opened | dict.fromkeys(held, 100_000))
    at = (await bank.now()).replace(microsecond=0)
    wishes = []
    for number in range(200):
        payer, payee = dice.sample("abcde", 2)
        due = at - timedelta(seconds=dice.choice([3, 3, 3, 2, 2, 1.5, 1]))
        # Distinct milliseconds, so that the order does not depend on each bank's buckets.
        identifier = new_id(key_of(bank.tenant_id, payer).bucket, bank.database.unix_ms() + number)
        wishes.append(
            DuePayment(payer, payee, dice.randint(1, 40), due, payer in held, payment_id=identifier)
        )
    return await bank.pay(wishes)


@pytest.mark.parametrize(
    ("held", "ends"),
    [
        ("", {"COMPLETED", "FAILED"}),
        ("ab", {"COMPLETED", "FAILED"}),
        ("abcde", {"COMPLETED"}),
    ],
)
async def test_the_result_does_not_depend_on_the_batch(
    database: Database, held: str, ends: set[str]
) -> None:
    results = []
    for limit, batch_most in ((1, 1000), (7, 3), (5000, 1000), (5000, 7)):
        async with database.write() as connection:
            tenant: int = await connection.fetchval(
                "INSERT INTO tenant (name) VALUES ($1) RETURNING tenant_id", f"t-{uuid4().hex}"
            )
        own = Bank(database, tenant)
        payments = await history(own, 11, held)
        assert await drain(settler(database, batch_most), limit) == len(payments)
        entries = await database.writer.fetch(
            "SELECT account_id, version, amount, balance FROM entry WHERE tenant_id = $1 "
            "ORDER BY account_id, version",
            tenant,
        )
        ended = await database.writer.fetch(
            "SELECT subject, status FROM outcome WHERE tenant_id = $1", tenant
        )
        status = {row["subject"]: row["status"] for row in ended}
        statuses = [status[payment] for payment in payments]
        results.append((await own.balances(), statuses, [tuple(e) for e in entries]))
    assert all(result == results[0] for result in results)
    assert set(results[0][1]) == ends


async def test_what_another_settler_left_behind_is_looked_at_again(bank: Bank) -> None:
    """The second waits for the first, which somebody is at; when he is gone, both are settled."""
    await bank.open({"a": 10, "b": 0, "c": 0})
    first = await bank.due("a", "b", 10, ago=2.0)
    second = await bank.due("b", "c", 10, ago=1.0, hold=False)
    one = settler(bank.database)
    async with bank.database.write() as connection:
        await connection.execute("SELECT 1 FROM timer WHERE subject = $1 FOR UPDATE", first)
        assert (await one.run_once(), await one.run_once()) == (0, 0)
    assert await drain(one) == 2
    assert (await bank.outcome(second))["status"] == "COMPLETED"
