"""Seals: move events from the outbox into the tenants' chains, and read them in order."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.core.ids import BUCKETS, MAX_ID, bucket_of, unix_ms_of
from postdate.database.connection.database import LONG_SECONDS, Connection, lift_time_limits
from postdate.database.connection.query import Reader, fetch_all, query
from postdate.event.spec.chain import SealContent
from postdate.event.spec.event import EventFilter, EventPage, Sealed

MAX_ROWS: Final = 100
"""The most rows of a bucket's outbox that one scan takes, however few events each holds."""

MAX_EARLIER: Final = 1000
"""The most seals that are searched for an event that may be sealed already."""

MAX_SCAN: Final = 10_000
"""How many events one page scans; a filter that matches few still answers quickly."""

MAX_ACCOUNT_SCAN: Final = 2000
"""How many events one page scans with a filter by account, which reads every event."""

MARGIN_SECONDS: Final = 1.0
"""How much earlier than an event was made, by the clock of its node, its seal may be."""

FIRST_SECONDS: Final = 2 * 24 * 3600.0
"""No event was sealed before this instant, in Unix time."""


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """Events of a tenant that were taken from the outbox: those of one statement and bucket.

    There is one type for each, or one for all. Without `events` each has the id of its subject.
    """

    tenant_id: int
    time: datetime
    types: list[str]
    subjects: list[UUID]
    events: list[UUID] | None
    digests: bytes

    def __len__(self) -> int:
        return len(self.subjects)


class Chain(msgspec.Struct, frozen=True):
    """The end of a tenant's chain: how many events it holds, and its last hash."""

    tenant_id: int
    position: int
    hash: bytes


class NewSeal(msgspec.Struct, frozen=True, kw_only=True):
    """A seal about to be inserted."""

    seal_id: UUID
    decision: bool
    content: SealContent
    previous: bytes
    hash: bytes


async def waiting(reader: Reader, low: datetime) -> tuple[bool, datetime]:
    """Return whether the outbox holds anything from an instant on, and what time it is."""
    [row] = await reader.fetch(query("seal_waiting"), low)
    return row[0], row[1]


async def take(
    connection: Connection,
    low: datetime,
    per_bucket: int,
    without: Collection[int] = (),
    *,
    around: bool = False,
) -> list[Waiting]:
    """Take events from the outbox in sealing order; others wait for the same buckets.

    Takes enough rows of each bucket for `per_bucket` events, but at most MAX_ROWS. Events of some
    tenants are left in place, and with `around` also rows that other transactions have locked.
    """
    asked = (low, per_bucket, MAX_ROWS, list(without), around)
    return await fetch_all(connection, Waiting, "seal_take", *asked)


async def locked_chains(connection: Connection, tenant_ids: Collection[int]) -> set[int]:
    """Return the tenants whose chains another process has locked, without waiting for any."""
    buckets: dict[int, list[int]] = {}
    for tenant_id in tenant_ids:
        buckets.setdefault(tenant_id % BUCKETS, []).append(tenant_id)
    found: set[int] = set()
    for bucket, some in buckets.items():
        known = await connection.fetch(query("seal_known"), bucket, some)
        free = await connection.fetch(query("seal_free"), bucket, some)
        found |= {row[0] for row in known} - {row[0] for row in free}
    return found


async def advance(connection: Connection, events: Mapping[int, int]) -> dict[int, Chain]:
    """Reserve positions in each tenant's chain; return the ends of the chains before that."""
    rows = await connection.fetch(query("seal_advance"), list(events), list(events.values()))
    return {row[0]: Chain(row[0], row[1] - events[row[0]], row[2]) for row in rows}


async def insert(connection: Connection, seals: Sequence[NewSeal]) -> None:
    """Insert seals."""
    await connection.executemany(query("seal_insert"), [_row(each) for each in seals])


def _row(new: NewSeal) -> tuple[object, ...]:
    content = new.content
    return (
        bucket_of(new.seal_id),
        content.tenant_id,
        new.seal_id,
        content.position,
        content.sealed_at,
        new.decision,
        content.types,
        content.kinds,
        content.subjects,
        content.events,
        content.digests,
        new.previous,
        new.hash,
    )


async def move(connection: Connection, hashes: Mapping[int, bytes]) -> None:
    """Record the new last hash of each tenant's chain."""
    await connection.execute(query("seal_move"), list(hashes), list(hashes.values()))


async def chains(connection: Connection) -> list[Chain]:
    """Return the end of every tenant's chain."""
    return await fetch_all(connection, Chain, "seal_chains")


async def starts(connection: Connection) -> dict[int, Chain]:
    """Return where each chain begins whose old seals were detached."""
    rows = await connection.fetch(query("seal_starts"), await floor(connection, "seal"))
    return {row[0]: Chain(*row) for row in rows}


async def position(connection: Reader, tenant_id: int) -> int:
    """Return how many events of a tenant are sealed."""
    found: int | None = await connection.fetchval(query("seal_position"), tenant_id)
    return found or 0


async def positions(connection: Connection, tenants: Sequence[int]) -> dict[int, int]:
    """Return how many events of each of these tenants are sealed."""
    rows = await connection.fetch(query("seal_positions"), tenants)
    return {row["tenant_id"]: row["position"] for row in rows}


async def read_after(
    connection: Reader, tenant_id: int, wanted: EventFilter, after: int, limit: int
) -> EventPage:
    """Read a tenant's next events after a position, in order.

    A page examines a bounded number of events. Those of one subject are found by its key, so there
    is no scan to bound.
    """
    last = await position(connection, tenant_id)
    scan = MAX_SCAN if wanted.accounts is None else MAX_ACCOUNT_SCAN
    upto = last if wanted.subject else min(last, after + scan)
    asked = (tenant_id, after, upto, wanted.patterns, wanted.accounts, limit)
    if wanted.subject:
        found = fetch_all(connection, Sealed, "seal_page_of_subject", *asked, wanted.subject)
    else:
        found = fetch_all(connection, Sealed, "seal_page", *asked)
    events = await found
    reached = events[-1].position if len(events) == limit else max(after, upto)
    return EventPage(events, reached, more=reached < last)


async def traceparents(
    connection: Connection, tenant_id: int, subjects: Collection[UUID]
) -> dict[UUID, str]:
    """Return the traceparents of these jobs and payments, where there are any."""
    buckets = [bucket_of(subject) for subject in subjects]
    rows = await connection.fetch(query("seal_traceparents"), tenant_id, buckets, list(subjects))
    return {row["subject"]: row["traceparent"] for row in rows}


async def decided(
    connection: Reader, tenant_id: int, before: int, patterns: list[str], limit: int
) -> list[Sealed]:
    """Read administrative changes before a position, the newest first."""
    return await fetch_all(
        connection, Sealed, "seal_page_decided", tenant_id, before, patterns, limit
    )


class StoredSeal(msgspec.Struct, frozen=True):
    """A seal as stored, with the current digests of its events; None for a missing event."""

    content: SealContent
    previous: bytes
    hash: bytes
    now: list[bytes | None]
    decision: bool


def content_of(tenant_id: int, row: Any) -> SealContent:
    """Decode what a seal covers from its row."""
    return SealContent(
        tenant_id=tenant_id,
        position=row["position"],
        sealed_at=row["sealed_at"],
        types=row["types"],
        kinds=row["kinds"],
        subjects=row["subjects"],
        events=row["events"],
        digests=row["digests"],
    )


async def stored(
    connection: Connection, tenant_id: int, after: int, limit: int
) -> list[StoredSeal]:
    """Read the seals of a tenant that begin after a position."""
    rows = await connection.fetch(query("seal_stored"), tenant_id, after, limit)
    return [
        StoredSeal(
            content_of(tenant_id, row),
            row["previous"],
            row["hash"],
            row["now"],
            row["decision"],
        )
        for row in rows
    ]


async def first_positions(
    connection: Connection, tenant_id: int, after: int, upto: int
) -> list[int]:
    """Return where seals of a tenant stand, after a position and up to another."""
    rows = await connection.fetch(query("seal_first_positions"), tenant_id, after, upto)
    return [row[0] for row in rows]


class Placed(NamedTuple):
    """An event at its position in the chain."""

    position: int
    subject: UUID
    event_id: UUID


async def repeated(
    connection: Connection, tenant_id: int, events: Collection[Placed], before: datetime
) -> dict[int, UUID]:
    """Return which of these events an earlier seal holds, by their positions.

    They are searched for in the first seals since the oldest of them was made, which was before an
    instant.
    """
    oldest = min(unix_ms_of(each.event_id) for each in events) / 1000 - MARGIN_SECONDS
    since = min(before, datetime.fromtimestamp(max(oldest, FIRST_SECONDS), UTC))
    columns = map(list, zip(*events, strict=True))
    asked = (tenant_id, since, MAX_EARLIER, *columns)
    rows = await connection.fetch(query("seal_repeated"), *asked)
    return {row["position"]: row["event_id"] for row in rows}


class Unsealed(NamedTuple):
    """An event that is neither sealed nor in the outbox."""

    tenant_id: int
    event_id: UUID


class FactWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Which facts to read: of a tenant, of some buckets, from one id on and below another."""

    tenant_id: int | None = None
    buckets: Sequence[int] | None = None
    since: UUID
    below: UUID = MAX_ID


async def unsealed(connection: Connection, part: FactWindow, limit: int) -> list[Unsealed]:
    """Find the first events that are neither sealed nor in the outbox, tenant by tenant."""
    asked = (part.tenant_id, part.buckets, limit, part.since, part.below)
    async with AsyncExitStack() as stack:
        if not connection.is_in_transaction():
            await stack.enter_async_context(connection.transaction())
        # This reads every event, which takes as long as it takes.
        await lift_time_limits(connection)
        await connection.execute("SET LOCAL enable_seqscan = on")
        rows = await connection.fetch(query("seal_unsealed"), *asked, timeout=LONG_SECONDS)
    return [Unsealed(*row) for row in rows]


async def pruned(connection: Connection, tenant_id: int) -> UUID:
    """Return the id below which a tenant's jobs may have been pruned."""
    return await connection.fetchval(query("seal_pruned"), tenant_id)


async def purged(connection: Connection, tenant_id: int, subjects: Collection[UUID]) -> set[UUID]:
    """Return which of these jobs were purged, according to their events."""
    buckets = [bucket_of(subject) for subject in subjects]
    rows = await connection.fetch(query("seal_purged"), tenant_id, buckets, list(subjects))
    return {row["subject"] for row in rows}


async def floor(connection: Connection, parent: str) -> UUID:
    """Return the id below which the weeks of a table were detached."""
    return await connection.fetchval(query("seal_floor"), parent)
