"""Payments as their tenant sees them: their terms and their status."""

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec

from postdate.account.store import transfer as transfer_store
from postdate.account.store.account import key_of
from postdate.account.store.transfer import Transfer
from postdate.core import origin
from postdate.core.identity import Identity
from postdate.core.ids import floor_id, unix_ms_of
from postdate.core.money import (
    MAX_AMOUNT,
    MAX_DIGITS,
    MoneyTextError,
    read_units,
    units_of,
)
from postdate.core.shape import shaped
from postdate.core.status import PaymentStatus
from postdate.database.connection.database import Database
from postdate.database.connection.query import Reader
from postdate.event.store import event as event_store
from postdate.payment.spec.payment import execution_name
from postdate.payment.store import payment as payment_store
from postdate.payment.store.payment import (
    Amounts,
    ExecutionRow,
    PaymentRow,
    PaymentScan,
    PaymentSpan,
)
from postdate.payment.view.payment_shape import PaymentView, view
from postdate.runtime.coalescer import Coalescer
from postdate.words.error import Code, refuse

STATUS_SCAN: Final = 200
"""How many payments one page of a list by status looks through at most."""

SKEW_MS: Final = 60_000
"""By how much the ids of two nodes may disagree about the time."""

TEXT_SCAN: Final = 1000
"""Maximum number of rows that a list by text reads."""

MIN_ID_TAIL: Final = 6
"""A text of this length or more may be the end of an id."""

RECENT_MS: Final = 14 * 24 * 3600 * 1000
"""A list reads the partitions of the last two weeks first, and all only if it must."""

AMOUNT_DEPTH: Final = 125
"""How many payments of each bucket a list by amount looks through: 8,000 in all."""

MAX_TENANTS: Final = 1000
"""For how many tenants a shared reader is kept."""

_AS_NEW: Final = nullcontext(origin.Origin("", ""))
"""Where no replica ever answers, nothing has to be remembered about it."""

_BY_INDEX: Final = frozenset({PaymentStatus.FAILED, PaymentStatus.CANCELLED})


class ExecutionView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One execution of a payment; `attempt` counts from 1."""

    execution_id: str
    attempt: int
    status: str
    scheduled_time: datetime
    started_at: datetime | None = None
    finished_at: datetime
    retry_at: datetime | None = None
    error_code: str | None = None
    error_message: str | None = None


class PaymentEventView(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a payment."""

    id: UUID
    type: str
    time: datetime
    actor: str | None
    data: dict[str, Any] | None


class EntryLeg(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a payment, with the balance before and after it."""

    account_id: str
    amount: int
    before: int
    after: int
    version: int
    created_at: datetime


class PaymentFilter(msgspec.Struct, frozen=True):
    """Which payments a list shows; the instants are those of their acceptance."""

    account_id: str | None = None
    status: PaymentStatus | None = None
    min_amount: str | None = None
    """An amount as people write it, in units of whichever currency."""
    max_amount: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    broken: bool | None = None
    text: str | None = None
    """Part of the description, the code of the error, or the end of the id."""

    @property
    def amounts(self) -> Amounts | None:
        """Return the range of amounts to search for, if one is given."""
        if self.min_amount is None and self.max_amount is None:
            return None
        low, high = _units(self.min_amount, "least"), _units(self.max_amount, "most")
        scales = [10**digits for digits in range(MAX_DIGITS + 1)]
        return Amounts(
            [0 if low is None else _bounded(low[0] * scale) for scale in scales],
            [MAX_AMOUNT if high is None else _bounded(high[0] * scale) for scale in scales],
            AMOUNT_DEPTH,
        )

    def admits(self, found: PaymentView) -> bool:
        """Return whether a loaded payment matches the filter."""
        if self.broken is not None and self.broken != (found.broken is not None):
            return False
        if self.text is not None and not _says(found, self.text.lower()):
            return False
        return self.status in {None, found.status} and self._admits_amount(found)

    def _admits_amount(self, found: PaymentView) -> bool:
        units = units_of(found.amount, found.currency)
        low, high = _units(self.min_amount, "least"), _units(self.max_amount, "most")
        named = {each[1] for each in (low, high) if each and each[1]}
        return (
            (low is None or low[0] <= units)
            and (high is None or units <= high[0])
            and named <= {found.currency}
        )

    @property
    def indexed(self) -> bool:
        """Return whether an index selects by status, so that no loaded payment is dropped."""
        if self.broken is not None or self.amounts is not None:
            return False
        if self.status is None:
            return True
        return self.status in _BY_INDEX and self.account_id is None


class PaymentViews:
    """Read payments of one tenant; a limited key sees those of its accounts."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._readers: dict[int, Coalescer[UUID, tuple[PaymentRow | None, bool]]] = {}

    async def find(self, actor: Identity, payment_id: UUID) -> PaymentView | None:
        """Read one payment, coalesced with concurrent reads of the same tenant."""
        if self._database.replica_reads and origin.wanted():
            # Requests with different freshness needs are not combined.
            ((row, replica),) = await self._load(actor.tenant_id, [payment_id])
        else:
            reader = self._readers.get(actor.tenant_id) or self._new_reader(actor.tenant_id)
            row, replica = await reader.submit(payment_id)
        if replica:
            origin.read_from(replica=True)
        return _shown(actor, row)

    async def _load(
        self, tenant_id: int, ids: Sequence[UUID]
    ) -> list[tuple[PaymentRow | None, bool]]:
        """Read payments, each with whether a replica answered."""
        with origin.apart() if self._database.may_read_old else _AS_NEW as reading:
            rows = await self._database.read_statement(
                tenant_id, lambda connection: payment_store.load(connection, tenant_id, ids)
            )
        found = {row.payment_id: row for row in rows}
        return [(found.get(payment_id), reading.stale) for payment_id in ids]

    def _new_reader(self, tenant_id: int) -> Coalescer[UUID, tuple[PaymentRow | None, bool]]:
        """Make the coalescer of one tenant's reads: tenants are never read together."""
        if len(self._readers) >= MAX_TENANTS:
            # Reads under way are finished by the requests that wait for them.
            self._readers.clear()
        self._readers[tenant_id] = Coalescer(partial(self._load, tenant_id))
        return self._readers[tenant_id]

    async def page(
        self, actor: Identity, wanted: PaymentFilter, before: UUID, limit: int
    ) -> tuple[list[PaymentView], UUID | None]:
        """List payments, the newest first, and return where the next page begins.

        A page looks through a bounded number of payments: with a status, it may hold fewer than
        `limit` and still have a next one.
        """
        _allow(actor, wanted.account_id)
        deep = STATUS_SCAN if wanted.text is None else TEXT_SCAN
        plain = wanted.indexed and wanted.text is None
        scan = limit + 1 if plain else max(limit + 1, deep)
        reader = self._database.tenant_reader(actor.tenant_id)
        for span in self._spans(actor, wanted, before, scan):
            seen = await _candidates(reader, span, wanted)
            if seen.edge is not None:
                break
        views = map(view, seen.rows)
        found = [one for one in views if wanted.admits(one)]
        if len(found) > limit:
            return found[:limit], found[limit - 1].payment_id
        return found, seen.edge

    def _spans(
        self, actor: Identity, wanted: PaymentFilter, before: UUID, scan: int
    ) -> list[PaymentSpan]:
        """Return the ranges to search: the last weeks first, then all that the filter admits."""
        if wanted.until is not None:
            before = min(before, floor_id(_unix_ms(wanted.until)))
        first = floor_id(0 if wanted.since is None else _unix_ms(wanted.since))
        recent = floor_id(min(unix_ms_of(before), self._database.unix_ms()) - RECENT_MS)
        bounds = [first] if first >= recent else [recent, first]
        return [PaymentSpan(actor.tenant_id, before, scan, since) for since in bounds]

    async def legs(self, actor: Identity, payment: PaymentView) -> list[EntryLeg]:
        """Return the entries of a completed payment; a limited key sees those of its accounts."""
        if payment.transfer_id is None:
            return []
        reader = self._database.tenant_reader(actor.tenant_id)
        moved = await transfer_store.of_payment(
            reader, actor.tenant_id, payment.payment_id, payment.from_account_id
        )
        both = () if moved is None else (_debit(moved), _credit(moved))
        return [leg for leg in both if actor.accounts is None or leg.account_id in actor.accounts]

    async def waiting(
        self, actor: Identity, after: UUID, limit: int
    ) -> tuple[list[PaymentView], UUID | None]:
        """List the payments that wait for approval, the oldest first."""
        reader = self._database.tenant_reader(actor.tenant_id)
        rows = await payment_store.waiting(reader, actor.tenant_id, after, limit + 1)
        shown = (_shown(actor, row) for row in rows[:limit])
        views = [one for one in shown if one is not None]
        return views, rows[limit - 1].payment_id if len(rows) > limit else None

    async def executions(self, actor: Identity, payment_id: UUID) -> list[ExecutionView] | None:
        """List the executions of a payment, in order."""
        if await self.find(actor, payment_id) is None:
            return None
        reader = self._database.tenant_reader(actor.tenant_id)
        rows = await payment_store.executions(reader, actor.tenant_id, payment_id)
        return [_execution(payment_id, number, row) for number, row in enumerate(rows, 1)]

    async def events(
        self, actor: Identity, payment_id: UUID, after: UUID | None, limit: int
    ) -> list[PaymentEventView] | None:
        """List the events of a payment, in order."""
        start = after or floor_id(unix_ms_of(payment_id) - SKEW_MS)
        if await self.find(actor, payment_id) is None:
            return None
        reader = self._database.tenant_reader(actor.tenant_id)
        rows = await event_store.of_subject(reader, actor.tenant_id, payment_id, start, limit)
        return [shaped(PaymentEventView, row, id=row.event_id) for row in rows]


def _says(found: PaymentView, text: str) -> bool:
    if text in (found.description or "").lower() or text == found.error_code:
        return True
    return len(text) >= MIN_ID_TAIL and str(found.payment_id).endswith(text)


def _units(text: str | None, field: str) -> tuple[Decimal, str | None] | None:
    if text is None:
        return None
    try:
        return read_units(text)
    except MoneyTextError as error:
        raise refuse(Code.INVALID_FIELD, str(error), field) from None


def _bounded(amount: Decimal) -> int:
    return min(max(int(amount), 0), MAX_AMOUNT)


def _allow(actor: Identity, account_id: str | None) -> None:
    if actor.accounts is not None and account_id not in actor.accounts:
        detail = "The key is limited to certain accounts: give one of them as account_id."
        raise refuse(Code.FORBIDDEN, detail, "account_id")


def _shown(actor: Identity, row: PaymentRow | None) -> PaymentView | None:
    if row is None:
        return None
    if actor.accounts is not None and actor.accounts.isdisjoint((row.from_account, row.to_account)):
        return None
    return view(row)


def _debit(moved: Transfer) -> EntryLeg:
    return EntryLeg(
        account_id=moved.from_account,
        amount=-moved.amount,
        before=moved.from_balance + moved.amount,
        after=moved.from_balance,
        version=moved.from_version,
        created_at=moved.created_at,
    )


def _credit(moved: Transfer) -> EntryLeg:
    return EntryLeg(
        account_id=moved.to_account,
        amount=moved.amount,
        before=moved.to_balance - moved.amount,
        after=moved.to_balance,
        version=moved.to_version,
        created_at=moved.created_at,
    )


def _unix_ms(at: datetime) -> int:
    return max(0, round(at.timestamp() * 1000))


async def _candidates(reader: Reader, span: PaymentSpan, wanted: PaymentFilter) -> PaymentScan:
    amounts = wanted.amounts
    account = None if wanted.account_id is None else key_of(span.tenant_id, wanted.account_id)
    if amounts is not None:
        return await payment_store.of_amount(reader, span, amounts, account)
    if wanted.indexed and wanted.status is not None:
        return await payment_store.list_ended(reader, span, wanted.status)
    if account is not None:
        return await payment_store.of_account(reader, span, account)
    if wanted.broken or wanted.status is PaymentStatus.EXECUTING:
        return await payment_store.parked(reader, span)
    return await payment_store.newest(reader, span)


def _execution(payment_id: UUID, number: int, row: ExecutionRow) -> ExecutionView:
    return shaped(
        ExecutionView,
        row,
        execution_id=row.execution_id or execution_name(payment_id, number),
        attempt=number,
        scheduled_time=row.due_at,
        error_code=row.code,
        error_message=row.error,
    )
