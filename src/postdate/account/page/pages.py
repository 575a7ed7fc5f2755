"""Accounts: the list, and one with its statement and the chart of its balance."""

from typing import Final

import msgspec
from starlette.responses import Response

from postdate.account.spec import AccountView
from postdate.account.view import MAX_VERSION, EntryView
from postdate.console.page_request import ConsolePage, PageRequest, instant
from postdate.core.identity import Scope
from postdate.http.endpoint import existing

PAGE: Final = 50


class AccountListFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the list of accounts."""

    after: str = ""


class StatementFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of one account: from which version back, or where it stood at an instant."""

    at: str | None = None
    version: int = MAX_VERSION


async def accounts_page(request: PageRequest) -> Response:
    """List accounts by id."""
    query = request.query(AccountListFilters)
    found, following = await request.services.account.read.page(request.actor, query.after, PAGE)
    return request.render(
        "accounts.html",
        accounts=found,
        query=query,
        following=request.next_page(after=following),
        status_of=status_of,
    )


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
        at=at,
        status=status_of(account),
        chart=chart(statement.entries),
        following=request.next_page(version=following),
    )


def status_of(account: AccountView) -> str:
    """Return whether an account may be used."""
    if account.closed_at is not None:
        return "CLOSED"
    return "FROZEN" if account.frozen_at is not None else "OPEN"


def chart(entries: list[EntryView]) -> dict[str, list[float]]:
    """Return the balance after each entry of the page, the oldest first."""
    ordered = entries[::-1]
    return {
        "x": [entry.created_at.timestamp() for entry in ordered],
        "balance": [entry.balance for entry in ordered],
    }


PAGES: Final = (
    ConsolePage("/accounts", accounts_page, Scope.PAYMENTS_READ, limited="filtered"),
    ConsolePage("/accounts/{account_id}", account_page, Scope.PAYMENTS_READ, limited="filtered"),
)
