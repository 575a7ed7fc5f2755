"""The money forecast: open payments and their accounts."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Final
from uuid import UUID

import asyncpg
import msgspec

from postdate.model.foresight.money import (
    ExpectedPayment,
    ExpectedTerms,
    ProjectedAccount,
    expected_payment,
    first_at,
    instant,
)
from postdate.model.ids import bucket_of
from postdate.model.tenant.test_clock import own_lane
from postdate.store.account.account import key_of
from postdate.store.connection.query import Connection, fetch_all, query
from postdate.store.foresight.due import exceeds
from postdate.store.timer.timer import LANE_PAYMENT

BUCKET_ACCOUNTS: Final = 10_000
"""How many accounts of each bucket are added up: 640,000 in all."""


READ_PAYMENTS: Final = 10_000
"""How many payments are read by one statement: the event loop decodes them."""

SPARE_PAYMENTS: Final = 10_000
"""So many that are no longer open are kept before they are forgotten."""

TIMER_BYTES: Final = 24
MILLENNIUM: Final = instant(datetime(2000, 1, 1, tzinfo=UTC))
"""From when on the database counts microseconds."""


class OpenPayments(msgspec.Struct, frozen=True):
    """Payments that become due, and up to when all of them are there."""

    payments: list[ExpectedPayment]
    whole: bool
    """Whether there are so few that all of them were looked for."""
    known_until: datetime


class AccountSum(msgspec.Struct, frozen=True):
    """All accounts of one currency that have a floor, added up."""

    currency: str | None
    accounts: int
    balance: int
    held: int


class KnownPayments:
    """The payments of a tenant that were read before: what a payment pays never changes."""

    def __init__(self) -> None:
        self.payments: dict[bytes, ExpectedPayment] = {}
        """By the timer: an instant and an id, so that one that was moved is read again."""
        self.names: dict[str, str] = {}
        """Each account that is named: one string for all payments that name it."""
        self._kept = 0
        """How many were left when some were last forgotten."""

    async def read(
        self, connection: Connection, tenant_id: int, timers: list[bytes]
    ) -> dict[bytes, ExpectedPayment]:
        """Read what the payments of these timers pay."""
        found: dict[bytes, ExpectedPayment] = {}
        for first in range(0, len(timers), READ_PAYMENTS):
            due = {UUID(bytes=each[8:]): each for each in timers[first : first + READ_PAYMENTS]}
            rows = await connection.fetch(
                query("money_terms"), tenant_id, [bucket_of(each) for each in due], list(due)
            )
            found |= self._paid(due, rows)
        self.payments |= found
        return found

    def _paid(
        self, due: Mapping[UUID, bytes], rows: Iterable[asyncpg.Record]
    ) -> dict[bytes, ExpectedPayment]:
        named, found = self.names.setdefault, {}
        for payment_id, payer, payee, amount, hold, retry_until, schedule_id in rows:
            timer = due[payment_id]
            at = int.from_bytes(timer[:8], signed=True) + MILLENNIUM
            found[timer] = expected_payment(
                at,
                ExpectedTerms(
                    from_account_id=named(payer, payer),
                    to_account_id=named(payee, payee),
                    amount=amount,
                    hold=hold,
                    waits=None if retry_until is None else instant(retry_until) - at,
                    payment_id=payment_id,
                    schedule_id=schedule_id,
                ),
            )
        return found

    def forget_ended(self, timers: Collection[bytes], until: datetime) -> None:
        """Forget what is not among the timers open until an instant, once that may be much."""
        # What is due later stays: a short window is no reason to go over all of it each time.
        if len(self.payments) <= 2 * (max(len(timers), self._kept) + SPARE_PAYMENTS):
            return
        is_open, end = frozenset(timers), first_at(instant(until))
        self.payments = {
            timer: each
            for timer, each in self.payments.items()
            if each[0] >= end or timer in is_open
        }
        named = ((each.from_account_id, each.to_account_id) for _, each in self.payments.values())
        self.names = {name: name for name in chain.from_iterable(named)}
        self._kept = len(self.payments)


async def open_payments(
    connection: Connection,
    tenant_id: int,
    until: datetime,
    limits: tuple[int, int],
    known: KnownPayments | None = None,
) -> OpenPayments:
    """Return the payments of a tenant that become due before an instant, in no order.

    If more than the first limit of all tenants do, so many of each bucket, those of others counted.
    """
    lane_id, (limit, bucket_limit) = own_lane(LANE_PAYMENT), limits
    too_many = await exceeds(connection, [lane_id], until, limit)
    # What is added between the two is found as well.
    most = bucket_limit if too_many else 2 * limit
    rows = await connection.fetch(query("money_timers"), tenant_id, lane_id, until, most)
    known_until = min((cut_at for cut_at, _ in rows if cut_at is not None), default=until)
    timers = _timers(rows, None if known_until == until else known_until)
    known = known or KnownPayments()
    found = [*map(known.payments.get, timers)]
    new = [timer for timer, each in zip(timers, found, strict=True) if each is None]
    if new:
        # Another question may forget meanwhile what it does not find: the rest is at hand here.
        read = await known.read(connection, tenant_id, new)
        found = [each or read.get(timer) for timer, each in zip(timers, found, strict=True)]
    known.forget_ended(timers, known_until)
    # A timer whose payment is missing is a finding of the proofs.
    return OpenPayments([each for each in found if each is not None], not too_many, known_until)


def _timers(rows: Iterable[asyncpg.Record], last_at: datetime | None) -> list[bytes]:
    """Return the timers one by one: an instant and an id each, up to the last instant."""
    found = [
        packed[at : at + TIMER_BYTES]
        for _, packed in rows
        if packed
        for at in range(0, len(packed), TIMER_BYTES)
    ]
    if last_at is None:
        return found
    last = instant(last_at) - MILLENNIUM
    return [each for each in found if int.from_bytes(each[:8], signed=True) <= last]


async def accounts(
    connection: Connection, tenant_id: int, account_ids: Iterable[str]
) -> dict[str, ProjectedAccount]:
    """Return the accounts of these ids, those that exist."""
    keys = [key_of(tenant_id, account_id) for account_id in account_ids]
    rows = await connection.fetch(
        query("money_accounts"),
        tenant_id,
        [key.bucket for key in keys],
        [key.account_id for key in keys],
    )
    return {row[0]: ProjectedAccount(*row) for row in rows}


async def sums(connection: Connection, tenant_id: int) -> list[AccountSum]:
    """Add up the accounts of a tenant by currency; those without a floor are left out."""
    return await fetch_all(connection, AccountSum, "money_sums", tenant_id, BUCKET_ACCOUNTS)
