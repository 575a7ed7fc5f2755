"""Events: what changed, inserted in the transaction that changed it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from postdate.audit.spec import STAMP, changes_row, stamped
from postdate.core import origin
from postdate.core.ids import MIN_ID, NAMED_VERSION, RisingIds, bucket_of, subject_id, unix_ms_of
from postdate.database.connection.clock import node_clock
from postdate.database.connection.query import Connection, Reader, fetch_all, query
from postdate.event.spec.types import EVENT_TYPES

PURGED: Final = "job.purged"
"""Told by the owner, who alone removes jobs."""

_rising: Final = RisingIds()
"""One for the process, as its clock is: ids that rise over several databases rise in each."""

EventData = Mapping[str, Any]


class NewEvent(msgspec.Struct, frozen=True):
    """An event about to be inserted, which gives it its id."""

    tenant_id: int
    subject: UUID
    type: str
    actor: str | None = None
    data: EventData | None = None
    decides: bool = False
    """Whether it decides about an approval, of which events of its type need not tell."""


class EventRow(msgspec.Struct, frozen=True):
    """An event of one subject as stored."""

    event_id: UUID
    type: str
    time: datetime
    actor: str | None
    data: dict[str, Any] | None


async def record_event(
    connection: Connection,
    subject: tuple[int, UUID],
    kind: str,
    actor: str,
    data: EventData | None = None,
    *,
    decides: bool = False,
) -> None:
    """Insert an event about a subject, given by tenant and id."""
    await insert(connection, [NewEvent(*subject, kind, actor, data, decides)])


async def record_events(
    connection: Connection,
    tenant_id: int,
    kind: str,
    actor: str,
    data: Mapping[UUID, EventData | None],
) -> None:
    """Insert an event of one type for each of these subjects."""
    about = data.items()
    await insert(connection, [NewEvent(tenant_id, each, kind, actor, own) for each, own in about])


def named(tenant_id: int, noun: str, name: str) -> tuple[int, UUID]:
    """Return the subject of events about something that is known by its name."""
    return tenant_id, subject_id(tenant_id, f"{noun}/{name}")


def account_subject(tenant_id: int, account_id: str) -> tuple[int, UUID]:
    """Return the subject of events about an account."""
    return tenant_id, subject_id(tenant_id, account_id)


async def insert(connection: Connection, events: Sequence[NewEvent]) -> list[UUID]:
    """Insert events and return their ids: a process's events of one subject keep their order."""
    ids = _ids(events)
    groups: defaultdict[str, list[tuple[object, ...]]] = defaultdict(list)
    for event, event_id in zip(events, ids, strict=True):
        if event.type not in EVENT_TYPES:
            raise ValueError(f"{event.type} is missing in postdate.event.spec.types")
        where = bucket_of(event.subject), event.tenant_id, event.subject, event_id
        groups[_statement(event)].append((*where, event.type, event.actor, _data(event)))
    for name, rows in sorted(groups.items()):
        await connection.execute(query(name), *map(list, zip(*rows, strict=True)))
    return ids


def after_events(unix_ms: int, subjects: Iterable[UUID]) -> int:
    """Return an instant whose ids sort behind the events that this process has recorded.

    They sort behind those of these subjects too that `_after` moved. Both may be ahead of the
    clock, which is set now and then.
    """
    return max(_rising.after(unix_ms), unix_ms_of(max(subjects, default=MIN_ID)) + 2)


def _ids(events: Sequence[NewEvent]) -> list[UUID]:
    """Draw ids that rise, each above that of its subject's first event: the subject's own id."""
    drawn = _rising.draw([bucket_of(event.subject) for event in events], node_clock.unix_ms())
    return [_after(event.subject, each) for event, each in zip(events, drawn, strict=True)]


def _after(subject: UUID, event_id: UUID) -> UUID:
    """Move an id behind its subject, which another node may have made, whose clock is ahead."""
    made_ms = unix_ms_of(subject)
    if subject.version == NAMED_VERSION or made_ms < unix_ms_of(event_id):
        return event_id
    return UUID(int=made_ms + 1 << 80 | event_id.int & (1 << 80) - 1)


def _statement(event: NewEvent) -> str:
    """Return the name of the query that inserts an event."""
    if event.decides or changes_row(event.type):
        return "event_insert_state"
    return "event_insert_purged" if event.type == PURGED else "event_insert"


def _data(event: NewEvent) -> EventData | None:
    """Add the address and request of an administrative change; other events stay as they are."""
    stamp = origin.stamp() if stamped(event.type) else None
    return event.data if stamp is None else {**(event.data or {}), STAMP: stamp}


async def of_subject(
    connection: Reader, tenant_id: int, subject: UUID, after: UUID, limit: int
) -> list[EventRow]:
    """List the events of one subject, in order."""
    return await fetch_all(
        connection, EventRow, "event_of_subject", tenant_id, subject, after, limit
    )


async def last_actors(
    connection: Reader, tenant_id: int, subjects: Sequence[UUID], kind: str
) -> dict[UUID, str | None]:
    """Return the actor of the latest event of each subject."""
    if not subjects:
        return {}
    buckets = [bucket_of(subject) for subject in subjects]
    rows = await connection.fetch(query("event_last_actors"), buckets, tenant_id, subjects, kind)
    return {row[0]: row[1] for row in rows}
