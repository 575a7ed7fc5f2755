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


def seal_hash(previous: bytes, content: SealContent) -> bytes:
    """Hash a seal onto the one before it. Every part has a fixed length or ends in a zero byte."""
    types = b"".join(name.encode() + b"\0" for name in content.types)
    count = len(content.kinds)
    sealed_at = (content.sealed_at - _EPOCH) // _MICROSECOND
    return sha256(
        b"".join(
            (
                previous,
                _HEAD.pack(content.tenant_id, content.position, sealed_at, count),
                types,
                b"\0",
                Struct(f">{count}h").pack(*content.kinds),
                *(subject.bytes for subject in content.subjects),
                *(_NO_ID if event is None else event.bytes for event in content.events),
                content.digests,
            )
        )
    ).digest()
