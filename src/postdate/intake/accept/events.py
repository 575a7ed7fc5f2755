"""Events about tenants, keys and settings: what the auditor reads later."""

from typing import Any, Final
from uuid import UUID

from postdate.model.ids import bucket_of, new_id, subject_id
from postdate.store.connection.database import Connection, Database
from postdate.store.event import event as event_store
from postdate.store.event.event import NewEvent

CLI: Final = "cli"
"""The actor of what is done with the operator's commands."""


async def tell(  # noqa: PLR0917 - an event is this wide
    connection: Connection,
    database: Database,
    subject: UUID,
    kind: str,
    tenant_id: int,
    data: dict[str, Any],
    actor: str = CLI,
) -> None:
    """Insert an event in the transaction that it tells of."""
    bucket = bucket_of(subject)
    event_id = new_id(bucket, database.unix_ms())
    event = NewEvent(bucket, tenant_id, subject, event_id, kind, actor, data)
    await event_store.insert(connection, [event])


def named(tenant_id: int, noun: str, name: str) -> UUID:
    """Give the subject of events about something named by text."""
    return subject_id(tenant_id, f"{noun}/{name}")
