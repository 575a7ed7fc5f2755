"""Calls about keys. Written by `make docs` from the endpoints."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.group import Group
from postdate.client.models.keys import Key, KeyList, NewKey, RotatedKey, ScopeName, WhoAmI
from postdate.client.operations import keys as operations


class Keys(Group):
    """What the API offers about keys."""

    def whoami(self) -> WhoAmI:
        """Show the tenant and scopes of the key.

        The quickest way to see whether a key works, and what it may do.
        """
        return self._send(operations.WHOAMI)

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
        return self._send(
            operations.CREATE_KEY,
            body={
                "scopes": scopes,
                "note": note,
                "accounts": accounts,
                "max_amount": max_amount,
                "expires_at": expires_at,
            },
            key=idempotency_key,
        )

    def list(self, *, page_size: int = 100) -> Iterator[Key]:
        """List the keys, page by page until the end.

        Keys are named by the characters they begin with; none is shown again.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._pages(operations.LIST_KEYS, lambda page: page.keys, query={"limit": page_size})

    def list_page(self, *, limit: int | UnsetType = UNSET, cursor: str | None = None) -> KeyList:
        """List the keys.

        Keys are named by the characters they begin with; none is shown again.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._send(operations.LIST_KEYS, query={"limit": limit, "cursor": cursor})

    def revoke(self, key_id: UUID | str) -> None:
        """Revoke a key; every node refuses it within five seconds.

        A request that is being served is finished. A revoked key never comes back.
        """
        self._send(operations.REVOKE_KEY, path={"key_id": key_id})

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
        return self._send(
            operations.ROTATE_KEY,
            path={"key_id": key_id},
            body={"overlap_seconds": overlap_seconds},
            key=idempotency_key,
        )
