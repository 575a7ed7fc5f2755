"""Settle locked payments inside the caller's transaction: load, lock, decide, write as sets."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, assert_never
from uuid import UUID

import msgspec

from postdate.ledger.settle import (
    Accounts,
    Completed,
    Decision,
    Due,
    Failed,
    RetryLater,
    Waits,
    decide,
)
from postdate.model.ids import new_id
from postdate.store import account as account_store
from postdate.store import event as event_store
from postdate.store import settlement as store
from postdate.store.account import AccountKey, key_of
from postdate.store.database import Connection
from postdate.store.event import NewEvent
from postdate.store.settlement import Ending, Execution, LockedTimer, TransferRow

SYSTEM: Final = "system"
RETRY_MOST_SECONDS: Final = 3600.0
"""The longest wait between two tries of one payment."""

Earlier = Callable[[datetime, Sequence[UUID]], Awaitable[tuple[datetime, UUID] | None]]


class Settling(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch needs to know besides its payments.

    `earlier` finds the first open payment up to an instant that is not among the given; without
    it the batch does not care for the order of others (an execution asked for by name).
    """

    unix_ms: int
    retry_seconds: float
    earlier: Earlier | None = None
    execution_id: str | None = None
    actor: str = SYSTEM
    # Filled with what is settled, in the order of the decisions, for whoever wants to know.
    dues: list[Due] | None = None


def pause(retry_seconds: float, executions: int) -> timedelta:
    """Give the wait after so many executions: it doubles each time."""
    seconds = retry_seconds * 2.0 ** min(executions, 30)
    return timedelta(seconds=min(seconds, RETRY_MOST_SECONDS))


async def settle(
    connection: Connection, timers: Sequence[LockedTimer], settling: Settling
) -> list[Decision]:
    """Settle payments whose timers are locked, in (due_at, payment_id) order; one decision each."""
    if not timers:
        return []
    timers = sorted(timers, key=lambda t: (t.due_at, t.subject))
    dues = await _dues(connection, timers)
    if settling.dues is not None:
        settling.dues.extend(dues)
    accounts = await account_store.lock(connection, [k for d in dues for k in (d.payer, d.payee)])
    # Read after the accounts are locked: whoever settled earlier payments of these accounts has
    # either committed before, and we see the balance, or not, and we see the open timer.
    earlier = await _earlier(dues, settling)
    at = timers[0].at
    decisions = decide(accounts, dues, at, lambda n: pause(settling.retry_seconds, n), earlier)
    execution = Execution(at, settling.execution_id, settling.actor)
    await _write(
        connection,
        list(zip(timers, dues, decisions, strict=True)),
        accounts,
        settling.unix_ms,
        execution,
    )
    return decisions


async def _dues(connection: Connection, timers: Sequence[LockedTimer]) -> list[Due]:
    terms = await store.terms(connection, timers)
    dues = []
    for timer in timers:
        asked = terms[timer.subject]
        dues.append(
            Due(
                timer.due_at,
                timer.subject,
                # A payment lives in its payer's bucket.
                AccountKey(timer.bucket, timer.tenant_id, asked.from_account),
                key_of(timer.tenant_id, asked.to_account),
                asked.amount,
                asked.hold,
                asked.retry_until,
                timer.token,
                asked.traceparent,
            )
        )
    return dues


async def _earlier(dues: Sequence[Due], settling: Settling) -> tuple[datetime, UUID] | None:
    last = max((due.due_at for due in dues if not due.hold), default=None)
    if last is None or settling.earlier is None:
        return None
    return await settling.earlier(last, [due.payment_id for due in dues])


Item = tuple[LockedTimer, Due, Decision]


async def _write(
    connection: Connection,
    items: Sequence[Item],
    accounts: Accounts,
    unix_ms: int,
    execution: Execution,
) -> None:
    transfers: list[tuple[LockedTimer, TransferRow, UUID]] = []
    failed: list[Ending] = []
    later: list[Ending] = []
    changed: set[AccountKey] = set()
    for timer, due, decision in items:
        match decision:
            case Completed():
                transfers.append((timer, _row(due, decision, unix_ms), _id(due, unix_ms)))
                changed |= {due.payer, due.payee}
            case Failed(reason, error):
                failed.append(Ending(timer, reason, error))
                if due.hold:
                    changed.add(due.payer)
            case RetryLater(at, reason, error):
                later.append(Ending(timer, reason, error, at))
            case Waits():
                pass
            case _:
                assert_never(decision)
    await account_store.write(connection, [accounts[key] for key in sorted(changed)])
    await store.write_transfers(connection, transfers, execution)
    await store.write_failed(connection, failed, execution)
    await store.write_attempts(connection, later, execution)
    await store.retry(connection, later)
    await event_store.insert(connection, _events(failed, later, unix_ms, execution))
    await store.delete(connection, [t[0] for t in transfers] + [e.timer for e in failed])


def _id(due: Due, unix_ms: int) -> UUID:
    return new_id(due.payer.bucket, unix_ms)


def _row(due: Due, done: Completed, unix_ms: int) -> TransferRow:
    return TransferRow(
        due.payer.tenant_id,
        _id(due, unix_ms),
        due.payment_id,
        due.amount,
        due.payer.bucket,
        due.payer.account_id,
        done.from_balance,
        done.from_version,
        due.payee.bucket,
        due.payee.account_id,
        done.to_balance,
        done.to_version,
    )


def _events(
    failed: Sequence[Ending], later: Sequence[Ending], unix_ms: int, execution: Execution
) -> list[NewEvent]:
    return [
        NewEvent(
            ending.timer.bucket,
            ending.timer.tenant_id,
            ending.timer.subject,
            new_id(ending.timer.bucket, unix_ms),
            kind,
            execution.actor,
            {"code": ending.code, "error": ending.error}
            | ({"retry_at": ending.retry_at} if ending.retry_at else {}),
        )
        for kind, endings in (("payment.failed", failed), ("payment.retried", later))
        for ending in endings
    ]
