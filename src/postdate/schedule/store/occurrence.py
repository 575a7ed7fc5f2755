"""The book: the result of each occurrence."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of
from postdate.database.connection.column import compact, filled
from postdate.database.connection.query import Connection, Reader, fetch_all, query

RunOutcome = Literal["COMPLETED", "FAILED", "CANCELLED"]
"""How a job or a payment has ended."""


class OccurrenceKey(NamedTuple):
    """The key of a row of the book."""

    bucket: int
    tenant_id: int
    schedule_id: UUID
    occurrence_id: UUID


class NewOccurrence(NamedTuple):
    """A row for the book; `notes` are words with blanks between."""

    bucket: int
    tenant_id: int
    schedule_id: UUID
    occurrence_id: UUID
    scheduled_for: datetime
    nominal_local: datetime
    due_at: datetime
    status: str
    cause: str
    version: int
    kind: str | None = None
    subject: UUID | None = None
    code: str | None = None
    notes: str | None = None


class Relabel(NamedTuple):
    """A new label for a row that has not run."""

    bucket: int
    tenant_id: int
    schedule_id: UUID
    occurrence_id: UUID
    status: str
    kind: str | None = None
    subject: UUID | None = None
    code: str | None = None
    cause: str | None = None


class OccurrenceRow(msgspec.Struct, frozen=True):
    """A row of the book."""

    occurrence_id: UUID
    scheduled_for: datetime
    nominal_local: datetime
    due_at: datetime
    status: str
    cause: str
    version: int
    kind: str | None
    subject: UUID | None
    code: str | None
    notes: list[str] | None
    created_at: datetime


async def insert(connection: Connection, rows: Sequence[NewOccurrence]) -> None:
    """Insert rows into the book; raise if one exists already."""
    if not rows:
        return
    _, tenants, schedules, ids, *middle = zip(*rows, strict=True)
    *repeated, kinds, subjects, codes, notes = middle
    await connection.execute(
        query("occurrence_insert"),
        compact(tenants),
        schedules,
        ids,
        *(compact(column) for column in repeated),
        compact(kinds),
        filled(subjects),
        filled(codes),
        filled(notes),
    )


async def relabel(connection: Connection, rows: Sequence[Relabel]) -> None:
    """Relabel occurrences that have not run."""
    if rows:
        await connection.execute(query("occurrence_relabel"), *zip(*rows, strict=True))


async def take_back(
    connection: Connection, schedule: tuple[int, int, UUID], after: datetime, limit: int
) -> list[datetime]:
    """Take the first occurrences of the future out of the book; return for when they were."""
    rows = await connection.fetch(query("occurrence_take_back"), *schedule, after, limit)
    return sorted(row[0] for row in rows)


async def find(
    connection: Connection, keys: Sequence[OccurrenceKey]
) -> dict[tuple[UUID, UUID], str]:
    """Return the labels of recorded occurrences, by schedule and occurrence."""
    if not keys:
        return {}
    rows = await connection.fetch(query("occurrence_find"), *zip(*keys, strict=True))
    return {(row[0], row[1]): row[2] for row in rows}


async def page(
    connection: Reader,
    schedule: tuple[int, int, UUID],
    before: UUID,
    status: str | None,
    limit: int,
) -> list[OccurrenceRow]:
    """List a schedule's rows, the newest first."""
    return await fetch_all(
        connection, OccurrenceRow, "occurrence_page", *schedule, before, status, limit
    )


async def ended(reader: Reader, rows: Sequence[OccurrenceRow]) -> dict[UUID, RunOutcome]:
    """Return how the jobs and payments of occurrences have ended, as far as they have."""
    subjects = [row.subject for row in rows if row.subject is not None]
    if not subjects:
        return {}
    buckets = [bucket_of(subject) for subject in subjects]
    found = await reader.fetch(query("occurrence_ended"), buckets, subjects)
    return {row[0]: row[1] for row in found}


async def recent(
    connection: Reader, keys: Sequence[tuple[int, int, UUID]], limit: int
) -> dict[UUID, list[OccurrenceRow]]:
    """Return the newest rows of several schedules, each in order."""
    if not keys:
        return {}
    rows = await connection.fetch(query("occurrence_recent"), *zip(*keys, strict=True), limit)
    found: dict[UUID, list[OccurrenceRow]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(OccurrenceRow(*row[1:]))
    return found
