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
        """Make a key that reaches at most as far as yours; it is shown only now.

        Give it few scopes, an expiry, accounts or a largest amount to narrow it further.
        `note`: What it is for.
        `accounts`: Only these accounts.
        `max_amount`: The largest amount of one payment.
        `expires_at`: When it ends.
        """

    @call("list_keys", "GET", "/keys")
    def list_page(self, *, limit: int | UnsetType = UNSET, cursor: str | None = None) -> KeyList:
        """List the keys.

        Keys are named by the characters they begin with; none is shown again.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """

    @pages(list_page, "keys")
    def list(self, *, page_size: int = 100) -> Iterator[Key]:
        """List the keys, page by page until the end.

        Keys are named by the characters they begin with; none is shown again.
        """

    @call("revoke_key", "DELETE", "/keys/{key_id}")
    def revoke(self, key_id: UUID | str) -> None:
        """Revoke a key; every node refuses it within five seconds.

        A request that is being served is finished. A revoked key never comes back.
        """

    @call("rotate_key", "POST", "/keys/{key_id}/rotate")
    def rotate(
        self,
        key_id: UUID | str,
        *,
        overlap_seconds: float | timedelta | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> RotatedKey:
        """Put a new key in the place of one that ends after the overlap.

        Both work during the overlap, so that clients can change over without a gap.
        """
