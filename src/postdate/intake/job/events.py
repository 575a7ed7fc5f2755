"""The events that tell of changes to jobs."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from postdate.model.ids import bucket_of, new_ids
from postdate.store.connection.database import Connection, Database
from postdate.store.event import event as event_store


async def note(
    connection: Connection,
    database: Database,
    tenant_id: int,
    data: Mapping[UUID, dict[str, Any]],
    kind: str,
    actor: str,
) -> None:
    """Insert an event of one type for each of these jobs."""
    buckets = [bucket_of(job_id) for job_id in data]
    ids = new_ids(buckets, database.unix_ms())
    events = [
        event_store.NewEvent(bucket, tenant_id, job_id, event_id, kind, actor, told)
        for bucket, event_id, (job_id, told) in zip(buckets, ids, data.items(), strict=True)
    ]
    await event_store.insert(connection, events)
