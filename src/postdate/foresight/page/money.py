"""Money ahead: the cash curve of an account or of all, how much to pay in, why payments fail."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from starlette.responses import Response

from postdate.account.view.account import MAX_VERSION, EntryView
from postdate.console.page_request import ConsolePage, PageRequest
from postdate.core.identity import Scope
from postdate.core.money import chart_units, digits_of
from postdate.foresight.page.window import WINDOWS, WindowName
from postdate.foresight.spec.balance import BalancePoint
from postdate.foresight.spec.money import SHORT, FailingPayment, ShortAccount
from postdate.foresight.view.money import MoneyTotal, MoneyView
from postdate.http.endpoint import existing

PAST_ENTRIES: Final = 500
"""How many entries of the past a curve begins with at most."""

CAUSES: Final = {
    "account_closed": "is closed",
    "account_frozen": "is frozen",
    "account_missing": "does not exist",
    "balance_above_limit": "would have more than a balance may be",
    "currency_mismatch": "has another currency than the payee",
    SHORT: "lacks money",
}
"""What is said of an account that is the reason why payments fail."""


class MoneyFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the page of money ahead: which window, and which account or all."""

    window: WindowName = "month"
    account: str | None = None


class CauseRow(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with an account, and what would help."""

    account_id: str
    words: str
    currency: str | None
    count: int
    amount: int
    first_at: datetime
    last_at: datetime
    short: ShortAccount | None
    payments: list[FailingPayment]
    """Those of them that the forecast names."""


async def money_page(request: PageRequest) -> Response:
    """Show where all money goes, or that of one account, how much is missing, and why."""
    actor, filters = request.actor, request.query(MoneyFilters)
    until = request.now + WINDOWS[filters.window]
    found = existing(
        await request.services.foresight.money.project(actor.tenant_id, until, filters.account),
        "account",
        filters.account or "",
    )
    return request.render(
        "money.html",
        money=found,
        curves=curves(found, await _past(request, filters)),
        causes=cause_rows(found),
        lacking={each.currency: each.account_id for each in found.short if each.missing},
        query=filters,
        windows=list(WINDOWS),
        with_=request.address_with,
    )


async def _past(request: PageRequest, filters: MoneyFilters) -> list[EntryView]:
    """Return the latest entries of the account in a window as long as the one ahead."""
    if filters.account is None:
        return []
    found = await request.services.account.read.statement(
        request.actor, filters.account, None, MAX_VERSION, PAST_ENTRIES
    )
    since = request.now - WINDOWS[filters.window]
    entries = [] if found is None else found.entries
    return [each for each in reversed(entries) if each.created_at >= since]


def cause_rows(money: MoneyView) -> list[CauseRow]:
    """Return why payments fail or wait, account by account, the first of them first."""
    short = {each.account_id: each for each in money.short}
    known = {(each.code, each.account_id, each.currency) for each in money.causes}
    named: dict[tuple[str, str, str | None], list[FailingPayment]] = {}
    for each in money.failing:
        own = each.code, each.from_account_id, each.currency
        key = own if own in known else (each.code, each.to_account_id, each.currency)
        named.setdefault(key, []).append(each)
    rows = [
        CauseRow(
            account_id=each.account_id,
            words=CAUSES.get(each.code, each.code.replace("_", " ")),
            currency=each.currency,
            count=each.count,
            amount=each.amount,
            first_at=each.first_at,
            last_at=each.last_at,
            short=short.pop(each.account_id, None) if each.code == SHORT else None,
            payments=named.get((each.code, each.account_id, each.currency), []),
        )
        for each in money.causes
    ]
    return sorted([*rows, *map(_waiting, short.values())], key=lambda row: row.first_at)


def _waiting(short: ShortAccount) -> CauseRow:
    """Return the row of an account whose payments wait for their money, and get it later."""
    return CauseRow(
        account_id=short.account_id,
        words="lacks money for a while: payments wait and are settled later",
        currency=short.currency,
        count=0,
        amount=0,
        first_at=short.first_short_at,
        last_at=short.first_short_at,
        short=short,
        payments=[],
    )


def curves(money: MoneyView, past: Sequence[EntryView]) -> list[tuple[MoneyTotal, dict[str, Any]]]:
    """Return what is drawn, for each currency or of the one account, each up to the end."""
    totals = money.totals
    if money.lowest is not None and money.end is not None:
        totals = [
            MoneyTotal(
                currency=money.currency,
                accounts=1,
                lowest=money.lowest,
                end=money.end,
                points=money.points,
            )
        ]
    return [(each, _curve(each, money, past)) for each in totals]


def _curve(total: MoneyTotal, money: MoneyView, past: Sequence[EntryView]) -> dict[str, Any]:
    """Return the columns of a chart in units of the currency; a gap is None."""
    end = msgspec.structs.replace(total.end, at=max(money.known_until, total.end.at))
    points = [*total.points, end]
    marks = _marks(money, total.currency, points)
    before = [(each.created_at, each.balance) for each in past if each.created_at <= points[0].at]
    instants = sorted({at for at, _ in before} | {each.at for each in points} | marks.keys())
    history = dict(before) | {points[0].at: points[0].balance} if before else {}
    ahead = {at: _at(points, at) for at in instants if at >= points[0].at}

    def column(values: dict[datetime, int]) -> list[float | None]:
        found = (values.get(at) for at in instants)
        return [None if each is None else chart_units(each, total.currency) for each in found]

    floor = dict.fromkeys(instants, money.floor) if money.floor is not None else {}
    return {
        "x": [each.timestamp() for each in instants],
        "past": column(history),
        "balance": column({at: each.balance for at, each in ahead.items()}),
        "available": column({at: each.available for at, each in ahead.items()}),
        "floor": column(floor) if floor else [],
        "short": column(marks),
        "now": points[0].at.timestamp(),
        "digits": digits_of(total.currency),
    }


def _marks(
    money: MoneyView, currency: str | None, points: Sequence[BalancePoint]
) -> dict[datetime, int]:
    """Return where payments lack money, each at what is available then."""
    failing = [each for each in money.failing if each.code == SHORT and each.currency == currency]
    found = {each.fails_at for each in failing}
    found |= {each.first_short_at for each in money.short if each.currency == currency}
    return {at: _at(points, at).available for at in found}


def _at(points: Sequence[BalancePoint], at: datetime) -> BalancePoint:
    """Return the point of a stepped curve that holds at an instant."""
    return points[max(0, bisect_right(points, at, key=lambda each: each.at) - 1)]


PAGES: Final = (ConsolePage("/foresight/money", money_page, Scope.PAYMENTS_READ),)
