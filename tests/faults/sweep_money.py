"""What callers ask for and what moves money, swept: accept, cancel, approve, halt, settle."""

from contextlib import suppress
from datetime import timedelta
from typing import ClassVar
from uuid import UUID

from faults.sweep import Nodes, Operation
from postdate.core.identity import Identity, Scope
from postdate.core.setting.setting import Settings, Stored
from postdate.database.connection.database import Database
from postdate.halt.change import Halting
from postdate.halt.spec import Halts
from postdate.intake.idempotency import Refused
from postdate.job.change.change import JobChanges
from postdate.payment.accept.intake import PaymentIntake
from postdate.payment.accept.request import PaymentRequest
from postdate.payment.change.approval import Approvals
from postdate.payment.change.change import PaymentChanges
from postdate.payment.spec.payment import PaymentOrder
from postdate.settlement.halt_end import HaltEnds
from postdate.words.error import RefusedError
from support.bank import Bank, DuePayment, drain, settler
from support.job import ask, make_intake

AMOUNT = 10


def identity(tenant_id: int, number: int = 1) -> Identity:
    key_id = str(UUID(int=number))
    return Identity(tenant_id=tenant_id, tenant="t", key_id=key_id, scopes=frozenset({Scope.ADMIN}))


class MoneyOperation(Operation):
    """One tenant with two accounts, and a caller who asks again when an answer is lost."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__(nodes)
        self.wrong: list[str] = []
        self.acknowledged: list[UUID] = []

    async def prepare(self) -> None:
        self.tenant_id = await self.nodes.new_tenant()
        self.who = identity(self.tenant_id)
        self.bank = Bank(self.nodes.direct, self.tenant_id)
        await self.bank.open({"a": 1000, "b": 0})

    async def count(self, table: str, more: str = "") -> int:
        found: int = await self.nodes.direct.writer.fetchval(
            f"SELECT count(*) FROM {table} WHERE tenant_id = $1 {more}", self.tenant_id
        )
        return found

    async def ids(self, table: str) -> list[UUID]:
        rows = await self.nodes.direct.writer.fetch(
            f"SELECT {table}_id FROM {table} WHERE tenant_id = $1", self.tenant_id
        )
        return [row[0] for row in rows]

    def expect(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self.wrong.append(f"{what}: {found}, not {wanted}")

    async def expect_money(self, a: tuple[int, int], b: tuple[int, int]) -> None:
        """Balance and hold of both accounts."""
        balances = await self.bank.balances()
        self.expect("a", balances["a"][:2], a)
        self.expect("b", balances["b"][:2], b)

    async def settle_everything(self) -> None:
        for database in (self.nodes.proxied, self.nodes.direct):
            await drain(settler(database))

    async def violations(self) -> list[str]:
        return self.wrong


class AcceptPayment(MoneyOperation):
    name = "accept payment"

    def _request(self) -> PaymentRequest:
        order = PaymentOrder(
            from_account_id="a", to_account_id="b", amount=AMOUNT, delay_seconds=3600
        )
        return PaymentRequest(order, "key")

    async def _schedule(self, database: Database) -> None:
        answer = await PaymentIntake(database, Settings()).submit(self.who, self._request())
        if isinstance(answer, Refused):
            raise RefusedError(answer.refusal)

    async def act(self) -> None:
        await self._schedule(self.nodes.proxied)
        self.acknowledged = await self.ids("payment")

    async def finish(self) -> None:
        await self._schedule(self.nodes.direct)
        if self.acknowledged:
            self.expect("what was acknowledged", await self.ids("payment"), self.acknowledged)

    async def violations(self) -> list[str]:
        self.expect("payments", await self.count("payment"), 1)
        self.expect("timers", await self.count("timer"), 1)
        await self.expect_money((1000, AMOUNT), (0, 0))
        return self.wrong


class AcceptJob(MoneyOperation):
    name = "accept job"

    async def submit(self, database: Database) -> None:
        wanted = ask(self.tenant_id, "key", delay_seconds=3600)
        answer = await make_intake(database).submit(wanted)
        if isinstance(answer, Refused):
            raise RefusedError(answer.refusal)

    async def act(self) -> None:
        await self.submit(self.nodes.proxied)
        self.acknowledged = await self.ids("job")

    async def finish(self) -> None:
        await self.submit(self.nodes.direct)
        if self.acknowledged:
            self.expect("what was acknowledged", await self.ids("job"), self.acknowledged)

    async def violations(self) -> list[str]:
        self.expect("jobs", await self.count("job"), 1)
        self.expect("timers", await self.count("timer"), 1)
        return self.wrong


class CancelPayment(MoneyOperation):
    name = "cancel payment"

    async def prepare(self) -> None:
        await super().prepare()
        due = await self.bank.now() + timedelta(hours=1)
        [self.payment] = await self.bank.pay([DuePayment("a", "b", AMOUNT, due)])

    async def _cancel(self, database: Database) -> None:
        await PaymentChanges(database, Settings()).cancel(self.who, self.payment)

    async def act(self) -> None:
        await self._cancel(self.nodes.proxied)

    async def finish(self) -> None:
        with suppress(RefusedError):  # it has ended already
            await self._cancel(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("ends", await self.count("outcome", "AND status = 'CANCELLED'"), 1)
        self.expect("timers", await self.count("timer"), 0)
        await self.expect_money((1000, 0), (0, 0))
        return self.wrong


class CancelJob(AcceptJob):
    name = "cancel job"

    async def prepare(self) -> None:
        await super().prepare()
        await self.submit(self.nodes.direct)
        [self.job] = await self.ids("job")

    async def _cancel(self, database: Database) -> None:
        await JobChanges(database, Settings()).cancel(self.tenant_id, self.job, "test")

    async def act(self) -> None:
        await self._cancel(self.nodes.proxied)

    async def finish(self) -> None:
        with suppress(RefusedError):
            await self._cancel(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("ends", await self.count("outcome", "AND status = 'CANCELLED'"), 1)
        self.expect("timers", await self.count("timer"), 0)
        return self.wrong


class Settle(MoneyOperation):
    """PaymentIntake with holds, on the spot, and one that fails: every statement is used."""

    name = "settle"
    batch: ClassVar[int] = 1000

    async def prepare(self) -> None:
        await super().prepare()
        at = await self.bank.now()
        wishes = [
            DuePayment("a", "b", AMOUNT, at - timedelta(seconds=9)),
            DuePayment("b", "a", AMOUNT, at - timedelta(seconds=8), hold=False),
            DuePayment("a", "b", 100_000, at - timedelta(seconds=7), hold=False),
            DuePayment("a", "b", AMOUNT, at - timedelta(seconds=6)),
        ]
        self.payments = await self.bank.pay(wishes)

    async def act(self) -> None:
        await settler(self.nodes.proxied, self.batch).run_once()

    async def meanwhile(self) -> None:
        await settler(self.nodes.direct, self.batch).run_once()

    async def finish(self) -> None:
        await self.settle_everything()

    async def violations(self) -> list[str]:
        ends = [await self.bank.outcome(payment) for payment in self.payments]
        self.expect(
            "ends",
            [end and end["status"] for end in ends],
            ["COMPLETED", "COMPLETED", "FAILED", "COMPLETED"],
        )
        self.expect("outcomes", await self.count("outcome"), 4)
        await self.expect_money((990, 0), (10, 0))
        return self.wrong


class SettleTwoBatches(Settle):
    name = "settle in turns"
    batch: ClassVar[int] = 2


class SettleHeld(MoneyOperation):
    """Payments with holds alone, which the database settles itself, in batches in turns."""

    name = "settle held"

    async def prepare(self) -> None:
        await super().prepare()
        at = await self.bank.now()
        wishes = [DuePayment("a", "b", AMOUNT, at - timedelta(seconds=9 - n)) for n in range(5)]
        self.payments = await self.bank.pay(wishes)

    async def act(self) -> None:
        await settler(self.nodes.proxied, 2).run_once()

    async def meanwhile(self) -> None:
        await settler(self.nodes.direct, 2).run_once()

    async def finish(self) -> None:
        await self.settle_everything()

    async def violations(self) -> list[str]:
        ends = [await self.bank.outcome(payment) for payment in self.payments]
        self.expect("ends", [end and end["status"] for end in ends], ["COMPLETED"] * 5)
        self.expect("outcomes", await self.count("outcome"), 5)
        await self.expect_money((1000 - 5 * AMOUNT, 0), (5 * AMOUNT, 0))
        return self.wrong


class Approve(MoneyOperation):
    name = "approve"

    async def prepare(self) -> None:
        await super().prepare()
        limit = Settings({(0, "payment.approval_above"): Stored(0, "payment.approval_above", 1)})
        order = PaymentOrder(from_account_id="a", to_account_id="b", amount=AMOUNT, delay_seconds=1)
        answer = await PaymentIntake(self.nodes.direct, limit).submit(
            self.who, PaymentRequest(order, "key")
        )
        assert not isinstance(answer, Refused), answer
        [self.payment] = await self.ids("payment")

    async def _approve(self, database: Database) -> None:
        await Approvals(database).approve(identity(self.tenant_id, 2), self.payment, None)

    async def act(self) -> None:
        await self._approve(self.nodes.proxied)

    async def finish(self) -> None:
        with suppress(RefusedError):  # it was decided already
            await self._approve(self.nodes.direct)
        await self.nodes.direct.writer.execute(
            "UPDATE timer SET due_at = least(due_at, clock()) WHERE tenant_id = $1", self.tenant_id
        )
        await self.settle_everything()

    async def violations(self) -> list[str]:
        approved = await self.count("event", "AND type = 'payment.approved'")
        self.expect("approvals told of", approved, 1)
        self.expect("ends", await self.count("outcome", "AND status = 'COMPLETED'"), 1)
        await self.expect_money((990, 0), (10, 0))
        return self.wrong


class Halt(MoneyOperation):
    """The kill switch: nothing moves once it was acknowledged, and everything after the lifting."""

    name = "halt"

    async def prepare(self) -> None:
        await super().prepare()
        self.payments = [await self.bank.due("a", "b", AMOUNT) for _ in range(3)]

    async def _kill(self, database: Database) -> None:
        await Halting(database, Halts()).kill(self.tenant_id, "swept", "cli")

    async def act(self) -> None:
        await self._kill(self.nodes.proxied)

    async def meanwhile(self) -> None:
        await settler(self.nodes.direct).run_once(1)

    async def finish(self) -> None:
        with suppress(RefusedError):
            await self._kill(self.nodes.direct)
        before = await self.count("outcome")
        await self.settle_everything()
        self.expect("ends while halted", await self.count("outcome"), before)
        await Halting(self.nodes.direct, Halts()).lift(self.tenant_id, "kill", "cli")
        await HaltEnds(self.nodes.direct, lambda: None).run_once(1)
        await self.settle_everything()

    async def violations(self) -> list[str]:
        self.expect("ends", await self.count("outcome", "AND status = 'COMPLETED'"), 3)
        await self.expect_money((970, 0), (30, 0))
        return self.wrong


class Lift(Halt):
    """Lifting the switch, and bringing back what was set aside."""

    name = "lift a halt"
    positions: ClassVar[int] = 14  # the first two buckets stand for the others

    async def prepare(self) -> None:
        await super().prepare()
        await self._kill(self.nodes.direct)
        await settler(self.nodes.direct).run_once()

    async def act(self) -> None:
        await Halting(self.nodes.proxied, Halts()).lift(self.tenant_id, "kill", "cli")
        await HaltEnds(self.nodes.proxied, lambda: None).run_once(1)

    async def finish(self) -> None:
        with suppress(RefusedError):
            await Halting(self.nodes.direct, Halts()).lift(self.tenant_id, "kill", "cli")
        await HaltEnds(self.nodes.direct, lambda: None).run_once(1)
        await self.settle_everything()
