"""Identifiers: UUIDv7 whose 12 `rand_a` bits hold the bucket."""

import secrets
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Final
from uuid import UUID

BUCKETS: Final = 64
"""Every hot row belongs to one of this many buckets. Changing it means rewriting every row."""

MIN_ID: Final = UUID(int=0)
"""Below every id that we make: where a list begins that goes up."""

MAX_ID: Final = UUID(int=(1 << 128) - 1)
"""Above every id that we make: where a list begins that goes down."""

HOLD_MS: Final = 10_000
"""A clock that steps back by no more than this is waited for; one that was set back is followed."""

_RANDOM_BITS: Final = 62
_STEP_BITS: Final = 32
_VERSION: Final = 0x7
NAMED_VERSION: Final = 0x8
"""The version of ids that are made of a name and tell no time."""
_VARIANT: Final = 0b10
_WITH_VARIANT: Final = bytes(_VARIANT << 6 | byte & 0x3F for byte in range(256))


def new_id(bucket: int, unix_ms: int) -> UUID:
    """Make an id that sorts by time and carries its bucket."""
    if not 0 <= bucket < BUCKETS:
        raise ValueError(f"bucket {bucket} is not in 0..{BUCKETS - 1}")
    value = (unix_ms & 0xFFFF_FFFF_FFFF) << 80
    value |= _VERSION << 76 | bucket << 64
    value |= _VARIANT << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    return UUID(int=value)


def _from_bytes(data: bytes) -> UUID:
    return UUID(bytes=data)


def new_ids(
    buckets: Iterable[int], unix_ms: int, make: Callable[[bytes], UUID] = _from_bytes
) -> list[UUID]:
    """Make an id for each of these buckets: a whole set is drawn and packed at once.

    Within a bucket they rise, so that inserting them walks an index in one direction.
    """
    wanted = list(buckets)
    time_and_version = (unix_ms & 0xFFFF_FFFF_FFFF) << 16 | _VERSION << 12
    heads = {each: (time_and_version | each).to_bytes(8, "big") for each in set(wanted)}
    drawn = bytearray(secrets.token_bytes(8 * len(wanted)))
    drawn[::8] = drawn[::8].translate(_WITH_VARIANT)
    data = bytes(drawn)
    tails = sorted([data[start : start + 8] for start in range(0, len(data), 8)])
    return [make(heads[each] + tail) for each, tail in zip(wanted, tails, strict=True)]


class RisingIds:
    """Makes ids that rise within a bucket from call to call, also in one millisecond.

    Their last bits are a counter that begins anywhere and goes up by random steps. It goes on from
    one millisecond to the next, so that ids still rise whose time a caller moves to one instant.
    """

    def __init__(self) -> None:
        self._unix_ms = 0
        self.tail = 0
        """The last bits of the last id; 0 before the first, so that forked processes part."""

    def draw(self, buckets: Sequence[int], unix_ms: int) -> list[UUID]:
        """Make an id for each of these buckets."""
        if not 0 <= self._unix_ms - unix_ms <= HOLD_MS:
            self._unix_ms = unix_ms
        tail = self.tail or secrets.randbits(_RANDOM_BITS - 1)
        if tail + (len(buckets) << _STEP_BITS) >> _RANDOM_BITS:
            tail, self._unix_ms = secrets.randbits(_RANDOM_BITS - 1), self._unix_ms + 1
        head = (self._unix_ms & 0xFFFF_FFFF_FFFF) << 80
        head |= _VERSION << 76 | _VARIANT << _RANDOM_BITS
        made = []
        steps = memoryview(secrets.token_bytes(_STEP_BITS // 8 * len(buckets))).cast("I")
        for bucket, step in zip(buckets, steps, strict=True):
            tail += step + 1
            made.append(UUID(int=head | bucket << 64 | tail))
        self.tail = tail
        return made

    def after(self, unix_ms: int) -> int:
        """Return an instant whose ids sort behind all drawn so far, unless the clock was set back.

        It is the given one, or just behind the last id, whose time may be ahead by HOLD_MS.
        """
        return self._unix_ms + 1 if 0 <= self._unix_ms - unix_ms <= HOLD_MS else unix_ms


def tailed_id(
    bucket: int, unix_ms: int, tail: bytes, make: Callable[[bytes], UUID] = _from_bytes
) -> UUID:
    """Make an id that ends in eight given bytes, but for the two bits that every id has."""
    head = (unix_ms & 0xFFFF_FFFF_FFFF) << 16 | _VERSION << 12 | bucket
    return make(head.to_bytes(8, "big") + tail[:1].translate(_WITH_VARIANT) + tail[1:])


def bucket_of(identifier: UUID) -> int:
    """Read the bucket back out of an id; ids made elsewhere fall into some bucket too."""
    return identifier.bytes[7] % BUCKETS


def by_bucket(identifiers: Iterable[UUID]) -> list[tuple[int, list[UUID]]]:
    """Return the ids of each bucket, in the one order of locking."""
    ordered = sorted(identifiers, key=lambda each: (bucket_of(each), each))
    return [(bucket, list(group)) for bucket, group in groupby(ordered, bucket_of)]


def unix_ms_of(identifier: UUID) -> int:
    """Read the creation time back out of an id."""
    return identifier.int >> 80


def floor_id(unix_ms: int) -> UUID:
    """Return the smallest id of an instant: the bound between two partitions."""
    return UUID(int=(max(unix_ms, 0) & 0xFFFF_FFFF_FFFF) << 80)


def hash_bucket(tenant_id: int, text: str) -> int:
    """Map a tenant's name, for example of an account, to a bucket; the result never changes."""
    digest = blake2b(text.encode(), digest_size=8, key=tenant_id.to_bytes(8, "big")).digest()
    return int.from_bytes(digest, "big") % BUCKETS


def subject_id(tenant_id: int, text: str) -> UUID:
    """Make the subject of events about something named by text, an account for example.

    The same name gives the same id (a UUIDv8), with its bucket where `bucket_of` finds it.
    """
    digest = blake2b(text.encode(), digest_size=16, key=tenant_id.to_bytes(8, "big")).digest()
    value = int.from_bytes(digest, "big")
    value &= ~(0xF << 76 | 0xFFF << 64 | 0b11 << _RANDOM_BITS)
    value |= NAMED_VERSION << 76 | hash_bucket(tenant_id, text) << 64 | _VARIANT << _RANDOM_BITS
    return UUID(int=value)
