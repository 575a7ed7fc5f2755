from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postdate.account.store.account import Account, AccountTerms
from postdate.core.money import ISSUER, MAX_BALANCE
from postdate.ledger.account import adjust, change
from postdate.ledger.hold import admit, reserve
from postdate.payment.spec.payment import AmountLimits, PaymentOrder
from postdate.words.error import Code, Refusal


def account(name: str = "alice", balance: int = 0, held: int = 0, floor: int | None = 0) -> Account:
    return Account(0, 1, name, balance, held, 0, floor, None, None, None)


amounts = st.integers(1, 1000)


@given(
    balance=st.integers(0, 5000),
    floor=st.none() | st.integers(-1000, 0),
    wanted=st.lists(amounts, max_size=30),
)
def test_holds_never_pass_the_floor_and_refuse_nothing_they_could_take(
    balance: int, floor: int | None, wanted: list[int]
) -> None:
    holder = account(balance=balance, floor=floor)
    for amount in wanted:
        before = holder.held
        refusal = reserve(holder, amount)
        fits = floor is None or balance - before - amount >= floor
        assert (refusal is None) == fits
        assert holder.held == before + (amount if fits else 0)
    assert (holder.balance, holder.version) == (balance, 0)


@given(st.lists(st.integers(-3000, 3000).filter(bool), max_size=30))
def test_adjustments_sum_to_zero_at_every_step(wanted: list[int]) -> None:
    one, issuer = account(), account(ISSUER, floor=None)
    for amount in wanted:
        before = one.balance
        done = adjust(one, issuer, "alice", amount)
        assert isinstance(done, Refusal) == (before + amount < 0)
        assert one.balance + issuer.balance == 0
        assert one.version == issuer.version


def test_no_balance_leaves_the_range_of_the_database() -> None:
    one, issuer = account(balance=MAX_BALANCE), account(ISSUER, -MAX_BALANCE, floor=None)
    refused = adjust(one, issuer, "alice", 1)
    assert isinstance(refused, Refusal)
    assert refused.code is Code.BALANCE_ABOVE_LIMIT
    assert (one.balance, issuer.balance) == (MAX_BALANCE, -MAX_BALANCE)


def test_a_refused_payment_holds_nothing() -> None:
    order = PaymentOrder(from_account_id="alice", to_account_id="bob", amount=10, delay_seconds=5)
    payer, payee = account(balance=100), account("bob")
    payee.frozen_at = datetime(2026, 1, 1, tzinfo=UTC)
    refusal = admit(order, payer, payee, AmountLimits(1000, 0))
    assert refusal is not None
    assert (refusal.code, payer.held) == (Code.ACCOUNT_FROZEN, 0)


def test_a_closed_account_stays_as_it_is() -> None:
    closed = AccountTerms(closed=True)
    assert change(account(), closed, closed) is None
    refusal = change(account(), closed, AccountTerms(closed=True, frozen=True))
    assert refusal is not None
    assert refusal.code is Code.ACCOUNT_CLOSED


@pytest.mark.parametrize(
    ("allowed", "own", "limit"),
    [
        (0, None, 1000),
        (0, 500, 500),
        (0, 5000, 1000),
        (3000, None, 1000),
        (3000, 500, 500),
        (3000, 2000, 2000),
        (3000, 5000, 3000),
        (500, 5000, 1000),
    ],
)
def test_an_account_goes_above_the_limit_of_its_tenant_as_far_as_the_operator_allows(
    allowed: int, own: int | None, limit: int
) -> None:
    assert AmountLimits(1000, allowed).for_account(own) == limit
