"""One bad payment never blocks a good one."""

from uuid import UUID

import asyncpg
import pytest

from conftest import Clock, owner_dsn
from postdate.core.identity import Identity, Scope
from postdate.core.ids import MAX_ID
from postdate.core.status import PaymentStatus
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.payment.view.payment import PaymentFilter, PaymentViews
from postdate.payment.view.payment_shape import PaymentView
from postdate.settlement.settler import Settler
from support.bank import Bank, drain, settler

POISON = 666
TRIGGER = f"""
CREATE FUNCTION postdate.test_poison() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.amount = {POISON} THEN RAISE EXCEPTION 'poisoned'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER test_poison BEFORE INSERT ON postdate.transfer
    FOR EACH ROW EXECUTE FUNCTION postdate.test_poison();
"""


@pytest.fixture(scope="module")
async def poisoned(server: Embedded, database_name: str) -> None:
    connection = await asyncpg.connect(owner_dsn(server, database_name))
    await connection.execute(TRIGGER)
    await connection.close()


@pytest.mark.usefixtures("poisoned")
async def test_the_culprit_is_found_retried_and_left_to_a_person(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    bank = Bank(database, tenant_id)
    await bank.open({"a": 10_000, "b": 0})
    good = [await bank.due("a", "b", 1) for _ in range(9)]
    bad = await bank.due("a", "b", POISON, ago=5)
    one = settler(database)
    assert await drain(one) == 10
    for payment in good:
        assert (await bank.outcome(payment))["status"] == "COMPLETED"
    for retry in (1, 2, 4):
        timer = await bank.timer(bad)
        assert (timer["claimed_at"], await bank.outcome(bad)) == (None, None)
        await clock.advance(retry + 0.5)
        assert await drain(one) == 1
    timer = await bank.timer(bad)
    assert timer["due_at"].year == 9999
    assert timer["token"] == 4
    # The hold stays visible, and nothing comes back by itself.
    assert (await bank.balances())["a"] == (9991, POISON, 10)
    await clock.advance(3600)
    assert await drain(one) == 0
    assert await bank.events(bad) == [
        "payment.scheduled",
        *["payment.retried"] * 3,
        "payment.dead_lettered",
    ]
    attempts = await database.writer.fetch(
        "SELECT attempt, code, error, retry_at IS NULL AS last FROM attempt WHERE subject = $1 "
        "ORDER BY attempt",
        bad,
    )
    assert [(a["attempt"], a["code"], a["last"]) for a in attempts] == [
        (1, "settlement_error", False),
        (2, "settlement_error", False),
        (3, "settlement_error", False),
        (4, "settlement_error", True),
    ]
    assert "poisoned" in attempts[0]["error"]


async def break_for_good(bank: Bank, clock: Clock, one: Settler, **terms: str | None) -> UUID:
    """Make a payment that cannot be settled, and let it use up its tries."""
    bad = await bank.due("a", "b", POISON, **terms)
    await drain(one)
    for retry in (1, 2, 4):
        await clock.advance(retry + 0.5)
        await drain(one)
    return bad


async def shown(bank: Bank, payment_id: UUID) -> PaymentView:
    found = await PaymentViews(bank.database).find(operator_of(bank), payment_id)
    assert found is not None
    return found


def operator_of(bank: Bank) -> Identity:
    scopes = frozenset({Scope.ADMIN})
    return Identity(tenant_id=bank.tenant_id, tenant="t", key_id="k", scopes=scopes)


@pytest.mark.usefixtures("poisoned")
async def test_a_broken_payment_says_that_it_waits_for_a_person_and_is_listed(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    bank = Bank(database, tenant_id)
    await bank.open({"a": 10_000, "b": 0})
    good = await bank.due("a", "b", 1)
    one = settler(database)
    bad = await break_for_good(bank, clock, one)
    found = await shown(bank, bad)
    assert (found.status, found.waiting_for) == (PaymentStatus.EXECUTING, "person")
    assert found.broken is not None
    assert (found.broken.code, found.broken.attempts) == ("settlement_error", 4)
    assert (found.broken.amount_held, "poisoned" in found.broken.error) == (POISON, True)
    assert (await shown(bank, good)).broken is None
    views = PaymentViews(database)
    for account_id in (None, "b"):
        for broken, expected in ((True, bad), (False, good)):
            wanted = PaymentFilter(account_id, broken=broken)
            page, _ = await views.page(operator_of(bank), wanted, MAX_ID, 10)
            assert [each.payment_id for each in page] == [expected]


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize(("of_tenant", "own"), [("release", None), ("hold", "release")])
async def test_a_broken_payment_that_releases_fails_and_gives_its_money_back(
    database: Database, tenant_id: int, clock: Clock, of_tenant: str, own: str | None
) -> None:
    bank = Bank(database, tenant_id)
    await bank.open({"a": 10_000, "b": 0})
    one = settler(database, **{"payment.on_broken": of_tenant})
    bad = await break_for_good(bank, clock, one, on_broken=own)
    assert (await bank.balances())["a"][:2] == (10_000, 0)
    found = await shown(bank, bad)
    assert (found.status, found.error_code) == (PaymentStatus.FAILED, "settlement_error")
    assert (found.broken, found.waiting_for, found.on_broken) == (None, None, own)
    assert await bank.events(bad) == [
        "payment.scheduled",
        *["payment.retried"] * 3,
        "payment.failed",
    ]


@pytest.mark.usefixtures("poisoned")
async def test_a_hold_that_cannot_be_released_waits_for_a_person(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    bank = Bank(database, tenant_id)
    await bank.open({"a": 10_000, "b": 0})
    one = settler(database, **{"payment.on_broken": "release"})
    bad = await bank.due("a", "b", POISON)
    # Whatever broke the books: the account holds less than its payments say.
    await database.writer.execute(
        "UPDATE account SET held = 0 WHERE tenant_id = $1 AND account_id = 'a'", tenant_id
    )
    await drain(one)
    for retry in (1, 2, 4):
        await clock.advance(retry + 0.5)
        await drain(one)
    assert (await shown(bank, bad)).waiting_for == "person"


@pytest.mark.usefixtures("poisoned")
async def test_lateness_counts_from_the_first_due_instant(
    database: Database, server: Embedded, database_name: str, tenant_id: int, clock: Clock
) -> None:
    bank = Bank(database, tenant_id)
    await bank.open({"a": 10_000, "b": 0})
    one = settler(database)
    bad = await bank.due("a", "b", POISON, ago=1)
    await drain(one)
    waiting = await shown(bank, bad)
    assert waiting.waiting_for == "retry"
    assert waiting.first_due_at is not None
    assert waiting.first_due_at < waiting.scheduled_time
    owner = await asyncpg.connect(owner_dsn(server, database_name))
    await owner.execute("ALTER TABLE postdate.transfer DISABLE TRIGGER test_poison")
    try:
        await clock.advance(30)
        assert await drain(one) == 1
    finally:
        await owner.execute("ALTER TABLE postdate.transfer ENABLE TRIGGER test_poison")
        await owner.close()
    done = await shown(bank, bad)
    assert done.status is PaymentStatus.COMPLETED
    assert done.first_due_at == waiting.first_due_at
    assert done.lateness_ms is not None
    assert done.lateness_ms >= 31_000
