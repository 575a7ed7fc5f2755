"""The statement of an account for a period: where it stood, every entry, where it stands then."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.account.store import account as account_store
from postdate.account.store import entry as entry_store
from postdate.account.store.account import AccountKey, key_of
from postdate.account.store.entry import FIRST_INSTANT, LAST_INSTANT, EntryRow, EntryType
from postdate.account.view.account import EntryView
from postdate.core.field import Amount, NamedCurrency
from postdate.core.identity import Identity
from postdate.core.money import ISSUER
from postdate.core.shape import shaped
from postdate.database.connection import clock
from postdate.database.connection.database import Database
from postdate.database.connection.query import Reader
from postdate.payment.store import payment as payment_store
from postdate.payment.store.payment import PaymentParties
from postdate.words.error import Code, refuse

PAGE_ENTRIES: Final = 500
"""How many entries one query reads, and are in memory at a time."""

MAX_ENTRIES: Final = 1_000_000
"""The most entries of a period; a shorter period has fewer."""


class StatementEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One movement of a statement, with the balance after it."""

    version: Annotated[
        int, Meta(description="Counts the entries of the account, without gaps.", examples=[3])
    ]
    created_at: datetime
    type: EntryType
    amount: Annotated[Amount, Meta(description="Positive is a credit, negative a debit.")]
    balance: Annotated[Amount, Meta(description="The balance after it.")]
    transfer_id: UUID
    counterparty: Annotated[
        str | None,
        Meta(description="The other account; absent where it is not known.", examples=["acc_bob"]),
    ] = None
    description: Annotated[
        str | None,
        Meta(
            description="That of the payment, or the reason of the adjustment.",
            examples=["invoice 17"],
        ),
    ] = None
    payment_id: UUID | None = None


class EntryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries of a period a statement lists; amounts have no sign."""

    counterparty: str | None = None
    min_amount: int | None = None
    max_amount: int | None = None
    text: str | None = None

    def admits(self, entry: StatementEntry) -> bool:
        """Return whether an entry matches."""
        amount = abs(entry.amount)
        words = f"{entry.description or ''}\n{entry.counterparty or ''}".lower()
        return (
            self.counterparty in {None, entry.counterparty}
            and (self.min_amount is None or self.min_amount <= amount)
            and (self.max_amount is None or amount <= self.max_amount)
            and (self.text is None or self.text.lower() in words)
        )


class StatementPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """A period of an account: its bounds, and the balance at each of them."""

    account_id: str
    currency: NamedCurrency
    from_time: datetime
    to_time: datetime
    opening_balance: Amount
    closing_balance: Amount
    opening_version: int
    closing_version: int
    made_at: datetime

    @property
    def count(self) -> int:
        """Return how many entries the period has: versions have no gaps."""
        return self.closing_version - self.opening_version


class StatementTotals(msgspec.Struct):
    """What was listed so far: added up while the entries pass."""

    count: int = 0
    debits: int = 0
    credits: int = 0

    def add(self, amount: int) -> None:
        """Add an entry."""
        self.count += 1
        if amount < 0:
            self.debits -= amount
        else:
            self.credits += amount


class StatementViews:
    """Reads statements of one tenant's accounts; a limited key sees only its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def period(
        self, actor: Identity, account_id: str, since: datetime | None, until: datetime | None
    ) -> StatementPeriod | None:
        """Find where an account stood at both ends of a period: from `since` on, before `until`.

        Without bounds it is the whole history. The entries up to the end never change.
        """
        if actor.accounts is not None and account_id not in actor.accounts:
            return None
        key = key_of(actor.tenant_id, account_id)
        async with self._database.read(actor.tenant_id) as connection:
            account = await account_store.find(connection, key)
            if account is None:
                return None
            now = await clock.now(connection)
            begin, end = since or account.created_at, until or now
            closing = await entry_store.before(connection, key, until or LAST_INSTANT)
            opening = await entry_store.before(connection, key, since or FIRST_INSTANT)
        if closing is None or opening is None:
            return None
        found = StatementPeriod(
            account_id=account_id,
            currency=account.currency,
            from_time=begin,
            to_time=max(begin, end),
            opening_balance=opening.balance,
            closing_balance=closing.balance,
            opening_version=opening.version,
            closing_version=closing.version,
            made_at=now,
        )
        if found.count > MAX_ENTRIES:
            detail = f"The period has {found.count:,} entries, and a statement {MAX_ENTRIES:,}."
            raise refuse(Code.INVALID_FIELD, detail, "from_time", max_entries=MAX_ENTRIES)
        return found

    async def entries(
        self, actor: Identity, period: StatementPeriod, wanted: EntryFilter, after: int = 0
    ) -> AsyncIterator[list[StatementEntry]]:
        """Read the entries of a period page by page, the oldest first, as the filter admits."""
        key = key_of(actor.tenant_id, period.account_id)
        reader = self._database.tenant_reader(actor.tenant_id)
        version = max(after, period.opening_version)
        while version < period.closing_version:
            until = min(version + PAGE_ENTRIES, period.closing_version)
            rows = await entry_store.between(reader, key, version, until)
            found = await _described(reader, key, rows)
            yield [each for each in found if wanted.admits(each)]
            version = until

    async def described(
        self, actor: Identity, account_id: str, found: Sequence[EntryRow | EntryView]
    ) -> list[StatementEntry]:
        """Add to entries of an account who the other side is, and what they are about."""
        reader = self._database.tenant_reader(actor.tenant_id)
        return await _described(reader, key_of(actor.tenant_id, account_id), found)

    async def accounts_total(self, actor: Identity) -> list[account_store.CurrencyTotal]:
        """Add up the accounts that the key may see, by currency; the issuer is not among them."""
        reader = self._database.tenant_reader(actor.tenant_id)
        names = None if actor.accounts is None else sorted(actor.accounts)
        return await account_store.totals(reader, actor.tenant_id, names)


async def _described(
    reader: Reader, key: AccountKey, rows: Sequence[EntryRow | EntryView]
) -> list[StatementEntry]:
    """Add to each entry who the other side is, and what it is about."""
    ids = [row.payment_id for row in rows if row.payment_id is not None]
    parties = await payment_store.parties(reader, key.tenant_id, ids) if ids else {}
    return [_entry(key.account_id, row, parties) for row in rows]


def _entry(
    own: str, row: EntryRow | EntryView, parties: dict[UUID, PaymentParties]
) -> StatementEntry:
    if row.payment_id is None:
        other = None if own == ISSUER else ISSUER
        return shaped(StatementEntry, row, counterparty=other, description=row.reason)
    paid = parties.get(row.payment_id)
    if paid is None:
        return shaped(StatementEntry, row, counterparty=None, description=None)
    other = paid.to_account if row.amount < 0 else paid.from_account
    return shaped(StatementEntry, row, counterparty=other, description=paid.description)
