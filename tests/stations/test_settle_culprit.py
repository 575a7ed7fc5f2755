"""One bad payment never blocks a good one."""

import asyncpg
import pytest

from bank_ground import Bank, drain, settler
from conftest import Clock, owner_dsn
from postdate.store.database import Database
from postdate.store.embedded import Embedded

POISON = 666
TRIGGER = f"""
CREATE FUNCTION postdate.test_poison() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.amount = {POISON} THEN RAISE EXCEPTION 'poisoned'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER test_poison BEFORE INSERT ON postdate.entry
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
        "SELECT token, code, error, retry_at IS NULL AS last FROM attempt WHERE subject = $1 "
        "ORDER BY token",
        bad,
    )
    assert [(a["token"], a["code"], a["last"]) for a in attempts] == [
        (1, "settlement_error", False),
        (2, "settlement_error", False),
        (3, "settlement_error", False),
        (4, "settlement_error", True),
    ]
    assert "poisoned" in attempts[0]["error"]
