"""Which buckets a node prefers: all of them together, each once, and few move."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID

import asyncpg

from postdate.core.ids import BUCKETS
from postdate.database.connection.address import DatabaseNode
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.runtime import node as node_store
from postdate.runtime.node import NodeRow
from postdate.runtime.share import (
    EVERY_BUCKET,
    BucketShare,
    distant_buckets,
    nearest,
    preferred_buckets,
)
from postdate.runtime.shared_read import SharedReads

NODES = [UUID(int=number) for number in range(1, 5)]


def test_a_node_alone_prefers_every_bucket() -> None:
    assert preferred_buckets(NODES[0], []) == EVERY_BUCKET


def test_buckets_are_shared_out_whole() -> None:
    shares = [preferred_buckets(node, NODES) for node in NODES]
    assert sorted(bucket for share in shares for bucket in share) == list(range(BUCKETS))


def test_buckets_move_little_when_a_node_leaves() -> None:
    gone, *left = NODES
    for node in left:
        before, after = preferred_buckets(node, NODES), preferred_buckets(node, left)
        assert before <= after
        assert after - before <= preferred_buckets(gone, NODES)


def _live(nodes: list[UUID], *roles: str) -> list[NodeRow]:
    now = datetime.now(UTC)
    return [NodeRow(node, "n", list(roles), "1", now, now) for node in nodes]


WEST, EAST = DatabaseNode(1, "west", 5432), DatabaseNode(2, "east", 5432)
OWNERS = {bucket: (WEST, EAST)[bucket % 3 == 0] for bucket in range(BUCKETS)}


def test_nodes_of_the_same_roles_are_dealt_out_to_the_database_nodes() -> None:
    live = [*_live(NODES, "worker"), *_live([UUID(int=9)], "api")]
    assert nearest(live, OWNERS) == dict(
        zip([*NODES, UUID(int=9)], [WEST, EAST, WEST, EAST, WEST], strict=True)
    )


def test_a_node_prefers_buckets_of_the_database_node_that_it_is_attached_to() -> None:
    near = nearest(_live(NODES, "worker"), OWNERS)
    shares = {node: preferred_buckets(node, NODES, OWNERS, near) for node in NODES}
    assert sorted(bucket for share in shares.values() for bucket in share) == list(range(BUCKETS))
    assert all(OWNERS[bucket] == near[node] for node, share in shares.items() for bucket in share)


def test_buckets_of_a_database_node_without_a_node_of_ours_are_everybodys() -> None:
    [alone] = NODES[:1]
    near = nearest(_live([alone], "worker"), OWNERS)
    assert preferred_buckets(alone, [alone], OWNERS, near) == EVERY_BUCKET


def test_afar_lies_what_another_node_is_attached_to() -> None:
    near = nearest(_live(NODES, "worker"), OWNERS)
    east = frozenset(bucket for bucket, owner in OWNERS.items() if owner == EAST)
    assert near[NODES[0]] == WEST
    assert distant_buckets(NODES[0], NODES, OWNERS, near) == east
    # Without a node there, nobody does it for less.
    assert distant_buckets(NODES[0], NODES[:1], OWNERS, near) == frozenset()


async def test_a_share_is_a_preference_that_nobody_waits_for(
    database: Database, server: Embedded, database_name: str
) -> None:
    """Somebody holds the table of nodes: settlement and workers go on with the share of before."""
    async with database.connection() as connection:
        for number, node_id in enumerate(NODES[:2]):
            await node_store.beat(connection, node_id, f"n{number}", ["settlement"], "1")
    share = BucketShare(SharedReads(database), NODES[0], "settlement")
    before = await share.refresh()
    assert before == preferred_buckets(NODES[0], NODES[:2])
    stranger = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    try:
        async with stranger.transaction():
            await stranger.execute("LOCK TABLE postdate.node IN ACCESS EXCLUSIVE MODE")
            async with asyncio.timeout(1.9):  # less than the writers wait for a lock
                assert await share.refresh() == before
                assert await share.refresh() == before
    finally:
        await stranger.close()
    async with database.connection() as connection:
        for node_id in NODES[:2]:
            await node_store.sign_off(connection, node_id)
