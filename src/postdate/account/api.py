"""Accounts: create, read, limit, freeze, close, adjust; and their statements."""

from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from postdate.account.change.account import Accounts
from postdate.account.change.adjustment import Adjusted
from postdate.account.view.account import MAX_VERSION, AccountViews, EntryView
from postdate.account.view.statement import EntryFilter, StatementEntry
from postdate.account.view.statement_file import (
    MEDIA_TYPES,
    StatementFormat,
    file_name,
    statement_chunks,
    writer_of,
)
from postdate.api.services import Services
from postdate.core.field import Amount, Instant, NamedCurrency
from postdate.core.identity import Scope
from postdate.core.money import MAX_AMOUNT, MINOR_UNIT
from postdate.core.shape import shaped
from postdate.http.endpoint import Body, Call, Query, Reply, existing
from postdate.http.page import PageQuery, next_cursor
from postdate.intake.answer_once import reply
from postdate.payment.spec.payment import AccountId
from postdate.resource.endpoints import ServedClass, serve
from postdate.schedule.spec.rule import check_instant
from postdate.words.error import Code, refuse

ROUTES: Final = serve(
    "accounts",
    ServedClass(AccountViews, lambda services: services.account.read),
    ServedClass(Accounts, lambda services: services.account.change),
)

REASON_CHARS: Final = 500
TEXT_CHARS: Final = 200


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


class PeriodQuery(Query, kw_only=True):
    """Which statement to write."""

    from_time: Annotated[
        Instant | None,
        Meta(
            description="Entries from this time on; the whole history if absent.",
            examples=["2031-01-01T00:00:00Z"],
        ),
    ] = None
    to_time: Annotated[
        Instant | None,
        Meta(
            description="Entries before this time; up to now if absent.",
            examples=["2031-02-01T00:00:00Z"],
        ),
    ] = None
    format: Annotated[
        StatementFormat,
        Meta(
            description="JSON; CSV for spreadsheets, amounts in units; or camt.053.001.14 of "
            "ISO 20022, for accounts that name a currency.",
            examples=["csv"],
        ),
    ] = "json"
    counterparty: Annotated[
        AccountId | None,
        Meta(description="Only entries with this other account.", examples=["acc_bob"]),
    ] = None
    min_amount: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_AMOUNT)] | None,
        Meta(
            description=f"Only entries of at least this amount, debit or credit, {MINOR_UNIT}.",
            examples=[100],
        ),
    ] = None
    max_amount: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_AMOUNT)] | None,
        Meta(
            description=f"Only entries of at most this amount, debit or credit, {MINOR_UNIT}.",
            examples=[5000],
        ),
    ] = None
    text: Annotated[
        Annotated[str, Meta(min_length=1, max_length=TEXT_CHARS)] | None,
        Meta(
            description="Only entries whose description or counterparty contains this.",
            examples=["invoice"],
        ),
    ] = None

    def wanted(self) -> EntryFilter:
        """Return the filter alone."""
        return EntryFilter(
            counterparty=self.counterparty,
            min_amount=self.min_amount,
            max_amount=self.max_amount,
            text=self.text,
        )


class PeriodStatement(msgspec.Struct, frozen=True, kw_only=True):
    """The statement of a period: opening balance, entries, closing balance, totals."""

    account_id: str
    currency: NamedCurrency
    from_time: Annotated[
        datetime, Meta(description="Where it begins.", examples=["2031-01-01T00:00:00Z"])
    ]
    to_time: Annotated[
        datetime, Meta(description="Where it ends.", examples=["2031-02-01T00:00:00Z"])
    ]
    opening_balance: Annotated[Amount, Meta(description="The balance at `from_time`.")]
    closing_balance: Annotated[Amount, Meta(description="The balance at `to_time`.")]
    entries: Annotated[list[StatementEntry], Meta(description="The oldest first.")]
    count: Annotated[int, Meta(description="How many entries are listed.", examples=[1])]
    debits: Annotated[Amount, Meta(description="The sum of the debits listed, without a sign.")]
    credits: Annotated[Amount, Meta(description="The sum of the credits listed.")]


@ROUTES.add(
    "GET",
    "/accounts/{account_id}/statement",
    Scope.PAYMENTS_READ,
    returns=PeriodStatement,
    limited="filtered",
    files=("text/csv", "application/xml"),
)
async def get_account_statement(call: Call[Services, None, PeriodQuery]) -> Reply:
    """Write the statement of an account for a period, the oldest entry first.

    The opening balance plus all entries is the closing balance. It is streamed, whatever its
    length: what does not end with the totals (JSON), a CLOSING row (CSV) or the end of the document
    (camt.053) was cut off. Filters leave the balances as they are; camt.053 takes none.
    """
    query = call.query
    for name in ("from_time", "to_time"):
        check_instant(name, getattr(query, name))
    if query.from_time and query.to_time and query.to_time < query.from_time:
        raise refuse(Code.INVALID_FIELD, "`to_time` is before `from_time`.", "to_time")
    account_id, views = call.text("account_id"), call.services.account.statement
    found = await views.period(call.actor, account_id, query.from_time, query.to_time)
    period, wanted = existing(found, "account", account_id), query.wanted()
    writer = writer_of(query.format, period, wanted)
    call.hold_open()
    named = f'attachment; filename="{file_name(period, query.format)}"'
    headers = {"content-type": MEDIA_TYPES[query.format]}
    if query.format != "json":
        headers["content-disposition"] = named
    return Reply(statement_chunks(views, call.actor, period, wanted, writer), headers=headers)


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
