"""Foresight: what becomes due, when that is too much, and which payments will fail."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.http.endpoint import Call, Query, existing
from postdate.api.http.routes import Routes
from postdate.api.services import Services
from postdate.model.error import Code, refuse
from postdate.model.schedule.rule import FIRST, LAST
from postdate.model.schedule.spec import Jitter
from postdate.model.tenant.identity import Scope
from postdate.views.foresight.load import MAX_WINDOW
from postdate.views.foresight.load_shape import LoadQuestion, LoadView, Spread
from postdate.views.foresight.money import MoneyView

ROUTES: Final = Routes("foresight")

Instant = Annotated[datetime, Meta(tz=True)]
Rate = Annotated[float, Meta(gt=0, le=1_000_000)]


class LoadQuery(Query, kw_only=True):
    """Which window, and against what."""

    from_at: Annotated[Instant | None, Meta(description="The next whole minute by default.")] = None
    until_at: Annotated[
        Instant | None, Meta(description="A day later by default, a year at the most.")
    ] = None
    slot_seconds: (
        Annotated[int, Meta(ge=60, le=86_400, description="Whole minutes; by default, as fits.")]
        | None
    ) = None
    jobs_per_second: Annotated[
        Rate | None, Meta(description="The capacity; what was measured by default.")
    ] = None
    payments_per_second: Annotated[Rate | None, Meta(description="The same for payments.")] = None
    jitter_seconds: Annotated[
        Jitter | None, Meta(description="Tell what this jitter would change.")
    ] = None


class TenantLoadQuery(LoadQuery, kw_only=True):
    """The same within a tenant."""

    by: Annotated[
        Literal["total", "lane", "destination"], Meta(description="What to tell apart.")
    ] = "total"
    lane: Annotated[str | None, Meta(description="Only jobs of this lane; needs by=lane.")] = None
    schedule_id: Annotated[
        UUID | None, Meta(description="Whose jitter; that of all schedules by default.")
    ] = None


def check_instant(name: str, at: datetime | None) -> None:
    """Refuse an instant that nothing can be reckoned with."""
    if at is not None and not FIRST <= at <= LAST:
        detail = f"It lies between the years {FIRST:%Y} and {LAST:%Y}."
        raise refuse(Code.INVALID_FIELD, detail, name)


def question_of(query: LoadQuery) -> LoadQuestion:
    """Read a question; one that cannot be answered is refused by its field."""
    for name, at in (("from_at", query.from_at), ("until_at", query.until_at)):
        check_instant(name, at)
    if query.from_at and query.until_at and query.from_at >= query.until_at:
        raise refuse(Code.INVALID_FIELD, "The window ends before it begins.", "until_at")
    if query.from_at and query.until_at and query.until_at - query.from_at > MAX_WINDOW:
        raise refuse(Code.INVALID_FIELD, "A window is a year at the most.", "until_at")
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
        spread=None if query.jitter_seconds is None else Spread(query.jitter_seconds, only),
    )


@ROUTES.add("GET", "/foresight/load", Scope.JOBS_READ)
async def show_load(call: Call[Services, Any, TenantLoadQuery]) -> LoadView:
    """Show what becomes due, and when that is too much.

    What is stored and what schedules will make (their rules, calendars and changes of the clock
    included), by slots of time that begin with a whole minute. `queues` says when the work is more
    than the capacity, from when until when and how late, at most a minute too little;
    `jitter_seconds` what another jitter would change. Paused schedules count nothing, and overlaps
    are taken as allowed. Up to 100,000 stored items are counted one by one; beyond,
    `error_percent` says how far the estimate may be off. A key that may not see all payments is
    shown jobs alone.
    """
    actor, question = call.actor, question_of(call.query)
    if actor.accounts is not None or not actor.allows(Scope.PAYMENTS_READ):
        question = msgspec.structs.replace(question, payments=False)
    return await call.services.foresight.load.load(actor.tenant_id, question)


@ROUTES.add("GET", "/internal/foresight/load", "internal")
async def show_load_of_all(call: Call[Services, Any, LoadQuery]) -> LoadView:
    """Show what becomes due of all tenants.

    For operators, with `X-Internal-Auth`; by tenant.
    """
    return await call.services.foresight.load.load_of_all(question_of(call.query))


class MoneyQuery(Query, kw_only=True):
    """Until when, and of which account."""

    until_at: Annotated[
        Instant | None, Meta(description="30 days from now by default, a year at the most.")
    ] = None
    account_id: Annotated[str | None, Meta(description="Project this account.")] = None


@ROUTES.add("GET", "/foresight/money", Scope.PAYMENTS_READ, errors=(Code.NOT_FOUND,))
async def show_money(call: Call[Services, Any, MoneyQuery]) -> MoneyView:
    """Show which payments will fail, and how a balance will go.

    The open payments and those that schedules will make are settled on a copy of the accounts, in
    the order of settlement. Payments that wait for an approval are left out; one that waits for
    its money is taken to try again every hour. Up to 100,000 open payments all of the window is
    settled; beyond, only until `known_until`.
    """
    actor, account_id = call.actor, call.query.account_id
    if actor.accounts is not None:
        raise refuse(Code.FORBIDDEN, "The key is limited to accounts and sees no totals.")
    money = call.services.foresight.money
    found = await money.project(actor.tenant_id, call.query.until_at, account_id)
    return existing(found, "account", account_id or "")
