"""Calls about accounts. Written by `make docs` from the endpoints."""

from collections.abc import AsyncIterator
from datetime import datetime

from msgspec import UNSET, UnsetType

from postdate.client.group import AsyncGroup
from postdate.client.models.accounts import Account, AccountList, AdjustedAccount, Entry, Statement
from postdate.client.operations import accounts as operations


class AsyncAccounts(AsyncGroup):
    """What the API offers about accounts."""

    async def create(
        self,
        *,
        account_id: str | None = None,
        floor: int | UnsetType = UNSET,
        max_amount: int | None = None,
        note: str | None = None,
        currency: str | None = None,
        idempotency_key: str | None = None,
    ) -> Account:
        """Create an account.

        It begins empty; `POST /accounts/{account_id}/adjustments` puts money into it.
        `account_id`: Yours, or one is assigned.
        `floor`: The least that must stay available; below 0 needs the scope ledger:adjust.
        `max_amount`: The most for one payment from this account; null: the tenant's limit. It
        counts above that only as far as the setting `payment.account_max_amount` allows.
        `note`: Yours.
        `currency`: What its amounts are counted in, in minor units: three capital letters, as in
        ISO 4217. It never changes, and payments are made only between accounts of one currency.
        Without it: the tenant's one currency.
        """
        return await self._send(
            operations.CREATE_ACCOUNT,
            body={
                "account_id": account_id,
                "floor": floor,
                "max_amount": max_amount,
                "note": note,
                "currency": currency,
            },
            key=idempotency_key,
        )

    def list(self, *, page_size: int = 100) -> AsyncIterator[Account]:
        """List accounts by id, page by page until the end.

        With balance, held and available as of now.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._pages(
            operations.LIST_ACCOUNTS, lambda page: page.accounts, query={"limit": page_size}
        )

    async def list_page(
        self, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> AccountList:
        """List accounts by id.

        With balance, held and available as of now.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return await self._send(operations.LIST_ACCOUNTS, query={"limit": limit, "cursor": cursor})

    async def get(self, account_id: str) -> Account:
        """Show an account.

        `available` is what a new payment can use: the balance less what is held, above the floor.
        """
        return await self._send(operations.GET_ACCOUNT, path={"account_id": account_id})

    async def change(
        self,
        account_id: str,
        *,
        floor: int | UnsetType = UNSET,
        max_amount: int | UnsetType | None = UNSET,
        note: str | UnsetType | None = UNSET,
    ) -> Account:
        """Change the limits or the note of an account.

        What is absent stays as it is; payments that were accepted keep their terms.
        `floor`: The least that must stay available; below 0 needs the scope ledger:adjust.
        `max_amount`: The most for one payment from this account; null: the tenant's limit. It
        counts above that only as far as the setting `payment.account_max_amount` allows.
        `note`: Yours.
        """
        return await self._send(
            operations.CHANGE_ACCOUNT,
            path={"account_id": account_id},
            body={"floor": floor, "max_amount": max_amount, "note": note},
        )

    async def freeze(self, account_id: str) -> Account:
        """Refuse every new payment from and to an account.

        Payments that come due while it is frozen fail with `account_frozen`.
        """
        return await self._send(operations.FREEZE_ACCOUNT, path={"account_id": account_id})

    async def unfreeze(self, account_id: str) -> Account:
        """Allow payments from and to an account again.

        Payments that failed while it was frozen stay failed.
        """
        return await self._send(operations.UNFREEZE_ACCOUNT, path={"account_id": account_id})

    async def close(self, account_id: str) -> Account:
        """Close an empty account for ever.

        Refused while it has money or open holds. Its history and its id stay. Payments to it that
        are still pending fail when they are due.
        """
        return await self._send(operations.CLOSE_ACCOUNT, path={"account_id": account_id})

    def list_entries(
        self, account_id: str, *, at: datetime | None = None, page_size: int = 100
    ) -> AsyncIterator[Entry]:
        """Show the statement of an account, the newest entry first, page by page until the end.

        `at` shows the balance as it was at an instant; entries never change.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        `at`: Begin where the account stood at this instant.
        """
        return self._pages(
            operations.LIST_ACCOUNT_ENTRIES,
            lambda page: page.entries,
            path={"account_id": account_id},
            query={"at": at, "limit": page_size},
        )

    async def list_entries_page(
        self,
        account_id: str,
        *,
        limit: int | UnsetType = UNSET,
        cursor: str | None = None,
        at: datetime | None = None,
    ) -> Statement:
        """Show the statement of an account, the newest entry first.

        `at` shows the balance as it was at an instant; entries never change.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        `at`: Begin where the account stood at this instant.
        """
        return await self._send(
            operations.LIST_ACCOUNT_ENTRIES,
            path={"account_id": account_id},
            query={"limit": limit, "cursor": cursor, "at": at},
        )

    async def adjust(
        self, account_id: str, *, amount: int, reason: str, idempotency_key: str | None = None
    ) -> AdjustedAccount:
        """Credit or debit an account, with a reason.

        The counterpart is the tenant's `issuer` account, so that the ledger always sums to zero.
        `amount`: Positive credits the account, negative debits it; not 0.
        `reason`: Why; kept with the entries.
        """
        return await self._send(
            operations.ADJUST_ACCOUNT,
            path={"account_id": account_id},
            body={"amount": amount, "reason": reason},
            key=idempotency_key,
        )
