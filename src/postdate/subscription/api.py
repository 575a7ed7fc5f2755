"""Subscriptions: deliver events, and watch, pause and replay the delivery."""

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.core.ids import MIN_ID
from postdate.core.shape import shaped
from postdate.event.spec.event import MAX_PATTERNS
from postdate.http.endpoint import Body, Call, Reply, existing
from postdate.http.page import PageQuery, encode_cursor, next_cursor
from postdate.http.position import NOW, read_position
from postdate.http.routes import Routes
from postdate.intake.answer_once import run_once_per_key
from postdate.job.spec.job import Queue, Webhook
from postdate.subscription.change import SubscriptionSpec
from postdate.subscription.view import SubscriptionStatus, status_of
from postdate.words.error import Code

ROUTES: Final = Routes("events")
_ONE: Final = "/subscriptions/{subscription_id:uuid}"

From = Annotated[
    str,
    Meta(max_length=64, description="`now`, `beginning`, or a cursor of `GET /events`."),
]


class SubscriptionBody(Body, kw_only=True, rename={"start": "from"}):
    """A new subscription."""

    destination: Annotated[
        Webhook | Queue,
        Meta(description="Where events go; `{type}` in a queue's subject is the event's type."),
    ]
    types: Annotated[
        list[str],
        Meta(
            max_length=MAX_PATTERNS,
            description="Types such as `payment.completed` or `payment.*`; none means all.",
        ),
    ] = msgspec.field(default_factory=list)
    accounts: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=64)]] | None,
        Meta(description="Only events about these accounts."),
    ] = None
    start: From = NOW


class SubscriptionPauseBody(Body, kw_only=True):
    """Whether to deliver."""

    paused: bool
    note: Annotated[str, Meta(max_length=500, description="Why it is paused.")] = "paused"


class ReplayBody(Body, kw_only=True, rename={"start": "from"}):
    """The position to continue from."""

    start: From


class SubscriptionView(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription. `lag` counts unread events, including those the filter will drop."""

    subscription_id: UUID
    status: SubscriptionStatus
    destination: dict[str, Any]
    types: list[str]
    accounts: list[str] | None
    cursor: str
    lag_events: int
    lag_seconds: float | None
    failures: int
    error: str | None
    retry_at: datetime | None
    delivered_at: datetime | None
    paused_at: datetime | None
    paused_note: str | None
    created_at: datetime


class SubscriptionList(msgspec.Struct, frozen=True):
    """A page of subscriptions."""

    subscriptions: list[SubscriptionView]
    next_cursor: str | None


def _view(row: Any) -> SubscriptionView:
    cursor = encode_cursor(row.position)
    return shaped(SubscriptionView, row, status=status_of(row), cursor=cursor)


async def _show(call: Call[Services, Any, Any], subscription_id: UUID) -> SubscriptionView:
    views = call.services.subscription.read
    row = await views.find(call.actor, subscription_id)
    return _view(existing(row, "subscription", subscription_id))


@ROUTES.add(
    "POST",
    "/subscriptions",
    Scope.ADMIN,
    returns=SubscriptionView,
    idempotency="optional",
    status=201,
    errors=(Code.INVALID_CURSOR, Code.TARGET_NOT_ALLOWED, Code.UNKNOWN_DESTINATION),
    limited="filtered",
)
async def create_subscription(
    call: Call[Services, SubscriptionBody, None],
) -> Reply | msgspec.Struct:
    """Create a subscription: deliver events to a webhook or queue.

    Events are delivered at least once, in order, each with its own id.
    """
    actor, body, subscriptions = call.actor, call.body, call.services.subscription.change
    spec = shaped(SubscriptionSpec, body, position=read_position(body.start, "from"))
    return await run_once_per_key(
        call, "subscription", lambda remember: subscriptions.create(actor, spec, remember), _view
    )


@ROUTES.add("GET", "/subscriptions", Scope.ADMIN, limited="filtered")
async def list_subscriptions(call: Call[Services, None, PageQuery]) -> SubscriptionList:
    """List subscriptions with their lag.

    `lag_events` and `lag_seconds` show whether a receiver keeps up.
    """
    limit = call.query.limit
    after = call.query.start(UUID, MIN_ID)
    rows, following = await call.services.subscription.read.page(call.actor, after, limit)
    return SubscriptionList([_view(row) for row in rows], next_cursor(following))


@ROUTES.add("GET", _ONE, Scope.ADMIN, limited="filtered")
async def show_subscription(call: Call[Services, None, None]) -> SubscriptionView:
    """Show a subscription.

    With its position in the chain, its failures, and when it is retried.
    """
    return await _show(call, call.uuid("subscription_id"))


@ROUTES.add("DELETE", _ONE, Scope.ADMIN, limited="filtered")
async def delete_subscription(call: Call[Services, None, None]) -> Reply:
    """Delete a subscription.

    An event that is being sent may still arrive.
    """
    await call.services.subscription.change.delete(call.actor, call.uuid("subscription_id"))
    return Reply()


@ROUTES.add("PATCH", _ONE, Scope.ADMIN, limited="filtered")
async def change_subscription(
    call: Call[Services, SubscriptionPauseBody, None],
) -> SubscriptionView:
    """Pause or resume a subscription.

    While it is paused it keeps its position; no event is skipped.
    """
    subscription_id = call.uuid("subscription_id")
    if call.body.paused:
        await call.services.subscription.change.pause(call.actor, subscription_id, call.body.note)
    else:
        await call.services.subscription.change.resume(call.actor, subscription_id)
    return await _show(call, subscription_id)


@ROUTES.add(
    "POST",
    f"{_ONE}/replay",
    Scope.ADMIN,
    returns=SubscriptionView,
    idempotency="optional",
    errors=(Code.INVALID_CURSOR,),
    limited="filtered",
)
async def replay_subscription(call: Call[Services, ReplayBody, None]) -> Reply | msgspec.Struct:
    """Move a subscription to another position, to repeat or skip events.

    Receivers recognise repeated events by their id.
    """
    actor, subscriptions = call.actor, call.services.subscription.change
    subscription_id = call.uuid("subscription_id")
    position = read_position(call.body.start, "from")
    return await run_once_per_key(
        call,
        "subscription.replay",
        lambda remember: subscriptions.replay(actor, subscription_id, position, remember),
        _view,
        status=200,
    )
