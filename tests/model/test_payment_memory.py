"""What is remembered of open payments and standing orders: within limits, whoever asks."""

import asyncio
import random
import sys
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, cast
from uuid import UUID

import pytest

from postdate.core.ids import bucket_of
from postdate.foresight.spec.balance import MICROSECOND
from postdate.foresight.spec.money import (
    ExpectedPayment,
    ExpectedTerms,
    due_at,
    expected_payment,
    merged,
)
from postdate.foresight.store import money as money_store
from postdate.foresight.store.money import KnownPayments
from postdate.foresight.view import money
from postdate.foresight.view.money import PaymentMemory
from postdate.foresight.view.rules import supposed
from postdate.foresight.view.standing_order import OrderLists

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
MILLENNIUM = datetime(2000, 1, 1, tzinfo=UTC)
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


class Stored:
    """The payments of a tenant as a database has them, and as it is asked for them."""

    def __init__(self, seed: int) -> None:
        self.any_of = random.Random(seed)
        self.due: dict[UUID, int] = {}
        self.read = 0

    def add(self, count: int) -> None:
        for _ in range(count):
            payment_id = UUID(int=self.any_of.getrandbits(128))
            self.due[payment_id] = self.any_of.randrange(DAY)

    def change(self) -> None:
        """Let some end, move some, and add some."""
        for payment_id in self.any_of.sample(sorted(self.due), len(self.due) // 10):
            if self.any_of.random() < 0.5:
                del self.due[payment_id]
            else:
                self.due[payment_id] = self.any_of.randrange(DAY)
        self.add(self.any_of.randrange(4))

    def runs(self, until: int) -> list[bytes]:
        """Return the timers before an instant, bucket by bucket, those of an instant anyhow."""
        found: dict[int, list[bytes]] = defaultdict(list)
        pairs = [*self.due.items()]
        self.any_of.shuffle(pairs)
        for payment_id, at in sorted(pairs, key=itemgetter(1)):
            if at < until:
                found[bucket_of(payment_id)].append(at.to_bytes(8) + payment_id.bytes)
        return [b"".join(each) for each in found.values()]

    def expected(self, until: int) -> list[tuple[int, UUID]]:
        """Return the payments before an instant in the order of settlement."""
        return sorted((at, payment_id) for payment_id, at in self.due.items() if at < until)

    async def fetch(
        self, query: str, tenant_id: int, buckets: list[int], ids: list[str]
    ) -> list[tuple[object, ...]]:
        assert "payment_terms" in query
        wanted = [UUID(each) for each in ids]
        assert [bucket_of(each) for each in wanted] == buckets
        self.read += len(ids)
        return [(each, f"a{tenant_id}", "bob", 1, False, None, None) for each in wanted]


DAY = 86_400 * 4
"""Of a few ticks in each second, so that many are due at the same instant."""


@pytest.mark.parametrize("seed", range(20))
async def test_remembered_payments_equal_those_of_the_database(seed: int) -> None:
    stored, known = Stored(seed), KnownPayments()
    stored.add(300)
    for _ in range(30):
        until = stored.any_of.choice((DAY, DAY // 2, DAY // 100, stored.any_of.randrange(DAY)))
        stored.read = 0
        found, names = await known.follow(
            cast("Any", stored), 7, filter(None, stored.runs(until)), until
        )
        told = [(due_at(each) - MILLENNIUM, each[1].payment_id) for each in found]
        assert told == [(at * MICROSECOND, each) for at, each in stored.expected(until)]
        assert names == ({"a7", "bob"} if found else set())
        assert len(known.payments) <= 2 * len(stored.due) + 100
        if stored.any_of.random() < 0.7:
            stored.change()


async def test_what_has_not_changed_is_not_read_again() -> None:
    stored, known = Stored(22), KnownPayments()
    stored.add(300)
    runs = {until: stored.runs(until) for until in (DAY, DAY // 2)}
    for until in (DAY, DAY // 2, DAY):
        await known.follow(cast("Any", stored), 7, runs[until], until)
        assert (stored.read, len(known.payments)) == (300, 300)


async def test_questions_at_the_same_time_read_a_payment_once() -> None:
    stored, known = Stored(22), KnownPayments()
    stored.add(300)
    questions = [known.follow(cast("Any", stored), 7, stored.runs(DAY), DAY) for _ in range(4)]
    found = await asyncio.gather(*questions)
    assert stored.read == 300
    assert [len(payments) for payments, _ in found] == [300] * 4


async def test_a_question_that_is_given_up_meanwhile_loses_and_doubles_no_payment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored, known = Stored(22), KnownPayments()
    stored.add(300)
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(one: list[ExpectedPayment], other: list[ExpectedPayment]) -> list[ExpectedPayment]:
        if begun.is_set():
            return merged(one, other)
        begun.set()
        go_on.wait(10)
        ended.set()
        return merged(one, other)

    async def ask() -> int:
        found, _ = await known.follow(cast("Any", stored), 7, stored.runs(DAY), DAY)
        return len(found)

    monkeypatch.setattr(money_store, "merged", slow)
    given_up = asyncio.create_task(ask())
    assert await asyncio.to_thread(begun.wait, 10)
    given_up.cancel()
    [told] = await asyncio.gather(given_up, return_exceptions=True)
    assert isinstance(told, asyncio.CancelledError)
    try:
        assert await ask() == 300
    finally:
        go_on.set()
    assert await asyncio.to_thread(ended.wait, 10)
    assert await ask() == 300


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
