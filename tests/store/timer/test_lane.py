from postdate.model.lane import buckets
from postdate.store.connection.database import Database
from postdate.store.timer import lane as lane_store
from postdate.store.timer.lane import LaneDirectory


async def test_a_lane_is_made_once_and_its_twin_takes_over_its_values(
    database: Database, tenant_id: int
) -> None:
    async with database.write() as connection:
        (push,) = await lane_store.ensure(connection, [(tenant_id, "mail", "push")])
        await lane_store.pause(connection, tenant_id, "mail", paused=True, note="holiday")
        both = await lane_store.ensure(
            connection, [(tenant_id, "mail", "pull"), (tenant_id, "mail", "push")]
        )
        assert await lane_store.count(connection, tenant_id) == 1
    assert sorted(lane.kind for lane in both) == ["pull", "push"]
    assert {lane.paused_note for lane in both} == {"holiday"}
    assert push.lane_id >= 16


async def test_a_lane_only_ever_widens(database: Database, tenant_id: int) -> None:
    async with database.write() as connection:
        (lane,) = await lane_store.ensure(connection, [(tenant_id, "wide", "push")])
        (lane,) = await lane_store.change(connection, _with_width(lane, 16))
        (lane,) = await lane_store.change(connection, _with_width(lane, 4))
    assert lane.width == 16
    assert set(lane.buckets) > set(buckets(lane.lane_id, 8))


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
        await lane_store.ensure(connection, [(tenant_id, "a", "push"), (tenant_id, "b", "pull")])
    await directory.refresh()
    assert {lane.name for lane in await directory.of_tenant(tenant_id)} == {"a", "b"}
    async with database.write() as connection:
        await lane_store.pause(connection, tenant_id, "a", paused=True)
    await directory.refresh()
    assert directory.by_place[tenant_id, "a", "push"].paused
    assert not directory.by_place[tenant_id, "b", "pull"].paused
    assert [lane.name for lane in await directory.of_tenant(tenant_id, "b")] == ["b"]
