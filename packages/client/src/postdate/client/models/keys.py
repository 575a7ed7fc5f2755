"""Models of keys. Written by `make docs` from the endpoints."""

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from postdate.words.open_enum import OpenEnum


class Scope(OpenEnum):
    """What a key may do; `admin` includes every other scope."""

    JOBS_READ = "jobs:read"
    JOBS_WRITE = "jobs:write"
    PAYMENTS_READ = "payments:read"
    PAYMENTS_WRITE = "payments:write"
    PAYMENTS_APPROVE = "payments:approve"
    LEDGER_ADJUST = "ledger:adjust"
    SCHEDULES_READ = "schedules:read"
    SCHEDULES_WRITE = "schedules:write"
    ADMIN = "admin"


ScopeName: TypeAlias = (
    Scope
    | Literal[
        "jobs:read",
        "jobs:write",
        "payments:read",
        "payments:write",
        "payments:approve",
        "ledger:adjust",
        "schedules:read",
        "schedules:write",
        "admin",
    ]
)


class WhoAmI(Struct, frozen=True, kw_only=True):
    """The tenant and key behind this request; null means no limit."""

    tenant: str
    key_id: str
    scopes: list[Scope]
    """What the key may do."""
    accounts: list[str] | None
    """Only these accounts; null means all."""
    max_amount: int | None
    """The largest amount of a payment."""


class Key(Struct, frozen=True, kw_only=True):
    """A key; `hint` is how it begins, null means no limit."""

    key_id: str
    """The key's id."""
    hint: str
    """The first characters of the key, to tell keys apart."""
    note: str
    """What it is for."""
    scopes: list[Scope]
    """What the key may do."""
    accounts: list[str] | None
    """Only these accounts; null means all."""
    max_amount: int | None
    """The largest amount of a payment."""
    created_at: datetime
    """When it was created."""
    expires_at: datetime | None
    """When it ends."""
    revoked_at: datetime | None
    """When the key was revoked."""
    last_used_at: datetime | None
    """When the key was last used, to the minute."""
    persons: list[str]
    """The people behind the key: none of them can approve its payments."""


class KeyList(Struct, frozen=True, kw_only=True):
    """A page of keys."""

    keys: list[Key]
    """The keys of this page."""
    next_cursor: str | None
    """Give it as `cursor` for the next page; null after the last."""


class NewKey(Struct, frozen=True, kw_only=True):
    """A key, shown only now: a repeated answer has null in its place."""

    key_id: str
    """The key's id."""
    key: str | None
    """The key itself: shown this once."""
    scopes: list[Scope]
    """What the key may do."""
    expires_at: datetime | None
    """When it ends."""


class RotatedKey(NewKey, frozen=True, kw_only=True):
    """The new key, shown only now, and when the one before it ends."""

    previous_key_id: str
    """The key that this one replaces."""
    previous_until: datetime
    """Until when the key before is valid."""
