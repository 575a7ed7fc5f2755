"""The product's ledger and the model's, side by side: every operation on both, then compared."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from uuid import UUID, uuid4

import asyncpg

from postdate.account.change.account import Accounts
from postdate.account.change.adjustment import Adjustments
from postdate.account.spec import AccountSpec
from postdate.core.identity import Identity, Scope
from postdate.database.connection import opening
from postdate.database.connection.database import Connection, Database
from postdate.intake.idempotency import Refused
from postdate.ledger.prove import prove
from postdate.payment.accept.intake import PaymentIntake
from postdate.payment.accept.request import AcceptedPayment, PaymentRequest
from postdate.payment.change.change import PaymentChanges
from postdate.payment.change.execution import PaymentExecutions
from postdate.payment.spec.payment import PaymentOrder, RetryUntil, When
from postdate.settlement.settler import Settler
from postdate.words.error import RefusedError
from support.bank import Bank, settings
from support.ledger_model import ModelLedger
from support.transaction_faults import FaultyDatabase, Killer

NAMES = ["a", "b", "c", "d"]
HISTORY_SECONDS = 120

FIXED_CLOCK = """
CREATE TABLE IF NOT EXISTS postdate.test_instant (at timestamptz NOT NULL);
GRANT SELECT, INSERT, UPDATE, DELETE ON postdate.test_instant TO postdate_writer;
GRANT SELECT ON postdate.test_instant TO postdate_reader;
INSERT INTO postdate.test_instant SELECT date_trunc('second', statement_timestamp())
    WHERE NOT EXISTS (SELECT FROM postdate.test_instant);
CREATE OR REPLACE FUNCTION postdate.clock() RETURNS timestamptz LANGUAGE sql STABLE AS
    'SELECT at FROM postdate.test_instant';
"""
"""Time that stands still unless a test moves it: both sides then know it to the second."""


class World:
    """One history."""

    def __init__(
        self, database: Database, tenant_id: int, superuser: asyncpg.Connection, max_batch: int
    ) -> None:
        self.bank = Bank(database, tenant_id)
        self.model = ModelLedger(NAMES)
        self.ids: list[UUID] = []
        self._start = datetime.now(UTC)
        self._killer = Killer(superuser)
        self._victim: int | None = None
        self._numbers = itertools.count()
        faulty = FaultyDatabase(database, self._fault)
        self._faulty = faulty
        chosen = settings()
        self._settler = Settler(faulty, chosen, uuid4(), max_batch=max_batch)
        self._payments = PaymentIntake(database, chosen)
        self._changes = PaymentChanges(database, chosen)
        self._executions = PaymentExecutions(database, chosen)
        self._adjustments = Adjustments(database)
        self._accounts = Accounts(database)
        self._who = Identity(
            tenant_id=tenant_id, tenant="t", key_id="k", scopes=frozenset({Scope.ADMIN})
        )

    @classmethod
    async def begin(cls, database: Database, superuser: asyncpg.Connection, max_batch: int) -> Self:
        tenant_id: int = await database.writer.fetchval(
            "INSERT INTO tenant (name) VALUES ($1) RETURNING tenant_id", f"t-{uuid4().hex}"
        )
        world = cls(database, tenant_id, superuser, max_batch)
        world._start = await world.bank.now()
        for name in NAMES:
            await world._accounts.create(world._who, AccountSpec(account_id=name))
            await world.adjust(name, 50)
        return world

    async def prove(self) -> None:
        proof = await prove(self.bank.database, self.bank.tenant_id)
        assert proof.findings == []

    async def end(self) -> None:
        """Leave nothing to the next history, however this one ended."""
        writer = self.bank.database.writer
        await writer.execute("DELETE FROM timer")
        await writer.execute("UPDATE test_instant SET at = $1", self._start)

    async def adjust(self, name: str, amount: int) -> None:
        if amount:
            key = f"k{next(self._numbers)}"
            told = await self._adjustments.adjust(self._who, name, amount, "test", key)
            assert _code(told) == self.model.adjust(name, amount)

    async def pay(self, *wishes: tuple[str, str, int, int, int | str | None]) -> None:
        """Schedule (payer, payee, amount, delay, funding), one by one or many at once.

        Funding is "hold", None, or how long to keep looking for the money.
        """
        now = await self.bank.now()
        asked = [PaymentRequest(_order(now, *wish), f"k{next(self._numbers)}") for wish in wishes]
        if len(asked) == 1:
            answers = [await self._payments.submit(self._who, asked[0])]
        else:
            answers = await self._payments.accept(self._who, asked)
        for (payer, payee, amount, delay, funding), told in zip(wishes, answers, strict=True):
            wait = funding if isinstance(funding, int) else None
            hold = funding == "hold"
            assert _code(told) == self.model.pay(payer, payee, amount, delay, wait, hold=hold)
            if isinstance(told, AcceptedPayment):
                self.ids.append(told.subject)
                self.model.payments[-1].identifier = told.subject.hex

    async def execute(self, number: int) -> None:
        if self.ids:
            number %= len(self.ids)
            told = await _asked(self._executions.execute(self.ids[number], f"e{number}"))
            assert told == self.model.execute(number)

    async def cancel(self, number: int) -> None:
        if self.ids:
            number %= len(self.ids)
            told = await _asked(self._changes.cancel(self._who, self.ids[number]))
            assert told == self.model.cancel(number)

    async def reschedule(self, number: int, delay: int) -> None:
        if self.ids:
            number %= len(self.ids)
            when = When(delay, None)
            told = await _asked(self._changes.reschedule(self._who, self.ids[number], when))
            assert told == self.model.reschedule(number, delay)

    async def freeze(self, name: str) -> None:
        frozen = self.model.accounts[name].frozen
        change = self._accounts.unfreeze if frozen else self._accounts.freeze
        assert await _asked(change(self._who, name)) == self.model.freeze(name)

    async def bound(self, name: str, floor: int, limit: int | None) -> None:
        wanted = {"floor": floor, "max_amount": limit}
        told = await _asked(self._accounts.change(self._who, name, wanted))
        assert told == self.model.bound(name, floor, limit)

    async def close(self, name: str) -> None:
        assert await _asked(self._accounts.close(self._who, name)) == self.model.close(name)

    async def advance(self, seconds: int) -> None:
        """Let time pass; a negative number steps the clock back."""
        self.model.now += seconds
        await self.bank.database.writer.execute(
            "UPDATE test_instant SET at = at + make_interval(secs => $1)", seconds
        )
        if seconds < 0:
            # A settler looks at least every 0.9 s, and so notices that the clock stepped back.
            await self.settle(1000)

    async def settle(self, limit: int) -> None:
        assert await self._settler.run_once(limit) == self.model.settle(limit)

    async def kill(self, statement: int) -> None:
        """Settle everything while the backend dies at some statement of the first try."""
        self._victim = self._faulty.count + statement
        await self.settle(1000)
        self._victim = None

    async def _fault(self, connection: Connection, number: int) -> None:
        if number == self._victim:
            await self._killer.kill(connection)

    async def compare(self) -> None:
        """Compare every balance, status and event."""
        balances = await self.bank.balances()
        assert balances == self.model.balances(), (balances, self.model.balances())
        rows = await self.bank.database.writer.fetch(
            """SELECT p.payment_id, coalesce(o.status, 'PENDING'),
                      ARRAY['payment.scheduled'] || (
                          SELECT array_agg(e.type ORDER BY age(e.xmin) DESC, e.event_id)
                            FROM event e WHERE e.bucket = p.bucket AND e.subject = p.payment_id)
                      || CASE o.status WHEN 'COMPLETED' THEN ARRAY['payment.completed'] END
                 FROM payment p LEFT JOIN outcome o
                   ON o.bucket = p.bucket AND o.subject = p.payment_id
                WHERE p.tenant_id = $1""",
            self.bank.tenant_id,
        )
        for payment in self.model.payments:
            found = next((row[1:] for row in rows if row[0].hex == payment.identifier), ())
            assert tuple(found) == (payment.status, payment.events), (found, payment)
        assert len(rows) == len(self.model.payments)


def _order(
    now: datetime, payer: str, payee: str, amount: int, delay: int, funding: int | str | None
) -> PaymentOrder:
    wait = timedelta(seconds=delay + funding) if isinstance(funding, int) else None
    return PaymentOrder(
        from_account_id=payer,
        to_account_id=payee,
        amount=amount,
        delay_seconds=delay,
        funding="hold" if funding == "hold" else "at_execution",
        on_insufficient="fail" if wait is None else RetryUntil(now + wait),
    )


def _code(answer: Any) -> str:
    return str(answer.refusal.code) if isinstance(answer, Refused) else "ok"


async def _asked(work: Any) -> str:
    """Do it, and give the code of a refusal, or the status that it names."""
    try:
        done = await work
    except RefusedError as error:
        return str(error.refusal.extra.get("payment_status", error.refusal.code))
    return "ok" if getattr(done, "success", True) else "failed by this execution"


async def play(
    app_dsn: str, superuser_dsn: str, steps: list[tuple[Any, ...]], max_batch: int = 1000
) -> None:
    """Run one history on connections of its own; small batches overlap."""
    database = await opening.connect(app_dsn, writers=4, readers=1)
    superuser = await asyncpg.connect(superuser_dsn)
    try:
        world = await World.begin(database, superuser, max_batch)
        try:
            async with asyncio.timeout(HISTORY_SECONDS):
                for name, *arguments in steps:
                    await getattr(world, name)(*arguments)
                    await world.compare()
                await world.prove()
        finally:
            await world.end()
    finally:
        await superuser.close()
        await database.close()
