"""The audit: who did what to which thing, from where, the newest first."""

from typing import Final
from uuid import UUID

import msgspec
from starlette.responses import Response

from postdate.audit.spec import AUDITED
from postdate.audit.view import AuditFilter
from postdate.console.page_request import ConsolePage, PageRequest
from postdate.core.identity import Scope
from postdate.event.page.pages import event_currencies
from postdate.event.spec.event import check_patterns

PAGE: Final = 50


class AuditFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the audit."""

    type: str | None = None
    actor: str | None = None
    subject: UUID | None = None
    before: int | None = None

    @property
    def filter(self) -> AuditFilter:
        """Return the filter alone."""
        if self.type is not None:
            check_patterns([self.type])
        return AuditFilter(type=self.type, actor=self.actor, subject=self.subject)


async def audit_page(request: PageRequest) -> Response:
    """List decisions."""
    query, tenant_id = request.query(AuditFilters), request.actor.tenant_id
    entries, following = await request.services.audit.newest(
        tenant_id, query.filter, query.before, PAGE
    )
    await request.learn_names()
    return request.render(
        "audit.html",
        entries=entries,
        currencies=await event_currencies(request, entries),
        query=query,
        filtered=query.filter != AuditFilter(),
        types=AUDITED,
        following=request.next_page(before=following),
    )


PAGES: Final = (ConsolePage("/audit", audit_page, Scope.ADMIN),)
