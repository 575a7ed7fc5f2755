"""`postdate payment`: schedule, show, change, approve, refund and wait for payments."""

import secrets
from typing import Annotated, Any

import cyclopts
from cyclopts import Parameter

from postdate.cli.choice import Funding, PaymentStatus
from postdate.cli.noun import Noun
from postdate.cli.output import UsageError, show
from postdate.cli.remote import Key, Limit, Seconds, call, item_path, print_page, wait, without_none

payment_app = cyclopts.App(name="payment", help="Schedule, show, change and approve payments.")
payments = Noun(payment_app, "/payments", "payment_id")
payments.get("Show a payment.")
payments.act(
    "cancel", "Cancel a payment that is not yet settled; its hold is released.", method="DELETE"
)
payments.list_of_one("events", "List the events of a payment, in order.")
payments.list_of_one("executions", "List the executions of a payment, in order.", paged=False)
payments.act("receipt", "Get the signed receipt of a payment that has ended.", method="GET")
payments.act("approve", "Approve a payment that somebody else requested.", reason="note")
payments.act(
    "refuse", "Refuse a payment that waits for approval; its hold is released.", reason="note"
)


@payment_app.command(name="schedule")
def payment_schedule(  # noqa: PLR0913 - one option for each field
    from_account: Annotated[str, Parameter(help="Who pays.")],
    to_account: Annotated[str, Parameter(help="Who is paid.")],
    amount: Annotated[int, Parameter(help="How much, in the smallest unit.")],
    *,
    delay_seconds: Annotated[int | None, Parameter(help="When it is due, from now.")] = None,
    scheduled_time: Annotated[str | None, Parameter(help="When it is due; RFC 3339.")] = None,
    funding: Annotated[
        Funding | None, Parameter(help="Hold the amount now, or take it when due.")
    ] = None,
    retry_until: Annotated[str | None, Parameter(help="How long to retry without funds.")] = None,
    description: Annotated[str | None, Parameter(help="What it is for.")] = None,
    idempotency_key: Key = None,
) -> None:
    """Schedule a payment; the amount is held immediately."""
    body = without_none(
        from_account_id=from_account,
        to_account_id=to_account,
        amount=amount,
        **_when(scheduled_time, delay_seconds),
        funding=funding,
        on_insufficient={"retry_until": retry_until} if retry_until else None,
        description=description,
    )
    key = idempotency_key or secrets.token_urlsafe(16)
    show(call("POST", "/payments/schedule", body, idempotency_key=key))


@payment_app.command(name="refund")
def payment_refund(
    payment_id: str,
    *,
    amount: Annotated[int | None, Parameter(help="How much; all of it if absent.")] = None,
    description: Annotated[str | None, Parameter(help="What it is for.")] = None,
    idempotency_key: Key = None,
) -> None:
    """Refund a completed payment: a payment from its payee back to its payer."""
    body = without_none(amount=amount, description=description)
    key = idempotency_key or secrets.token_urlsafe(16)
    show(call("POST", item_path("/payments", payment_id, "refund"), body, idempotency_key=key))


def _when(scheduled_time: str | None, delay_seconds: int | None) -> dict[str, Any]:
    if (scheduled_time is None) == (delay_seconds is None):
        raise UsageError("give either --scheduled-time or --delay-seconds")
    return without_none(scheduled_time=scheduled_time, delay_seconds=delay_seconds)


@payment_app.command(name="list")
def payment_list(
    *,
    account_id: str | None = None,
    status: PaymentStatus | None = None,
    broken: bool = False,
    limit: Limit = 20,
) -> None:
    """List payments, newest first; `--broken` those that wait for a person."""
    query = {"account_id": account_id, "status": status, "limit": limit}
    print_page("/payments", "payments", broken=broken or None, **query)


@payment_app.command(name="reschedule")
def payment_reschedule(
    payment_id: str, *, scheduled_time: str | None = None, delay_seconds: int | None = None
) -> None:
    """Reschedule an open payment; one that waits for a person is retried then."""
    body = _when(scheduled_time, delay_seconds)
    show(call("PATCH", item_path("/payments", payment_id), body))


@payment_app.command(name="wait")
def payment_wait(
    payment_id: str,
    *,
    until: Annotated[PaymentStatus, Parameter(name="--for", help="The status.")] = "COMPLETED",
    timeout_seconds: Seconds = 60.0,
) -> None:
    """Wait until a payment has a status; exit code 1 if it ends otherwise or takes too long."""
    wait(item_path("/payments", payment_id), until, timeout_seconds)


@payment_app.command(name="approvals")
def payment_approvals(*, limit: Limit = 20) -> None:
    """List the payments that wait for approval, the oldest first."""
    print_page("/approvals", "payments", limit=limit)
