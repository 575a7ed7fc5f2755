"""Calls about accounts. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.accounts import (
    Account,
    AccountList,
    AdjustedAccount,
    Entry,
    PeriodStatement,
    Statement,
)


class Accounts(Group[K]):
    """What the API offers about accounts."""

    @call(
        "list_accounts",
        "GET",
        "/accounts",
        columns=("account_id", "balance", "held", "available", "currency", "frozen_at", "note"),
    )
    def list_page(
        self, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> AccountList:
        """List accounts by id.

        With their current balance, held and available amounts.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_page, "accounts")
    def list(self, *, page_size: int = 100) -> Iterator[Account]:
        """List accounts by id, page by page until the end.

        With their current balance, held and available amounts.
        """

    @call("get_account", "GET", "/accounts/{account_id}")
    def get(self, account_id: str) -> Account:
        """Show an account.

        `available` is what a new payment can use: the balance minus holds, above the floor.
        `account_id`: The account's id.
        """

    @call("create_account", "POST", "/accounts")
    def create(
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

        It starts empty; `POST /accounts/{account_id}/adjustments` adds money.
        `account_id`: Your own id; if absent, one is assigned.
        `floor`: The minimum that must stay available, in the currency's minor unit (2500 is 25.00
        EUR); below 0 needs the scope ledger:adjust.
        `max_amount`: The most for one payment from this account, in the currency's minor unit
        (2500 is 25.00 EUR); null: the tenant's limit. It may exceed that limit as far as the
        setting `payment.account_max_amount` allows.
        `note`: Yours.
        `currency`: What its amounts are counted in: three capital letters, as in ISO 4217, which
        says how many digits of an amount stand behind the point. It never changes, and payments
        are made only between accounts of one currency. Without it: the tenant's one currency.
        """

    @call("change_account", "PATCH", "/accounts/{account_id}")
    def change(
        self,
        account_id: str,
        *,
        floor: int | UnsetType = UNSET,
        max_amount: int | UnsetType | None = UNSET,
        note: str | UnsetType | None = UNSET,
    ) -> Account:
        """Change the limits or the note of an account.

        What is absent stays as it is; payments that were accepted keep their terms.
        `account_id`: The account's id.
        `floor`: The minimum that must stay available, in the currency's minor unit (2500 is 25.00
        EUR); below 0 needs the scope ledger:adjust.
        `max_amount`: The most for one payment from this account, in the currency's minor unit
        (2500 is 25.00 EUR); null: the tenant's limit. It may exceed that limit as far as the
        setting `payment.account_max_amount` allows.
        `note`: Yours.
        """

    @call("freeze_account", "POST", "/accounts/{account_id}/freeze")
    def freeze(self, account_id: str) -> Account:
        """Freeze an account: refuse every new payment from or to it.

        Payments that come due while it is frozen fail with `account_frozen`.
        `account_id`: The account's id.
        """

    @call("unfreeze_account", "POST", "/accounts/{account_id}/unfreeze")
    def unfreeze(self, account_id: str) -> Account:
        """Unfreeze an account: allow payments from and to it again.

        Payments that failed while it was frozen stay failed.
        `account_id`: The account's id.
        """

    @call("close_account", "DELETE", "/accounts/{account_id}")
    def close(self, account_id: str) -> Account:
        """Close an empty account forever.

        Refused while it has money or open holds. Its history and its id stay. Payments to it that
        are still pending fail when they are due.
        `account_id`: The account's id.
        """

    @call("list_account_entries", "GET", "/accounts/{account_id}/entries")
    def list_entries_page(
        self,
        account_id: str,
        *,
        limit: int | UnsetType = UNSET,
        cursor: str | None = None,
        at: datetime | None = None,
    ) -> Statement:
        """Show the statement of an account, the newest entry first.

        `at` shows the balance as it was at an instant; entries never change.
        `account_id`: The account's id.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        `at`: Begin with the newest entry at this instant.
        """

    @pages(list_entries_page, "entries")
    def list_entries(
        self, account_id: str, *, at: datetime | None = None, page_size: int = 100
    ) -> Iterator[Entry]:
        """Show the statement of an account, the newest entry first, page by page until the end.

        `at` shows the balance as it was at an instant; entries never change.
        `account_id`: The account's id.
        `at`: Begin with the newest entry at this instant.
        """

    @call("get_account_statement", "GET", "/accounts/{account_id}/statement")
    def get_statement(
        self,
        account_id: str,
        *,
        from_time: datetime | None = None,
        to_time: datetime | None = None,
        format: Literal["camt.053", "csv", "json"] | UnsetType = UNSET,
        counterparty: str | None = None,
        min_amount: int | None = None,
        max_amount: int | None = None,
        text: str | None = None,
    ) -> PeriodStatement:
        """Write the statement of an account for a period, the oldest entry first.

        The opening balance plus all entries is the closing balance. It is streamed, whatever its
        length: what does not end with the totals (JSON), a CLOSING row (CSV) or the end of the
        document (camt.053) was cut off. Filters leave the balances as they are; camt.053 takes
        none.
        `account_id`: The account's id.
        `from_time`: Entries from this time on; the whole history if absent.
        `to_time`: Entries before this time; up to now if absent.
        `format`: JSON; CSV for spreadsheets, amounts in units; or camt.053.001.14 of ISO 20022,
        for accounts that name a currency.
        `counterparty`: Only entries with this other account.
        `min_amount`: Only entries of at least this amount, debit or credit, in the currency's
        minor unit (2500 is 25.00 EUR).
        `max_amount`: Only entries of at most this amount, debit or credit, in the currency's
        minor unit (2500 is 25.00 EUR).
        `text`: Only entries whose description or counterparty contains this.
        """

    @call("adjust_account", "POST", "/accounts/{account_id}/adjustments")
    def adjust(
        self, account_id: str, *, amount: int, reason: str, idempotency_key: str | None = None
    ) -> AdjustedAccount:
        """Credit or debit an account, with a reason.

        The counterpart is the tenant's `issuer` account, so that the ledger always sums to zero.
        `account_id`: The account's id.
        `amount`: Positive credits the account, negative debits it; not 0; in the currency's minor
        unit (2500 is 25.00 EUR).
        `reason`: The reason; stored with the entries.
        """
