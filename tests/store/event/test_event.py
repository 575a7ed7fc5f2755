"""Events of one subject are listed in the order in which one process recorded them."""

from uuid import UUID

import pytest

from postdate.core.ids import MIN_ID, new_id
from postdate.database.connection.clock import node_clock
from postdate.database.connection.database import Database
from postdate.event.store import event as event_store
from postdate.event.store.event import named
from support.event import new_event

pytestmark = pytest.mark.own_database("it seals the events of every tenant")

CALLS = 40


@pytest.mark.parametrize("ahead_ms", [-1000, 0, 30, 3_600_000])
async def test_events_of_separate_calls_keep_their_order(
    database: Database, tenant_id: int, ahead_ms: int
) -> None:
    """Its subject is old, just made, made by a node whose clock is ahead, or before a step back."""
    subject = new_id(tenant_id % 64, node_clock.unix_ms() + ahead_ms)
    await _expect_order(database, tenant_id, subject)


async def test_events_of_something_named_keep_their_order(
    database: Database, tenant_id: int
) -> None:
    await _expect_order(database, *named(tenant_id, "lane", "mail"))


async def test_the_clock_may_stand_and_step_back(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, subject = node_clock.unix_ms(), new_id(3, node_clock.unix_ms() - 60_000)
    times = iter([now - each // 7 * 9 for each in range(CALLS)])
    monkeypatch.setattr(type(node_clock), "unix_ms", lambda _: next(times))
    await _expect_order(database, tenant_id, subject)


async def _expect_order(database: Database, tenant_id: int, subject: UUID) -> None:
    recorded = []
    async with database.write() as connection:
        for number in range(CALLS):
            event = new_event(tenant_id, subject, data={"number": number})
            recorded += await event_store.insert(connection, [event])
    async with database.read(tenant_id) as reader:
        rows = await event_store.of_subject(reader, tenant_id, subject, MIN_ID, CALLS)
    assert [row.event_id for row in rows] == recorded
