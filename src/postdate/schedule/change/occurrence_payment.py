"""Accept the payments of occurrences (standing orders)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from postdate.account.store.account import key_of
from postdate.audit.spec import SYSTEM
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection
from postdate.intake.idempotency import Refused
from postdate.payment.accept.intake import PaymentIntake
from postdate.payment.accept.request import CheckedPayment, PaymentOccurrence
from postdate.payment.spec.payment import amount_limits, approval_seconds
from postdate.schedule.spec.firing import Fired, Firing
from postdate.schedule.spec.schedule import FundsPolicy, PaymentTemplate
from postdate.timer.timer import LANE_PAYMENT
from postdate.words.error import Refusal


class PaymentOccurrences:
    """Accepts payments that are due at their occurrence.

    Nothing is held: settlement takes the money when it is due, which is now, and the schedule's
    policy decides what happens without funds. So no account is locked here.
    """

    def __init__(self, payments: PaymentIntake, settings: Settings) -> None:
        self._payments = payments
        self._settings = settings

    async def accept(
        self, connection: Connection, firings: Sequence[Firing], now: datetime
    ) -> list[Fired | Refusal]:
        """Insert one payment for each occurrence whose accounts still allow it."""
        items = [self._checked(each, now) for each in firings]
        results = await self._payments.pipeline.accept_within(connection, items)
        return [
            each.refusal if isinstance(each, Refused) else Fired(each.subject, LANE_PAYMENT)
            for each in results
        ]

    def _checked(self, firing: Firing, now: datetime) -> CheckedPayment:
        template = _template(firing)
        due_at = max(firing.due_at, now)
        funds = firing.policies.insufficient_funds
        retry = timedelta(seconds=funds.retry_seconds)
        return CheckedPayment(
            order=template.order(),
            payer=key_of(firing.tenant_id, template.from_account_id),
            payee=key_of(firing.tenant_id, template.to_account_id),
            actor=SYSTEM,
            persons=firing.ran_by,
            limits=amount_limits(self._settings, firing.tenant_id),
            approval_seconds=approval_seconds(self._settings, firing.tenant_id, template.amount),
            traceparent=firing.traceparent,
            occurrence=PaymentOccurrence(
                firing.schedule_id,
                firing.version,
                due_at,
                due_at + retry if funds.policy is FundsPolicy.RETRY else None,
            ),
        )


def _template(firing: Firing) -> PaymentTemplate:
    if firing.template.payment is None:
        raise TypeError("not the template of a payment")
    return firing.template.payment
