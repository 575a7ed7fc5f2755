"""Payments settled ahead, against the ledger's own decisions about the same payments."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from postdate.account.store.account import Account, AccountKey
from postdate.core.money import MAX_BALANCE
from postdate.foresight.spec.balance import MICROSECOND, BalanceCurve, instant
from postdate.foresight.spec.money import (
    ExpectedPayment,
    ExpectedTerms,
    ProjectedAccount,
    due_at,
    expected_payment,
    failing_payment,
    merged,
    ordered,
    project,
)
from postdate.ledger.settle import DuePayment, TransferFailed, decide

BEGIN = datetime(2026, 11, 17, tzinfo=UTC)
NAMES = ("a", "b", "c")


@st.composite
def payments(draw: st.DrawFn) -> list[ExpectedPayment]:
    found = []
    for number in range(draw(st.integers(1, 25))):
        payer, payee = draw(st.permutations(NAMES))[:2]
        found.append(
            expected_payment(
                instant(BEGIN) + draw(st.integers(0, 9)),
                ExpectedTerms(
                    payment_id=UUID(int=number),
                    from_account_id=payer,
                    to_account_id=payee,
                    amount=draw(st.integers(1, 40)),
                    hold=draw(st.booleans()),
                ),
            )
        )
    return found


SPARE = st.one_of(st.integers(0, 60), st.just(2000), st.integers(1, 60).map(lambda n: -n))
"""What an account has to spend: too little for some payments, enough for all, or the limit."""


@given(
    payments(),
    st.tuples(*[SPARE] * 3),
    st.sampled_from((None, 0, 10)),
    st.sampled_from((*NAMES, None)),
)
def test_projection_equals_the_decisions_of_the_ledger(
    expected: list[ExpectedPayment],
    balances: tuple[int, ...],
    floor: int | None,
    frozen: str | None,
) -> None:
    held = {
        name: sum(p.amount for _, p in expected if p.hold and p.from_account_id == name)
        for name in NAMES
    }
    ahead, ledger = {}, {}
    for name, spare in zip(NAMES, balances, strict=True):
        balance, at = spare + held[name] + (floor or 0), BEGIN if name == frozen else None
        balance = MAX_BALANCE + spare if spare < 0 else balance
        ahead[name] = ProjectedAccount(name, balance, held[name], floor, frozen=at is not None)
        key = AccountKey(0, 1, name)
        ledger[key] = Account(0, 1, name, balance, held[name], 0, floor, None, at, None)
    order = sorted(expected, key=lambda each: (due_at(each), str(each[1].payment_id)))
    dues = [
        DuePayment(
            due_at((place, p)),
            p.payment_id or UUID(int=0),
            AccountKey(0, 1, p.from_account_id),
            AccountKey(0, 1, p.to_account_id),
            p.amount,
            p.hold,
            None,
            0,
        )
        for place, p in order
    ]
    decisions = decide(ledger, dues, BEGIN, lambda _: timedelta(0))
    found = project(ahead, ordered(expected))
    failed = {
        due.payment_id: str(decision.reason)
        for due, decision in zip(dues, decisions, strict=True)
        if isinstance(decision, TransferFailed)
    }
    assert {terms.payment_id: code for _, _, code, _, terms in found.failures} == failed
    assert found.completed == len(dues) - len(failed)
    for name, account in ahead.items():
        own = ledger[AccountKey(0, 1, name)]
        curve = BalanceCurve(instant(BEGIN), account.balance, account.held)
        found.draw({name: curve})
        assert (curve.end.balance, curve.end.held) == (own.balance, own.held)
    together = BalanceCurve(instant(BEGIN))
    found.draw(dict.fromkeys(NAMES, together))
    assert together.end.balance == 0
    assert together.end.held == -sum(held.values())


def test_accounts_of_several_currencies_pay_only_their_like() -> None:
    currencies = {"a": "EUR", "b": "EUR", "c": None}
    accounts = {
        name: ProjectedAccount(name, 100, 0, currency=each) for name, each in currencies.items()
    }
    expected = [
        expected_payment(
            instant(BEGIN) + number,
            ExpectedTerms(from_account_id=payer, to_account_id=payee, amount=amount),
        )
        for number, (payer, payee, amount) in enumerate(
            (("a", "b", 60), ("a", "c", 10), ("b", "a", 150), ("c", "b", 5), ("a", "b", 200))
        )
    ]
    found = project(accounts, expected)
    assert [(at - instant(BEGIN), code) for at, _, code, _, _ in found.failures] == [
        (1, "currency_mismatch"),
        (3, "currency_mismatch"),
        (4, "insufficient_funds"),
    ]
    assert found.done == [expected[0], expected[2]]


def test_a_held_payment_of_a_missing_payer_fails_beside_those_that_are_sure() -> None:
    accounts = {name: ProjectedAccount(name, 100, 50) for name in ("a", "b")}
    expected = [
        expected_payment(
            instant(BEGIN) + number,
            ExpectedTerms(from_account_id=payer, to_account_id=payee, amount=20, hold=True),
        )
        for number, (payer, payee) in enumerate((("a", "b"), ("c", "a"), ("b", "c"), ("b", "a")))
    ]
    found = project(accounts, expected)
    assert [code for _, _, code, _, _ in found.failures] == ["account_missing"] * 2
    curve = BalanceCurve(instant(BEGIN), 200, 100)
    found.draw(dict.fromkeys(accounts, curve))
    assert [each.held for each in curve.points] == [100, 80, 60, 40]


@given(payments(), payments())
def test_merging_equals_sorting(one: list[ExpectedPayment], other: list[ExpectedPayment]) -> None:
    both = sorted(one + other, key=lambda each: each[0])
    assert ordered(one + other) == both
    assert merged(ordered(one), ordered(other)) == both


def test_long_lists_are_merged_in_pieces_and_stay_in_order() -> None:
    terms = ExpectedTerms(from_account_id="a", to_account_id="b", amount=1)
    one = [expected_payment(at // 3, terms) for at in range(10_000)]
    other = [expected_payment(at // 7 + 1000, terms) for at in range(10_000)]
    assert merged(one, other) == sorted(one + other, key=lambda each: each[0])


def test_one_that_waits_for_its_money_is_paid_when_it_comes() -> None:
    accounts = {name: ProjectedAccount(name, 50 if name == "c" else 0, 0) for name in NAMES}
    begin, hour = instant(BEGIN), timedelta(hours=1) // MICROSECOND
    expected = [
        expected_payment(
            begin,
            ExpectedTerms(from_account_id="a", to_account_id="b", amount=50, waits=wait * hour),
        )
        for wait in (2, 5)
    ]
    credit = ExpectedTerms(from_account_id="c", to_account_id="a", amount=50)
    expected.append(expected_payment(begin + 3 * hour, credit))
    found = project(accounts, ordered(expected))
    [failing] = [failing_payment(each, {}) for each in found.failures]
    assert (failing.due_at, failing.fails_at - BEGIN) == (BEGIN, timedelta(hours=2))
    assert (failing.code, failing.available) == ("insufficient_funds", 0)
    paid = BalanceCurve(begin)
    found.draw({"b": paid})
    assert [(instant(each.at) - begin, each.balance) for each in paid.points[1:]] == [
        (4 * hour, 50)
    ]
    assert found.completed == 2


def test_in_a_total_the_money_of_a_payment_is_never_gone() -> None:
    accounts = {name: ProjectedAccount(name, 100, 0, None if name == "c" else 0) for name in NAMES}
    total = BalanceCurve(instant(BEGIN), 200, 0)
    expected = [
        expected_payment(
            instant(BEGIN), ExpectedTerms(from_account_id=payer, to_account_id=payee, amount=amount)
        )
        for payer, payee, amount in (("a", "b", 60), ("b", "a", 20), ("c", "a", 5), ("a", "c", 15))
    ]
    project(accounts, expected).draw({"a": total, "b": total})
    assert [point.balance for point in total.points] == [200, 200, 200, 205, 190]
    assert total.lowest.available == 190
