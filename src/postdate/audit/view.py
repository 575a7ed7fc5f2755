"""Read who changed what, from which address and with which key."""

from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.audit.spec import AUDITED, STAMP, audited
from postdate.core import any_json
from postdate.core.shape import shaped
from postdate.database.connection.database import Database
from postdate.event.spec.event import EventFilter, Sealed, like_patterns
from postdate.event.store import seal
from postdate.event.view import EventViews

MAX_SCAN: Final = 1000
"""How many decisions a page by actor scans."""

MAX_POSITION: Final = 2**63 - 1


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `actor` is the id of a key, `cli` or `system`; `sequence` is its position."""

    sequence: int
    time: datetime
    type: str
    subject: UUID
    actor: str | None
    address: str | None
    request_id: str | None
    data: dict[str, Any]


class AuditPage(NamedTuple):
    """Some entries, the position to continue from, and whether there may be more now."""

    entries: list[AuditEntry]
    position: int
    more: bool


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries: of types such as `lane.*`, by one actor, about one subject."""

    type: str | None = None
    actor: str | None = None
    subject: UUID | None = None


class AuditViews:
    """Reads the audit from the sealed events of a tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._events = EventViews(database)

    async def newest(
        self, tenant_id: int, wanted: AuditFilter, before: int | None, limit: int
    ) -> tuple[list[AuditEntry], int | None]:
        """List entries, the newest first, and return the position where the next page begins."""
        if wanted.subject is not None:
            return await self._of_subject(tenant_id, wanted, limit), None
        # To filter by actor every event must be decoded, so a page examines a bounded number.
        scan = limit if wanted.actor is None else MAX_SCAN
        before = MAX_POSITION if before is None else before
        patterns = like_patterns(AUDITED if wanted.type is None else [wanted.type])
        reader = self._database.tenant_reader(tenant_id)
        events = await seal.decided(reader, tenant_id, before, patterns, scan)
        chosen = [event for event in events if _chosen(event, wanted)]
        following = events[-1].position if len(events) == scan else None
        if len(chosen) > limit:
            chosen, following = chosen[:limit], chosen[limit - 1].position
        return [_entry(event) for event in chosen], following

    async def _of_subject(
        self, tenant_id: int, wanted: AuditFilter, limit: int
    ) -> list[AuditEntry]:
        page = await self.page(tenant_id, after=0, limit=limit, subject=wanted.subject)
        entries = [one for one in page.entries if wanted.actor in {None, one.actor}]
        return entries[::-1]

    async def page(
        self, tenant_id: int, *, after: int, limit: int, subject: UUID | None = None
    ) -> AuditPage:
        """Read the next entries after a position; each page examines a bounded number of events."""
        wanted = EventFilter(patterns=like_patterns(AUDITED), subject=subject)
        page = await self._events.page(tenant_id, wanted, after=after, limit=limit)
        return AuditPage([_entry(event) for event in page.events], page.position, page.more)


def _chosen(event: Sealed, wanted: AuditFilter) -> bool:
    return audited(event.type) and wanted.actor in {None, event.actor}


def _entry(event: Sealed) -> AuditEntry:
    data: dict[str, Any] = any_json.decode(event.data) if event.data else {}
    came = data.pop(STAMP, None) or {}
    return shaped(
        AuditEntry,
        event,
        sequence=event.position,
        address=came.get("address"),
        request_id=came.get("request_id"),
        data=data,
    )
