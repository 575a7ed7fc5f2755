"""Calls about change sets. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.change_sets import (
    CancelJobsParams,
    CancelPaymentsParams,
    ChangeItem,
    ChangeItemList,
    ChangePolicyParams,
    ChangeSet,
    ChangeSetList,
    FreezeParams,
    HaltTenantParams,
    LimitLaneParams,
    PauseLaneParams,
    PauseScheduleParams,
    PutSettingParams,
    RescheduleJobsParams,
    ReschedulePaymentsParams,
)


class ChangeSets(Group[K]):
    """What the API offers about change sets."""

    @call("create_change_set", "POST", "/change-sets")
    def create(
        self,
        *,
        changes: Sequence[
            PauseLaneParams
            | LimitLaneParams
            | PauseScheduleParams
            | ChangePolicyParams
            | FreezeParams
            | HaltTenantParams
            | PutSettingParams
            | RescheduleJobsParams
            | CancelJobsParams
            | ReschedulePaymentsParams
            | CancelPaymentsParams
        ],
        note: str | None = None,
        until_at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> ChangeSet:
        """Preview a set of changes.

        Nothing is changed: a draft is stored, and `effect` says what would move, what would be
        late and which payments would fail. A filter is frozen: the jobs or payments that match
        now are the only ones that applying the draft changes. Each change needs the scope of the
        same operation by itself. What a key may not read elsewhere is null or empty here: without
        `payments:read` a change of payments is null in `changes`, and its step shows neither the
        amount nor what is left.
        `changes`: Each as the operation by itself.
        `note`: Why.
        `until_at`: End of the forecast; by default a day from now.
        """

    @call("list_change_sets", "GET", "/change-sets")
    def list_page(
        self, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> ChangeSetList:
        """List change sets, the newest first.

        Drafts are kept for a week, the others for 90 days. A page of large sets has fewer than
        `limit`: go on while there is a `next_cursor`.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_page, "change_sets")
    def list(self, *, page_size: int = 100) -> Iterator[ChangeSet]:
        """List change sets, the newest first, page by page until the end.

        Drafts are kept for a week, the others for 90 days. A page of large sets has fewer than
        `limit`: go on while there is a `next_cursor`.
        """

    @call("get_change_set", "GET", "/change-sets/{change_set_id}")
    def get(self, change_set_id: UUID | str) -> ChangeSet:
        """Show a change set.

        `steps` shows the progress of each change.
        `change_set_id`: The id of the change set.
        """

    @call("list_change_set_items", "GET", "/change-sets/{change_set_id}/items")
    def list_items_page(
        self,
        change_set_id: UUID | str,
        *,
        limit: int | UnsetType = UNSET,
        cursor: str | None = None,
    ) -> ChangeItemList:
        """List the jobs and payments of a change set.

        The items that matched when the set was created, with the result of each. Jobs need
        `jobs:read`, payments `payments:read`: a key sees only what it may read.
        `change_set_id`: The id of the change set.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_items_page, "items")
    def list_items(
        self, change_set_id: UUID | str, *, page_size: int = 100
    ) -> Iterator[ChangeItem]:
        """List the jobs and payments of a change set, page by page until the end.

        The items that matched when the set was created, with the result of each. Jobs need
        `jobs:read`, payments `payments:read`: a key sees only what it may read.
        `change_set_id`: The id of the change set.
        """

    @call("apply_change_set", "POST", "/change-sets/{change_set_id}/apply")
    def apply(self, change_set_id: UUID | str) -> ChangeSet:
        """Apply a change set.

        The changes are made one after the other, and each step is recorded before and after it.
        If this is interrupted, send the request again to continue. Applying a set twice changes
        nothing.
        `change_set_id`: The id of the change set.
        """

    @call("undo_change_set", "POST", "/change-sets/{change_set_id}/undo")
    def undo(self, change_set_id: UUID | str) -> ChangeSet:
        """Undo a change set, the last change first.

        Refused once a job or payment that was moved has been executed. Anything that others have
        changed since is left as it is, and `left` says so. A cancelled job is final: a new one is
        created, due at the same instant, with the old one as its `origin_id`. The same holds for
        a cancelled payment: the items name the new one, unless its instant has passed or the
        payer can no longer hold the amount.
        `change_set_id`: The id of the change set.
        """
