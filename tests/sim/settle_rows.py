"""What stands for the statements of `settlement.sql` and `account.sql` in a simulation."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

import msgspec

from postdate.account.store import account as account_store
from postdate.account.store.account import Account, AccountKey, BalanceChange, key_of
from postdate.core.ids import bucket_of
from postdate.database import clock_watch
from postdate.database.clock_watch import WatchedClock
from postdate.database.connection import clock
from postdate.event.store import event as event_store
from postdate.halt import store as halt
from postdate.ledger.batch import transfers
from postdate.ledger.held import dues_of
from postdate.ledger.settle import TransferCompleted, changes, decide
from postdate.payment.store import held_payment, settlement
from postdate.payment.store.held_payment import HeldPayments
from postdate.payment.store.settlement import Candidate, LockedPayment, SettlementOrder
from postdate.runtime import node as node_store
from postdate.timer import timer
from postdate.timer.timer import Head
from sim.table import Tables, TableTransaction, database_of

TENANT = 1
_taken: WeakKeyDictionary[TableTransaction, HeldPayments] = WeakKeyDictionary()
"""What stands for the cursor that keeps what a transaction has taken."""


@dataclass(frozen=True)
class Open:
    """A payment with its timer, while it is open."""

    due_at: datetime
    payer: AccountKey
    payee: AccountKey
    amount: int
    hold: bool
    retry_until: datetime | None
    token: int = 0
    aside: bool = False


@dataclass(frozen=True)
class Ended:
    """How a payment ended, and when by everybody's watch."""

    status: str
    at: datetime


def open_payments(tables: Tables) -> list[tuple[UUID, Open]]:
    found: list[tuple[Any, Open]] = [(key[1], row) for key, row in tables.of("payment")]
    return found


async def peek(
    transaction: TableTransaction, looks: Sequence[Any], depth: int, limit: int,
    aside: Collection[UUID] = (),
) -> tuple[datetime, list[Candidate]]:  # fmt: skip
    """Stand for settlement_peek."""
    await transaction.database.step("peek")
    now = transaction.database.now()
    by_bucket = {look.bucket: look for look in looks}
    found: dict[int, list[Candidate]] = defaultdict(list)
    for payment_id, row in open_payments(transaction.tables):
        look = by_bucket[bucket_of(payment_id)]
        if row.aside or payment_id in aside:
            continue
        if look.low <= row.due_at <= now - timedelta(seconds=look.grace):
            found[look.bucket].append(Candidate(row.due_at, payment_id, look.bucket))
    return now, sorted(each for due in found.values() for each in sorted(due)[:depth])[:limit]


async def lock(
    transaction: TableTransaction, keys: Iterable[tuple[int, UUID]]
) -> tuple[list[LockedPayment], list[LockedPayment]]:
    """Stand for settlement_lock: the share of the kill switch, then timers that nobody holds."""
    await transaction.database.step("lock")
    tables = transaction.tables
    tables.sharers.add(transaction)
    now, halted = transaction.database.now(), tables.rows.get(("halt", TENANT)) is not None
    free, held = list[LockedPayment](), list[LockedPayment]()
    for bucket, payment_id in keys:
        key = ("payment", payment_id)
        row = transaction.get(key)
        if row is None or row.aside or row.due_at > now or not transaction.free(key):
            continue
        await transaction.lock(key)
        found = LockedPayment(
            bucket, TENANT, payment_id, row.due_at, row.token, now, row.payer.account_id,
            row.payee.account_id, row.amount, row.hold, row.retry_until, None,
        )  # fmt: skip
        (held if halted else free).append(found)
    return free, held


async def set_aside(transaction: TableTransaction, timers: Sequence[LockedPayment]) -> None:
    """Stand for halt_set_aside."""
    for each in timers:
        key = ("payment", each.subject)
        await transaction.put(key, replace(transaction.get(key), aside=True))


async def earlier(
    transaction: TableTransaction, lows: Any, until: SettlementOrder, ours: Sequence[UUID],
    accounts: Collection[AccountKey],
) -> dict[AccountKey, SettlementOrder]:  # fmt: skip
    """Stand for settlement_earlier."""
    await transaction.database.step("earlier")
    low = dict(lows)
    found: dict[AccountKey, SettlementOrder] = {}
    for payment_id, row in open_payments(transaction.tables):
        order = row.due_at, payment_id
        if row.aside or payment_id in ours or order >= until:
            continue
        if row.due_at < low[bucket_of(payment_id)]:
            continue
        for key in {row.payer, row.payee} & set(accounts):
            found[key] = min(found.get(key, order), order)
    return found


async def nothing(transaction: Any, *_: Any) -> Any:
    """Stand for what only writes history down, or finds none."""
    await database_of(transaction).step("history")
    return {}


async def nobody(*_: Any) -> list[Any]:
    return []


async def leave(transaction: TableTransaction, rows: Sequence[Any]) -> None:
    """Stand for settlement_delete_timers."""
    await transaction.database.step("leave")
    for payment_id in rows:
        key = ("payment", payment_id)
        if transaction.get(key) is None:
            raise RuntimeError("a locked timer is gone")
        await transaction.put(key, None)


async def take(
    transaction: TableTransaction, keys: Iterable[tuple[int, UUID]]
) -> HeldPayments | None:
    """Stand for settlement_take: what is held leaves the queue, unless something is uneven."""
    await transaction.database.step("take")
    free, halted = await lock(transaction, keys)
    if halted or not all(each.hold for each in free):
        return None
    await leave(transaction, [each.subject for each in free])
    free.sort(key=lambda each: (each.due_at, each.subject))
    _taken[transaction] = HeldPayments(
        transaction.database.now(), [TENANT] * len(free), [each.subject for each in free],
        [each.token for each in free],
        [(each.due_at - settlement.DUE_ORIGIN).total_seconds() for each in free],
        [each.amount for each in free], [each.from_account for each in free],
        [each.to_account for each in free],
        [key_of(TENANT, each.to_account).bucket for each in free], [None] * len(free),
    )  # fmt: skip
    return _taken[transaction]


async def pay(transaction: TableTransaction, made: Sequence[UUID], _: str) -> bool:
    """Stand for settlement_pay: balances, then entries and outcomes."""
    await transaction.database.step("pay")
    held = _taken.pop(transaction)
    dues = dues_of(held)
    accounts = await account_add(transaction, changes(dues))
    decided = decide(accounts, dues, held.at, lambda _: timedelta(0))
    done = [each for each in decided if isinstance(each, TransferCompleted)]
    if len(done) < len(dues):
        return False
    await write_transfers(transaction, transfers(dues, done, made), None)
    return True


async def end_payment(transaction: TableTransaction, payment_id: UUID, status: str) -> None:
    if transaction.get(("ended", payment_id)) is not None:
        raise RuntimeError("it has ended already")
    await transaction.put(("ended", payment_id), Ended(status, transaction.tables.true_now()))


async def write_transfers(transaction: TableTransaction, rows: Sequence[Any], _: Any) -> None:
    """Stand for settlement_transfer: entries and outcomes."""
    await transaction.database.step("transfer")
    for each in rows:
        await end_payment(transaction, each.payment_id, "COMPLETED")
        for account, version, leg in (
            (each.from_account, each.from_version, -each.amount),
            (each.to_account, each.to_version, each.amount),
        ):
            key = ("entry", account, version)
            if transaction.get(key) is not None:
                raise RuntimeError("two entries with one version")
            await transaction.put(key, leg)


async def write_failed(transaction: TableTransaction, endings: Sequence[Any], _: Any) -> None:
    """Stand for settlement_failed."""
    await transaction.database.step("failed")
    for each in endings:
        await end_payment(transaction, each.timer.subject, "FAILED")


async def retry(transaction: TableTransaction, endings: Sequence[Any]) -> None:
    """Stand for settlement_retry."""
    for each in endings:
        key = ("payment", each.timer.subject)
        row = transaction.get(key)
        await transaction.put(key, replace(row, due_at=each.retry_at, token=row.token + 1))


async def delete(transaction: TableTransaction, timers: Sequence[Any]) -> None:
    """Stand for settlement_delete."""
    for each in timers:
        await transaction.put(("payment", each.subject), None)


async def account_lock(
    transaction: TableTransaction, keys: Iterable[AccountKey]
) -> dict[AccountKey, Account]:
    """Stand for account_lock: in the one order, and not for long."""
    await transaction.database.step("account")
    found = {}
    for key in sorted(set(keys)):
        await transaction.lock(("account", key), 0.5)
        found[key] = msgspec.structs.replace(transaction.get(("account", key)))
    return found


async def account_add(
    transaction: TableTransaction, changes: Mapping[AccountKey, BalanceChange]
) -> dict[AccountKey, Account]:
    """Stand for account_add: gives what was before."""
    before = await account_lock(transaction, changes)
    for key, more in changes.items():
        was = before[key]
        await transaction.put(
            ("account", key),
            msgspec.structs.replace(
                was, balance=was.balance + more.balance, held=was.held + more.held,
                version=was.version + more.version,
            ),
        )  # fmt: skip
    return before


async def account_write(transaction: TableTransaction, accounts: Sequence[Account]) -> None:
    """Stand for account_write."""
    for each in accounts:
        await transaction.put(("account", each.key), msgspec.structs.replace(each))


async def account_locked(
    transaction: TableTransaction, keys: Iterable[AccountKey]
) -> set[AccountKey]:
    """Stand for account_locked."""
    await transaction.database.step("locked")
    return {key for key in keys if not transaction.free(("account", key))}


async def now(reader: Any) -> datetime:
    """Stand for clock_now."""
    database = database_of(reader)
    await database.step("now")
    return database.now()


async def heads(reader: Any, places: Sequence[tuple[int, int, datetime]]) -> list[Head]:
    """Stand for timer_heads."""
    database = database_of(reader)
    await database.step("heads")
    lows = {bucket: (lane, low) for bucket, lane, low in places}
    found: dict[int, Head] = {}
    for payment_id, row in open_payments(database.tables):
        bucket = bucket_of(payment_id)
        lane, low = lows[bucket]
        if row.aside or row.due_at < low:
            continue
        seconds = (row.due_at - database.now()).total_seconds()
        if bucket not in found or row.due_at < found[bucket].due_at:
            found[bucket] = Head(bucket, lane, row.due_at, seconds)
    return list(found.values())


async def clock_read(reader: Any) -> WatchedClock:
    """Stand for clock_watch_read."""
    database = database_of(reader)
    await database.step("clock")
    found: WatchedClock = database.tables.rows["clock",]
    return found._replace(machine=database.tables.now())


async def clock_record(
    transaction: TableTransaction, at: datetime, since: datetime, confirmations: int,
    doubt: str | None,
) -> None:  # fmt: skip
    """Stand for clock_watch_record."""
    await transaction.database.step("clock")
    known: WatchedClock = transaction.get(("clock",))
    if known.confirmations == confirmations:
        new = known._replace(at=at, watched_since=since, doubt=doubt)
        await transaction.put(("clock",), new)


STATEMENTS: dict[Any, dict[str, Any]] = {
    settlement: {"peek": peek, "lock": lock, "first_due": nothing, "earlier": earlier,
                 "delete_timers": leave, "write_transfers": write_transfers,
                 "write_failed": write_failed, "write_attempts": nothing, "retry": retry,
                 "delete": delete},
    held_payment: {"take": take, "pay": pay},
    account_store: {"lock": account_lock, "add": account_add, "write": account_write,
                    "locked": account_locked},
    clock_watch: {"read": clock_read, "record": clock_record},
    halt: {"set_aside": set_aside}, event_store: {"insert": nothing}, timer: {"heads": heads},
    node_store: {"list_live": nobody}, clock: {"now": now},
}  # fmt: skip
