"""The chain of events: what one link's hash covers."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from struct import Struct
from typing import Final
from uuid import UUID

import msgspec

GENESIS: Final = bytes(32)
"""The hash before a chain's first link."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_HEAD: Final = Struct(">HqIq16s16sq")
_LENGTH: Final = Struct(">I")
_NOTHING: Final = b"\xff\xff\xff\xff"
"""Stands for a text that is not there; no text is this long."""


class Link(msgspec.Struct, frozen=True, gc=False):
    """An event in its place: `seq` in its bucket, `position` in its tenant, both from 1.

    `data` is the text that PostgreSQL gives for a jsonb value, which is the same for equal values.
    """

    bucket: int
    seq: int
    tenant_id: int
    position: int
    subject: UUID
    event_id: UUID
    time: datetime
    type: str
    actor: str | None
    data: str | None


def link_hash(previous: bytes, link: Link) -> bytes:
    """Hash a link onto the one before it. Every part has a fixed length or says how long it is."""
    head = _HEAD.pack(
        link.bucket,
        link.seq,
        link.tenant_id,
        link.position,
        link.subject.bytes,
        link.event_id.bytes,
        (link.time - _EPOCH) // _MICROSECOND,
    )
    return sha256(
        b"".join((previous, head, _text(link.type), _text(link.actor), _text(link.data)))
    ).digest()


def _text(value: str | None) -> bytes:
    if value is None:
        return _NOTHING
    encoded = value.encode()
    return _LENGTH.pack(len(encoded)) + encoded
