"""The audit: what was decided, by whom, from where."""

from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.http.endpoint import AnyEndpoint, Call, Endpoint
from postdate.api.http.page import PageQuery, encode_cursor
from postdate.api.services import Services
from postdate.model.error import Code
from postdate.model.tenant.identity import Scope
from postdate.views.audit import AuditEntry

Position = Annotated[int, Meta(ge=0, le=2**63 - 1)]


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


async def list_audit(call: Call[Services, None, AuditQuery]) -> AuditList:
    """List decisions."""
    query = call.query
    after = query.start(Position, 0)
    page = await call.services.audit.page(
        call.actor.tenant_id, after=after, limit=query.limit, subject=query.subject
    )
    return AuditList(entries=page.entries, next_cursor=encode_cursor(page.position), more=page.more)


ENDPOINTS: Final[list[AnyEndpoint]] = [
    Endpoint(
        method="GET",
        path="/audit",
        handler=list_audit,
        scope=Scope.ADMIN,
        query=AuditQuery,
        returns=AuditList,
        summary="Read who did what to which thing, from where, by which key",
        description="Taken from the sealed events, so that each entry is part of the hash chain.",
        tag="audit",
        errors=(Code.INVALID_CURSOR,),
    ),
]
