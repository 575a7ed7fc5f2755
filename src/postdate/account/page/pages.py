"""Accounts: the list, and one with its statement and the chart of its balance."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.responses import Response, StreamingResponse

from postdate.account.spec import AccountView
from postdate.account.view.account import MAX_VERSION, EntryView
from postdate.account.view.statement import (
    PAGE_ENTRIES,
    EntryFilter,
    StatementEntry,
    StatementPeriod,
    StatementTotals,
)
from postdate.account.view.statement_file import (
    MEDIA_TYPES,
    StatementFormat,
    file_name,
    statement_chunks,
    writer_of,
)
from postdate.console.page_request import HEADERS, ConsolePage, PageRequest, instant, redirect
from postdate.core.identity import Scope
from postdate.core.money import (
    ACCOUNT_ID,
    MoneyTextError,
    chart_units,
    digits_of,
    read_money,
)
from postdate.http.endpoint import existing
from postdate.words.error import Code, refuse

PAGE: Final = 50
SHOWN_ENTRIES: Final = 500
SCANNED_ENTRIES: Final = 10_000
"""How many entries a page of a statement reads at most; the file has all."""

FORMATS: Final[dict[str, StatementFormat]] = {"csv": "csv", "json": "json", "xml": "camt.053"}


class AccountListFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the list of accounts."""

    after: str = ""
    q: str = ""
    """The beginning of an id."""


class PeriodFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a statement: a period, and which of its entries."""

    from_time: str | None = msgspec.field(default=None, name="from")
    to_time: str | None = msgspec.field(default=None, name="to")
    counterparty: str | None = None
    min_amount: str | None = msgspec.field(default=None, name="least")
    max_amount: str | None = msgspec.field(default=None, name="most")
    text: str | None = None

    def wanted(self, currency: str | None) -> EntryFilter:
        """Return the filter of entries; amounts are written in units."""
        return EntryFilter(
            counterparty=self.counterparty,
            min_amount=_amount(self.min_amount, currency, "least"),
            max_amount=_amount(self.max_amount, currency, "most"),
            text=self.text,
        )


class StatementFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of one account: from which version back, or where it stood at an instant."""

    at: str | None = None
    version: int = MAX_VERSION


async def accounts_page(request: PageRequest) -> Response:
    """List accounts by id."""
    query = request.query(AccountListFilters)
    found, following = await _accounts(request, query)
    return request.render(
        "accounts.html",
        accounts=found,
        query=query,
        following=request.next_page(after=following),
        totals=await request.services.account.statement.accounts_total(request.actor),
        status_of=status_of,
    )


async def _accounts(
    request: PageRequest, query: AccountListFilters
) -> tuple[list[AccountView], str | None]:
    """List accounts by id; those whose ids begin with a text follow it at once in that order."""
    views, start = request.services.account.read, query.q
    if not start:
        return await views.page(request.actor, query.after, PAGE)
    if not re.fullmatch(ACCOUNT_ID, start):
        return [], None
    first = f"{start[:-1]}{chr(ord(start[-1]) - 1)}\uffff"
    found, following = await views.page(request.actor, max(query.after, first), PAGE)
    matching = [each for each in found if each.account_id.startswith(start)]
    return matching, following if len(matching) == len(found) else None


async def account_page(request: PageRequest) -> Response:
    """Show one account: what it has, what is held, and the entries that make it so."""
    account_id: str = request.param("account_id")
    query = request.query(StatementFilters)
    at = instant(query.at, "at")
    views = request.services.account.read
    account = existing(await views.find(request.actor, account_id), "account", account_id)
    statement = existing(
        await views.statement(request.actor, account_id, at, query.version, PAGE),
        "account",
        account_id,
    )
    following = statement.next_version
    return request.render(
        "account.html",
        account=account,
        statement=statement,
        entries=await request.services.account.statement.described(
            request.actor, account_id, statement.entries
        ),
        at=at,
        status=status_of(account),
        chart=chart(statement.entries, account.currency),
        following=request.next_page(version=following),
    )


async def _period(request: PageRequest) -> tuple[StatementPeriod, EntryFilter, PeriodFilters]:
    """Read the period and the filter that an address asks for."""
    account_id: str = request.param("account_id")
    query = request.query(PeriodFilters)
    since, until = instant(query.from_time, "from"), instant(query.to_time, "to")
    if since and until and until < since:
        raise refuse(Code.INVALID_FIELD, "The end is before the beginning.", "to")
    views = request.services.account.statement
    found = existing(
        await views.period(request.actor, account_id, since, until), "account", account_id
    )
    return found, query.wanted(found.currency), query


class StatementChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the page that chooses a statement."""

    account: str | None = None
    from_time: str | None = msgspec.field(default=None, name="from")
    to_time: str | None = msgspec.field(default=None, name="to")


async def statements_page(request: PageRequest) -> Response:
    """Ask for an account and a period, and lead to its statement."""
    query = request.query(StatementChoice)
    if query.account:
        found = await request.services.account.read.find(request.actor, query.account)
        account = existing(found, "account", query.account)
        period = {"from": query.from_time, "to": query.to_time}
        chosen = urlencode({name: value for name, value in period.items() if value})
        return redirect(f"/accounts/{quote(account.account_id)}/statement?{chosen}".rstrip("?"))
    accounts, following = await request.services.account.read.page(request.actor, "", PAGE)
    return request.render(
        "statements.html",
        accounts=accounts,
        cut_off=following is not None,
        months=_months(request.now),
    )


def _months(now: datetime) -> list[tuple[str, str, str]]:
    """Return this month and the one before: a name, the beginning and the end of each."""
    this = datetime(now.year, now.month, 1, tzinfo=UTC)
    before = (this - timedelta(days=1)).replace(day=1)
    return [
        (f"{begin:%B %Y}", f"{begin:%Y-%m-%dT%H:%M:%S}", f"{end:%Y-%m-%dT%H:%M:%S}")
        for begin, end in ((this, now), (before, this))
    ]


async def statement_page(request: PageRequest) -> Response:
    """Show the statement of a period, as far as a page goes; the file has all of it."""
    period, wanted, query = await _period(request)
    shown: list[StatementEntry] = []
    totals, read = StatementTotals(), 0
    async for found in request.services.account.statement.entries(request.actor, period, wanted):
        read += PAGE_ENTRIES
        shown += found
        for each in found:
            totals.add(each.amount)
        if len(shown) >= SHOWN_ENTRIES or read >= SCANNED_ENTRIES:
            break
    return request.render(
        "statement.html",
        period=period,
        query=query,
        entries=shown,
        totals=totals,
        whole=read >= period.count,
        filtered=wanted != EntryFilter(),
        matching=request.filters(),
    )


async def statement_file(request: PageRequest) -> Response:
    """Return the statement as a file, streamed."""
    kind = request.param("kind")
    chosen = FORMATS.get(kind)
    if chosen is None:
        raise refuse(Code.NOT_FOUND, "There is no such page.")
    period, wanted, _ = await _period(request)
    writer = writer_of(chosen, period, wanted)
    headers = {
        **HEADERS,
        "content-disposition": f'attachment; filename="{file_name(period, chosen)}"',
    }
    views = request.services.account.statement
    chunks = statement_chunks(views, request.actor, period, wanted, writer)
    return StreamingResponse(chunks, media_type=MEDIA_TYPES[chosen], headers=headers)


def _amount(text: str | None, currency: str | None, field: str) -> int | None:
    try:
        return None if text is None else read_money(text, currency)
    except MoneyTextError as error:
        raise refuse(Code.INVALID_FIELD, str(error), field) from None


def status_of(account: AccountView) -> str:
    """Return whether an account may be used."""
    if account.closed_at is not None:
        return "CLOSED"
    return "FROZEN" if account.frozen_at is not None else "OPEN"


def chart(entries: list[EntryView], currency: str | None) -> dict[str, Any]:
    """Return the balance after each entry of the page in units, the oldest first."""
    ordered = entries[::-1]
    return {
        "x": [entry.created_at.timestamp() for entry in ordered],
        "balance": [chart_units(entry.balance, currency) for entry in ordered],
        "digits": digits_of(currency),
    }


PAGES: Final = (
    ConsolePage("/statements", statements_page, Scope.PAYMENTS_READ, limited="filtered"),
    ConsolePage(
        "/accounts/{account_id}/statement", statement_page, Scope.PAYMENTS_READ, limited="filtered"
    ),
    ConsolePage(
        "/accounts/{account_id}/statement.{kind}",
        statement_file,
        Scope.PAYMENTS_READ,
        limited="filtered",
    ),
    ConsolePage("/accounts", accounts_page, Scope.PAYMENTS_READ, limited="filtered"),
    ConsolePage("/accounts/{account_id}", account_page, Scope.PAYMENTS_READ, limited="filtered"),
)
