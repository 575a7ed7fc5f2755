"""What is remembered of open payments and standing orders: within limits, whoever asks."""

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from postdate.model.foresight.money import ExpectedTerms, expected_payment
from postdate.model.schedule.schedule import EPOCH
from postdate.store.foresight import money as store
from postdate.store.foresight.money import KnownPayments
from postdate.views.foresight import money
from postdate.views.foresight.money import PaymentMemory
from postdate.views.foresight.rules import supposed
from postdate.views.foresight.standing_order import OrderLists

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
TERMS = ExpectedTerms(from_account_id="ada", to_account_id="bob", amount=1)


def _remember(memory: PaymentMemory, tenant_id: int, first: int, count: int) -> None:
    read = {at.to_bytes(24): expected_payment(at, TERMS) for at in range(first, first + count)}
    memory.of(tenant_id).payments |= read


def test_a_tenant_alone_that_moves_its_payments_on_and_on_does_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(money, "MAX_KNOWN", 100)
    memory = PaymentMemory()
    for question in range(10):
        _remember(memory, 1, question * 40, 40)
        assert len(memory.of(1).payments) <= 100


def test_what_others_asked_for_longest_ago_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(money, "MAX_KNOWN", 100)
    memory = PaymentMemory()
    for tenant_id in (1, 2, 3):
        _remember(memory, tenant_id, 0, 40)
    assert [len(memory.of(tenant_id).payments) for tenant_id in (3, 2, 1)] == [40, 40, 0]


def test_tenants_without_payments_are_forgotten_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(money, "MAX_TENANTS", 3)
    memory = PaymentMemory()
    known = [memory.of(tenant_id) for tenant_id in range(10)]
    assert memory.of(9) is known[9]
    assert memory.of(0) is not known[0]


def test_a_short_window_goes_over_what_is_due_later_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SPARE_PAYMENTS", 10)
    known = KnownPayments()
    late = (NOW + timedelta(days=9) - EPOCH) // timedelta(microseconds=1)
    known.payments = {at.to_bytes(24): expected_payment(late + at, TERMS) for at in range(50)}
    known.forget_ended([], NOW)
    kept = known.payments
    known.forget_ended([], NOW)
    assert known.payments is kept
    assert len(kept) == 50
    known.payments |= {at.to_bytes(24): expected_payment(1, TERMS) for at in range(50, 121)}
    known.forget_ended([], NOW)
    assert len(known.payments) == 50


def test_questions_of_many_tenants_at_once_share_the_lists() -> None:
    lists, books = OrderLists(), [supposed([]) for _ in range(2000)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as threads:
            found = threads.map(lambda book: lists.get(book, NOW, NOW + timedelta(days=1)), books)
            assert all(not each.payments for each in found)
    finally:
        sys.setswitchinterval(before)
