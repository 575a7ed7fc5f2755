"""Settle held payments in the database: nothing is decided here, but what is uneven falls out."""

import time
from datetime import timedelta

from postdate.account.store.account import AccountKey
from postdate.core.ids import bucket_of
from postdate.database.connection.database import Connection
from postdate.database.connection.driver_id import new_ids
from postdate.ledger.batch import Beginning, Settling, UnevenError, record_executing
from postdate.ledger.settle import DuePayment
from postdate.payment.store import held_payment as store
from postdate.payment.store.held_payment import HeldPayments
from postdate.payment.store.settlement import DUE_ORIGIN


async def settle(connection: Connection, held: HeldPayments, settling: Settling) -> float:
    """Pay what was taken off the queue, after the batch before; raise UnevenError if one fails.

    Return when it began to lock accounts, by the monotonic clock.
    """
    if not held:
        return time.monotonic()
    begun = [*map(Beginning, held.tenants, held.ids, held.tokens)]
    unix_ms = await record_executing(connection, set(held.tenants), begun, settling)
    made = new_ids(held.payee_buckets, unix_ms)
    await settling.order.wait_for_previous()
    began = time.monotonic()
    if not await store.pay(connection, made, settling.actor):
        raise UnevenError
    return began


def dues_of(held: HeldPayments) -> list[DuePayment]:
    """Return the payments one by one, for lines and traces."""
    columns = (
        *(held.tenants, held.ids, held.tokens, held.due_seconds, held.amounts),
        *(held.payers, held.payees, held.payee_buckets, held.traces),
    )
    return [
        DuePayment(
            DUE_ORIGIN + timedelta(seconds=due),
            payment_id,
            AccountKey(bucket_of(payment_id), tenant_id, payer),
            AccountKey(bucket, tenant_id, payee),
            amount,
            hold=True,
            retry_until=None,
            token=token,
            traceparent=trace,
        )
        for tenant_id, payment_id, token, due, amount, payer, payee, bucket, trace in zip(
            *columns, strict=True
        )
    ]
