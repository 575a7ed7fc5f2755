"""Payments: schedule one or many, and read them."""

from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.field import Instant
from postdate.core.identity import Scope
from postdate.core.ids import MAX_ID
from postdate.core.status import PaymentStatus
from postdate.http.endpoint import Body, Call, Reply, existing
from postdate.http.page import PageQuery, encode_cursor, next_cursor
from postdate.http.routes import Routes
from postdate.intake.answer_once import reply
from postdate.intake.batch import batch_reply, decoded, item_schema, merge_results
from postdate.payment.accept.intake import MAX_BATCH
from postdate.payment.accept.request import PaymentRequest, Scheduled
from postdate.payment.spec.payment import AccountId, KeyedOrder, PaymentOrder
from postdate.payment.view.payment import ExecutionView, PaymentEventView, PaymentFilter
from postdate.payment.view.payment_shape import PaymentView
from postdate.schedule.spec.rule import check_instant
from postdate.words.error import Code, Refusal, refuse
from postdate.words.problem import Problem

ROUTES: Final = Routes("payments")

BATCH_BYTES: Final = 1024 * 1024

_REFUSALS: Final = (
    Code.SELF_PAYMENT,
    Code.UNKNOWN_ACCOUNT,
    Code.ACCOUNT_FROZEN,
    Code.ACCOUNT_CLOSED,
    Code.ACCOUNT_RESERVED,
    Code.CURRENCY_MISMATCH,
    Code.AMOUNT_ABOVE_LIMIT,
    Code.INSUFFICIENT_FUNDS,
    Code.TIME_OUT_OF_RANGE,
    Code.QUOTA_EXCEEDED,
    Code.COMMITS_NOT_DURABLE,
)
_keyed_order: Final = msgspec.json.Decoder(KeyedOrder)


class PaymentBatchBody(Body, kw_only=True):
    """Payments to schedule, as if one came after the other."""

    payments: Annotated[
        list[Annotated[msgspec.Raw, Meta(extra_json_schema=item_schema(KeyedOrder))]],
        Meta(min_length=1, description=f"At most {MAX_BATCH}, each with its own key."),
    ]


class PaymentOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one item: a payment, or a problem."""

    status: Annotated[int, Meta(description="What a single request would have answered.")]
    payment: Scheduled | None = None
    problem: Problem | None = None
    replayed: Annotated[bool, Meta(description="Whether this is a stored answer to the key.")] = (
        False
    )


class PaymentOutcomes(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome for each item, in the order of the request."""

    accepted: Annotated[int, Meta(description="How many were accepted.")]
    refused: Annotated[int, Meta(description="How many were refused.")]
    outcomes: list[PaymentOutcome]


class PaymentQuery(PageQuery, kw_only=True):
    """Which payments to list."""

    account_id: Annotated[
        AccountId | None, Meta(description="Only payments from or to this account.")
    ] = None
    status: Annotated[
        PaymentStatus | None,
        Meta(
            description="Only payments with this status. A page may then have fewer than "
            "`limit` and still a `next_cursor`."
        ),
    ] = None
    from_time: Annotated[
        Instant | None,
        Meta(
            description="Only payments that were accepted at this time or later.",
            examples=["2031-01-01T00:00:00Z"],
        ),
    ] = None
    to_time: Annotated[
        Instant | None,
        Meta(
            description="Only payments that were accepted before this time.",
            examples=["2031-02-01T00:00:00Z"],
        ),
    ] = None
    broken: Annotated[
        bool | None,
        Meta(description="True: only payments whose settlement failed and that wait for a person."),
    ] = None


class PaymentList(msgspec.Struct, frozen=True):
    """A page of payments, the newest first."""

    payments: list[PaymentView]
    next_cursor: str | None


class ExecutionList(msgspec.Struct, frozen=True):
    """Every execution of a payment, in order."""

    executions: list[ExecutionView]


class PaymentEventList(msgspec.Struct, frozen=True):
    """What happened to a payment, in order."""

    events: list[PaymentEventView]
    next_cursor: str | None


@ROUTES.add(
    "POST",
    "/payments/schedule",
    Scope.PAYMENTS_WRITE,
    returns=Scheduled,
    halted="new work",
    status=201,
    errors=_REFUSALS,
    idempotency="required",
    limited="filtered",
)
async def schedule_payment(call: Call[Services, PaymentOrder, None]) -> Reply:
    """Schedule a payment.

    Holds the amount now and moves it when the payment is due. A refusal that depends on the
    accounts is stored under the key, just like a success.
    """
    request = PaymentRequest(call.body, call.idempotency_key or "", call.traceparent)
    return reply(await call.services.payment.intake.submit(call.actor, request), call.request_id)


@ROUTES.add(
    "POST",
    "/payments/batch",
    Scope.PAYMENTS_WRITE,
    returns=PaymentOutcomes,
    halted="new work",
    errors=(Code.BATCH_TOO_LARGE,),
    max_body=BATCH_BYTES,
    limited="filtered",
)
async def schedule_payments(call: Call[Services, PaymentBatchBody, None]) -> Reply:
    """Schedule up to 1,000 payments.

    Each item has its own `idempotency_key` and gets its own outcome, as if the payments had been
    scheduled one after the other.
    """
    items = call.body.payments
    if len(items) > MAX_BATCH:
        raise refuse(Code.BATCH_TOO_LARGE, f"The limit is {MAX_BATCH} payments.", "payments")
    orders = decoded(_keyed_order, items)
    requests = [
        PaymentRequest(order, order.idempotency_key, call.traceparent)
        for order in orders
        if not isinstance(order, Refusal)
    ]
    answers = await call.services.payment.intake.accept(call.actor, requests)
    return batch_reply("payment", merge_results(orders, answers), call.request_id)


@ROUTES.add("GET", "/payments/{payment_id:uuid}", Scope.PAYMENTS_READ, limited="filtered")
async def get_payment(call: Call[Services, None, None]) -> PaymentView:
    """Show a payment.

    `status` is final once it is COMPLETED, FAILED or CANCELLED.
    """
    payment_id = call.uuid("payment_id")
    return existing(
        await call.services.payment.read.find(call.actor, payment_id), "payment", payment_id
    )


@ROUTES.add("GET", "/payments", Scope.PAYMENTS_READ, limited="filtered")
async def list_payments(call: Call[Services, None, PaymentQuery]) -> PaymentList:
    """List payments, the newest first.

    Filter by account, status or time of acceptance; `broken` finds payments that wait for a person.
    """
    query = call.query
    for name in ("from_time", "to_time"):
        check_instant(name, getattr(query, name))
    before = query.start(UUID, MAX_ID)
    wanted = PaymentFilter(
        query.account_id,
        query.status,
        since=query.from_time,
        until=query.to_time,
        broken=query.broken,
    )
    found, following = await call.services.payment.read.page(
        call.actor, wanted, before, query.limit
    )
    return PaymentList(found, next_cursor(following))


@ROUTES.add(
    "GET", "/payments/{payment_id:uuid}/executions", Scope.PAYMENTS_READ, limited="filtered"
)
async def list_payment_executions(call: Call[Services, None, None]) -> ExecutionList:
    """List the executions of a payment.

    One row per try to settle it, with its lateness and the reason of a failure.
    """
    payment_id = call.uuid("payment_id")
    found = existing(
        await call.services.payment.read.executions(call.actor, payment_id), "payment", payment_id
    )
    return ExecutionList(found)


@ROUTES.add("GET", "/payments/{payment_id:uuid}/events", Scope.PAYMENTS_READ, limited="filtered")
async def list_payment_events(call: Call[Services, None, PageQuery]) -> PaymentEventList:
    """List the events of a payment.

    In order, from its acceptance on, as sealed into the tenant's chain.
    """
    payment_id = call.uuid("payment_id")
    after = call.query.start(UUID, None)
    limit = call.query.limit
    found = existing(
        await call.services.payment.read.events(call.actor, payment_id, after, limit + 1),
        "payment",
        payment_id,
    )
    following = encode_cursor(found[limit - 1].id) if len(found) > limit else None
    return PaymentEventList(found[:limit], following)
