"""The money forecast: open payments and their accounts."""

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from sys import intern
from typing import Final, NamedTuple

import asyncpg
import msgspec

from postdate.account.store.account import key_of
from postdate.core.ids import BUCKETS
from postdate.core.test_clock import own_lane
from postdate.database.connection.off_loop import in_thread
from postdate.database.connection.query import Connection, fetch_all, query
from postdate.foresight.spec.balance import first_at, instant
from postdate.foresight.spec.money import (
    ExpectedPayment,
    ExpectedTerms,
    ProjectedAccount,
    expected_payment,
    merged,
    ordered,
    sorted_in_parts,
)
from postdate.foresight.store.due import exceeds
from postdate.timer.timer import LANE_PAYMENT

BUCKET_ACCOUNTS: Final = 10_000
"""How many accounts of each bucket are added up: 640,000 in all."""


READ_PAYMENTS: Final = 10_000
"""How many payments are read by one statement: the event loop decodes them."""

INSTANT_BYTES: Final = 8
TIMER_BYTES: Final = INSTANT_BYTES + 16
BUCKET_BYTE: Final = INSTANT_BYTES + 7
"""Where a timer has the byte of its payment's id that tells the bucket."""

TIMER_PART_BITS: Final = 32 + 128
"""Timers are sorted in parts of 2^32 microseconds, which is 72 minutes."""

MILLENNIUM: Final = instant(datetime(2000, 1, 1, tzinfo=UTC))
"""From when on the database counts microseconds."""


class OpenPayments(msgspec.Struct, frozen=True):
    """Payments that become due, in order, and up to when all of them are there."""

    payments: list[ExpectedPayment]
    names: frozenset[str]
    """The accounts that they name."""
    whole: bool
    """Whether all payments were read; if there are too many, only the first of each bucket are."""
    known_until: datetime


class AccountSum(msgspec.Struct, frozen=True):
    """All accounts of one currency that have a floor, added up."""

    currency: str | None
    accounts: int
    balance: int
    held: int


class TimerChanges(NamedTuple):
    """How the timers of a tenant differ from the known ones."""

    runs: dict[int, bytes]
    """The timers of each bucket that has changed, as they are now."""
    new: list[bytes]
    gone: set[bytes]


class KnownPayments:
    """The open payments of a tenant that were read before: what a payment pays never changes.

    A question says nothing about what is due after its window: that stays as it is known.
    """

    def __init__(self) -> None:
        self.payments: dict[bytes, ExpectedPayment] = {}
        """By the timer: an instant and an id, so that one that was moved is read again."""
        self._ordered: list[ExpectedPayment] = []
        """The payments in the order of settlement; the list is never changed, but replaced."""
        self._runs: dict[int, bytes] = {}
        """The timers of each bucket, by instant, as the database packs them."""
        self._named: tuple[list[ExpectedPayment], int, frozenset[str]] = ([], 0, frozenset())
        """The accounts named by the first payments of a list, as read for the last question."""
        self._reading = asyncio.Lock()

    async def follow(
        self, connection: Connection, tenant_id: int, found: Iterable[bytes], until: int
    ) -> tuple[list[ExpectedPayment], frozenset[str]]:
        """Return the payments due before an instant, whose timers were found, and their accounts.

        Each of `found` has the timers of a bucket. Payments that are not known are read.
        """
        # A question that comes meanwhile waits for this one to read, and need not read the same.
        async with self._reading:
            stale = self._stale({each[BUCKET_BYTE] % BUCKETS: each for each in found}, until)
            if stale:
                changes = await in_thread(self._compared, stale, until)
                rows = await _terms(connection, tenant_id, changes.new)
                # The caller may stop waiting while the thread continues: it changes nothing here.
                applied = await in_thread(self._applied, changes, rows)
                self.payments, self._ordered, self._runs = applied
            known = self._ordered
            count = bisect_left(known, first_at(until + MILLENNIUM), key=itemgetter(0))
            if self._named[0] is not known or self._named[1] != count:
                self._named = known, count, await in_thread(_names, known[:count])
            return known[:count], self._named[2]

    def _stale(self, runs: Mapping[int, bytes], until: int) -> dict[int, bytes]:
        """Return those runs of timers that are not as they are known, up to an instant."""
        every = {**dict.fromkeys(self._runs, b""), **runs}
        return {
            bucket: run
            for bucket, run in every.items()
            if not _begins_with(self._runs.get(bucket, b""), run, until)
        }

    def _compared(self, runs: Mapping[int, bytes], until: int) -> TimerChanges:
        """Return what is new and what is gone in some buckets."""
        changes = TimerChanges({}, [], set())
        for bucket, run in runs.items():
            now, before = _timers(run), _timers(self._runs.get(bucket, b""))
            later = [each for each in before if _due(each) >= until]
            changes.new.extend(each for each in now if each not in self.payments)
            changes.gone.update({*before} - {*now} - {*later})
            known = sorted(now + later, key=_due)
            changes.runs[bucket] = b"".join(known)
        return changes

    def _applied(
        self, changes: TimerChanges, rows: Mapping[bytes, asyncpg.Record]
    ) -> tuple[dict[bytes, ExpectedPayment], list[ExpectedPayment], dict[int, bytes]]:
        """Return the known payments with the ones just read, without the ended ones."""
        # They are made in the order of settlement, and so lie in memory as they will be walked.
        new = sorted_in_parts(changes.new, _number, TIMER_PART_BITS)
        read = {each: _paid(each, row) for each in new if (row := rows.get(each[INSTANT_BYTES:]))}
        payments = self.payments | read
        gone = {each[0] for timer in changes.gone if (each := payments.pop(timer, None))}
        kept = [each for each in self._ordered if each[0] not in gone] if gone else self._ordered
        runs = {
            # A timer whose payment is missing is a finding of the proofs; it is read again.
            bucket: b"".join(each for each in _timers(run) if each in payments)
            for bucket, run in changes.runs.items()
        }
        return payments, merged(kept, ordered(read.values())), self._runs | runs


def _begins_with(known: bytes, run: bytes, until: int) -> bool:
    """Return whether these are the timers that are known before an instant."""
    after = known[len(run) : len(run) + INSTANT_BYTES]
    return known.startswith(run) and (not after or _due(after) >= until)


def _due(timer: bytes) -> int:
    return int.from_bytes(timer[:INSTANT_BYTES], signed=True)


def _number(timer: bytes) -> int:
    return int.from_bytes(timer)


def _timers(run: bytes) -> list[bytes]:
    """Return the timers one by one: an instant and an id each."""
    return [run[at : at + TIMER_BYTES] for at in range(0, len(run), TIMER_BYTES)]


def _names(payments: Iterable[ExpectedPayment]) -> frozenset[str]:
    return frozenset(
        name for _, each in payments for name in (each.from_account_id, each.to_account_id)
    )


async def _terms(
    connection: Connection, tenant_id: int, timers: Sequence[bytes]
) -> dict[bytes, asyncpg.Record]:
    """Read what the payments of these timers pay, by the bytes of their ids."""
    found: dict[bytes, asyncpg.Record] = {}
    for first in range(0, len(timers), READ_PAYMENTS):
        some = timers[first : first + READ_PAYMENTS]
        rows = await connection.fetch(
            query("money_terms"),
            tenant_id,
            [each[BUCKET_BYTE] % BUCKETS for each in some],
            [each[INSTANT_BYTES:].hex() for each in some],
        )
        found.update((row[0].bytes, row) for row in rows)
    return found


def _paid(timer: bytes, row: asyncpg.Record) -> ExpectedPayment:
    """Return the payment of a timer."""
    payment_id, payer, payee, amount, hold, retry_until, schedule_id = row
    at = _due(timer) + MILLENNIUM
    terms = ExpectedTerms(
        from_account_id=intern(payer),
        to_account_id=intern(payee),
        amount=amount,
        hold=hold,
        waits=None if retry_until is None else instant(retry_until) - at,
        payment_id=payment_id,
        schedule_id=schedule_id,
    )
    return expected_payment(at, terms)


async def open_payments(
    connection: Connection,
    tenant_id: int,
    until: datetime,
    limits: tuple[int, int],
    known: KnownPayments | None = None,
) -> OpenPayments:
    """Return the payments of a tenant that become due before an instant, in order.

    If more than the first limit of all tenants do, only the first of each bucket: the second limit.
    """
    lane_id, (limit, bucket_limit) = own_lane(LANE_PAYMENT), limits
    too_many = await exceeds(connection, [lane_id], until, limit)
    # What is added between the two is found as well.
    most = bucket_limit if too_many else 2 * limit
    rows = await connection.fetch(query("money_timers"), tenant_id, lane_id, until, most)
    known_until = min((cut_at for cut_at, _ in rows if cut_at is not None), default=until)
    end = instant(known_until) - MILLENNIUM
    runs = [run for _, run in rows if run]
    if known_until < until:
        runs = [b"".join(each for each in _timers(run) if _due(each) < end) for run in runs]
    payments, names = await (known or KnownPayments()).follow(
        connection, tenant_id, filter(None, runs), end
    )
    return OpenPayments(payments, names, not too_many, known_until)


async def accounts(
    connection: Connection, tenant_id: int, account_ids: Iterable[str]
) -> dict[str, ProjectedAccount]:
    """Return the accounts with these ids that exist."""
    keys = [key_of(tenant_id, account_id) for account_id in account_ids]
    rows = await connection.fetch(
        query("money_accounts"),
        tenant_id,
        [key.bucket for key in keys],
        [key.account_id for key in keys],
    )
    return {intern(row[0]): ProjectedAccount(*row) for row in rows}


async def sums(connection: Connection, tenant_id: int) -> list[AccountSum]:
    """Add up the accounts of a tenant by currency; those without a floor are left out."""
    return await fetch_all(connection, AccountSum, "money_sums", tenant_id, BUCKET_ACCOUNTS)
