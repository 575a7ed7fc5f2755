"""Bulk actions: the list, one with its progress and items, and the buttons that start and stop."""

from typing import Any, Final
from uuid import UUID

import msgspec
from starlette.responses import Response

from postdate.bulk_action.spec import BulkActionView
from postdate.console.button import Button
from postdate.console.operation import Answer
from postdate.console.page_request import ConsolePage, PageRequest
from postdate.core.ids import MAX_ID

PAGE: Final = 50
ITEMS: Final = 100


class BulkActionFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the list."""

    before: UUID | None = None


class ItemFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of one bulk action: where the page of its items begins."""

    position: int = 0


async def bulk_actions_page(request: PageRequest) -> Response:
    """List bulk actions, the newest first."""
    query = request.query(BulkActionFilters)
    read = request.services.bulk_action.read
    found, following = await read.page(request.actor, query.before or MAX_ID, PAGE)
    await request.learn_names()
    return request.render(
        "bulk_actions.html",
        bulk_actions=found,
        first=query.before is None,
        following=request.next_page(before=following),
    )


async def bulk_action_page(request: PageRequest) -> Response:
    """Show one with its items; its progress asks for itself again while it goes on."""
    query, read = request.query(ItemFilters), request.services.bulk_action.read
    bulk_action_id = request.uuid("bulk_action_id")
    work = await read.find(request.actor, bulk_action_id)
    items, following = await read.items(request.actor, bulk_action_id, query.position, ITEMS)
    await request.learn_names()
    return request.render(
        "bulk_action.html",
        **_progress(request, work),
        items=items,
        first=not query.position,
        following=request.next_page(position=following),
    )


async def bulk_progress(request: PageRequest) -> Response:
    """Show the progress alone."""
    read = request.services.bulk_action.read
    work = await read.find(request.actor, request.uuid("bulk_action_id"))
    await request.learn_names()
    return request.render("_bulk_progress.html", **_progress(request, work))


def _progress(request: PageRequest, work: BulkActionView) -> dict[str, Any]:
    wait = (work.starts_at - request.now).total_seconds()
    return {
        "work": work,
        "seconds": max(1, round(wait)),
        "once": request.key_of_form(None),
        "may_stop": request.actor.allows(work.words.write),
    }


def _stopped(_: PageRequest, answer: Answer) -> str:
    if not answer["position"] and not answer["done"]:
        return "Undone: nothing was changed."
    return f"Stopped: {answer['done']:,} of {answer['total']:,} were changed."


PAGES: Final = (
    ConsolePage("/bulk-actions", bulk_actions_page, limited="filtered"),
    ConsolePage("/bulk-actions/{bulk_action_id:uuid}", bulk_action_page, limited="filtered"),
    ConsolePage("/bulk-actions/{bulk_action_id:uuid}/progress", bulk_progress, limited="filtered"),
)
BUTTONS: Final = (
    Button(
        "start_bulk_action",
        label="Begin now",
        means="It begins without waiting any longer.",
        done="It has begun.",
    ),
    Button(
        "stop_bulk_action",
        label="Stop",
        means="No further item is changed; what is done stays done.",
        danger=True,
        done=_stopped,
    ),
)
