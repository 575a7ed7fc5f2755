"""Accounts as their tenant sees them: balances, and the statement of their entries."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from postdate.account.spec import AccountSpec, AccountView
from postdate.account.store import account as account_store
from postdate.account.store import entry as entry_store
from postdate.account.store.account import key_of
from postdate.account.store.entry import EntryType
from postdate.core.field import Amount
from postdate.core.identity import Identity, Scope
from postdate.core.shape import shaped
from postdate.database.connection.database import Database
from postdate.event.store.event import account_subject
from postdate.resource.resource import Resource

MAX_VERSION: Final = 2**63 - 1
"""Where a statement begins."""


ACCOUNT: Final = Resource(
    noun="account",
    spec=AccountSpec,
    shows=AccountView,
    key="account_id",
    read=Scope.PAYMENTS_READ,
    write=Scope.PAYMENTS_WRITE,
    read_limited="filtered",
    write_limited="filtered",
    patchable=("floor", "max_amount", "note"),
    columns=("account_id", "balance", "held", "available", "currency", "frozen_at", "note"),
    subject=account_subject,
)


class EntryView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One movement, with the balance after it."""

    version: int
    transfer_id: UUID
    type: EntryType
    amount: Amount
    balance: Amount
    created_at: datetime
    payment_id: UUID | None = None
    reason: str | None = None


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """The balance at a version or an instant, and the entries before it, newest first."""

    account_id: str
    currency: str | None
    balance: int
    version: int
    entries: list[EntryView]
    next_version: int | None


class AccountViews:
    """Reads accounts of one tenant; a limited key sees only its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @ACCOUNT.list()
    async def page(
        self, actor: Identity, after: str, limit: int
    ) -> tuple[list[AccountView], str | None]:
        """List accounts by id.

        With their current balance, held and available amounts.
        """
        reader = self._database.tenant_reader(actor.tenant_id)
        rows = await account_store.page(reader, actor.tenant_id, after, limit + 1)
        found = [row for row in rows[:limit] if _visible(actor, row.account_id)]
        return found, rows[limit - 1].account_id if len(rows) > limit else None

    @ACCOUNT.get()
    async def find(self, actor: Identity, account_id: str) -> AccountView | None:
        """Show an account.

        `available` is what a new payment can use: the balance minus holds, above the floor.
        """
        if not _visible(actor, account_id):
            return None
        reader = self._database.tenant_reader(actor.tenant_id)
        return await account_store.find(reader, key_of(actor.tenant_id, account_id))

    async def currencies(self, actor: Identity, names: Iterable[str]) -> dict[str, str]:
        """Return the currencies of accounts that name one: what amounts beside them are in."""
        wanted = {name for name in names if name}
        if not wanted:
            return {}
        reader = self._database.tenant_reader(actor.tenant_id)
        return await account_store.currencies(reader, actor.tenant_id, wanted)

    async def statement(
        self, actor: Identity, account_id: str, at: datetime | None, version: int, limit: int
    ) -> Statement | None:
        """List entries backwards from a version, or from an instant."""
        if not _visible(actor, account_id):
            return None
        reader = self._database.tenant_reader(actor.tenant_id)
        key = key_of(actor.tenant_id, account_id)
        found = await entry_store.statement(reader, key, at, version, limit + 1)
        if found is None:
            return None
        stood, rows = found
        return Statement(
            account_id=account_id,
            currency=stood.currency,
            balance=stood.balance,
            version=stood.version,
            entries=[shaped(EntryView, row) for row in rows[:limit]],
            next_version=rows[limit].version if len(rows) > limit else None,
        )


def _visible(actor: Identity, account_id: str) -> bool:
    return actor.accounts is None or account_id in actor.accounts
