"""Calls about keys. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.keys import Key, KeyList, NewKey, RotatedKey, ScopeName, WhoAmI


class Keys(Group[K]):
    """What the API offers about keys."""

    @call("whoami", "GET", "/whoami")
    def whoami(self) -> WhoAmI:
        """Show the tenant and scopes of the key.

        The quickest way to see whether a key works, and what it may do.
        """

    @call(
        "list_keys",
        "GET",
        "/keys",
        columns=("key_id", "hint", "note", "scopes", "expires_at", "revoked_at", "last_used_at"),
    )
    def list_page(self, *, limit: int | UnsetType = UNSET, cursor: str | None = None) -> KeyList:
        """List the keys.

        A key is shown by its first characters only. A key limited to accounts sees keys that are
        limited to the same accounts or fewer.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_page, "keys")
    def list(self, *, page_size: int = 100) -> Iterator[Key]:
        """List the keys, page by page until the end.

        A key is shown by its first characters only. A key limited to accounts sees keys that are
        limited to the same accounts or fewer.
        """

    @call("create_key", "POST", "/keys")
    def create(
        self,
        *,
        scopes: Sequence[ScopeName],
        note: str | UnsetType = UNSET,
        accounts: Sequence[str] | None = None,
        max_amount: int | None = None,
        expires_at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> NewKey:
        """Create a key with at most the reach of yours; it is shown only now.

        Limit it further by scopes, expiry, accounts or a largest amount.
        `scopes`: What the key may do.
        `note`: What it is for.
        `accounts`: Only these accounts; null means all.
        `max_amount`: The largest amount of a payment.
        `expires_at`: When it ends.
        """

    @call("revoke_key", "DELETE", "/keys/{key_id}")
    def revoke(self, key_id: UUID | str) -> None:
        """Revoke a key; every node refuses it within five seconds.

        Requests in progress are finished. A revoked key cannot be restored.
        `key_id`: The key's id.
        """

    @call("rotate_key", "POST", "/keys/{key_id}/rotate")
    def rotate(
        self,
        key_id: UUID | str,
        *,
        overlap_seconds: float | timedelta | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> RotatedKey:
        """Rotate a key: create its successor; the old key ends after the overlap.

        Both work during the overlap, so that clients can switch without a gap.
        `key_id`: The key's id.
        `overlap_seconds`: How long the previous one stays valid.
        """
