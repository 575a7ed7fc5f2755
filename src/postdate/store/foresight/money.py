"""Money ahead: what is open, and the accounts that it touches."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from postdate.model.foresight.money import (
    ORDER_BITS,
    ExpectedPayment,
    ExpectedTerms,
    ProjectedAccount,
)
from postdate.model.tenant.test_clock import own_lane
from postdate.store.account.account import key_of
from postdate.store.connection.query import Connection, fetch_all, query
from postdate.store.foresight.due import exceeds
from postdate.store.timer.timer import LANE_PAYMENT

BUCKET_ACCOUNTS: Final = 10_000
"""How many accounts of each bucket are added up: 640,000 in all."""


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


async def open_payments(
    connection: Connection, tenant_id: int, until: datetime, limit: int, bucket_limit: int
) -> OpenPayments:
    """Return the payments of a tenant that become due before an instant, in no order.

    If more than `limit` of all tenants do, the first of each bucket, those of others counted.
    """
    lane_id = own_lane(LANE_PAYMENT)
    too_many = await exceeds(connection, [lane_id], until, limit)
    # What is added between the two is found as well.
    most = bucket_limit if too_many else 2 * limit
    rows = await connection.fetch(query("money_open"), tenant_id, lane_id, until, most)
    payments = [
        (
            due << ORDER_BITS | payment_id.int,
            ExpectedTerms(payer, payee, amount, hold, waits, payment_id, schedule_id),
        )
        for _, due, payment_id, payer, payee, amount, hold, waits, schedule_id in rows[1:]
    ]
    return OpenPayments(payments, not too_many, rows[0]["known"])


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
