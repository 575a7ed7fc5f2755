"""Calls about bulk actions. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.bulk_actions import BulkAction, BulkActionList, BulkItem, BulkItemList


class BulkActions(Group[K]):
    """What the API offers about bulk actions."""

    @call("list_bulk_actions", "GET", "/bulk-actions")
    def list_page(
        self, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> BulkActionList:
        """List bulk actions, the newest first.

        Those whose items the key may read; they are kept for 90 days after their end.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_page, "bulk_actions")
    def list(self, *, page_size: int = 100) -> Iterator[BulkAction]:
        """List bulk actions, the newest first, page by page until the end.

        Those whose items the key may read; they are kept for 90 days after their end.
        """

    @call("get_bulk_action", "GET", "/bulk-actions/{bulk_action_id}")
    def get(self, bulk_action_id: UUID | str) -> BulkAction:
        """Show a bulk action and its progress.

        `position` of its `total` items have had their turn; `done` of these were changed.
        `bulk_action_id`: The id of the bulk action.
        """

    @call("list_bulk_action_items", "GET", "/bulk-actions/{bulk_action_id}/items")
    def list_items_page(
        self,
        bulk_action_id: UUID | str,
        *,
        limit: int | UnsetType = UNSET,
        cursor: str | None = None,
    ) -> BulkItemList:
        """List the items of a bulk action, each with its outcome.

        They come in the order in which they are changed; an item that is still to come has no
        outcome.
        `bulk_action_id`: The id of the bulk action.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_items_page, "items")
    def list_items(self, bulk_action_id: UUID | str, *, page_size: int = 100) -> Iterator[BulkItem]:
        """List the items of a bulk action, each with its outcome, page by page until the end.

        They come in the order in which they are changed; an item that is still to come has no
        outcome.
        `bulk_action_id`: The id of the bulk action.
        """

    @call("start_bulk_action", "POST", "/bulk-actions/{bulk_action_id}/start")
    def start(self, bulk_action_id: UUID | str) -> BulkAction:
        """Let a bulk action begin now.

        One that was confirmed waits for ten seconds, in which it can be stopped without a trace.
        `bulk_action_id`: The id of the bulk action.
        """

    @call("stop_bulk_action", "POST", "/bulk-actions/{bulk_action_id}/stop")
    def stop(self, bulk_action_id: UUID | str) -> BulkAction:
        """Stop a bulk action.

        Once this is answered, no further item is changed; what is done stays done. One that has
        ended stays as it is.
        `bulk_action_id`: The id of the bulk action.
        """
