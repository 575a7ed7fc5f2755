import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from postdate.account.change.account import Accounts
from postdate.account.change.adjustment import Adjustments
from postdate.account.spec import AccountSpec
from postdate.account.store import account as account_store
from postdate.account.store.account import key_of
from postdate.core.identity import Identity, Scope
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import CommitUnknownError
from postdate.database.connection.pool import Begun
from postdate.intake.idempotency import Refused
from postdate.payment.accept.intake import PaymentAnswer, PaymentIntake
from postdate.payment.accept.request import AcceptedPayment, PaymentRequest
from postdate.payment.spec.payment import PaymentOrder
from postdate.tenant.store import tenant as tenant_store
from support.transaction_faults import FaultyDatabase, nothing

NAMES = ("a", "b", "c", "d")


def identity(tenant_id: int) -> Identity:
    key_id = "00000000-0000-7000-8000-000000000000"
    return Identity(tenant_id=tenant_id, tenant="t", key_id=key_id, scopes=frozenset({Scope.ADMIN}))


async def fund(database: Database, tenant_id: int, amount: int = 1000) -> Identity:
    who = identity(tenant_id)
    for name in NAMES:
        await Accounts(database).create(who, AccountSpec(account_id=name))
        await Adjustments(database).adjust(who, name, amount, "opening", f"open-{name}")
    return who


def wish(key: str, payer: str, payee: str, amount: int, funding: str = "hold") -> PaymentRequest:
    order = PaymentOrder(
        from_account_id=payer,
        to_account_id=payee,
        amount=amount,
        delay_seconds=60,
        funding="hold" if funding == "hold" else "at_execution",
    )
    return PaymentRequest(order, key)


def outcome(answer: PaymentAnswer) -> str:
    return answer.refusal.code if isinstance(answer, Refused) else "accepted"


async def held(database: Database, tenant_id: int) -> list[int]:
    async with database.read(tenant_id) as connection:
        rows = [await account_store.find(connection, key_of(tenant_id, name)) for name in NAMES]
    return [row.held for row in rows if row]


async def count(database: Database, tenant_id: int) -> int:
    sql = "SELECT count(*) FROM payment WHERE tenant_id = $1"
    return int(await database.writer.fetchval(sql, tenant_id))


def some_wishes(seed: int, number: int) -> list[PaymentRequest]:
    """Make orders that overdraw, name nobody, and repeat keys with the same and other bodies."""
    random = Random(seed)
    keys = [f"k{random.randrange(number)}" for _ in range(number)]
    return [
        wish(
            key,
            random.choice(NAMES[:2]),
            random.choice((*NAMES[2:], "nobody")),
            random.randrange(1, 90),
            random.choice(("hold", "hold", "at_execution")),
        )
        for key in keys
    ]


@pytest.mark.parametrize("seed", range(3))
async def test_the_result_does_not_depend_on_the_size_of_the_batch(
    database: Database, tenant_id: int, seed: int
) -> None:
    wishes = some_wishes(seed, 120)
    results = []
    for size in (1, 7, 120):
        async with database.write() as connection:
            own = await tenant_store.create(connection, f"size-{tenant_id}-{size}")
        assert own is not None
        who, payments = await fund(database, own, 500), PaymentIntake(database, Settings())
        answers = []
        for first in range(0, len(wishes), size):
            answers += await payments.accept(who, wishes[first : first + size])
        results.append((list(map(outcome, answers)), await held(database, own)))
    assert results[0] == results[1] == results[2]
    assert {"accepted", "insufficient_funds", "unknown_account"} < set(results[0][0])


async def test_two_nodes_answer_a_key_once(database: Database, tenant_id: int) -> None:
    who = await fund(database, tenant_id)
    nodes = [PaymentIntake(database, Settings()) for _ in range(2)]
    wishes = [wish(f"k{n}", "a", "b", 1) for n in range(40)]
    answers = await asyncio.gather(
        *(node.submit(who, one) for one in wishes for node in nodes),
        *(node.accept(who, wishes[20:]) for node in [PaymentIntake(database, Settings())]),
    )
    singles = [a for a in answers if isinstance(a, AcceptedPayment)]
    by_pair = list(zip(singles[::2], singles[1::2], strict=True))
    assert all(left.body == right.body for left, right in by_pair)
    assert sum(a.replayed for a in singles) >= 40
    assert await count(database, tenant_id) == 40
    assert await held(database, tenant_id) == [40, 0, 0, 0]


def _pair(random: Random) -> tuple[str, str]:
    payer, payee = random.sample(NAMES, 2)
    return payer, payee


async def test_crossing_payments_do_not_deadlock(database: Database, tenant_id: int) -> None:
    who = await fund(database, tenant_id, 100_000)
    nodes = [PaymentIntake(database, Settings()) for _ in range(4)]
    random = Random(7)
    wishes = [wish(f"k{n}", *_pair(random), 1) for n in range(800)]
    answers = await asyncio.gather(
        *(nodes[n // 50 % 4].accept(who, wishes[n : n + 50]) for n in range(0, 800, 50))
    )
    assert {outcome(answer) for group in answers for answer in group} == {"accepted"}
    assert sum(await held(database, tenant_id)) == 800


class CutAfterCommit:
    """A database whose connection breaks right after the commit, once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.near = self
        self.unix_ms = database.unix_ms
        self.connection = database.connection
        self.confirm = database.confirm
        self.cuts = 1

    @asynccontextmanager
    async def after(
        self, look: Callable[[Connection], Awaitable[object]], failpoint: str = ""
    ) -> AsyncIterator[Begun]:
        async with self._database.after(look, failpoint) as begun:
            yield begun
        if self.cuts:
            self.cuts -= 1
            raise CommitUnknownError("cut")


async def test_an_unknown_commit_is_resolved_by_the_key(database: Database, tenant_id: int) -> None:
    who = await fund(database, tenant_id)
    payments = PaymentIntake(CutAfterCommit(database), Settings())  # type: ignore[arg-type]
    with pytest.raises(CommitUnknownError):
        await payments.submit(who, wish("k", "a", "b", 10))
    answer = await payments.submit(who, wish("k", "a", "b", 10))
    assert (outcome(answer), answer.replayed) == ("accepted", True)
    assert await held(database, tenant_id) == [10, 0, 0, 0]


@pytest.mark.parametrize("before", range(2))
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("UPDATE account SET frozen_at = clock()", "account_frozen"),
        ("UPDATE account SET max_amount = 5", "amount_above_limit"),
        ("UPDATE account SET floor = 995", "insufficient_funds"),
        ("UPDATE account SET held = 995", "insufficient_funds"),
    ],
)
async def test_a_payer_that_changes_meanwhile_is_decided_on_as_it_is(
    database: Database,
    tenant_id: int,
    before: int,
    change: str,
    code: str,
) -> None:
    """The payer is only looked at first; whatever comes before its hold still counts."""
    who = await fund(database, tenant_id)

    async def fault(_: Connection, number: int) -> None:
        if number == before:
            where = " WHERE tenant_id = $1 AND account_id = 'a'"
            await database.writer.execute(change + where, tenant_id)

    faulty = FaultyDatabase(database, fault)
    asked = [wish("poor", "a", "b", 10), wish("rich", "c", "d", 10)]
    answers = await PaymentIntake(faulty, Settings()).accept(who, asked)
    assert [outcome(answer) for answer in answers] == [code, "accepted"]
    assert (await held(database, tenant_id))[2] == 10
    assert await count(database, tenant_id) == 1


async def test_a_payment_is_accepted_in_two_statements(database: Database, tenant_id: int) -> None:
    """One looks, one writes and is its own transaction: no begin, no commit."""
    who = await fund(database, tenant_id)
    counted = FaultyDatabase(database, nothing)
    answer = await PaymentIntake(counted, Settings()).submit(who, wish("k", "a", "b", 10))
    assert (outcome(answer), counted.count) == ("accepted", 2)
