"""Which buckets a node serves first: a preference, not exclusive ownership."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from postdate.core.ids import BUCKETS
from postdate.core.log import Log
from postdate.database.connection.address import DatabaseNode
from postdate.database.connection.error import LockNotAvailableError
from postdate.runtime import node as node_store
from postdate.runtime.node import NodeRow
from postdate.runtime.shared_read import SharedReads

log = Log()

EVERY_BUCKET: Final = frozenset(range(BUCKETS))
NOWHERE: Final[Mapping[Any, DatabaseNode]] = MappingProxyType({})

WAIT_SECONDS: Final = 0.5
"""Timeout for reading the list of nodes, whose table may be locked."""

STALE_SECONDS: Final = 10.0
"""How long a list that did not come is not asked for again."""

SEEN_SECONDS: Final = 5.0
"""A node that was not seen for this long (two missed heartbeats) gets no share."""

OTHERS_SECONDS: Final = 0.3
"""How late a timer in another node's bucket must be before this node helps out.

A node that was killed keeps its share for some seconds: what it preferred is late by this.
"""

AFAR_SECONDS: Final = 30.0
"""How overdue a remote bucket must be before a busy node helps with it."""


class BucketShare:
    """The buckets that this node prefers among the live nodes of a role.

    A node that cannot read the live nodes quickly continues with the previous share.
    """

    def __init__(self, reads: SharedReads, node_id: UUID, role: str) -> None:
        self._reads = reads
        self._node_id = node_id
        self._role = role
        self._again_at = 0.0
        self.buckets = EVERY_BUCKET
        self.afar: frozenset[int] = frozenset()
        """Buckets stored on database nodes that other live nodes are attached to."""

    async def refresh(self) -> frozenset[int]:
        """Return the preferred buckets, by the live nodes if they can be read quickly."""
        if time.monotonic() < self._again_at:
            return self.buckets
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                nodes = await node_store.list_live(self._reads, SEEN_SECONDS)
        except (TimeoutError, LockNotAvailableError) as error:
            log.debug("nodes.unknown", error=repr(error))
            self._again_at = time.monotonic() + STALE_SECONDS
            return self.buckets
        live = [node.node_id for node in nodes if self._role in node.roles]
        owners = self._reads.database.shard_map.owners
        near = nearest(nodes, owners) if owners else {}
        self.buckets = preferred_buckets(self._node_id, live, owners, near)
        self.afar = distant_buckets(self._node_id, live, owners, near)
        return self.buckets


def preferred_buckets(
    node_id: UUID,
    nodes: Iterable[UUID],
    owners: Mapping[int, DatabaseNode] = NOWHERE,
    near: Mapping[UUID, DatabaseNode] = NOWHERE,
) -> frozenset[int]:
    """Choose the buckets of this node, so that all live nodes together prefer each one once.

    A node that joins or leaves moves only the buckets it gains or gives (rendezvous hashing). Where
    buckets lie at several database nodes, each prefers the nodes that are attached to it.
    """
    everyone = {node_id, *nodes}
    at_owner: defaultdict[DatabaseNode | None, set[UUID]] = defaultdict(set)
    for node in everyone:
        at_owner[near.get(node)].add(node)
    return frozenset(
        bucket
        for bucket in range(BUCKETS)
        if max(at_owner.get(owners.get(bucket)) or everyone, key=lambda node: _rank(node, bucket))
        == node_id
    )


def distant_buckets(
    node_id: UUID,
    nodes: Iterable[UUID],
    owners: Mapping[int, DatabaseNode],
    near: Mapping[UUID, DatabaseNode],
) -> frozenset[int]:
    """Choose the buckets at database nodes to which other live nodes are attached, not this one."""
    attended = {near[node] for node in nodes if node in near} - {near.get(node_id)}
    return frozenset(bucket for bucket, owner in owners.items() if owner in attended)


def nearest(
    nodes: Iterable[NodeRow], owners: Mapping[int, DatabaseNode]
) -> dict[UUID, DatabaseNode]:
    """Assign live nodes to the database nodes, those of the same roles in turn."""
    alike: defaultdict[tuple[str, ...], list[UUID]] = defaultdict(list)
    for node in nodes:
        alike[tuple(sorted(node.roles))].append(node.node_id)
    turns = sorted(set(owners.values()))
    return {
        node_id: turns[number % len(turns)]
        for ids in alike.values()
        for number, node_id in enumerate(sorted(ids))
    }


def _rank(node_id: UUID, bucket: int) -> bytes:
    return blake2b(node_id.bytes, digest_size=8, key=bucket.to_bytes(2, "big")).digest()
