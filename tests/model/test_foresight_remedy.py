"""How much to pay in: enough, not more than enough, and by when; and the causes of failures."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from postdate.foresight.spec.balance import MICROSECOND, at_instant, instant
from postdate.foresight.spec.money import (
    SHORT,
    ExpectedPayment,
    ExpectedTerms,
    ProjectedAccount,
    expected_payment,
    ordered,
    project,
)
from postdate.foresight.spec.remedy import FailureCause, PayIn, covered, failure_causes, pay_ins

BEGIN = instant(datetime(2026, 11, 17, tzinfo=UTC))
HOUR = timedelta(hours=1) // MICROSECOND


def pays(
    number: int, hours: float, payer: str, payee: str, amount: int, waits: int | None = None
) -> ExpectedPayment:
    terms = ExpectedTerms(payer, payee, amount, waits=waits, payment_id=UUID(int=number))
    return expected_payment(BEGIN + int(hours * HOUR), terms)


def accounts(**balances: int) -> dict[str, ProjectedAccount]:
    return {name: ProjectedAccount(name, balance, 0) for name, balance in balances.items()}


def missing(
    own: Mapping[str, ProjectedAccount], payments: list[ExpectedPayment]
) -> dict[str, tuple[int, datetime | None]]:
    short = project(own, payments).short.values()
    return {
        each.account_id: (each.missing, each.pay_in_by) for each in covered(short, own, payments)
    }


def paid_in(
    own: Mapping[str, ProjectedAccount], amounts: Mapping[str, int]
) -> dict[str, ProjectedAccount]:
    return {
        name: msgspec.structs.replace(each, balance=each.balance + amounts.get(name, 0))
        for name, each in own.items()
    }


def after(hours: float) -> datetime:
    return at_instant(BEGIN + int(hours * HOUR))


def test_all_shortfalls_count_not_only_the_first() -> None:
    own = accounts(payroll=250, ann=0)
    payments = [pays(number, number, "payroll", "ann", 100) for number in range(1, 6)]
    assert missing(own, payments) == {"payroll": (250, after(3))}


def test_a_credit_that_comes_in_between_need_not_be_paid_in() -> None:
    own = accounts(shop=0, ann=500, bank=0)
    payments = [
        pays(1, 1, "shop", "bank", 100),
        pays(2, 2, "ann", "shop", 300),
        pays(3, 3, "shop", "bank", 250),
    ]
    assert missing(own, payments) == {"shop": (100, after(1))}


def test_an_account_that_is_covered_by_another_need_not_get_anything() -> None:
    own = accounts(ann=0, bob=0, cem=0)
    payments = [pays(1, 1, "ann", "bob", 80), pays(2, 2, "bob", "cem", 80)]
    assert missing(own, payments) == {"ann": (80, after(1)), "bob": (0, None)}


def test_what_is_missing_is_added_up_by_currency_with_the_first_deadline() -> None:
    own = {
        "a": ProjectedAccount("a", 0, 0, currency="EUR"),
        "b": ProjectedAccount("b", 10, 0, currency="EUR"),
        "c": ProjectedAccount("c", 5, 0),
        "d": ProjectedAccount("d", 0, 0),
        "e": ProjectedAccount("e", 0, 0, currency="EUR"),
    }
    payments = ordered([pays(1, 3, "a", "e", 7), pays(2, 2, "b", "e", 30), pays(3, 5, "c", "d", 6)])
    short = covered(project(own, payments).short.values(), own, payments)
    assert pay_ins(short) == [
        PayIn(currency="EUR", amount=27, by=after(2), accounts=2),
        PayIn(currency=None, amount=1, by=after(5), accounts=1),
    ]


def test_failures_are_grouped_by_cause_and_name_the_account_at_fault() -> None:
    own = accounts(a=100, b=0, c=0) | {
        "shut": ProjectedAccount("shut", 0, 0, closed=True),
        "ice": ProjectedAccount("ice", 50, 0, frozen=True),
    }
    payments = [
        pays(1, 1, "a", "b", 90),
        pays(2, 2, "a", "b", 90),
        pays(3, 3, "a", "c", 20),
        pays(4, 4, "a", "shut", 1),
        pays(5, 5, "ice", "b", 1),
        pays(6, 6, "b", "ice", 2),
        pays(7, 7, "b", "gone", 3),
    ]
    found = failure_causes(project(own, payments).failures, own)

    def cause(code: str, account: str, count: int, amount: int, *hours: float) -> FailureCause:
        first, last = after(hours[0]), after(hours[-1])
        return FailureCause(
            code=code, account_id=account, currency=None, count=count, amount=amount,
            first_at=first, last_at=last,
        )  # fmt: skip

    assert found == [
        cause(SHORT, "a", 2, 110, 2, 3),
        cause("account_closed", "shut", 1, 1, 4),
        cause("account_frozen", "ice", 2, 3, 5, 6),
        cause("account_missing", "gone", 1, 3, 7),
    ]


def _seeded(
    seed: int, *, waiting: bool
) -> tuple[dict[str, ProjectedAccount], list[ExpectedPayment]]:
    any_of = random.Random(seed)
    own = {
        f"a{number}": ProjectedAccount(
            f"a{number}", any_of.randrange(60), 0, any_of.choice((0, 0, -20)),
            frozen=any_of.random() < 0.1,
        )
        for number in range(any_of.randrange(2, 6))
    }  # fmt: skip
    payments = []
    for number in range(1, any_of.randrange(2, 40)):
        payer, payee = any_of.sample(sorted(own), 2)
        waits = any_of.randrange(5) * HOUR // 2 if waiting and any_of.random() < 0.3 else None
        hours = any_of.randrange(20) / 2
        payments.append(pays(number, hours, payer, payee, any_of.randrange(1, 40), waits))
    return own, ordered(payments)


@given(st.integers(0, 2**32))
def test_what_is_missing_is_enough_for_every_payment_to_be_settled_when_due(seed: int) -> None:
    own, payments = _seeded(seed, waiting=True)
    amounts = {name: amount for name, (amount, _) in missing(own, payments).items()}
    found = project(paid_in(own, amounts), payments)
    assert not found.short
    assert all(failure[2] != SHORT for failure in found.failures)


@given(st.integers(0, 2**32))
def test_one_unit_less_is_not_enough(seed: int) -> None:
    own, payments = _seeded(seed, waiting=False)
    amounts = {name: amount for name, (amount, _) in missing(own, payments).items()}
    for name in [name for name, amount in amounts.items() if amount]:
        found = project(paid_in(own, amounts | {name: amounts[name] - 1}), payments)
        assert found.short


@given(st.integers(0, 2**32))
def test_it_is_needed_from_the_first_shortfall_on(seed: int) -> None:
    own, payments = _seeded(seed, waiting=True)
    short = covered(project(own, payments).short.values(), own, payments)
    for each in short:
        assert each.pay_in_by is None or each.pay_in_by >= each.first_short_at
        assert (each.missing > 0) == (each.pay_in_by is not None)
    assert [each.first_short_at for each in short] == sorted(one.first_short_at for one in short)
    if short:
        assert short[0].pay_in_by == short[0].first_short_at
