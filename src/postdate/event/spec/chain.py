"""The chain of a tenant's events: what a seal holds and what its hash covers."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from struct import Struct
from typing import Final
from uuid import UUID

import msgspec

GENESIS: Final = bytes(32)
"""The hash before a chain's first seal."""

DIGEST_BYTES: Final = 32

BLOCK_EVENTS: Final = 32
"""Events in a block of a seal's hash: 1,000 events have 32 blocks."""

_HEAD: Final = Struct(">Iqqi")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NO_ID: Final = bytes(16)


class SealContent(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of a tenant's events, the first of which is at `position`.

    The i-th event has the type `types[kinds[i] - 1]`. Its id is None where it is the subject's own.
    `digests` holds 32 bytes for each event, over everything it says.
    """

    tenant_id: int
    position: int
    sealed_at: datetime
    types: Sequence[str]
    kinds: Sequence[int]
    subjects: Sequence[UUID]
    events: Sequence[UUID | None]
    digests: bytes


class SealHead(msgspec.Struct, frozen=True, kw_only=True):
    """What a seal says of its batch as a whole."""

    tenant_id: int
    position: int
    sealed_at: datetime
    count: int
    types: Sequence[str]


def seal_hash(previous: bytes, content: SealContent) -> bytes:
    """Hash a seal onto the one before it."""
    head = SealHead(
        tenant_id=content.tenant_id,
        position=content.position,
        sealed_at=content.sealed_at,
        count=len(content.kinds),
        types=content.types,
    )
    return head_hash(previous, head, block_hashes(content))


def head_hash(previous: bytes, head: SealHead, blocks: Sequence[bytes]) -> bytes:
    """Hash the head of a seal and its blocks onto the seal before it.

    Every part has a fixed length or ends in a zero byte.
    """
    types = b"".join(name.encode() + b"\0" for name in head.types)
    sealed_at = (head.sealed_at - _EPOCH) // _MICROSECOND
    fixed = _HEAD.pack(head.tenant_id, head.position, sealed_at, head.count)
    return sha256(b"".join((previous, fixed, types, b"\0", *blocks))).digest()


def block_hashes(content: SealContent) -> list[bytes]:
    """Hash the events of a seal block by block: who proves one of them shows its block alone."""
    return [
        sha256(_block(content, begin)).digest()
        for begin in range(0, len(content.kinds), BLOCK_EVENTS)
    ]


def _block(content: SealContent, begin: int) -> bytes:
    end = begin + BLOCK_EVENTS
    kinds = content.kinds[begin:end]
    return b"".join(
        (
            Struct(f">{len(kinds)}h").pack(*kinds),
            *[subject.bytes for subject in content.subjects[begin:end]],
            *[_NO_ID if event is None else event.bytes for event in content.events[begin:end]],
            content.digests[begin * DIGEST_BYTES : end * DIGEST_BYTES],
        )
    )
