import pytest

from postdate.database.connection.database import Database
from postdate.lane.spec import buckets
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import LaneDirectory, LaneKey


async def test_a_lane_is_made_once_and_its_twin_takes_over_its_values(
    database: Database, tenant_id: int
) -> None:
    async with database.write() as connection:
        (push,) = await lane_store.ensure(connection, [LaneKey(tenant_id, "mail", "push")])
        await lane_store.pause(connection, tenant_id, "mail", paused=True, note="holiday")
        both = await lane_store.ensure(
            connection, [LaneKey(tenant_id, "mail", "pull"), LaneKey(tenant_id, "mail", "push")]
        )
        assert await lane_store.count(connection, tenant_id) == 1
    assert sorted(lane.kind for lane in both) == ["pull", "push"]
    assert {lane.paused_note for lane in both} == {"holiday"}
    assert push.lane_id >= 16


async def test_a_lane_only_ever_widens(database: Database, tenant_id: int) -> None:
    async with database.write() as connection:
        (lane,) = await lane_store.ensure(connection, [LaneKey(tenant_id, "wide", "push")])
        (lane,) = await lane_store.change(connection, _with_width(lane, 16))
        (lane,) = await lane_store.change(connection, _with_width(lane, 4))
    assert lane.width == 16
    assert set(lane.buckets) > set(buckets(tenant_id, "wide", 8))


def _with_width(lane: lane_store.Lane, width: int) -> lane_store.Lane:
    return lane_store.Lane(
        lane.lane_id, lane.tenant_id, lane.name, lane.kind, 5, width, 3, 1.5, None, None, None,
        lane.created_at, lane.changed_at,
    )  # fmt: skip


async def test_the_directory_follows_changes_of_other_nodes(
    database: Database, tenant_id: int
) -> None:
    directory = LaneDirectory(database)
    await directory.refresh()
    async with database.write() as connection:
        await lane_store.ensure(
            connection, [LaneKey(tenant_id, "a", "push"), LaneKey(tenant_id, "b", "pull")]
        )
    await directory.refresh()
    assert {lane.name for lane in await directory.of_tenant(tenant_id)} == {"a", "b"}
    async with database.write() as connection:
        await lane_store.pause(connection, tenant_id, "a", paused=True)
    await directory.refresh()
    assert directory.by_key[LaneKey(tenant_id, "a", "push")].paused
    assert not directory.by_key[LaneKey(tenant_id, "b", "pull")].paused
    assert [lane.name for lane in await directory.of_tenant(tenant_id, "b")] == ["b"]


async def test_a_directory_reads_few_lanes_at_first_and_a_tenant_when_asked(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_store, "MAX_FIRST", 1)
    names = [LaneKey(tenant_id, name, "push") for name in "abc"]
    async with database.write() as connection:
        made = await lane_store.ensure(connection, names)
        await connection.execute(
            "UPDATE lane SET changed_at = changed_at - interval '1 day' WHERE tenant_id = $1",
            tenant_id,
        )
    directory = LaneDirectory(database)
    await directory.refresh()
    assert not any(key in directory.by_key for key in names)
    assert [lane.key for lane in await directory.find(tenant_id, "a", "push")] == names[:1]
    assert {lane.name for lane in await directory.of_tenant(tenant_id)} == {"a", "b", "c"}
    other = LaneDirectory(database)
    await other.load([made[0].lane_id])
    assert {lane.name for lane in await other.of_tenant(tenant_id)} == {"a", "b", "c"}


async def test_a_change_that_the_clock_hides_is_found_by_reading_again(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = LaneDirectory(database)
    await directory.refresh()
    async with database.write() as connection:
        await lane_store.ensure(connection, [LaneKey(tenant_id, "a", "push")])
    await directory.refresh()
    await directory.of_tenant(tenant_id)
    async with database.write() as connection:
        await connection.execute(
            "UPDATE lane SET weight = 7, changed_at = changed_at - interval '1 day' "
            "WHERE tenant_id = $1",
            tenant_id,
        )
    monkeypatch.setattr(lane_store, "RELOAD_SECONDS", 0.0)
    directory._reload_at = 0.0
    for _ in range(100):
        await directory.refresh()
        if directory.by_key[LaneKey(tenant_id, "a", "push")].weight == 7:
            return
    raise AssertionError("the change was never read")
