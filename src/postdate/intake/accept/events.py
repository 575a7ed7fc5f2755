"""Record events: what changed, for whom and by whom, in the transaction that changed it."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from postdate.model.ids import bucket_of, new_ids, subject_id
from postdate.store.connection.database import Connection, Database
from postdate.store.event import event as event_store
from postdate.store.event.event import NewEvent

CLI: Final = "cli"
"""The actor of what is done with the operator's commands."""

SYSTEM: Final = "system"
"""The actor of what nobody asked for at that moment."""

EventData = Mapping[str, Any]


async def record_event(
    connection: Connection,
    database: Database,
    subject: tuple[int, UUID],
    kind: str,
    actor: str,
    data: EventData | None = None,
    *,
    decides: bool = False,
) -> None:
    """Insert an event about a subject, given by tenant and id."""
    tenant_id, about = subject
    await record_events(
        connection, database, tenant_id, kind, actor, {about: data}, decides=decides
    )


async def record_events(
    connection: Connection,
    database: Database,
    tenant_id: int,
    kind: str,
    actor: str,
    data: Mapping[UUID, EventData | None],
    *,
    decides: bool = False,
) -> None:
    """Insert an event of one type for each of these subjects."""
    buckets = [bucket_of(subject) for subject in data]
    ids = new_ids(buckets, database.unix_ms())
    events = [
        NewEvent(bucket, tenant_id, subject, event_id, kind, actor, _data(own), decides)
        for bucket, event_id, (subject, own) in zip(buckets, ids, data.items(), strict=True)
    ]
    await event_store.insert(connection, events)


def named(tenant_id: int, noun: str, name: str) -> tuple[int, UUID]:
    """Return the subject of events about something that is known by its name."""
    return tenant_id, subject_id(tenant_id, f"{noun}/{name}")


def account_subject(tenant_id: int, account_id: str) -> tuple[int, UUID]:
    """Return the subject of events about an account."""
    return tenant_id, subject_id(tenant_id, account_id)


def _data(given: EventData | None) -> dict[str, Any] | None:
    return None if given is None else dict(given)
