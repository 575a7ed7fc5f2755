"""Money ahead against a naive settlement: second by second, one payment after the other."""

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postdate.foresight.spec.balance import MICROSECOND, BalanceCurve, first_at, instant
from postdate.foresight.spec.money import (
    ExpectedPayment,
    ExpectedTerms,
    ProjectedAccount,
    expected_payment,
    failing_payment,
    ordered,
    project,
)

BEGIN = datetime(2026, 11, 17, tzinfo=UTC)
HOUR = 3600
SECOND = timedelta(seconds=1) // MICROSECOND


class Paid(NamedTuple):
    """A payment, with seconds after the beginning as its times."""

    number: int
    due: int
    payer: str
    payee: str
    amount: int
    hold: bool
    retry_until: int | None

    def expected(self) -> ExpectedPayment:
        waits = None if self.retry_until is None else (self.retry_until - self.due) * SECOND
        terms = ExpectedTerms(
            payment_id=UUID(int=self.number),
            from_account_id=self.payer,
            to_account_id=self.payee,
            amount=self.amount,
            hold=self.hold,
            waits=waits,
        )
        return expected_payment(instant(BEGIN) + self.due * SECOND, terms)


class Naive:
    """Follows the public rules by plain dictionaries, with no heap and no shared code."""

    def __init__(self, accounts: dict[str, list[int]], payments: list["Paid"]) -> None:
        self.balance = {name: own[0] for name, own in accounts.items()}
        self.held = {name: own[1] for name, own in accounts.items()}
        self.floor = {name: own[2] for name, own in accounts.items()}
        self.failing: list[tuple[int, int]] = []
        self.first_short: dict[str, int] = {}
        self.curves: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.total: list[tuple[int, int]] = []
        due: dict[int, list[tuple[int, Paid]]] = defaultdict(list)
        for each in payments:
            due[each.due].append((each.number, each))
        while due:
            second = min(due)
            for number, each in sorted(due.pop(second), key=lambda pair: pair[0]):
                retry = self.settle(second, number, each)
                if retry is not None:
                    due[retry].append((number, each))

    def settle(self, second: int, number: int, each: "Paid") -> int | None:
        payer, payee, amount = each.payer, each.payee, each.amount
        free = self.balance[payer] - self.held[payer]
        if not each.hold and free - amount < self.floor[payer]:
            self.first_short.setdefault(payer, second)
            last = -1 if each.retry_until is None else each.retry_until
            if second < last:
                return min(second + HOUR, last)
            self.failing.append((number, second))
            return None
        if each.hold:
            self.held[payer] -= amount
        self.balance[payer] -= amount
        self.balance[payee] += amount
        for name in (payer, payee):
            self.curves[name].append((second, self.balance[name] - self.held[name]))
        self.total.append((second, sum(self.balance.values()) - sum(self.held.values())))
        return None


def _seeded(seed: int, count: int, names: int) -> tuple[dict[str, list[int]], list[Paid]]:
    any_of = random.Random(seed)
    # Some have enough for whatever they are to pay, and need not be followed.
    have = (*range(0, 60, 4), *[40 * count] * 10)
    accounts = {f"a{n}": [any_of.choice(have), 0, any_of.choice((0, 0, -20))] for n in range(names)}
    payments = []
    for number in range(1, count + 1):
        payer, payee = any_of.sample(sorted(accounts), 2)
        hold, amount = any_of.random() < 0.4, any_of.randrange(1, 40)
        due = any_of.randrange(5 * HOUR)
        waits = not hold and any_of.random() < 0.3
        if hold:
            accounts[payer][0] += amount
            accounts[payer][1] += amount
        until = due + 5 * HOUR // 2 if waits else None
        payments.append(Paid(number, due, payer, payee, amount, hold, until))
    any_of.shuffle(payments)
    return accounts, payments


def _compare(seed: int, count: int, names: int) -> None:
    accounts, payments = _seeded(seed, count, names)
    naive = Naive(accounts, payments)
    copies = {
        name: ProjectedAccount(name, balance, held, floor)
        for name, (balance, held, floor) in accounts.items()
    }
    begin = instant(BEGIN)
    total = BalanceCurve(
        begin, sum(own[0] for own in accounts.values()), sum(own[1] for own in accounts.values())
    )
    curve = BalanceCurve(begin, *accounts["a0"][:2])
    found = project(copies, ordered(each.expected() for each in payments))
    found.draw({"a0": curve})
    found.draw(dict.fromkeys(copies, total))
    told = [
        (each.payment_id.int if each.payment_id else 0, (each.fails_at - BEGIN).total_seconds())
        for each in (failing_payment(failure, {}) for failure in found.failures)
    ]
    assert told == naive.failing
    assert found.completed == count - len(naive.failing)
    short = {name: (each.first_short_at - BEGIN).seconds for name, each in found.short.items()}
    assert short == naive.first_short
    points = [((each.at - BEGIN).total_seconds(), each.available) for each in curve.points[1:]]
    assert points == naive.curves["a0"]
    free = accounts["a0"][0] - accounts["a0"][1]
    assert curve.lowest.available == min([free, *(at for _, at in naive.curves["a0"])])
    ends = [((each.at - BEGIN).total_seconds(), each.available) for each in total.points[1:]]
    assert ends == naive.total


@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(2, 5))
def test_projection_equals_a_naive_settlement(seed: int, count: int, names: int) -> None:
    _compare(seed, count, names)


@pytest.mark.soak
def test_a_hundred_thousand_payments_equal_a_naive_settlement() -> None:
    _compare(22, 100_000, 500)


def test_a_long_curve_keeps_its_ends() -> None:
    curve = BalanceCurve(instant(BEGIN), 10)
    for minute in range(5000):
        curve.change(first_at(instant(BEGIN) + minute * 60 * SECOND), 1, 0)
    thin = curve.thinned(500)
    assert len(thin) <= 500
    assert (thin[0], thin[-1]) == (curve.points[0], curve.points[-1])
    assert [each.at for each in thin] == sorted(each.at for each in thin)
