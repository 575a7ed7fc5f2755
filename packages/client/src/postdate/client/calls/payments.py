"""Calls about payments. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.payments import (
    ApprovalList,
    BatchPaymentParams,
    CancelledPayment,
    ExecutedPayment,
    ExecutionList,
    PaymentEvent,
    PaymentEventList,
    PaymentList,
    PaymentOutcomes,
    RetryUntilParams,
    ScheduledPayment,
)
from postdate.client.models.shared import Approval, Payment, PaymentStatusName


class Payments(Group[K]):
    """What the API offers about payments."""

    @call("schedule_payment", "POST", "/payments/schedule")
    def schedule(
        self,
        *,
        from_account_id: str,
        to_account_id: str,
        amount: int,
        delay_seconds: int | timedelta | None = None,
        scheduled_time: datetime | None = None,
        description: str | None = None,
        funding: Literal["at_execution", "hold"] | UnsetType = UNSET,
        on_insufficient: Literal["fail"] | RetryUntilParams | UnsetType = UNSET,
        on_broken: Literal["hold", "release"] | None = None,
        idempotency_key: str | None = None,
    ) -> ScheduledPayment:
        """Schedule a payment.

        Holds the amount now and moves it when the payment is due. A refusal that depends on the
        accounts is stored under the key, just like a success.
        `from_account_id`: Who pays.
        `to_account_id`: Who is paid.
        `amount`: The amount, in the currency's minor unit (2500 is 25.00 EUR), within the limits
        of tenant and payer.
        `delay_seconds`: Delay after the payment is accepted, by the database's clock.
        `scheduled_time`: Due then.
        `description`: Free text.
        `funding`: Hold the amount now, or take it when the payment is due.
        `on_insufficient`: With `at_execution`: what to do if the payer does not have enough.
        `on_broken`: When settling breaks for good, for a reason that is not about money: keep the
        amount held and wait for a person, or release it and fail. Without it, the setting
        `payment.on_broken` decides at that moment.
        """

    @call("schedule_payments", "POST", "/payments/batch", batch="payments")
    def schedule_many(
        self, *, payments: Sequence[BatchPaymentParams], idempotency_key: str | None = None
    ) -> PaymentOutcomes:
        """Schedule up to 1,000 payments.

        Each item has its own `idempotency_key` and gets its own outcome, as if the payments had
        been scheduled one after the other.
        `payments`: At most 1000, each with its own key.
        """

    @call("get_payment", "GET", "/payments/{payment_id}")
    def get(self, payment_id: UUID | str) -> Payment:
        """Show a payment.

        `status` is final once it is COMPLETED, FAILED or CANCELLED.
        `payment_id`: The payment's id.
        """

    @call("list_payments", "GET", "/payments")
    def list_page(
        self,
        *,
        limit: int | UnsetType = UNSET,
        cursor: str | None = None,
        account_id: str | None = None,
        status: PaymentStatusName | None = None,
        from_time: datetime | None = None,
        to_time: datetime | None = None,
        broken: bool | None = None,
    ) -> PaymentList:
        """List payments, the newest first.

        Filter by account, status or time of acceptance; `broken` finds payments that wait for a
        person.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        `account_id`: Only payments from or to this account.
        `status`: Only payments with this status. A page may then have fewer than `limit` and
        still a `next_cursor`.
        `from_time`: Only payments that were accepted at this time or later.
        `to_time`: Only payments that were accepted before this time.
        `broken`: True: only payments whose settlement failed and that wait for a person.
        """

    @pages(list_page, "payments")
    def list(
        self,
        *,
        account_id: str | None = None,
        status: PaymentStatusName | None = None,
        from_time: datetime | None = None,
        to_time: datetime | None = None,
        broken: bool | None = None,
        page_size: int = 100,
    ) -> Iterator[Payment]:
        """List payments, the newest first, page by page until the end.

        Filter by account, status or time of acceptance; `broken` finds payments that wait for a
        person.
        `account_id`: Only payments from or to this account.
        `status`: Only payments with this status. A page may then have fewer than `limit` and
        still a `next_cursor`.
        `from_time`: Only payments that were accepted at this time or later.
        `to_time`: Only payments that were accepted before this time.
        `broken`: True: only payments whose settlement failed and that wait for a person.
        """

    @call("list_payment_executions", "GET", "/payments/{payment_id}/executions")
    def list_executions(self, payment_id: UUID | str) -> ExecutionList:
        """List the executions of a payment.

        One row per try to settle it, with its lateness and the reason of a failure.
        `payment_id`: The payment's id.
        """

    @call("list_payment_events", "GET", "/payments/{payment_id}/events")
    def list_events_page(
        self, payment_id: UUID | str, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> PaymentEventList:
        """List the events of a payment.

        In order, from its acceptance on, as sealed into the tenant's chain.
        `payment_id`: The payment's id.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_events_page, "events")
    def list_events(
        self, payment_id: UUID | str, *, page_size: int = 100
    ) -> Iterator[PaymentEvent]:
        """List the events of a payment, page by page until the end.

        In order, from its acceptance on, as sealed into the tenant's chain.
        `payment_id`: The payment's id.
        """

    @call("cancel_payment", "DELETE", "/payments/{payment_id}/cancel")
    def cancel(self, payment_id: UUID | str) -> CancelledPayment:
        """Cancel a pending payment.

        Wins if and only if it ends the payment's timer before a settlement does; otherwise the
        answer is 409 with the payment's status.
        `payment_id`: The payment's id.
        """

    @call("reschedule_payment", "PATCH", "/payments/{payment_id}")
    def reschedule(
        self,
        payment_id: UUID | str,
        *,
        delay_seconds: int | timedelta | None = None,
        scheduled_time: datetime | None = None,
    ) -> ScheduledPayment:
        """Reschedule a payment.

        The hold stays. A payment that waits for a person (a dead letter) is retried at the new
        time.
        `payment_id`: The payment's id.
        `delay_seconds`: Seconds from now, by the database's clock.
        `scheduled_time`: The new due instant.
        """

    @call("refund_payment", "POST", "/payments/{payment_id}/refund")
    def refund(
        self,
        payment_id: UUID | str,
        *,
        amount: int | None = None,
        description: str | None = None,
        idempotency_key: str | None = None,
    ) -> ScheduledPayment:
        """Refund a completed payment.

        Schedules a payment from its payee back to its payer, due in a second; the amount is held
        now. All refunds of a payment together never exceed what was paid.
        `payment_id`: The payment's id.
        `amount`: The whole amount of the payment if absent.
        `description`: Free text.
        """

    @call("execute_payment", "POST", "/internal/payments/{payment_id}/execute", internal=True)
    def execute(self, payment_id: UUID | str, *, execution_id: str) -> ExecutedPayment:
        """Settle a due payment now.

        A payment moves money once, no matter how often and with which `execution_id` this is
        called. `success` is false where this execution failed the payment, for example for lack
        of money; a payment that ended in another way before is refused.
        `payment_id`: The payment's id.
        `execution_id`: Printable characters without spaces.
        """

    @call("list_approvals", "GET", "/approvals")
    def list_approvals_page(
        self, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> ApprovalList:
        """List the payments that wait for approval.

        The oldest first; a payment that is not approved in time fails.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_approvals_page, "payments")
    def list_approvals(self, *, page_size: int = 100) -> Iterator[Payment]:
        """List the payments that wait for approval, page by page until the end.

        The oldest first; a payment that is not approved in time fails.
        """

    @call("approve_payment", "POST", "/payments/{payment_id}/approve")
    def approve(self, payment_id: UUID | str, *, note: str | None = None) -> Approval:
        """Approve a payment that another key has scheduled.

        It is settled when it is due, or immediately if it is overdue.
        `payment_id`: The payment's id.
        `note`: Why, in a few words.
        """

    @call("refuse_payment", "POST", "/payments/{payment_id}/refuse")
    def refuse(self, payment_id: UUID | str, *, note: str | None = None) -> Approval:
        """Refuse a payment that waits; its hold is released.

        The payment ends as CANCELLED. The requester cannot decide on it.
        `payment_id`: The payment's id.
        `note`: Why, in a few words.
        """
