"""The money forecast: the balance of an account, and the payments that will fail."""

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec

from postdate.core.work import TooMuchWorkError
from postdate.database.connection import clock
from postdate.database.connection.database import Database
from postdate.database.connection.off_loop import (
    attempted,
    cancelling,
    computed,
    in_process,
    in_thread,
    started,
)
from postdate.foresight.spec.balance import ORDER_BITS, BalanceCurve, BalancePoint, instant
from postdate.foresight.spec.hypothesis import Hypothesis
from postdate.foresight.spec.money import (
    ExpectedPayment,
    ExpectedTerms,
    FailingPayment,
    Failure,
    ProjectedAccount,
    Projection,
    ShortAccount,
    before,
    due_at,
    expected_payment,
    failing_payment,
    merged,
    ordered,
    project,
)
from postdate.foresight.spec.remedy import (
    FailureCause,
    PayIn,
    covered,
    failure_causes,
    pay_ins,
)
from postdate.foresight.store import money as store
from postdate.foresight.store.money import AccountSum, KnownPayments
from postdate.foresight.view.rules import RuleBook, RuleBooks
from postdate.foresight.view.standing_order import KEPT, OrderList, OrderLists, listed, waiting_time

EXACT_LIMIT: Final = 100_000
"""Up to this number of payments, the whole window is settled; beyond, only its beginning."""

BUCKET_LIMIT: Final = 150
"""How many payments of each bucket are settled then."""

LIMITS: Final = EXACT_LIMIT, BUCKET_LIMIT

MAX_KNOWN: Final = 300_000
"""How many payments are remembered, of all tenants together: 100,000 take about 40 MB."""

SOON_SECONDS: Final = 60.0
MAX_TENANTS: Final = 1000
"""For how many tenants something is remembered."""

NOBODY: Final = UUID(int=0)
"""The id of a payment that is not stored yet."""

MAX_FAILING: Final = 200
MAX_SHORT: Final = 100
MAX_CAUSES: Final = 100
MAX_POINTS: Final = 500
DEFAULT_WINDOW: Final = timedelta(days=30)
MAX_WINDOW: Final = timedelta(days=366)


class MoneyTotal(msgspec.Struct, frozen=True, kw_only=True):
    """All accounts of one currency together; those without a floor, as the issuer, are left out."""

    currency: str | None
    accounts: int
    lowest: BalancePoint
    end: BalancePoint
    points: list[BalancePoint]


class MoneyView(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast of a tenant's payments, and of one account if requested."""

    from_at: datetime
    until_at: datetime
    known_until: datetime
    """Up to here everything was settled; later payments are not in the figures."""
    completed: int
    pay_in: list[PayIn] = []
    """By currency, how much the accounts that fall short miss in the window, and by when."""
    cause_count: int = 0
    causes: list[FailureCause] = []
    """Why payments fail: by code and account, the first of them first."""
    failing_count: int
    failing: list[FailingPayment]
    first_failing_at: datetime | None
    short_count: int
    short: list[ShortAccount]
    """The accounts that a payment would take below their floor, the first of them first."""
    left_out: int = 0
    """Schedules whose payments are not in the figures: unreadable or too long to follow.

    It is not known whether an unreadable schedule makes payments.
    """
    totals: list[MoneyTotal] = []
    """All accounts together, by currency; empty where one account was asked for."""
    account_id: str | None = None
    currency: str | None = None
    balance: int | None = None
    available: int | None = None
    floor: int | None = None
    lowest: BalancePoint | None = None
    first_short_at: datetime | None = None
    """When a payment would take `available` below the floor for the first time."""
    end: BalancePoint | None = None
    points: list[BalancePoint] = []


class PaymentMemory:
    """Remembers the open payments of the tenants that asked last."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, KnownPayments] = OrderedDict()

    def of(self, tenant_id: int) -> KnownPayments:
        """Return the known payments of a tenant; the caller adds the ones it reads."""
        total = sum(len(each.payments) for each in self._known.values())
        if tenant_id in self._known:
            self._known.move_to_end(tenant_id)
        # The tenant itself may be the last: payments that it moves on and on are read again.
        while self._known and (total > MAX_KNOWN or len(self._known) > MAX_TENANTS):
            total -= len(self._known.popitem(last=False)[1].payments)
        return self._known.setdefault(tenant_id, KnownPayments())


class MoneyViews:
    """Projects balances."""

    def __init__(self, database: Database, books: RuleBooks) -> None:
        self._database = database
        self._books = books
        self._orders = OrderLists()
        self._payments = PaymentMemory()
        self._soon: dict[tuple[int, float], tuple[float, MoneyView]] = {}

    async def soon(self, tenant_id: int, hours: float) -> MoneyView | None:
        """Return the payments that will fail within some hours, at most a minute old."""
        if hours <= 0:
            return None
        age, known = self._soon.get((tenant_id, hours), (0.0, None))
        if known is not None and time.monotonic() - age < SOON_SECONDS:
            return known
        now = datetime.fromtimestamp(self._database.unix_ms() / 1000, UTC)
        until = now + timedelta(hours=hours)
        found = await self.project(tenant_id, until)
        if found is not None:
            if len(self._soon) >= MAX_TENANTS:
                self._soon.clear()
            self._soon[tenant_id, hours] = time.monotonic(), found
        return found

    async def project(
        self, tenant_id: int, until: datetime | None = None, account_id: str | None = None
    ) -> MoneyView | None:
        """Simulate settlement until an instant, on a copy; None if the account does not exist."""
        found = await self._expected(tenant_id, until, account_id)
        if account_id is not None and account_id not in found.accounts:
            return None
        return await self._settled(tenant_id, found, account_id)

    async def suppose(
        self, tenant_id: int, until: datetime, hypothesis: Hypothesis
    ) -> tuple[MoneyView, MoneyView, int]:
        """Simulate settlement with and without the changes; return what would be released."""
        found = await self._expected(tenant_id, until, None)
        would, released = await in_thread(_supposed, found, hypothesis)
        before, after = await self._settled(tenant_id, found), await self._settled(tenant_id, would)
        return before, after, released

    async def _expected(
        self, tenant_id: int, until: datetime | None, account_id: str | None
    ) -> "_Expected":
        async with self._database.read(tenant_id) as connection:
            now = await clock.now(connection)
            end = min(until or now + DEFAULT_WINDOW, now + MAX_WINDOW)
            book = await self._books.get(connection, tenant_id)
            # Schedules are listed while the database finds what is stored.
            listing = started(self._orders_of(tenant_id, book, now, end))
            async with cancelling(listing):
                known = self._payments.of(tenant_id)
                found = await store.open_payments(connection, tenant_id, end, LIMITS, known)
                own = [] if account_id is None else [account_id]
                names = {*found.names, *book.accounts, *own}
                accounts = await store.accounts(connection, tenant_id, names)
                sums = await store.sums(connection, tenant_id) if account_id is None else []
        orders = await listing
        until = min(end, orders.known_until, found.known_until)
        stored = before(found.payments, until)
        expected = await in_thread(merged, stored, orders.within(now, until))
        left_out = orders.left_out + book.unread
        return _Expected(expected, accounts, sums, (now, end, until), left_out)

    async def _orders_of(
        self, tenant_id: int, book: RuleBook, now: datetime, end: datetime
    ) -> OrderList:
        try:
            return await attempted(tenant_id, self._orders.get, book, now, end)
        except TooMuchWorkError:
            found = await in_process(tenant_id, listed, book, now, end + KEPT)
            self._orders.keep(book, found)
            return found

    async def _settled(
        self, tenant_id: int, found: "_Expected", account_id: str | None = None
    ) -> MoneyView:
        return await computed(tenant_id, _settled, found, account_id)


class _Expected(msgspec.Struct, frozen=True):
    """The payments and accounts of a simulation, and its window."""

    expected: list[ExpectedPayment]
    accounts: dict[str, ProjectedAccount]
    sums: list[AccountSum]
    window: tuple[datetime, datetime, datetime]
    left_out: int
    """How many schedules are not in it."""


def _supposed(found: _Expected, hypothesis: Hypothesis) -> tuple[_Expected, int]:
    """Return the payments under the changes, and how much held money they would release."""
    accounts = {**found.accounts}
    end = instant(found.window[1])
    expected, released = [], 0
    for each in found.expected:
        terms = each[1]
        if terms.payment_id is None and terms.schedule_id in hypothesis.paused_schedules:
            continue
        would = hypothesis.payments.get(terms.payment_id or NOBODY, due_at(each))
        if would is None:
            if terms.hold:
                payer = accounts[terms.from_account_id]
                held = payer.held - terms.amount
                accounts[terms.from_account_id] = msgspec.structs.replace(payer, held=held)
                released += terms.amount
        elif (at := instant(hypothesis.held(would))) < end:
            moved = _moved(terms, at - (each[0] >> ORDER_BITS), hypothesis)
            expected.append(expected_payment(at, moved))
    would_be = msgspec.structs.replace(found, expected=ordered(expected), accounts=accounts)
    return would_be, released


def _moved(terms: ExpectedTerms, later: int, hypothesis: Hypothesis) -> ExpectedTerms:
    """Return the terms of a payment that would be due later, but gives up at the same instant."""
    funds = None
    if terms.payment_id is None and terms.schedule_id is not None:
        funds = hypothesis.funds.get(terms.schedule_id)
    if funds is not None:
        waits = waiting_time(funds)
    elif terms.waits is None or not later:
        return terms
    else:
        waits = terms.waits - later
    return msgspec.structs.replace(terms, waits=waits)


def _settled(found: _Expected, account_id: str | None) -> MoneyView:
    """Simulate settlement, and build the answer."""
    begin = instant(found.window[0])
    result = project(found.accounts, found.expected)
    if account_id is not None:
        own = found.accounts[account_id]
        curve = BalanceCurve(begin, own.balance, own.held)
        result.draw({account_id: curve})
        own_short = [each for name, each in result.short.items() if name == account_id]
        view = _view(result, result.failures_of(account_id), found, own_short)
        return _of_account(view, own, curve)
    curves = {
        total.currency: BalanceCurve(begin, total.balance, total.held) for total in found.sums
    }
    result.draw(
        {
            name: curves[each.currency]
            for name, each in found.accounts.items()
            if each.floor is not None and each.currency in curves
        }
    )
    totals = [_total(each, curves[each.currency]) for each in found.sums]
    view = _view(result, result.failures, found, result.short.values())
    return msgspec.structs.replace(view, totals=totals)


def _view(
    result: Projection,
    failures: Sequence[Failure],
    found: _Expected,
    falling: Iterable[ShortAccount],
) -> MoneyView:
    begin, until, known = found.window
    failing = [failing_payment(each, found.accounts) for each in failures[:MAX_FAILING]]
    short = covered(falling, found.accounts, found.expected)
    causes = failure_causes(failures, found.accounts)
    return MoneyView(
        from_at=begin,
        until_at=until,
        known_until=known,
        completed=result.completed,
        failing_count=len(failures),
        failing=failing,
        first_failing_at=failing[0].fails_at if failing else None,
        short_count=len(short),
        short=short[:MAX_SHORT],
        pay_in=pay_ins(short),
        cause_count=len(causes),
        causes=causes[:MAX_CAUSES],
        left_out=found.left_out,
    )


def _total(summed: AccountSum, curve: BalanceCurve) -> MoneyTotal:
    return MoneyTotal(
        currency=summed.currency,
        accounts=summed.accounts,
        lowest=curve.lowest,
        end=curve.end,
        points=curve.thinned(MAX_POINTS),
    )


def _of_account(view: MoneyView, account: ProjectedAccount, curve: BalanceCurve) -> MoneyView:
    return msgspec.structs.replace(
        view,
        account_id=account.account_id,
        currency=account.currency,
        balance=account.balance,
        available=account.available,
        floor=account.floor,
        lowest=curve.lowest,
        first_short_at=view.short[0].first_short_at if view.short else None,
        end=curve.end,
        points=curve.thinned(MAX_POINTS),
    )
