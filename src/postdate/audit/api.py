"""The audit: who changed what, and from where."""

from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.audit.view import AuditEntry
from postdate.core.identity import Scope
from postdate.http.endpoint import Call
from postdate.http.page import PageQuery, encode_cursor
from postdate.http.routes import Routes

ROUTES: Final = Routes("audit")

AuditPosition = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class AuditQuery(PageQuery, kw_only=True):
    """From where on, and about what."""

    subject: Annotated[
        UUID | None, Meta(description="Only about this key, lane, account, job or payment.")
    ] = None


class AuditList(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions in the order of the event chain, and where to go on: also when none follow yet.

    `more` says whether there may be more right now, even when this page is empty.
    """

    entries: list[AuditEntry]
    next_cursor: str
    more: bool


@ROUTES.add("GET", "/audit", Scope.ADMIN)
async def list_audit(call: Call[Services, None, AuditQuery]) -> AuditList:
    """List who changed what, from which address and with which key.

    Entries come from sealed events, so each is part of the hash chain.
    """
    query = call.query
    after = query.start(AuditPosition, 0)
    page = await call.services.audit.page(
        call.actor.tenant_id, after=after, limit=query.limit, subject=query.subject
    )
    return AuditList(entries=page.entries, next_cursor=encode_cursor(page.position), more=page.more)
