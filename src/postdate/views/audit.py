"""Read who did what to which thing, from where, by which key."""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from postdate.model.audit import AUDITED, STAMP
from postdate.model.event import Sealed, like
from postdate.store.database import Database
from postdate.views.event import EventFilter, EventViews


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One decision. `actor` is the id of a key, `cli` or `system`; `sequence` its place."""

    sequence: int
    time: datetime
    type: str
    subject: UUID
    actor: str | None
    address: str | None
    request_id: str | None
    data: dict[str, Any]


class AuditPage(NamedTuple):
    """Some decisions, the position to go on from, and whether there may be more right now."""

    entries: list[AuditEntry]
    position: int
    more: bool


class AuditViews:
    """Reads decisions out of the sealed events of a tenant."""

    def __init__(self, database: Database) -> None:
        self._events = EventViews(database)

    async def page(
        self, tenant_id: int, *, after: int, limit: int, subject: UUID | None = None
    ) -> AuditPage:
        """Read the next decisions after a position; each page looks at so many events only."""
        wanted = EventFilter(patterns=like(AUDITED), subject=subject)
        page = await self._events.page(tenant_id, wanted, after=after, limit=limit)
        return AuditPage([_entry(event) for event in page.events], page.position, page.more)


def _entry(event: Sealed) -> AuditEntry:
    data: dict[str, Any] = msgspec.json.decode(event.data) if event.data else {}
    came = data.pop(STAMP, None) or {}
    return AuditEntry(
        sequence=event.position,
        time=event.time,
        type=event.type,
        subject=event.subject,
        actor=event.actor,
        address=came.get("address"),
        request_id=came.get("request_id"),
        data=data,
    )
