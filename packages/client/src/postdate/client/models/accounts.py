"""Models of accounts. Written by `make docs` from the endpoints."""

from datetime import datetime

from msgspec import Struct

from postdate.words.open_enum import OpenEnum


class Account(Struct, frozen=True, kw_only=True):
    """An account: `available` is the balance minus holds, `version` counts its entries."""

    account_id: str
    balance: int
    held: int
    available: int
    version: int
    floor: int | None
    max_amount: int | None
    created_at: datetime
    updated_at: datetime
    """When its balance, held amount or terms last changed."""
    frozen_at: datetime | None = None
    closed_at: datetime | None = None
    note: str | None = None
    currency: str | None = None


class AccountList(Struct, frozen=True, kw_only=True):
    """A page of accounts, by id."""

    accounts: list[Account]
    next_cursor: str | None


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
    balance: int
    created_at: datetime
    payment_id: str | None = None
    reason: str | None = None


class Statement(Struct, frozen=True, kw_only=True):
    """The balance, now or at the requested instant, and the entries that led to it."""

    account_id: str
    balance: int
    version: int
    entries: list[Entry]
    next_cursor: str | None


class AdjustedAccount(Struct, frozen=True, kw_only=True):
    """The answer to an adjustment: the account after it."""

    transfer_id: str
    account_id: str
    amount: int
    balance: int
    version: int
