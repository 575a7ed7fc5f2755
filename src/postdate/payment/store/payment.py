"""Payments: inserted once, read with their status."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.account.store.account import Account, AccountKey, Hold, gather_columns, key_of
from postdate.core.ids import MIN_ID, bucket_of, floor_id, unix_ms_of
from postdate.core.test_clock import own_lane
from postdate.database.connection.column import Columns, call
from postdate.database.connection.error import (
    CheckViolationError,
    KeyTakenError,
    StaleAccountError,
    UniqueViolationError,
)
from postdate.database.connection.page_query import with_rows
from postdate.database.connection.query import Connection, Reader, fetch_all, fetch_one, query
from postdate.intake import store as idempotency
from postdate.intake.store import IdempotencyKey, IdempotencyRow
from postdate.payment.spec.payment import OnBroken
from postdate.payment.store.approval import Approval
from postdate.timer.timer import LANE_PAYMENT, LONG_AGO


class NewPayment(msgspec.Struct, frozen=True):
    """A payment about to be inserted, in its payer's bucket."""

    bucket: int
    tenant_id: int
    payment_id: UUID
    from_account: str
    to_account: str
    amount: int
    due_at: datetime
    hold: bool
    retry_until: datetime | None = None
    description: str | None = None
    schedule_id: UUID | None = None
    traceparent: str | None = None
    on_broken: OnBroken | None = None
    actor: str | None = None
    idempotency_key: UUID | None = None
    """The hash of the key that it was asked for under: the row of that key is proved by it."""

    refund_of: UUID | None = None


class PaymentRow(msgspec.Struct, frozen=True):
    """A payment as stored; its timer, last attempt, outcome and approval where they exist."""

    parked: bool
    timer_due_at: datetime | None
    status: str | None
    outcome_due_at: datetime | None
    finished_at: datetime | None
    transfer_id: UUID | None
    code: str | None
    error: str | None
    attempt_due_at: datetime | None
    attempts: int | None
    attempted_at: datetime | None
    first_due_at: datetime | None
    bucket: int
    tenant_id: int
    payment_id: UUID
    from_account: str
    to_account: str
    amount: int
    due_at: datetime
    hold: bool
    retry_until: datetime | None
    created_at: datetime
    description: str | None
    schedule_id: UUID | None
    on_broken: OnBroken | None
    refund_of: UUID | None
    currency: str | None
    approval: Approval | None
    refunded: int | None = None


class PaymentParties(msgspec.Struct, frozen=True):
    """Who pays whom, and what for."""

    payment_id: UUID
    from_account: str
    to_account: str
    description: str | None


class ExecutionRow(msgspec.Struct, frozen=True):
    """One execution of a payment."""

    attempt: int
    status: str
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime
    retry_at: datetime | None
    execution_id: str | None
    code: str | None
    error: str | None


SHORT_ROWS: Final = 8
"""A first walk is this long and a quarter of the page: enough where buckets are alike."""

LONG_ROWS: Final = 200
"""The same where most of what ended so are jobs."""

DAY_MS: Final = 24 * 3600 * 1000
"""A refund is newer than its payment; clocks that made their ids disagree by less than this."""


class PaymentSpan(msgspec.Struct, frozen=True):
    """Which payments to list: a tenant's, below one id and not below another, up to a limit."""

    tenant_id: int
    before: UUID
    limit: int
    since: UUID = MIN_ID


class Amounts(msgspec.Struct, frozen=True):
    """Ranges of amounts, of which one must fit, and how many payments of a bucket to scan."""

    minimums: list[int]
    maximums: list[int]
    depth: int


class PaymentScan(msgspec.Struct, frozen=True):
    """Payments that were found, and the last one scanned if there may be more."""

    rows: list[PaymentRow]
    edge: UUID | None


def _row(payment: NewPayment) -> tuple[object, ...]:
    """Return the columns of a payment; the payee's bucket follows from the payee."""
    bucket, *more = msgspec.structs.astuple(payment)
    return bucket, key_of(payment.tenant_id, payment.to_account).bucket, *more


PAYMENT_COLUMNS: Final = Columns(
    "payment_columns",
    ("bucket", "to_bucket", *NewPayment.__struct_fields__[1:]),
    repeated={"tenant_id", "hold", "actor"},
    row=_row,
)
HOLD_COLUMNS: Final = Columns("hold_columns", Hold._fields, row=tuple)
_ACCEPT: Final = call("payment_accept", PAYMENT_COLUMNS, "lane", HOLD_COLUMNS, idempotency.COLUMNS)


class PaymentLook(NamedTuple):
    """What is needed to decide about new payments."""

    now: datetime
    known: dict[IdempotencyKey, IdempotencyRow]
    accounts: dict[AccountKey, Account]


async def look(
    connection: Connection,
    keys: Sequence[IdempotencyKey],
    lock_accounts: Iterable[AccountKey],
    accounts: Iterable[AccountKey],
) -> PaymentLook:
    """Read keys, accounts and the database's time; lock some of the accounts, in order."""
    rows = await connection.fetch(
        query("payment_look"),
        *gather_columns(lock_accounts, accounts),
        *idempotency.key_columns(keys),
    )
    seen: dict[AccountKey, Account] = {}
    known = []
    now = LONG_AGO
    for row in rows:
        if row["account_id"] is not None:
            account = Account(*row[1:12])
            seen[account.key] = account
        elif row["key"] is not None:
            known.append(row[12:])
        else:
            now = row["at"]
    return PaymentLook(now, idempotency.rows_of(known) if known else {}, seen)


async def accept(
    connection: Connection,
    payments: Sequence[NewPayment],
    holds: Sequence[Hold] = (),
    keys: Sequence[IdempotencyRow] = (),
) -> None:
    """Write payments with their timers, then holds, then keys; each payment is its first event.

    Raise StaleAccountError if a payer lacks the money or has changed since it was read.
    """
    try:
        await connection.execute(
            _ACCEPT,
            *PAYMENT_COLUMNS.arrays(payments),
            own_lane(LANE_PAYMENT),
            *HOLD_COLUMNS.arrays(holds),
            *idempotency.COLUMNS.arrays(keys),
        )
    except CheckViolationError as error:
        raise StaleAccountError(str(error)) from error
    except UniqueViolationError as error:
        # Another transaction was quicker with a key, or made the same id of it.
        raise KeyTakenError(str(error)) from error


class PaymentAsAccepted(msgspec.Struct, frozen=True):
    """A payment as it was requested."""

    from_account: str
    to_account: str
    amount: int
    due_at: datetime
    hold: bool
    retry_until: datetime | None
    description: str | None
    on_broken: OnBroken | None
    refund_of: UUID | None


async def as_accepted(
    connection: Connection, tenant_id: int, payment_id: UUID
) -> PaymentAsAccepted | None:
    """Return a payment as it was accepted, whatever was changed since."""
    key = bucket_of(payment_id), tenant_id, payment_id
    return await fetch_one(connection, PaymentAsAccepted, "payment_as_accepted", *key)


async def load(connection: Reader, tenant_id: int, ids: Sequence[UUID]) -> list[PaymentRow]:
    """Load payments, the newest first; ignore ids that are not payments of the tenant.

    The statement sets the tenant itself, so that it needs no transaction around it.
    """
    if not ids:
        return []
    buckets = [bucket_of(identifier) for identifier in ids]
    first = min(ids)
    since = floor_id(max(0, unix_ms_of(first) - DAY_MS))
    rows = await connection.fetch(
        query("payment_load"), tenant_id, buckets, ids, first, max(ids), since
    )
    found = [_payment(row[:-1], row[-1]) for row in rows]
    found.sort(key=lambda row: row.payment_id, reverse=True)
    return found


async def parties(
    connection: Reader, tenant_id: int, ids: Sequence[UUID]
) -> dict[UUID, PaymentParties]:
    """Return who pays whom, and what for, of payments by their ids."""
    buckets = [bucket_of(each) for each in ids]
    rows = await fetch_all(
        connection, PaymentParties, "payment_parties", tenant_id, buckets, ids, min(ids), max(ids)
    )
    return {row.payment_id: row for row in rows}


async def refunded(connection: Connection, payee: AccountKey, payment_id: UUID) -> int:
    """Sum the refunds of a payment, exact while its payee is locked."""
    total: int = await connection.fetchval(
        query("payment_refunded"), payee.bucket, payee.tenant_id, payment_id, MIN_ID
    )
    return total


def _payment(row: Iterable[Any], refunded: int | None = None) -> PaymentRow:
    *own, by, at, expires_at, decision, decided_by, decided_at, note = row
    # An approval always has a requester.
    own.append(by and Approval(by, at, expires_at, decision, decided_by, decided_at, note))
    own.append(refunded)
    return PaymentRow(*own)


async def newest(connection: Reader, span: PaymentSpan) -> PaymentScan:
    """List a tenant's payments, the newest first."""
    return await _whole(connection, "payment_newest", span)


async def of_account(connection: Reader, span: PaymentSpan, account: AccountKey) -> PaymentScan:
    """List the payments from and to an account, the newest first."""
    return await _whole(connection, "payment_of_account", span, account.bucket, account.account_id)


async def of_amount(
    connection: Reader, span: PaymentSpan, amounts: Amounts, account: AccountKey | None
) -> PaymentScan:
    """Find payments by amount among the newest of each bucket, the newest first."""
    name = "payment_of_amount"
    more: tuple[object, ...] = ()
    if account is not None:
        name, more = "payment_of_account_amount", (account.bucket, account.account_id)
    return await _partial(connection, name, span, *msgspec.structs.astuple(amounts), *more)


async def list_ended(connection: Reader, span: PaymentSpan, status: str) -> PaymentScan:
    """List what ended FAILED or CANCELLED, the newest first.

    A short scan of each bucket usually finds enough; only otherwise a long scan follows.
    """
    short = SHORT_ROWS + span.limit // 4
    seen = await _partial(connection, "payment_ended", span, status, short)
    if len(seen.rows) == span.limit or seen.edge is None:
        return seen
    return await _partial(connection, "payment_ended", span, status, max(LONG_ROWS, span.limit))


async def parked(connection: Reader, span: PaymentSpan) -> PaymentScan:
    """List the dead letters, the newest first."""
    return await _whole(connection, "payment_parked", span, own_lane(LANE_PAYMENT))


async def waiting(connection: Reader, tenant_id: int, after: UUID, limit: int) -> list[PaymentRow]:
    """List a tenant's payments that wait for approval, the oldest first."""
    text = with_rows(_all_of("approval_waiting"), "subject, is_edge", _READ, "payment_id")
    return _rows(await connection.fetch(text, tenant_id, after, limit))


async def executions(connection: Reader, tenant_id: int, payment_id: UUID) -> list[ExecutionRow]:
    """List the executions of a payment, in order."""
    return await fetch_all(
        connection, ExecutionRow, "payment_executions", tenant_id, bucket_of(payment_id), payment_id
    )


_LIST_COLUMNS: Final = 2
_READ: Final = "payment_read($1, buckets, ids, first_id, last_id)"


def _all_of(name: str) -> str:
    """Return a query that scans everything: no row marks where a scan stopped."""
    return f"SELECT found.*, false FROM ({query(name)}) AS found"  # noqa: S608 - a named query


async def _whole(connection: Reader, name: str, span: PaymentSpan, *more: object) -> PaymentScan:
    """Run a query that scans everything and ends when the page is full."""
    return await _seen(connection, _all_of(name), span, *more)


async def _partial(connection: Reader, name: str, span: PaymentSpan, *more: object) -> PaymentScan:
    """Run a query that scans a part of each bucket and reports where it stopped."""
    return await _seen(connection, query(name), span, *more)


async def _seen(connection: Reader, text: str, span: PaymentSpan, *more: object) -> PaymentScan:
    text = with_rows(text, "subject, is_edge", _READ, "payment_id")
    rows = await connection.fetch(text, *msgspec.structs.astuple(span), *more)
    ids = [row[0] for row in rows if not row[1]]
    edge = next((row[0] for row in rows if row[1]), None)
    return PaymentScan(_rows(rows), ids[-1] if len(ids) == span.limit else edge)


def _rows(rows: Iterable[Any]) -> list[PaymentRow]:
    """Return the payments that a list found; an edge has none."""
    return [_payment(row[_LIST_COLUMNS:]) for row in rows if row[_LIST_COLUMNS] is not None]
