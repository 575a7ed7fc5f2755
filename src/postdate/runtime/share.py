"""Which buckets a node looks at first: a preference, never a right."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final
from uuid import UUID

from postdate.model.ids import BUCKETS

EVERY_BUCKET: Final = frozenset(range(BUCKETS))


def preferred_buckets(node_id: UUID, nodes: Iterable[UUID]) -> frozenset[int]:
    """Choose the buckets of this node, so that all live nodes together prefer each one once.

    A node that joins or leaves moves only the buckets it gains or gives (rendezvous hashing).
    """
    everyone = {node_id, *nodes}
    return frozenset(
        bucket
        for bucket in range(BUCKETS)
        if max(everyone, key=lambda node: _rank(node, bucket)) == node_id
    )


def _rank(node_id: UUID, bucket: int) -> bytes:
    return blake2b(node_id.bytes, digest_size=8, key=bucket.to_bytes(2, "big")).digest()
