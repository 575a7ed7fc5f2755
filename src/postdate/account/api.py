"""Accounts: create, read, limit, freeze, close, adjust; and their statements."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from postdate.account.change.account import Accounts
from postdate.account.change.adjustment import Adjusted
from postdate.account.view import MAX_VERSION, AccountViews, EntryView
from postdate.api.services import Services
from postdate.core.field import Amount, Instant, NamedCurrency
from postdate.core.identity import Scope
from postdate.core.money import MAX_AMOUNT, MINOR_UNIT
from postdate.core.shape import shaped
from postdate.http.endpoint import Body, Call, Reply, existing
from postdate.http.page import PageQuery, next_cursor
from postdate.intake.answer_once import reply
from postdate.resource.endpoints import ServedClass, serve
from postdate.words.error import Code, refuse

ROUTES: Final = serve(
    "accounts",
    ServedClass(AccountViews, lambda services: services.account.read),
    ServedClass(Accounts, lambda services: services.account.change),
)

REASON_CHARS: Final = 500


class AdjustmentBody(Body, kw_only=True):
    """Money from the issuer, or back to it."""

    amount: Annotated[
        int,
        Meta(
            ge=-MAX_AMOUNT,
            le=MAX_AMOUNT,
            description=f"Positive credits the account, negative debits it; not 0; {MINOR_UNIT}.",
        ),
    ]
    reason: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=REASON_CHARS,
            description="The reason; stored with the entries.",
        ),
    ]


class StatementQuery(PageQuery, kw_only=True):
    """Which entries to list."""

    at: Annotated[
        Instant | None, Meta(description="Begin with the newest entry at this instant.")
    ] = None


class StatementView(msgspec.Struct, frozen=True, kw_only=True):
    """The balance, now or at the requested instant, and the entries that led to it."""

    account_id: str
    currency: NamedCurrency
    balance: Amount
    version: int
    entries: list[EntryView]
    next_cursor: str | None


@ROUTES.add("GET", "/accounts/{account_id}/entries", Scope.PAYMENTS_READ, limited="filtered")
async def list_account_entries(call: Call[Services, None, StatementQuery]) -> StatementView:
    """Show the statement of an account, the newest entry first.

    `at` shows the balance as it was at an instant; entries never change.
    """
    account_id, query = call.text("account_id"), call.query
    version = query.start(int, MAX_VERSION)
    if not 0 < version <= MAX_VERSION:
        raise refuse(Code.INVALID_CURSOR, "Pass `next_cursor` back unchanged.", "cursor")
    found = existing(
        await call.services.account.read.statement(
            call.actor, account_id, query.at, version, query.limit
        ),
        "account",
        account_id,
    )
    return shaped(StatementView, found, next_cursor=next_cursor(found.next_version))


@ROUTES.add(
    "POST",
    "/accounts/{account_id}/adjustments",
    Scope.LEDGER_ADJUST,
    returns=Adjusted,
    status=201,
    errors=(
        Code.ACCOUNT_CLOSED,
        Code.ACCOUNT_RESERVED,
        Code.INSUFFICIENT_FUNDS,
        Code.BALANCE_ABOVE_LIMIT,
    ),
    idempotency="required",
    limited="filtered",
)
async def adjust_account(call: Call[Services, AdjustmentBody, None]) -> Reply:
    """Credit or debit an account, with a reason.

    The counterpart is the tenant's `issuer` account, so that the ledger always sums to zero.
    """
    body = call.body
    if body.amount == 0:
        raise refuse(Code.INVALID_FIELD, "An adjustment of 0 moves nothing.", "amount")
    answer = await call.services.account.adjustment.adjust(
        call.actor,
        call.text("account_id"),
        body.amount,
        body.reason,
        call.idempotency_key or "",
    )
    return reply(answer, call.request_id)
