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
    accounts: list[str] | None
    max_amount: int | None


class NewKey(Struct, frozen=True, kw_only=True):
    """A key, shown only now: a repeated answer has null in its place."""

    key_id: str
    key: str | None
    scopes: list[Scope]
    expires_at: datetime | None


class Key(Struct, frozen=True, kw_only=True):
    """A key; `hint` is how it begins, null means no limit."""

    key_id: str
    hint: str
    note: str
    scopes: list[Scope]
    accounts: list[str] | None
    max_amount: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    persons: list[str]
    """The people behind the key: none of them can approve its payments."""


class KeyList(Struct, frozen=True, kw_only=True):
    """A page of keys, the oldest first."""

    keys: list[Key]
    next_cursor: str | None


class RotatedKey(NewKey, frozen=True, kw_only=True):
    """The new key, shown only now, and when the one before it ends."""

    previous_key_id: str
    previous_until: datetime
