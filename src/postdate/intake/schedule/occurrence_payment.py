"""The payments of occurrences: standing orders."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from postdate.ledger.hold import admit
from postdate.model.error import Refusal
from postdate.model.ids import new_id
from postdate.model.payment.payment import amount_limits, approval_seconds
from postdate.model.schedule.firing import Fired, Firing
from postdate.model.schedule.schedule import FundsPolicy, PaymentTemplate
from postdate.model.setting.setting import Settings
from postdate.store.account import account as account_store
from postdate.store.account.account import key_of
from postdate.store.connection.database import Connection, Database
from postdate.store.payment import approval as approval_store
from postdate.store.payment import payment as payment_store
from postdate.store.payment.approval import ApprovalRequest
from postdate.store.payment.payment import NewPayment
from postdate.store.timer.timer import LANE_PAYMENT


class PaymentFirings:
    """Insert payments that are due at their occurrence.

    Nothing is held: the money is looked for at the due second, which is now, and the schedule's
    policy says what happens when it is not there. So no account is locked here.
    """

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    async def fire(
        self, connection: Connection, firings: Sequence[Firing], now: datetime
    ) -> list[Fired | Refusal]:
        """Insert one payment for each of these, where its accounts still allow it."""
        templates = [_template(each) for each in firings]
        keys = [
            key_of(each.tenant_id, account_id)
            for each, template in zip(firings, templates, strict=True)
            for account_id in (template.from_account_id, template.to_account_id)
        ]
        _, accounts = await account_store.gather(connection, (), keys)
        made: list[NewPayment] = []
        asked: list[ApprovalRequest] = []
        results: list[Fired | Refusal] = []
        for each, template, payer, payee in zip(
            firings, templates, keys[::2], keys[1::2], strict=True
        ):
            limits = amount_limits(self._settings, each.tenant_id)
            refusal = admit(template.order(), accounts.get(payer), accounts.get(payee), limits)
            if refusal is not None:
                results.append(refusal)
                continue
            made.append(self._payment(each, template, payer.bucket, now))
            asked += self._requests(each, made[-1])
            results.append(Fired(made[-1].payment_id, LANE_PAYMENT))
        await payment_store.accept(connection, made)
        await approval_store.request(connection, asked)
        return results

    def _requests(self, firing: Firing, made: NewPayment) -> Iterator[ApprovalRequest]:
        seconds = approval_seconds(self._settings, made.tenant_id, made.amount)
        if seconds is not None:
            yield ApprovalRequest(
                made.bucket,
                made.tenant_id,
                made.payment_id,
                "system",
                firing.ran_by,
                firing.schedule_id,
                firing.version,
                seconds,
            )

    def _payment(
        self, firing: Firing, template: PaymentTemplate, bucket: int, now: datetime
    ) -> NewPayment:
        due_at = max(firing.due_at, now)
        funds = firing.policies.insufficient_funds
        retry = timedelta(seconds=funds.retry_seconds)
        return NewPayment(
            bucket=bucket,
            tenant_id=firing.tenant_id,
            payment_id=new_id(bucket, self._database.unix_ms()),
            from_account=template.from_account_id,
            to_account=template.to_account_id,
            amount=template.amount,
            due_at=due_at,
            hold=False,
            retry_until=due_at + retry if funds.policy is FundsPolicy.RETRY else None,
            description=template.description,
            schedule_id=firing.schedule_id,
            traceparent=firing.traceparent,
            actor="system",
        )


def _template(firing: Firing) -> PaymentTemplate:
    if firing.template.payment is None:
        raise TypeError("not the template of a payment")
    return firing.template.payment
