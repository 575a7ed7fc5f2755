"""Which buckets a node prefers: all of them together, each once, and few move."""

from uuid import UUID

from postdate.model.ids import BUCKETS
from postdate.runtime.share import EVERY_BUCKET, preferred_buckets

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
