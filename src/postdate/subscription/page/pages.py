"""Subscriptions: who is sent which events, how far behind, and what may be done about it."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import msgspec
from starlette.responses import Response

from postdate.console.page_request import ConsolePage, PageRequest
from postdate.core.identity import Scope
from postdate.core.ids import MIN_ID

PAGE: Final = 50


class SubscriptionFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the list."""

    after: UUID = MIN_ID


async def subscriptions_page(request: PageRequest) -> Response:
    """List subscriptions with their lag."""
    query = request.query(SubscriptionFilters)
    rows, following = await request.services.subscription.read.page(
        request.actor, query.after, PAGE
    )
    return request.render(
        "subscriptions.html",
        subscriptions=rows,
        status_of=lambda one: one.status,
        target_of=target_of,
        first=query.after == MIN_ID,
        following=request.next_page(after=following),
    )


def target_of(destination: Mapping[str, Any]) -> str:
    """Return where a subscription sends."""
    return f"{destination['type']} {destination.get('name') or destination.get('url') or ''}"


PAGES: Final = (ConsolePage("/subscriptions", subscriptions_page, Scope.ADMIN, limited="filtered"),)
