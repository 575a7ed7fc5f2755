"""A leap of the database's clock stops settlement; a step back does no harm."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from conftest import Clock
from postdate.intake.tenant.setting import SettingChanges
from postdate.model.ids import bucket_of
from postdate.runtime.share import preferred_buckets
from postdate.settlement.clock_guard import ClockGuard
from postdate.settlement.settler import Settler
from postdate.settlement.stop import STOPPED, SettlementStop
from postdate.store.connection.database import Database
from postdate.store.operate import node as node_store
from postdate.store.payment import settlement_clock as clock_store
from postdate.store.tenant import setting as setting_store
from support.bank import Bank, DuePayment, drain, settings, settler

FIND_STOPPED = "SELECT value FROM setting WHERE name = 'settlement.stopped'"
KILLED = uuid4()
START = datetime(2026, 1, 1, tzinfo=UTC)


def test_only_a_leap_beyond_what_was_believed_counts() -> None:
    steady = 0.0
    guard = ClockGuard(lambda: steady)
    assert guard.leap(START, 60) is None
    steady = 3600.0
    assert guard.leap(START + timedelta(seconds=3630), 60) is None
    assert guard.leap(START + timedelta(seconds=100), 60) is None, "a step back is no leap"
    assert guard.leap(START + timedelta(seconds=3600), 60) is None, "nor is its return"
    assert guard.leap(START + timedelta(seconds=3600 + 86400), 60) == pytest.approx(86370)
    guard.accept_time(START + timedelta(seconds=3600 + 86400))
    assert guard.leap(START + timedelta(seconds=3600 + 86400), 60) is None


@pytest.fixture
async def bank(database: Database, tenant_id: int) -> Bank:
    bank = Bank(database, tenant_id)
    await bank.open({"a": 100, "b": 0})
    # What the test before has stopped is not ours.
    await database.writer.execute("DELETE FROM setting WHERE name = $1", STOPPED)
    async with database.connection() as connection:
        await clock_store.record(connection, await bank.now())
    return bank


def careful(database: Database) -> Settler:
    return Settler(database, settings(**{"settlement.clock_step_seconds": 60.0}), uuid4())


async def resume(bank: Bank) -> None:
    """Confirm the clock and let settlement go on, as `postdate settlement resume` does."""
    async with bank.database.connection() as connection:
        await clock_store.confirm(connection)
    await SettingChanges(bank.database).clear(0, STOPPED)


async def test_a_leap_stops_settlement_until_the_clock_returns(bank: Bank, clock: Clock) -> None:
    one = careful(bank.database)
    assert await one.run_once() == 0
    tomorrow = await bank.now() + timedelta(hours=20)
    payment = (await bank.pay([DuePayment("a", "b", 1, tomorrow)]))[0]
    await clock.advance(86400)
    assert await one.run_once() == 0
    assert "leapt 86400 s ahead" in (one.blocked() or "")
    # A node that starts now never saw the old time; the stored reason stops it all the same.
    stored = await bank.database.writer.fetchval(
        "SELECT value FROM setting WHERE name = 'settlement.stopped'"
    )
    newcomer = settler(bank.database, **{STOPPED: stored})
    assert (await newcomer.run_once(), newcomer.blocked()) == (0, stored)
    await clock.advance(-86400)
    await one.run_once()
    assert one.blocked() is None
    assert await bank.outcome(payment) is None, "paid early"


async def test_a_leap_is_believed_when_a_person_confirms_it(bank: Bank, clock: Clock) -> None:
    one = careful(bank.database)
    await one.run_once()
    payment = (await bank.pay([DuePayment("a", "b", 1, await bank.now() + timedelta(hours=20))]))[0]
    await clock.advance(86400)
    assert (await one.run_once(), await one.run_once()) == (0, 0)
    await resume(bank)
    await drain(one)
    assert (await bank.outcome(payment))["status"] == "COMPLETED"


async def test_a_stop_that_another_node_took_back_confirms_no_second_leap(
    bank: Bank, clock: Clock
) -> None:
    """The clock leaps, returns, and leaps again before one of two nodes has looked."""
    first, second = careful(bank.database), careful(bank.database)
    await first.run_once()
    await second.run_once()
    payment = (await bank.pay([DuePayment("a", "b", 1, await bank.now() + timedelta(hours=20))]))[0]
    await clock.advance(86400)
    await first.run_once()
    await second.run_once()
    await clock.advance(-86400)
    await second.run_once()
    assert await bank.database.writer.fetchval(FIND_STOPPED) is None, "it was taken back"
    await clock.advance(86400)
    assert (await first.run_once(), await first.run_once()) == (0, 0)
    assert "leapt 86400 s ahead" in (first.blocked() or "")
    assert await bank.outcome(payment) is None, "paid early"


async def test_the_end_of_a_persons_own_stop_confirms_no_leap(bank: Bank, clock: Clock) -> None:
    one = careful(bank.database)
    await one.run_once()
    payment = (await bank.pay([DuePayment("a", "b", 1, await bank.now() + timedelta(hours=20))]))[0]
    changes = SettingChanges(bank.database)
    await changes.put(0, STOPPED, "maintenance")
    await clock.advance(86400)
    await one.run_once()
    await changes.clear(0, STOPPED)
    assert (await one.run_once(), await one.run_once()) == (0, 0)
    assert "leapt 86400 s ahead" in (one.blocked() or "")
    assert await bank.outcome(payment) is None, "paid early"


async def test_a_leap_beyond_what_a_person_confirmed_stops_again(bank: Bank, clock: Clock) -> None:
    one = careful(bank.database)
    await one.run_once()
    await clock.advance(3600)
    await one.run_once()
    await resume(bank)
    await clock.advance(86400)
    assert (await one.run_once(), await one.run_once()) == (0, 0)
    assert "leapt" in (one.blocked() or "")


async def test_a_time_that_another_node_recorded_confirms_nothing(bank: Bank, clock: Clock) -> None:
    """A node that starts on a machine whose clock leapt too believes it: nobody confirmed it."""
    one = careful(bank.database)
    await one.run_once()
    payment = (await bank.pay([DuePayment("a", "b", 1, await bank.now() + timedelta(hours=20))]))[0]
    await clock.advance(86400)
    async with bank.database.connection() as connection:
        await clock_store.record(connection, await bank.now())
    assert (await one.run_once(), await one.run_once()) == (0, 0)
    assert await bank.outcome(payment) is None, "paid early"


async def test_the_clock_never_touches_what_a_person_has_stopped(database: Database) -> None:
    changes = SettingChanges(database)
    await changes.put(0, STOPPED, "maintenance")
    async with database.connection() as connection:
        await setting_store.put_unset(connection, STOPPED, "clock: leapt", "node")
        await setting_store.withdraw(connection, STOPPED, "clock: leapt")
        assert await setting_store.find(connection, STOPPED) == "maintenance"
        await changes.put(0, STOPPED, "")
        await setting_store.put_unset(connection, STOPPED, "clock: leapt", "node")
        assert await setting_store.find(connection, STOPPED) == "clock: leapt"
        await setting_store.withdraw(connection, STOPPED, "clock: leapt")
        assert await setting_store.find(connection, STOPPED) is None


async def test_after_a_step_back_what_is_due_then_is_settled(bank: Bank, clock: Clock) -> None:
    one = settler(bank.database)
    await clock.advance(7200)
    await drain(one)
    await clock.advance(-7200)
    payment = await bank.due("a", "b", 1)
    assert await drain(one) == 1
    assert (await bank.outcome(payment))["status"] == "COMPLETED"


@pytest.fixture
async def tomorrow(bank: Bank, clock: Clock) -> UUID:
    """A payment due in 20 hours, at a time that settlement recorded; then the clock leaps a day."""
    due = await bank.now() + timedelta(hours=20)
    payment = (await bank.pay([DuePayment("a", "b", 1, due)]))[0]
    await clock.advance(86400)
    return payment


async def test_a_node_that_starts_under_a_wrong_clock_pays_nothing_early(
    bank: Bank, clock: Clock, tomorrow: UUID
) -> None:
    one = careful(bank.database)
    assert (await one.run_once(), await one.run_once()) == (0, 0)
    assert "ahead of this node's clock" in (one.blocked() or "")
    assert await bank.outcome(tomorrow) is None, "paid early"
    # When the clocks agree again, it goes on by itself.
    await clock.advance(-86400)
    await one.run_once()
    assert one.blocked() is None
    payment = await bank.due("a", "b", 1)
    await drain(one)
    assert (await bank.outcome(payment))["status"] == "COMPLETED"


async def test_a_person_confirms_the_clock_at_the_start(bank: Bank, tomorrow: UUID) -> None:
    one = careful(bank.database)
    await one.run_once()
    await resume(bank)
    await drain(one)
    assert (await bank.outcome(tomorrow))["status"] == "COMPLETED"
    # What was confirmed is recorded: the next node that starts need not ask.
    later = careful(bank.database)
    await later.run_once()
    assert later.blocked() is None


async def test_a_clock_that_was_behind_at_the_start_may_return(bank: Bank, clock: Clock) -> None:
    await careful(bank.database).run_once()
    await clock.advance(-3600)
    late = careful(bank.database)
    await late.run_once()
    await clock.advance(3600)
    payment = (await bank.pay([DuePayment("a", "b", 1, await bank.now())]))[0]
    await late.run_once()
    assert late.blocked() is None, "the time it returned to was recorded as trusted"
    assert await bank.outcome(payment) is not None


async def test_a_node_whose_own_clock_is_wrong_believes_what_was_recorded(bank: Bank) -> None:
    async with bank.database.connection() as connection:
        at = await bank.now()
        await clock_store.record(connection, at)
        chosen = settings(**{"settlement.clock_step_seconds": 60.0})
        slow = SettlementStop(chosen, uuid4(), node_clock=lambda: at - timedelta(days=1))
        assert not await slow.holds(connection, at)
        fast = SettlementStop(chosen, uuid4(), node_clock=lambda: at + timedelta(days=1))
        assert not await fast.holds(connection, at)


@pytest.mark.parametrize("alive", [True, False])
async def test_what_a_node_that_is_gone_has_stopped_ends_when_another_agrees(
    bank: Bank, clock: Clock, tomorrow: UUID, *, alive: bool
) -> None:
    author = uuid4()
    chosen = settings(**{"settlement.clock_step_seconds": 60.0})
    await Settler(bank.database, chosen, author).run_once()
    stored = await bank.database.writer.fetchval(FIND_STOPPED)
    await clock.advance(-86400)
    async with bank.database.connection() as connection:
        if alive:
            await node_store.beat(connection, author, "n", ["settlement"], "1")
    obeying = settings(**{"settlement.clock_step_seconds": 60.0, STOPPED: stored})
    await Settler(bank.database, obeying, uuid4()).run_once()
    assert bool(await bank.database.writer.fetchval(FIND_STOPPED)) is alive
    await bank.database.writer.execute("DELETE FROM setting WHERE name = $1", STOPPED)
    assert await bank.outcome(tomorrow) is None


async def test_what_a_killed_node_preferred_is_settled_within_the_second(bank: Bank) -> None:
    """It counts as alive for ten seconds; what it preferred was left to it for one of them."""
    due_at = await bank.now() + timedelta(seconds=10)
    payment = (await bank.pay([DuePayment("a", "b", 1, due_at)]))[0]
    one = next(each for each in iter(uuid4, None) if not _prefers(each, KILLED, payment))
    async with bank.database.write() as connection:
        await node_store.beat(connection, KILLED, "n", ["settlement"], "1")
    restarted = Settler(bank.database, settings(), one)
    assert await restarted.run_once() == 0
    seconds = await restarted.next_due()
    assert seconds is not None
    assert await bank.now() + timedelta(seconds=seconds) <= due_at + timedelta(seconds=0.5)


def _prefers(node_id: UUID, other: UUID, payment_id: UUID) -> bool:
    return bucket_of(payment_id) in preferred_buckets(node_id, [other])
