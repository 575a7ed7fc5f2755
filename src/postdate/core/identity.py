"""The identity of a caller, and what its key allows."""

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID, uuid5

import msgspec

_SUBJECTS: Final = UUID("0f6e4c52-6f8b-4b3f-9f0e-6a2b5d1c7e90")


class Scope(StrEnum):
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


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How far a key goes; `None` means no limit."""

    scopes: frozenset[Scope]
    accounts: frozenset[str] | None = None
    max_amount: int | None = None
    expires_at: datetime | None = None

    def first_excess(self, own: "Reach") -> str | None:
        """Name the first member in which this goes further than the other."""
        if Scope.ADMIN not in own.scopes and not self.scopes <= own.scopes:
            return "scopes"
        if own.accounts is not None and (
            self.accounts is None or not self.accounts <= own.accounts
        ):
            return "accounts"
        if own.max_amount is not None and (
            self.max_amount is None or self.max_amount > own.max_amount
        ):
            return "max_amount"
        if own.expires_at is not None and (
            self.expires_at is None or self.expires_at > own.expires_at
        ):
            return "expires_at"
        return None


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant and key behind a request; `None` for accounts or amount means no limit."""

    tenant_id: int
    tenant: str
    key_id: str
    scopes: frozenset[Scope]
    # Whether the tenant is in test mode.
    test: bool = False
    accounts: frozenset[str] | None = None
    max_amount: int | None = None
    # Of a signed token, which is not stored: until when it holds.
    expires_at: datetime | None = None
    # Of a stored key: everybody who may have seen its secret.
    key_persons: frozenset[str] = frozenset()

    @property
    def reach(self) -> Reach:
        """Return how far it goes."""
        return Reach(
            scopes=self.scopes,
            accounts=self.accounts,
            max_amount=self.max_amount,
            expires_at=self.expires_at,
        )

    @property
    def holder(self) -> UUID:
        """Name it where an id is needed: the key's own, or one made of the token's subject."""
        return UUID(self.key_id) if self.expires_at is None else uuid5(_SUBJECTS, self.key_id)

    @property
    def persons(self) -> frozenset[str]:
        """Return who may be behind it: of a token its subject, of a key all of its lineage."""
        return self.key_persons or frozenset({self.key_id})

    def covers(self, accounts: Collection[str] | None) -> bool:
        """Return whether all these accounts are within the limit of the key; None means all."""
        return self.accounts is None or (
            accounts is not None and self.accounts.issuperset(accounts)
        )

    def allows(self, scope: Scope) -> bool:
        """Return whether the key carries this scope, itself or through `admin`."""
        return scope in self.scopes or Scope.ADMIN in self.scopes
