"""Events: what changed, inserted in the transaction that changed it."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from postdate.model import origin
from postdate.model.event.audit import STAMP, changes_row, stamped
from postdate.model.ids import NAMED_VERSION, bucket_of, unix_ms_of
from postdate.store.connection.query import Connection, Reader, fetch_all, query

PURGED: Final = "job.purged"
"""Told by the owner, who alone removes jobs."""


class NewEvent(msgspec.Struct, frozen=True):
    """An event about to be inserted."""

    bucket: int
    tenant_id: int
    subject: UUID
    event_id: UUID
    type: str
    actor: str | None = None
    data: dict[str, Any] | None = None
    decides: bool = False
    """Whether it decides about an approval, of which events of its type need not tell."""


class EventRow(msgspec.Struct, frozen=True):
    """An event of one subject as stored."""

    event_id: UUID
    type: str
    time: datetime
    actor: str | None
    data: dict[str, Any] | None


async def insert(connection: Connection, events: Sequence[NewEvent]) -> None:
    """Insert a set of events; those of one subject keep the order in which they are given."""
    stamped = [_stamp(event) for event in _with_rising_ids([_after_first(each) for each in events])]
    groups: defaultdict[str, list[NewEvent]] = defaultdict(list)
    for event in stamped:
        groups[_statement(event)].append(event)
    for name, group in sorted(groups.items()):
        columns = zip(*(msgspec.structs.astuple(event)[:-1] for event in group), strict=True)
        await connection.execute(query(name), *map(list, columns))


def _statement(event: NewEvent) -> str:
    """Name the query that inserts an event: changes of rows come last, after what they tell of."""
    if event.decides or changes_row(event.type):
        return "event_insert_state"
    return "event_insert_purged" if event.type == PURGED else "event_insert"


def _stamp(event: NewEvent) -> NewEvent:
    """Add from where a decision came; events of mere work stay as they are."""
    stamp = origin.stamp() if stamped(event.type) else None
    if stamp is None:
        return event
    return msgspec.structs.replace(event, data={**(event.data or {}), STAMP: stamp})


def _after_first(event: NewEvent) -> NewEvent:
    """Let the id be above that of a subject's first event, which is the subject's own.

    Ids of one millisecond are in no order, and nodes differ by some: it moves just behind.
    """
    if event.event_id > event.subject or event.subject.version == NAMED_VERSION:
        return event
    low = event.event_id.int & ((1 << 80) - 1)
    moved = UUID(int=(unix_ms_of(event.subject) + 1 << 80) | low)
    return msgspec.structs.replace(event, event_id=moved)


def _with_rising_ids(events: Sequence[NewEvent]) -> Sequence[NewEvent]:
    """Let the ids of each subject rise: ids of one millisecond are in no order by themselves."""
    if len({event.subject for event in events}) == len(events):
        return events
    ids = defaultdict(list)
    for event in events:
        ids[event.subject].append(event.event_id)
    rising = {subject: iter(sorted(found)) for subject, found in ids.items()}
    return [
        msgspec.structs.replace(event, event_id=next(rising[event.subject])) for event in events
    ]


async def of_subject(
    connection: Reader, tenant_id: int, subject: UUID, after: UUID, limit: int
) -> list[EventRow]:
    """List what happened to one thing, in order."""
    return await fetch_all(
        connection, EventRow, "event_of_subject", tenant_id, subject, after, limit
    )


async def last_actors(
    connection: Reader, tenant_id: int, subjects: Sequence[UUID], kind: str
) -> dict[UUID, str | None]:
    """Return who last did something to each of these."""
    if not subjects:
        return {}
    buckets = [bucket_of(subject) for subject in subjects]
    rows = await connection.fetch(query("event_last_actors"), buckets, tenant_id, subjects, kind)
    return {row[0]: row[1] for row in rows}
