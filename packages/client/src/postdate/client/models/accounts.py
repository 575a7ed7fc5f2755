"""Models of accounts. Written by `make docs` from the endpoints."""

from datetime import datetime
from typing import TypeAlias

from msgspec import Struct

from postdate.words.open_enum import OpenEnum


class Account(Struct, frozen=True, kw_only=True):
    """An account: `available` is the balance minus holds, `version` counts its entries."""

    account_id: str
    """The account's id."""
    balance: int
    """The account's money, in the currency's minor unit (2500 is 25.00 EUR); held amounts
    included."""
    held: int
    """What open payments have reserved, in the currency's minor unit (2500 is 25.00 EUR)."""
    available: int
    """What can be spent now, in the currency's minor unit (2500 is 25.00 EUR): balance less
    held, down to the floor."""
    version: int
    """Counts its changes."""
    floor: int | None
    """The least that must stay available, in the currency's minor unit (2500 is 25.00 EUR)."""
    max_amount: int | None
    """The most for one payment from this account, in the currency's minor unit (2500 is 25.00
    EUR); null: the tenant's limit. It may exceed that limit as far as the setting
    `payment.account_max_amount` allows."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When its balance, held amount or terms last changed."""
    frozen_at: datetime | None = None
    """When it was frozen; null while it is not."""
    closed_at: datetime | None = None
    """When it was closed for good."""
    note: str | None = None
    """Yours."""
    currency: str | None = None
    """What its amounts are counted in: three capital letters, as in ISO 4217, which says how
    many digits of an amount stand behind the point. It never changes, and payments are made
    only between accounts of one currency. Without it: the tenant's one currency."""


class AccountList(Struct, frozen=True, kw_only=True):
    """A page of accounts."""

    accounts: list[Account]
    """The accounts of this page."""
    next_cursor: str | None
    """Give it as `cursor` for the next page; null after the last."""


class EntryType(OpenEnum):
    """What `EntryType` may be."""

    ADJUSTMENT = "ADJUSTMENT"
    PAYMENT = "PAYMENT"


class Entry(Struct, frozen=True, kw_only=True):
    """One movement, with the balance after it."""

    version: int
    transfer_id: str
    type: EntryType
    amount: int
    """An amount, in the currency's minor unit (2500 is 25.00 EUR)."""
    balance: int
    """An amount, in the currency's minor unit (2500 is 25.00 EUR)."""
    created_at: datetime
    payment_id: str | None = None
    reason: str | None = None


class Statement(Struct, frozen=True, kw_only=True):
    """The balance, now or at the requested instant, and the entries that led to it."""

    account_id: str
    currency: str | None
    """What the amounts are counted in; null or absent: unnamed."""
    balance: int
    """An amount, in the currency's minor unit (2500 is 25.00 EUR)."""
    version: int
    entries: list[Entry]
    next_cursor: str | None


StatementEntryType: TypeAlias = EntryType


class StatementEntry(Struct, frozen=True, kw_only=True):
    """One movement of a statement, with the balance after it."""

    version: int
    """Counts the entries of the account, without gaps."""
    created_at: datetime
    type: StatementEntryType
    amount: int
    """Positive is a credit, negative a debit."""
    balance: int
    """The balance after it."""
    transfer_id: str
    counterparty: str | None = None
    """The other account; absent where it is not known."""
    description: str | None = None
    """That of the payment, or the reason of the adjustment."""
    payment_id: str | None = None


class PeriodStatement(Struct, frozen=True, kw_only=True):
    """The statement of a period: opening balance, entries, closing balance, totals."""

    account_id: str
    currency: str | None
    """What the amounts are counted in; null or absent: unnamed."""
    from_time: datetime
    """Where it begins."""
    to_time: datetime
    """Where it ends."""
    opening_balance: int
    """The balance at `from_time`."""
    closing_balance: int
    """The balance at `to_time`."""
    entries: list[StatementEntry]
    """The oldest first."""
    count: int
    """How many entries are listed."""
    debits: int
    """The sum of the debits listed, without a sign."""
    credits: int
    """The sum of the credits listed."""


class AdjustedAccount(Struct, frozen=True, kw_only=True):
    """The answer to an adjustment: the account after it."""

    transfer_id: str
    account_id: str
    amount: int
    balance: int
    version: int
