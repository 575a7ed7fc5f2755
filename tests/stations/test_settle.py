import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from prometheus_client import CollectorRegistry

from conftest import Clock, eventually
from postdate.database.connection.database import Connection, Database
from postdate.payment.store import held_payment as held_store
from postdate.payment.store import settlement as settlement_store
from postdate.settlement.meter import SettlementMeter
from postdate.settlement.settler import Settler
from support.bank import Bank, DuePayment, drain, settings, settler


@pytest.fixture
async def bank(database: Database, tenant_id: int) -> Bank:
    return Bank(database, tenant_id)


async def test_a_held_payment_moves_once(bank: Bank) -> None:
    await bank.open({"a": 100, "b": 0})
    payment = await bank.due("a", "b", 30)
    assert (await bank.balances())["a"] == (100, 30, 1)
    one = settler(bank.database)
    assert await one.run_once() == 1
    assert await one.run_once() == 0
    assert await bank.balances() == {"a": (70, 0, 2), "b": (30, 0, 1), "issuer": (-100, 0, 1)}
    outcome = await bank.outcome(payment)
    assert (outcome["status"], outcome["attempt"]) == ("COMPLETED", 1)
    assert await bank.timer(payment) is None
    assert await bank.events(payment) == ["payment.scheduled", "payment.completed"]
    entries = await bank.database.writer.fetch(
        "SELECT account_id, amount, balance, version, type FROM entry WHERE transfer_id = $1 "
        "ORDER BY account_id",
        outcome["transfer_id"],
    )
    assert [tuple(e) for e in entries] == [
        ("a", -30, 70, 2, "PAYMENT"),
        ("b", 30, 30, 1, "PAYMENT"),
    ]


async def test_nothing_is_settled_before_its_instant(bank: Bank, clock: Clock) -> None:
    await bank.open({"a": 100, "b": 0})
    due = await bank.now() + timedelta(seconds=60)
    await bank.pay([DuePayment("a", "b", 1, due)])
    one = settler(bank.database)
    assert await one.run_once() == 0
    wait = await one.next_due()
    assert wait is not None
    assert 55 < wait <= 60
    await clock.advance(61)
    assert await one.run_once() == 1


async def test_an_instant_of_the_next_century_keeps_its_microseconds(
    bank: Bank, clock: Clock
) -> None:
    await bank.open({"a": 100, "b": 0})
    any_of = random.Random(2106).randrange
    begin = datetime(2107, 3, 1, tzinfo=UTC)
    dues = [begin + timedelta(microseconds=any_of(10**9)) for _ in range(40)]
    made = await bank.pay([DuePayment("a", "b", 1, due) for due in dues])
    await clock.set((begin - await bank.now()).total_seconds() + 2000)
    assert await settler(bank.database).run_once() == len(dues)
    assert [(await bank.outcome(each))["due_at"] for each in made] == dues


@pytest.mark.parametrize(
    ("store", "name"), [(held_store, "take"), (settlement_store, "lock")], ids=["take", "lock"]
)
async def test_what_is_put_off_between_the_look_and_the_lock_is_not_settled(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, store: Any, name: str
) -> None:
    await bank.open({"a": 100, "b": 0})
    payment = await bank.due("a", "b", 30)
    lock = getattr(store, name)

    async def put_off_first(connection: Connection, keys: Sequence[Any]) -> Any:
        later = "UPDATE timer SET due_at = due_at + interval '1 hour' WHERE subject = $1"
        await bank.database.writer.execute(later, payment)
        return await lock(connection, keys)

    monkeypatch.setattr(store, name, put_off_first)
    one = settler(bank.database)
    if store is settlement_store:
        one.decide_in_python()
    assert await one.run_once() == 0
    assert (await bank.balances())["a"] == (100, 30, 1)
    assert await bank.timer(payment) is not None


async def test_a_credit_is_spendable_by_the_next_item_of_the_batch(bank: Bank) -> None:
    await bank.open({"a": 10, "b": 0, "c": 0})
    at = await bank.now()
    wishes = [
        DuePayment("a", "b", 10, at - timedelta(seconds=3), hold=False),
        DuePayment("b", "c", 10, at - timedelta(seconds=2), hold=False),
        DuePayment("c", "a", 10, at - timedelta(seconds=1), hold=False),
    ]
    await bank.pay(wishes)
    assert await drain(settler(bank.database)) == 3
    balances = await bank.balances()
    assert {n: balances[n][0] for n in "abc"} == {"a": 10, "b": 0, "c": 0}


async def test_without_money_at_the_due_second_it_fails(bank: Bank) -> None:
    await bank.open({"a": 5, "b": 0})
    payment = await bank.due("a", "b", 6, hold=False)
    await drain(settler(bank.database))
    outcome = await bank.outcome(payment)
    assert (outcome["status"], outcome["code"]) == ("FAILED", "insufficient_funds")
    assert "5 available" in outcome["error"]
    assert await bank.events(payment) == ["payment.scheduled", "payment.failed"]
    assert (await bank.balances())["a"] == (5, 0, 1)


async def test_it_waits_for_money_until_the_instant_it_was_given(bank: Bank, clock: Clock) -> None:
    await bank.open({"a": 0, "b": 0})
    until = await bank.now() + timedelta(seconds=100)
    lucky = await bank.due("a", "b", 6, hold=False, retry_until=until)
    unlucky = await bank.due("b", "a", 60, hold=False, retry_until=until)
    one = settler(bank.database)
    assert await drain(one) == 2
    await clock.advance(1.5)
    assert await drain(one) == 2
    await bank.adjust("a", 6)
    await clock.advance(2.5)
    await drain(one)
    assert (await bank.outcome(lucky))["status"] == "COMPLETED"
    assert (await bank.outcome(lucky))["attempt"] == 3
    assert await bank.outcome(unlucky) is None
    await clock.advance(100)
    await drain(one)
    assert (await bank.outcome(unlucky))["code"] == "insufficient_funds"
    assert await bank.events(unlucky) == [
        "payment.scheduled",
        *["payment.retried"] * ((await bank.outcome(unlucky))["attempt"] - 1),
        "payment.failed",
    ]


@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_frozen_account_fails_the_payment_and_releases_the_hold(
    bank: Bank, name: str
) -> None:
    await bank.open({"a": 5, "b": 0})
    payment = await bank.due("a", "b", 5)
    await bank.database.writer.execute(
        "UPDATE account SET frozen_at = clock() WHERE tenant_id = $1 AND account_id = $2",
        bank.tenant_id,
        name,
    )
    await drain(settler(bank.database))
    outcome = await bank.outcome(payment)
    assert (outcome["code"], outcome["error"]) == ("account_frozen", f"Account {name} is frozen.")
    assert (await bank.balances())["a"] == (5, 0, 1)


async def test_the_last_try_is_at_the_end_of_the_wait(bank: Bank) -> None:
    await bank.open({"a": 0, "b": 0})
    until = await bank.now() + timedelta(seconds=5)
    payment = await bank.due("a", "b", 6, hold=False, retry_until=until)
    await settler(bank.database, **{"payment.retry_seconds": 60.0}).run_once()
    assert (await bank.timer(payment))["due_at"] == until


async def test_a_settler_that_is_stopped_leaves_nothing_half_done(bank: Bank) -> None:
    await bank.open({"a": 10, "b": 0})
    at = await bank.now() - timedelta(seconds=9)
    payments = await bank.pay([DuePayment("a", "b", 1, at)] * 6)
    async with bank.database.write() as connection:
        await connection.execute(
            "SELECT 1 FROM account WHERE tenant_id = $1 AND account_id = 'b' FOR UPDATE",
            bank.tenant_id,
        )
        running = asyncio.create_task(settler(bank.database, 2).run_once())
        await eventually(lambda: _waits(bank))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert [await bank.outcome(payment) for payment in payments] == [None] * 6
    assert (await bank.balances())["a"] == (10, 6, 1)
    assert await drain(settler(bank.database)) == 6


async def _waits(bank: Bank) -> bool:
    """Say whether a settler waits for an account."""
    count: int = await bank.database.writer.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND query LIKE '%settlement_pay%' AND datname = current_database()"
    )
    return count > 0


async def test_every_balance_that_changes_is_counted(bank: Bank) -> None:
    registry = CollectorRegistry()
    await bank.open({"a": 10, "b": 0})
    for amount in (1, 2, 3):
        await bank.due("a", "b", amount)
    await bank.due("a", "b", 1000, hold=False)
    await drain(Settler(bank.database, settings(), uuid4(), SettlementMeter(registry)))
    assert registry.get_sample_value("postdate_balance_updates_total") == 6


async def test_lateness_counts_from_the_first_due_instant(bank: Bank, clock: Clock) -> None:
    # What other tests have left to become due must not count here.
    await clock.advance(3600)
    await drain(settler(bank.database))
    registry = CollectorRegistry()
    await bank.open({"a": 0, "b": 0})
    until = await bank.now() + timedelta(seconds=1000)
    payment = await bank.due("a", "b", 6, hold=False, retry_until=until)
    one = Settler(bank.database, settings(), uuid4(), SettlementMeter(registry))
    await drain(one)
    # What is tried again has not ended: it is not late yet.
    assert registry.get_sample_value("postdate_payment_lateness_seconds_count") == 0
    await bank.adjust("a", 6)
    await clock.advance(100)
    await drain(one)
    assert (await bank.outcome(payment))["status"] == "COMPLETED"
    assert registry.get_sample_value("postdate_payment_lateness_seconds_count") == 1
    late_seconds = registry.get_sample_value("postdate_payment_lateness_seconds_sum")
    assert late_seconds is not None
    assert late_seconds > 99


async def test_one_look_settles_what_a_hot_payer_owes(bank: Bank) -> None:
    """All payments of one payer lie in one bucket; few commits are to settle them, too."""
    payees = [f"payee-{number}" for number in range(20)]
    await bank.open({"payer": 400} | dict.fromkeys(payees, 0))
    begin = await bank.now() - timedelta(seconds=5)
    wanted = [
        DuePayment("payer", payees[n % 20], 1, begin + timedelta(milliseconds=n))
        for n in range(400)
    ]
    await bank.pay(wanted)
    one = settler(bank.database, 100)
    assert await one.run_once(800) == 400
    assert await one.run_once(800) == 0
    balances = await bank.balances()
    assert balances["payer"] == (0, 0, 401)
    assert all(balances[payee] == (20, 0, 20) for payee in payees)
