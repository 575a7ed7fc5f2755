"""Foresight: what comes due, when that exceeds the capacity, and which payments will fail."""

from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.field import Instant
from postdate.core.identity import Scope
from postdate.foresight.view.load import MAX_WINDOW
from postdate.foresight.view.load_shape import JitterSpread, LoadQuestion, LoadView
from postdate.foresight.view.money import MoneyView
from postdate.http.endpoint import Call, Query, existing
from postdate.http.routes import Routes
from postdate.schedule.spec.rule import check_instant
from postdate.schedule.spec.spec import Jitter
from postdate.words.error import Code, refuse

ROUTES: Final = Routes("foresight")

CapacityPerSecond = Annotated[float, Meta(gt=0, le=1_000_000)]


class LoadQuery(Query, kw_only=True):
    """Which window, and against what."""

    from_at: Annotated[Instant | None, Meta(description="The next whole minute by default.")] = None
    until_at: Annotated[
        Instant | None, Meta(description="A day later by default, at most a year later.")
    ] = None
    slot_seconds: (
        Annotated[
            int,
            Meta(
                ge=60,
                le=86_400,
                description="A multiple of 60; chosen to fit the window by default.",
            ),
        ]
        | None
    ) = None
    jobs_per_second: Annotated[
        CapacityPerSecond | None,
        Meta(description="The capacity for jobs; measured by default."),
    ] = None
    payments_per_second: Annotated[
        CapacityPerSecond | None,
        Meta(description="The capacity for payments; measured by default."),
    ] = None
    jitter_seconds: Annotated[
        Jitter | None, Meta(description="Also show the effect of this jitter.")
    ] = None


class TenantLoadQuery(LoadQuery, kw_only=True):
    """Which window of a tenant's load, and against what."""

    by: Annotated[
        Literal["total", "lane", "destination"], Meta(description="How to break the figures down.")
    ] = "total"
    lane: Annotated[str | None, Meta(description="Only jobs of this lane; needs by=lane.")] = None
    schedule_id: Annotated[
        UUID | None, Meta(description="Apply the jitter to this schedule only; to all by default.")
    ] = None


def question_of(query: LoadQuery) -> LoadQuestion:
    """Parse the query, or refuse the field that is wrong."""
    for name, at in (("from_at", query.from_at), ("until_at", query.until_at)):
        check_instant(name, at)
    if query.from_at and query.until_at and query.from_at >= query.until_at:
        raise refuse(Code.INVALID_FIELD, "The window ends before it begins.", "until_at")
    if query.from_at and query.until_at and query.until_at - query.from_at > MAX_WINDOW:
        raise refuse(Code.INVALID_FIELD, "A window is at most a year long.", "until_at")
    if query.slot_seconds and query.slot_seconds % 60:
        raise refuse(Code.INVALID_FIELD, "A slot must be whole minutes.", "slot_seconds")
    tenant = query if isinstance(query, TenantLoadQuery) else TenantLoadQuery()
    if tenant.lane is not None and tenant.by != "lane":
        raise refuse(Code.INVALID_FIELD, "A `lane` needs `by=lane`.", "lane")
    only = None if tenant.schedule_id is None else frozenset({tenant.schedule_id})
    if only is not None and query.jitter_seconds is None:
        raise refuse(Code.INVALID_FIELD, "A `schedule_id` needs a jitter.", "jitter_seconds")
    return LoadQuestion(
        begin=query.from_at,
        until=query.until_at,
        by=tenant.by,
        lane=tenant.lane,
        slot_minutes=None if query.slot_seconds is None else query.slot_seconds // 60,
        jobs_per_second=query.jobs_per_second,
        payments_per_second=query.payments_per_second,
        spread=None if query.jitter_seconds is None else JitterSpread(query.jitter_seconds, only),
    )


@ROUTES.add("GET", "/foresight/load", Scope.JOBS_READ, errors=(Code.TOO_COSTLY,))
async def show_load(call: Call[Services, Any, TenantLoadQuery]) -> LoadView:
    """Forecast the load: what comes due, and when it exceeds the capacity.

    Counts stored work and what schedules will create (including calendars and clock changes), in
    time slots that begin at a whole minute. `queues` says when the work exceeds the capacity, for
    how long and how late it gets, at most a minute too low; `jitter_seconds` shows the effect of
    another jitter. Paused schedules are not counted, and overlaps are treated as allowed. Up to
    100,000 stored items are counted exactly; beyond that, `error_percent` is the error of the
    estimate. A key that may not see all payments is shown jobs only.
    """
    actor, question = call.actor, question_of(call.query)
    if not actor.allows(Scope.PAYMENTS_READ):
        question = msgspec.structs.replace(question, payments=False)
    load = call.services.foresight.load
    return await call.while_connected(load.load(actor.tenant_id, question))


@ROUTES.add("GET", "/internal/foresight/load", "internal", errors=(Code.TOO_COSTLY,))
async def show_load_of_all(call: Call[Services, Any, LoadQuery]) -> LoadView:
    """Forecast the load of all tenants.

    For operators, with `X-Internal-Auth`; by tenant.
    """
    load = call.services.foresight.load
    return await call.while_connected(load.load_of_all(question_of(call.query)))


class MoneyQuery(Query, kw_only=True):
    """Until when, and of which account."""

    until_at: Annotated[
        Instant | None, Meta(description="30 days from now by default, at most a year.")
    ] = None
    account_id: Annotated[str | None, Meta(description="Project this account.")] = None


@ROUTES.add(
    "GET", "/foresight/money", Scope.PAYMENTS_READ, errors=(Code.NOT_FOUND, Code.TOO_COSTLY)
)
async def show_money(call: Call[Services, Any, MoneyQuery]) -> MoneyView:
    """Forecast which payments will fail, and how a balance will develop.

    Simulates settlement of the open payments and the future payments of schedules on a copy of the
    accounts, in the order of settlement. Payments that wait for an approval are left out; one that
    waits for its money is assumed to be retried every hour. With up to 100,000 open payments the
    whole window is simulated; beyond that, only the part until `known_until`.
    """
    actor, account_id = call.actor, call.query.account_id
    money = call.services.foresight.money
    asked = money.project(actor.tenant_id, call.query.until_at, account_id)
    found = await call.while_connected(asked)
    return existing(found, "account", account_id or "")
