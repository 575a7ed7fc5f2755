"""Which buckets a node prefers: all of them together, each once, and few move."""

import asyncio
from uuid import UUID

import asyncpg

from postdate.model.ids import BUCKETS
from postdate.runtime.share import EVERY_BUCKET, BucketShare, preferred_buckets
from postdate.runtime.shared_read import SharedReads
from postdate.store.connection.database import Database
from postdate.store.embedded import Embedded
from postdate.store.operate import node as node_store

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
