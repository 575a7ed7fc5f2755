"""Payments settled ahead, against the ledger's own decisions about the same payments."""

from datetime import UTC, datetime, timedelta
from itertools import starmap
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from postdate.ledger.settle import DuePayment, TransferFailed, decide
from postdate.model.foresight.money import (
    MICROSECOND,
    BalanceCurve,
    BalanceWatch,
    ExpectedPayment,
    ExpectedTerms,
    ProjectedAccount,
    due_at,
    expected_payment,
    failing_payment,
    instant,
    project,
)
from postdate.store.account.account import Account, AccountKey

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


@given(
    payments(),
    st.tuples(*[st.integers(0, 60)] * 3),
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
    curve = BalanceCurve(instant(BEGIN), ahead["a"].balance, ahead["a"].held)
    found = project(ahead, expected, BalanceWatch("a", curve))
    failed = {
        due.payment_id: str(decision.reason)
        for due, decision in zip(dues, decisions, strict=True)
        if isinstance(decision, TransferFailed)
    }
    assert {terms.payment_id: code for _, _, code, _, terms in found.failures} == failed
    assert found.completed == len(dues) - len(failed)
    for name, account in ahead.items():
        own = ledger[AccountKey(0, 1, name)]
        assert (account.balance, account.held) == (own.balance, own.held)
    assert curve.points[-1].balance == ahead["a"].balance


def test_one_that_waits_for_its_money_is_paid_when_it_comes() -> None:
    accounts = {name: ProjectedAccount(name, 0, 0) for name in NAMES}
    accounts["c"].balance = 50
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
    found = project(accounts, expected)
    [failing] = starmap(failing_payment, found.failures)
    assert (failing.due_at, failing.fails_at - BEGIN) == (BEGIN, timedelta(hours=2))
    assert (failing.code, failing.available) == ("insufficient_funds", 0)
    assert (accounts["b"].balance, found.completed) == (50, 2)


def test_in_a_total_the_money_of_a_payment_is_never_gone() -> None:
    accounts = {name: ProjectedAccount(name, 100, 0) for name in NAMES}
    accounts["c"].floor = None
    total = BalanceCurve(instant(BEGIN), 200, 0)
    expected = [
        expected_payment(
            instant(BEGIN), ExpectedTerms(from_account_id=payer, to_account_id=payee, amount=amount)
        )
        for payer, payee, amount in (("a", "b", 60), ("b", "a", 20), ("c", "a", 5), ("a", "c", 15))
    ]
    project(accounts, expected, BalanceWatch(totals={None: total}))
    assert [point.balance for point in total.points] == [200, 200, 200, 205, 190]
    assert total.lowest.available == 190
