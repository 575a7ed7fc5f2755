"""Settle locked payments inside the caller's transaction: load, lock, decide, write as sets."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import timedelta
from operator import attrgetter
from typing import Final, NamedTuple, assert_never
from uuid import UUID

import msgspec

from postdate.account.store import account as account_store
from postdate.account.store.account import AccountKey, key_of
from postdate.audit.spec import SYSTEM
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection
from postdate.database.connection.driver_id import new_ids
from postdate.event.store import event as event_store
from postdate.event.store.event import NewEvent
from postdate.ledger.batch_order import BatchOrder
from postdate.ledger.settle import (
    Decision,
    DuePayment,
    RetryLater,
    TransferCompleted,
    TransferFailed,
    Waits,
    changes,
    decide,
)
from postdate.payment.spec.payment import execution_name
from postdate.payment.store import settlement as store
from postdate.payment.store.settlement import (
    DUE_ORIGIN,
    FailedAttempt,
    LockedPayment,
    LockedTimer,
    SettlementBatch,
    SettlementOrder,
    TransferRow,
)

_IN_ORDER: Final = attrgetter("due_at", "subject")
MAX_RETRY_SECONDS: Final = 3600.0
"""The longest wait between two tries of one payment."""

Earlier = Callable[
    [SettlementOrder, Sequence[UUID], Collection[AccountKey]],
    Awaitable[dict[AccountKey, SettlementOrder]],
]


class Settling(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch needs to know besides its payments.

    `earlier` finds, for each of some accounts, the first open payment before a place in the order
    that touches it and is not among the given; without it the batch does not care for the order of
    others (an execution asked for by name).

    `eager` lets payments that hold their amount leave the queue, and changes their accounts,
    before it decides, for they complete unless something was frozen, closed or too full. Then, and
    only then, the batch ends in UnevenError or a violated check: roll back, and settle it with
    care.
    """

    unix_ms: int
    retry_seconds: float
    earlier: Earlier | None = None
    execution_id: str | None = None
    actor: str = SYSTEM
    # Filled with what is settled, in the order of the decisions, for whoever wants to know.
    dues: list[DuePayment] | None = None
    order: BatchOrder = msgspec.field(default_factory=BatchOrder)
    eager: bool = False
    settings: Settings = msgspec.field(default_factory=Settings)


class UnevenError(Exception):
    """A payment of an eager batch did not complete."""


def pause(retry_seconds: float, executions: int) -> timedelta:
    """Return the delay before the next attempt: exponential, capped."""
    seconds = retry_seconds * 2.0 ** min(executions, 30)
    return timedelta(seconds=min(seconds, MAX_RETRY_SECONDS))


async def settle(
    connection: Connection, payments: Sequence[LockedPayment], settling: Settling
) -> list[Decision]:
    """Settle payments whose timers are locked, in (due_at, payment_id) order; one decision each."""
    if not payments:
        return []
    payments = sorted(payments, key=_IN_ORDER)
    dues = [due_of(payment) for payment in payments]
    if settling.dues is not None:
        settling.dues.extend(dues)
    execution = SettlementBatch(payments[0].at, settling.execution_id, settling.actor)
    if settling.eager and all(due.hold for due in dues):
        return await _settle_held(connection, dues, settling, execution)
    return await _settle_with_locks(connection, payments, dues, settling, execution)


async def _settle_held(
    connection: Connection,
    dues: Sequence[DuePayment],
    settling: Settling,
    execution: SettlementBatch,
) -> list[Decision]:
    """Do everything that needs no account first, to keep account locks short."""
    made = ids(dues, await _record_dues(connection, dues, settling))
    await store.delete_timers(connection, leaving_payments(dues))
    added = changes(dues)
    await settling.order.wait_for_previous()
    accounts = await account_store.add(connection, added)
    decisions = decide(accounts, dues, execution.started_at, _never_short)
    done = [decision for decision in decisions if isinstance(decision, TransferCompleted)]
    if len(done) < len(dues):
        raise UnevenError
    await store.write_transfers(connection, transfers(dues, done, made), execution)
    return decisions


def _never_short(_: int) -> timedelta:
    raise AssertionError("what holds its amount is never short of it")


async def _settle_with_locks(
    connection: Connection,
    payments: Sequence[LockedPayment],
    dues: Sequence[DuePayment],
    settling: Settling,
    execution: SettlementBatch,
) -> list[Decision]:
    # A payment without a hold may spend what the batch before has paid.
    await settling.order.wait_for_previous()
    accounts = await account_store.lock(connection, [k for d in dues for k in (d.payer, d.payee)])
    # Read after the accounts are locked: a settler of earlier payments of these accounts has
    # either committed before, and we see the balance, or not, and we see the open timer.
    earlier = await _earlier(dues, settling)
    decisions = decide(
        accounts, dues, execution.started_at, lambda n: pause(settling.retry_seconds, n), earlier
    )
    items = _sort(zip(payments, dues, decisions, strict=True))
    await account_store.write(connection, [accounts[key] for key in sorted(items.changed)])
    begun = [due for due, each in zip(dues, decisions, strict=True) if not isinstance(each, Waits)]
    unix_ms = await _record_dues(connection, begun, settling)
    await _write(connection, items, unix_ms, execution)
    return decisions


class Beginning(NamedTuple):
    """An execution that begins."""

    tenant_id: int
    payment_id: UUID
    token: int


async def _record_dues(
    connection: Connection, dues: Sequence[DuePayment], settling: Settling
) -> int:
    tenants = {due.payer.tenant_id for due in dues}
    begun = [Beginning(due.payer.tenant_id, due.payment_id, due.token) for due in dues]
    return await record_executing(connection, tenants, begun, settling)


async def record_executing(
    connection: Connection, tenants: set[int], begun: Sequence[Beginning], settling: Settling
) -> int:
    """Record the beginning of executions for the tenants that ask for it.

    Return the time for the ids of what follows: an event's place is that of its id.
    """
    if verbose := set(filter(settling.settings.is_verbose, tenants)):
        await event_store.insert(connection, _executing(begun, verbose, settling))
    return event_store.after_events(settling.unix_ms, (each.payment_id for each in begun))


def _executing(begun: Sequence[Beginning], verbose: set[int], settling: Settling) -> list[NewEvent]:
    return [
        NewEvent(
            each.tenant_id,
            each.payment_id,
            "payment.executing",
            settling.actor,
            {
                "execution_id": settling.execution_id
                or execution_name(each.payment_id, each.token + 1)
            },
        )
        for each in begun
        if each.tenant_id in verbose
    ]


def due_of(payment: LockedPayment) -> DuePayment:
    """Return the accounts of a locked payment; raise for a timer without a payment."""
    if payment.from_account is None:
        raise LookupError(f"the timer {payment.subject} has no payment")
    return DuePayment(
        payment.due_at,
        payment.subject,
        # A payment is in its payer's bucket.
        AccountKey(payment.bucket, payment.tenant_id, payment.from_account),
        key_of(payment.tenant_id, payment.to_account),
        payment.amount,
        payment.hold,
        payment.retry_until,
        payment.token,
        payment.traceparent,
    )


async def _earlier(
    dues: Sequence[DuePayment], settling: Settling
) -> dict[AccountKey, SettlementOrder]:
    seeking = [due for due in dues if not due.hold]
    if not seeking or settling.earlier is None:
        return {}
    accounts = {key for due in seeking for key in (due.payer, due.payee)}
    return await settling.earlier(seeking[-1].order, [due.payment_id for due in dues], accounts)


class Items(NamedTuple):
    """A decided batch, by what has to be written."""

    done: list[tuple[DuePayment, TransferCompleted]]
    failed: list[FailedAttempt]
    later: list[FailedAttempt]
    changed: set[AccountKey]


def _sort(decided: Iterable[tuple[LockedTimer, DuePayment, Decision]]) -> Items:
    items = Items([], [], [], set())
    for timer, due, decision in decided:
        match decision:
            case TransferCompleted():
                items.done.append((due, decision))
                items.changed.add(due.payer)
                items.changed.add(due.payee)
            case TransferFailed(reason, error):
                items.failed.append(FailedAttempt(timer, reason, error))
                if due.hold:
                    items.changed.add(due.payer)
            case RetryLater(at, reason, error):
                items.later.append(FailedAttempt(timer, reason, error, at))
            case Waits():
                pass
            case _:
                assert_never(decision)
    return items


async def _write(
    connection: Connection, items: Items, unix_ms: int, execution: SettlementBatch
) -> None:
    dues, done = [due for due, _ in items.done], [completed for _, completed in items.done]
    made = ids(dues, unix_ms)
    failed, later = items.failed, items.later
    await store.delete_timers(connection, leaving_payments(dues))
    await store.write_transfers(connection, transfers(dues, done, made), execution)
    await store.write_failed(connection, failed, execution)
    await store.write_attempts(connection, later, execution)
    await store.retry(connection, later)
    await event_store.insert(connection, _events(failed, later, execution))
    await store.delete(connection, [ending.timer for ending in failed])


def ids(dues: Sequence[DuePayment], unix_ms: int) -> list[UUID]:
    """Generate the ids of the transfers; their events have the same ids.

    They carry the payee's bucket; the payer's is that of the payment.
    """
    return new_ids([due.payee.bucket for due in dues], unix_ms)


def leaving_payments(dues: Sequence[DuePayment]) -> list[UUID]:
    """Return the payments that leave the queue."""
    return [due.payment_id for due in dues]


def transfers(
    dues: Sequence[DuePayment], done: Sequence[TransferCompleted], made: Sequence[UUID]
) -> list[TransferRow]:
    """Return the rows of completed payments."""
    return [
        TransferRow(
            due.payer.tenant_id,
            due.payment_id,
            due.token,
            (due.due_at - DUE_ORIGIN).total_seconds(),
            one,
            due.amount,
            due.payer.account_id,
            completed.from_balance,
            completed.from_version,
            due.payee.account_id,
            completed.to_balance,
            completed.to_version,
        )
        for due, completed, one in zip(dues, done, made, strict=True)
    ]


def _events(
    failed: Sequence[FailedAttempt],
    later: Sequence[FailedAttempt],
    execution: SettlementBatch,
) -> list[NewEvent]:
    return [
        NewEvent(
            ending.timer.tenant_id,
            ending.timer.subject,
            kind,
            execution.actor,
            {"code": ending.code, "error": ending.error}
            | ({"retry_at": ending.retry_at} if ending.retry_at else {}),
        )
        for kind, endings in (("payment.failed", failed), ("payment.retried", later))
        for ending in endings
    ]
