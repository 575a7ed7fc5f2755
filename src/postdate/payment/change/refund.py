"""Refund a completed payment, in whole or in part, by a payment from its payee to its payer."""

from uuid import UUID

import msgspec

from postdate.core.identity import Identity
from postdate.core.status import PaymentStatus
from postdate.database.connection.database import Connection, Database
from postdate.payment.accept.intake import PaymentAnswer, PaymentIntake
from postdate.payment.accept.request import PaymentRequest, RefundedPayment
from postdate.payment.spec.payment import MIN_DELAY_SECONDS, PaymentOrder
from postdate.payment.store import payment as store
from postdate.payment.store import payment_change as change_store
from postdate.payment.store.payment import PaymentAsAccepted
from postdate.words.error import Code, not_found, refuse


class RefundRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a payment to pay back; without an amount, all of it."""

    payment_id: UUID
    key: str
    amount: int | None = None
    description: str | None = None
    traceparent: str | None = None


class Refunds:
    """Accepts refunds as payments of the payee, with the limits and approvals that those have."""

    def __init__(self, database: Database, intake: PaymentIntake) -> None:
        self._database = database
        self._intake = intake

    async def refund(self, actor: Identity, wanted: RefundRequest) -> PaymentAnswer:
        """Schedule the payment back for as soon as a payment may be due."""
        paid = await self._completed(actor, wanted.payment_id)
        order = PaymentOrder(
            from_account_id=paid.to_account,
            to_account_id=paid.from_account,
            amount=paid.amount if wanted.amount is None else wanted.amount,
            delay_seconds=MIN_DELAY_SECONDS,
            description=wanted.description,
        )
        refunds = RefundedPayment(wanted.payment_id, paid.amount)
        request = PaymentRequest(order, wanted.key, wanted.traceparent, refunds)
        return await self._intake.submit(actor, request)

    async def _completed(self, actor: Identity, payment_id: UUID) -> PaymentAsAccepted:
        """Read a payment that is completed, and stays so; wait for a settlement under way."""
        async with self._database.write("payment.refund") as connection:
            status = await _status(connection, actor.tenant_id, payment_id)
            paid = await store.as_accepted(connection, actor.tenant_id, payment_id)
        if paid is None or not _sees(actor, paid):
            raise not_found("payment", payment_id)
        if paid.refund_of is None and status == PaymentStatus.COMPLETED:
            return paid
        what = status if paid.refund_of is None else "a refund itself"
        raise refuse(
            Code.PAYMENT_NOT_REFUNDABLE,
            f"The payment {payment_id} is {what}.",
            payment_status=status,
        )


async def _status(connection: Connection, tenant_id: int, payment_id: UUID) -> str:
    """Return the status; a payment without timer and outcome is found by reconciling."""
    found = await change_store.lock(connection, payment_id, tenant_id)
    if found is not None:
        return PaymentStatus.EXECUTING if found.parked else PaymentStatus.PENDING
    ended = await change_store.find_end(connection, payment_id)
    return PaymentStatus.PENDING if ended is None else ended.status


def _sees(actor: Identity, payment: PaymentAsAccepted) -> bool:
    accounts = (payment.from_account, payment.to_account)
    return actor.accounts is None or not actor.accounts.isdisjoint(accounts)
