"""Activity: counted while events are sealed, added up over nodes, read as rates and lateness."""

from bisect import bisect_left
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postdate.database.connection.database import Database
from postdate.monitor.spec.activity import (
    LATE_SECONDS,
    Lateness,
    empty_histogram,
    histogram,
    percentile,
    sum_histograms,
)
from postdate.monitor.store import activity
from postdate.monitor.store.activity import ActivitySlot
from postdate.monitor.view.activity import activity_view
from support.event import emit, new_event, seal_all, subjects

NOW = datetime(2030, 1, 1, 12, 0, 5, tzinfo=UTC)


async def slots(database: Database, tenant_id: int) -> list[ActivitySlot]:
    async with database.read(tenant_id) as connection:
        return await activity.recent(connection, tenant_id, 60)


async def test_what_is_sealed_is_counted_once(database: Database, tenant_id: int) -> None:
    one, two, three, four = subjects(database, 4)
    kinds = {one: "job.accepted", two: "job.accepted", three: "payment.completed"}
    kinds[four] = "lane.paused"
    for subject, kind in kinds.items():
        await emit(database, new_event(tenant_id, subject, kind))
    await seal_all(database)
    await emit(database, new_event(tenant_id, one, "job.failed"))
    await seal_all(database)
    await seal_all(database)
    found = await slots(database, tenant_id)
    assert sum(slot.jobs_accepted for slot in found) == 2
    assert sum(slot.payments_executed for slot in found) == 1
    assert sum(slot.jobs_failed for slot in found) == 1
    assert sum(slot.jobs_executed + slot.payments_failed for slot in found) == 0


async def test_lateness_of_several_nodes_adds_up(database: Database, tenant_id: int) -> None:
    for _ in range(2):
        node = Lateness()
        node.jobs(tenant_id, histogram([0.003]))
        node.payments(tenant_id, histogram([7200.0]))
        async with database.write() as connection:
            await activity.add_lateness(connection, node.take())
        assert node.take() == {}
    found = await slots(database, tenant_id)
    assert sum_histograms(slot.jobs_late for slot in found)[0] == 2
    assert sum_histograms(slot.payments_late for slot in found)[-1] == 2


async def test_another_tenant_sees_none_of_it(database: Database, tenant_id: int) -> None:
    late = Lateness()
    late.jobs(tenant_id, histogram([1.0]))
    async with database.write() as connection:
        await activity.add_lateness(connection, late.take())
    async with database.read(tenant_id + 1) as connection:
        assert await activity.recent(connection, tenant_id, 60) == []


async def test_old_slots_are_forgotten(database: Database, tenant_id: int) -> None:
    long_ago = int((datetime.now(UTC) - timedelta(hours=5)).timestamp()) // 10
    async with database.write() as connection:
        await activity.count(connection, {(tenant_id, long_ago, 0): 3})
        await activity.forget(connection)
        rows = await connection.fetch("SELECT FROM activity WHERE tenant_id = $1", tenant_id)
    assert rows == []


@given(st.lists(st.one_of(st.floats(-1, 8000), st.sampled_from(LATE_SECONDS))))
def test_a_set_is_counted_as_one_by_one(seconds: list[float]) -> None:
    alone = empty_histogram()
    for each in seconds:
        alone[bisect_left(LATE_SECONDS, each)] += 1
    assert histogram(seconds) == alone


async def test_percentiles_lie_between_the_bounds() -> None:
    assert percentile(empty_histogram(), 0.5) is None
    histogram = empty_histogram()
    histogram[LATE_SECONDS.index(0.1)] = 100
    assert percentile(histogram, 0.5) == pytest.approx(0.075)
    assert percentile(histogram, 0.99) == pytest.approx(0.0995)
    histogram[-1] = 900
    assert percentile(histogram, 0.99) == 3600.0


async def test_rates_are_those_of_the_last_seconds_and_the_hour_has_sixty_minutes() -> None:
    def slot(seconds_ago: int, accepted: int) -> ActivitySlot:
        at = datetime.fromtimestamp(NOW.timestamp() // 10 * 10 - seconds_ago, UTC)
        late = empty_histogram()
        late[0] = accepted
        return ActivitySlot(at, accepted, 0, 0, 2 * accepted, 0, 0, late, [])

    view = activity_view([slot(600, 60), slot(10, 30), slot(0, 15)], NOW.timestamp())
    assert view.accepted.jobs == pytest.approx(3.0)
    assert view.executed.payments == pytest.approx(6.0)
    assert view.late.p50 == pytest.approx(0.0025)
    assert view.late_payments.p50 is None
    assert len(view.minutes.x) == len(view.minutes.accepted) == 60
    assert view.minutes.accepted[-10] == pytest.approx(1.0)
    assert view.minutes.p50[-1] == pytest.approx(0.0025)
    assert view.minutes.p50[-2] is None
