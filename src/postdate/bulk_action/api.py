"""Bulk actions: their progress, the outcome of each item, and how one is stopped.

They are begun from the console, which fixes the items that a person was shown; a program does the
same with `jobs/bulk` and `dead-letters/redrive`.
"""

from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.bulk_action.spec import BulkActionView, BulkItemView
from postdate.core.ids import MAX_ID
from postdate.http.endpoint import Call
from postdate.http.page import PageQuery, next_cursor
from postdate.http.routes import Routes
from postdate.words.error import Code

ROUTES: Final = Routes("bulk actions")

ItemPosition = Annotated[int, Meta(ge=0)]


class BulkActionList(msgspec.Struct, frozen=True):
    """Bulk actions, the newest first."""

    bulk_actions: list[BulkActionView]
    next_cursor: str | None


class BulkItemList(msgspec.Struct, frozen=True):
    """Items of a bulk action, in the order in which they are done."""

    items: list[BulkItemView]
    next_cursor: str | None


@ROUTES.add("GET", "/bulk-actions", "any", limited="filtered")
async def list_bulk_actions(call: Call[Services, Any, PageQuery]) -> BulkActionList:
    """List bulk actions, the newest first.

    Those whose items the key may read; they are kept for 90 days after their end.
    """
    before = call.query.start(UUID, MAX_ID)
    found, following = await call.services.bulk_action.read.page(
        call.actor, before, call.query.limit
    )
    return BulkActionList(found, next_cursor(following))


@ROUTES.add("GET", "/bulk-actions/{bulk_action_id:uuid}", "any", limited="filtered")
async def get_bulk_action(call: Call[Services, Any, None]) -> BulkActionView:
    """Show a bulk action and its progress.

    `position` of its `total` items have had their turn; `done` of these were changed.
    """
    return await call.services.bulk_action.read.find(call.actor, call.uuid("bulk_action_id"))


@ROUTES.add("GET", "/bulk-actions/{bulk_action_id:uuid}/items", "any", limited="filtered")
async def list_bulk_action_items(call: Call[Services, Any, PageQuery]) -> BulkItemList:
    """List the items of a bulk action, each with its outcome.

    They come in the order in which they are changed; an item that is still to come has no outcome.
    """
    found, following = await call.services.bulk_action.read.items(
        call.actor, call.uuid("bulk_action_id"), call.query.start(ItemPosition, 0), call.query.limit
    )
    return BulkItemList(found, next_cursor(following))


@ROUTES.add(
    "POST",
    "/bulk-actions/{bulk_action_id:uuid}/start",
    "any",
    limited="filtered",
    halted="served",
    errors=(Code.FORBIDDEN,),
)
async def start_bulk_action(call: Call[Services, None, None]) -> BulkActionView:
    """Let a bulk action begin now.

    One that was confirmed waits for ten seconds, in which it can be stopped without a trace.
    """
    return await call.services.bulk_action.change.start(call.actor, call.uuid("bulk_action_id"))


@ROUTES.add(
    "POST",
    "/bulk-actions/{bulk_action_id:uuid}/stop",
    "any",
    limited="filtered",
    halted="served",
    errors=(Code.FORBIDDEN,),
)
async def stop_bulk_action(call: Call[Services, None, None]) -> BulkActionView:
    """Stop a bulk action.

    Once this is answered, no further item is changed; what is done stays done. One that has ended
    stays as it is.
    """
    return await call.services.bulk_action.change.stop(call.actor, call.uuid("bulk_action_id"))
