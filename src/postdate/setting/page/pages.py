"""Run-time settings of the tenant, its halts, its keys, and the one that is signed in."""

from typing import Final
from uuid import UUID

import msgspec
from starlette.responses import Response

from postdate.console.page_request import ConsolePage, PageRequest
from postdate.core.identity import Scope
from postdate.key.page import status_of

KEYS: Final = 50
"""How many keys a page shows."""


class KeyFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the page: from which key on."""

    after: UUID | None = None


async def settings_page(request: PageRequest) -> Response:
    """List every setting with the value that holds, and the keys."""
    query, tenant_id, now = request.query(KeyFilters), request.actor.tenant_id, request.now
    found, following = await request.services.key.read.page(
        request.actor, query.after or UUID(int=0), KEYS
    )
    await request.learn_names()
    return request.render(
        "settings.html",
        settings=await request.services.setting.read.page(tenant_id),
        keys=found,
        halts=await request.services.halt.read.page(tenant_id),
        ending=[key for key in found if status_of(key, now) == "ENDING"],
        key_status=lambda key: status_of(key, now),
        query=query,
        following=request.next_page(after=following),
    )


PAGES: Final = (ConsolePage("/settings", settings_page, Scope.ADMIN),)
