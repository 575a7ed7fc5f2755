"""Seals: read what was committed, link it, and read it back in order."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from postdate.model.chain import Link
from postdate.model.event import Sealed
from postdate.model.ids import bucket_of
from postdate.store.database import Connection
from postdate.store.query import query


class Chain(msgspec.Struct, frozen=True):
    """A locked chain: its last link, and the snapshots between which its window lies."""

    bucket: int
    seq: int
    hash: bytes
    upto: str
    pending: list[str]
    next_upto: str
    next_pending: list[str]
    looked_at: datetime

    @property
    def transactions(self) -> int:
        """Say how many transactions the window spans: a bound on how far behind it is."""
        return int(self.next_upto) - int(self.upto)


class Committed(msgspec.Struct, frozen=True, gc=False):
    """An event that is not sealed yet."""

    bucket: int
    tenant_id: int
    subject: UUID
    event_id: UUID
    time: datetime
    type: str
    actor: str | None
    data: str | None


class Head(msgspec.Struct, frozen=True):
    """The last link of a bucket's chain."""

    bucket: int
    seq: int
    hash: bytes


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Which of a tenant's events to read: those after one position and up to another.

    `patterns` are for SQL's LIKE; without `accounts` every account counts.
    """

    tenant_id: int
    after: int
    upto: int
    patterns: list[str]
    limit: int
    accounts: list[str] | None = None


async def snapshot(connection: Connection) -> str:
    """Say what is committed; the same answer twice means that no transaction has ended since."""
    found: str = await connection.fetchval(query("seal_snapshot"))
    return found


async def news(connection: Connection) -> list[int]:
    """List the buckets that have something to seal."""
    return [row["bucket"] for row in await connection.fetch(query("seal_news"))]


async def lock(connection: Connection, buckets: Sequence[int]) -> list[Chain]:
    """Lock the chains that nobody else is sealing, until the transaction ends."""
    return [Chain(*row) for row in await connection.fetch(query("seal_lock"), buckets)]


def _window(chains: Sequence[Chain]) -> tuple[list[object], ...]:
    pending = [(chain.bucket, xid) for chain in chains for xid in chain.pending]
    return (
        [chain.bucket for chain in chains],
        [chain.upto for chain in chains],
        [chain.next_upto for chain in chains],
        [bucket for bucket, _ in pending],
        [xid for _, xid in pending],
        list(chains[0].next_pending),
    )


async def read(
    connection: Connection, chains: Sequence[Chain], chunk: int
) -> AsyncIterator[list[Committed]]:
    """Read the window of these chains by the chunk, in the order to seal."""
    cursor = await connection.cursor(query("seal_read"), *_window(chains))
    while rows := await cursor.fetch(chunk):
        yield [Committed(*row) for row in rows]


async def count(connection: Connection, chains: Sequence[Chain]) -> dict[int, int]:
    """Count the events of each tenant in the window of these chains."""
    rows = await connection.fetch(query("seal_count"), *_window(chains))
    return {row["tenant_id"]: row["events"] for row in rows}


async def advance(connection: Connection, events: Mapping[int, int]) -> dict[int, int]:
    """Take so many positions of each tenant; give the last position before them."""
    rows = await connection.fetch(query("seal_advance"), list(events), list(events.values()))
    return {row["tenant_id"]: row["position"] - events[row["tenant_id"]] for row in rows}


async def insert(connection: Connection, links: Sequence[tuple[Link, bytes]]) -> None:
    """Insert links with their hashes."""
    columns = zip(
        *(
            (k.bucket, k.tenant_id, k.seq, k.position, k.subject, k.event_id, k.type, digest)
            for k, digest in links
        ),
        strict=True,
    )
    await connection.execute(query("seal_insert"), *map(list, columns))


async def move(connection: Connection, chains: Sequence[Chain], heads: Mapping[int, Head]) -> None:
    """Note the new heads, and that everything visible in the next snapshot is sealed."""
    await connection.execute(
        query("seal_move"),
        [chain.bucket for chain in chains],
        [heads[chain.bucket].seq for chain in chains],
        [heads[chain.bucket].hash for chain in chains],
        [chain.next_upto for chain in chains],
        list(chains[0].next_pending),
    )


async def heads(connection: Connection) -> list[Head]:
    """Give the last link of every chain."""
    return [Head(*row) for row in await connection.fetch(query("seal_heads"))]


async def now(connection: Connection) -> datetime:
    """Give the database's time."""
    found: datetime = await connection.fetchval(query("seal_now"))
    return found


async def position(connection: Connection, tenant_id: int) -> int:
    """Say how many events of a tenant are sealed."""
    found: int | None = await connection.fetchval(query("seal_position"), tenant_id)
    return found or 0


async def positions(connection: Connection, tenants: Sequence[int]) -> dict[int, int]:
    """Say how many events of each of these tenants are sealed."""
    rows = await connection.fetch(query("seal_positions"), tenants)
    return {row["tenant_id"]: row["position"] for row in rows}


async def page(connection: Connection, window: Window) -> list[Sealed]:
    """Read a tenant's events in order."""
    rows = await connection.fetch(query("seal_page"), *_page_arguments(window))
    return [Sealed(*row) for row in rows]


async def traceparents(
    connection: Connection, tenant_id: int, subjects: Collection[UUID]
) -> dict[UUID, str]:
    """Give what follows these jobs and payments, where somebody does."""
    buckets = [bucket_of(subject) for subject in subjects]
    rows = await connection.fetch(query("seal_traceparents"), tenant_id, buckets, list(subjects))
    return {row["subject"]: row["traceparent"] for row in rows}


async def page_back(connection: Connection, window: Window) -> list[Sealed]:
    """Read a tenant's events between two positions, the newest first; accounts do not count."""
    rows = await connection.fetch(
        query("seal_page_back"),
        window.tenant_id,
        window.after,
        window.upto,
        window.patterns,
        window.limit,
    )
    return [Sealed(*row) for row in rows]


async def decided(
    connection: Connection, tenant_id: int, before: int, patterns: list[str], limit: int
) -> list[Sealed]:
    """Read decisions before a position, the newest first."""
    rows = await connection.fetch(query("seal_page_decided"), tenant_id, before, patterns, limit)
    return [Sealed(*row) for row in rows]


async def page_of_subject(connection: Connection, window: Window, subject: UUID) -> list[Sealed]:
    """Read the events of one subject in order."""
    rows = await connection.fetch(
        query("seal_page_of_subject"), *_page_arguments(window), bucket_of(subject), subject
    )
    return [Sealed(*row) for row in rows]


def _page_arguments(window: Window) -> tuple[object, ...]:
    return (
        window.tenant_id,
        window.after,
        window.upto,
        window.patterns,
        window.accounts,
        window.limit,
    )


class StoredLink(msgspec.Struct, frozen=True, gc=False):
    """A link as stored, beside what its event says now; `time` is None if the event is gone."""

    bucket: int
    seq: int
    tenant_id: int
    position: int
    subject: UUID
    event_id: UUID
    type: str
    hash: bytes
    event_tenant_id: int | None
    event_type: str | None
    time: datetime | None
    actor: str | None
    data: str | None


async def stored_links(
    connection: Connection, bucket: int, after: int, limit: int
) -> list[StoredLink]:
    """Read the links of a bucket after a number."""
    rows = await connection.fetch(query("seal_links"), bucket, after, limit)
    return [StoredLink(*row) for row in rows]


async def unsealed(connection: Connection, bucket: int) -> UUID | None:
    """Find an event of a bucket that its chain has passed over."""
    # This reads every event of the bucket, which takes as long as it takes.
    async with connection.transaction():
        await connection.execute("SET LOCAL statement_timeout = 0")
        found: UUID | None = await connection.fetchval(query("seal_unsealed"), bucket)
    return found
