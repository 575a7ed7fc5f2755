"""What moves money or asks for it, killed: accept, change, approve, adjust, halt, settle, seal."""

from contextlib import suppress
from datetime import timedelta
from typing import ClassVar
from uuid import UUID

from faults import sweep_money
from faults.kill import KillOperation
from faults.sweep_money import AMOUNT, MoneyOperation, identity
from postdate.account.change.account import Accounts
from postdate.account.change.adjustment import Adjustments
from postdate.account.spec import AccountSpec
from postdate.core.setting.setting import Settings, Stored
from postdate.database.connection.database import Database
from postdate.intake.idempotency import Refused
from postdate.payment.accept.intake import PaymentIntake
from postdate.payment.accept.request import PaymentRequest
from postdate.payment.change.approval import Approvals
from postdate.payment.change.change import PaymentChanges
from postdate.payment.change.execution import PaymentExecutions
from postdate.payment.change.refund import RefundRequest, Refunds
from postdate.payment.spec.payment import PaymentOrder, When
from postdate.settlement import poison_payment
from postdate.words.error import RefusedError
from support.bank import Bank, DuePayment, drain, settings, settler


class AcceptPayment(sweep_money.AcceptPayment, KillOperation):
    pass


class CancelPayment(sweep_money.CancelPayment, KillOperation):
    pass


class Settle(sweep_money.Settle, KillOperation):
    pass


class SettleTwoBatches(sweep_money.SettleTwoBatches, KillOperation):
    pass


class SettleHeld(sweep_money.SettleHeld, KillOperation):
    pass


class Approve(sweep_money.Approve, KillOperation):
    pass


class Halt(sweep_money.Halt, KillOperation):
    pass


class Lift(sweep_money.Lift, KillOperation):
    pass


class Ask(MoneyOperation, KillOperation):
    """A payment that waits for a second person: it is written together with its request."""

    name = "ask for approval"
    limits: ClassVar[Settings] = Settings(
        {(0, name): Stored(0, name, value) for name, value in (
            ("payment.approval_above", 1), ("payment.approval_seconds", 60))}
    )  # fmt: skip

    async def ask(self, database: Database) -> None:
        order = PaymentOrder(
            from_account_id="a", to_account_id="b", amount=AMOUNT, delay_seconds=3600
        )
        wanted = PaymentRequest(order, "key")
        answer = await PaymentIntake(database, self.limits).submit(self.who, wanted)
        assert not isinstance(answer, Refused), answer

    async def act(self) -> None:
        await self.ask(self.nodes.proxied)

    async def finish(self) -> None:
        await self.ask(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("payments", await self.count("payment"), 1)
        self.expect("requests", await self.count("payment_approval"), 1)
        await self.expect_money((1000, AMOUNT), (0, 0))
        return self.wrong


class Refuse(Ask):
    """The second person refuses."""

    name = "refuse"
    code: ClassVar[str] = "approval_refused"

    async def prepare(self) -> None:
        await super().prepare()
        await self.ask(self.nodes.direct)
        [self.payment] = await self.ids("payment")

    async def decide(self, database: Database) -> None:
        await Approvals(database).refuse(identity(self.tenant_id, 2), self.payment, None)

    async def act(self) -> None:
        await self.decide(self.nodes.proxied)

    async def finish(self) -> None:
        with suppress(RefusedError):
            await self.decide(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("ends", await self.count("outcome", f"AND code = '{self.code}'"), 1)
        self.expect("timers", await self.count("timer"), 0)
        await self.expect_money((1000, 0), (0, 0))
        return self.wrong


class Expire(Refuse):
    """Nobody decides in time."""

    name = "expire"
    code: ClassVar[str] = "approval_expired"

    async def prepare(self) -> None:
        await super().prepare()
        await self.nodes.direct.writer.execute(
            "UPDATE payment_approval SET expires_at = clock() WHERE tenant_id = $1",
            self.tenant_id,
        )

    async def decide(self, database: Database) -> None:
        while await Approvals(database).run_once():
            pass


class Reschedule(MoneyOperation, KillOperation):
    """The instant moves once, and is told of once for each answer that was given."""

    name = "reschedule payment"

    async def prepare(self) -> None:
        await super().prepare()
        due = await self.bank.now() + timedelta(hours=1)
        self.when = When(None, due + timedelta(hours=1))
        [self.payment] = await self.bank.pay([DuePayment("a", "b", AMOUNT, due)])

    async def move(self, database: Database) -> None:
        changes = PaymentChanges(database, Settings())
        await changes.reschedule(self.who, self.payment, self.when)

    async def act(self) -> None:
        await self.move(self.nodes.proxied)

    async def finish(self) -> None:
        await self.move(self.nodes.direct)

    async def violations(self) -> list[str]:
        timer = await self.bank.timer(self.payment)
        self.expect("due", timer["due_at"], self.when.scheduled_time)
        await self.expect_money((1000, AMOUNT), (0, 0))
        return self.wrong


class Execute(MoneyOperation, KillOperation):
    """A payment that somebody executes by name."""

    name = "execute"

    async def prepare(self) -> None:
        await super().prepare()
        self.payment = await self.bank.due("a", "b", AMOUNT)

    async def execute(self, database: Database, who: str) -> None:
        await PaymentExecutions(database, settings()).execute(self.payment, who)

    async def act(self) -> None:
        await self.execute(self.nodes.proxied, "first")

    async def finish(self) -> None:
        await self.execute(self.nodes.direct, "second")

    async def violations(self) -> list[str]:
        self.expect("ends", await self.count("outcome", "AND status = 'COMPLETED'"), 1)
        await self.expect_money((990, 0), (10, 0))
        return self.wrong


class Refund(Execute):
    """A settled payment is paid back under one key, however often that is asked."""

    name = "refund"

    async def prepare(self) -> None:
        await super().prepare()
        await self.execute(self.nodes.direct, "first")

    async def refund(self, database: Database) -> None:
        refunds = Refunds(database, PaymentIntake(database, settings()))
        wanted = RefundRequest(payment_id=self.payment, key="back")
        await refunds.refund(identity(self.tenant_id), wanted)

    async def act(self) -> None:
        await self.refund(self.nodes.proxied)

    async def finish(self) -> None:
        await self.refund(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("refunds", await self.count("payment", "AND refund_of IS NOT NULL"), 1)
        await self.expect_money((990, 0), (10, 10))
        return self.wrong


class GiveUp(Execute):
    """What becomes of a payment that broke its batch is written, and it is tried again."""

    name = "give up"

    async def act(self) -> None:
        key = sweep_key(self.payment)
        await poison_payment.record(self.nodes.proxied, settings(), key, ValueError("broken"))

    async def finish(self) -> None:
        await self.nodes.direct.writer.execute(
            "UPDATE timer SET due_at = least(due_at, clock()) WHERE tenant_id = $1", self.tenant_id
        )
        await drain(settler(self.nodes.direct))


def sweep_key(payment_id: UUID) -> tuple[int, UUID]:
    return (payment_id.int >> 64) & 63, payment_id


class Adjust(MoneyOperation, KillOperation):
    """Money comes in once for a key."""

    name = "adjust"

    async def prepare(self) -> None:
        self.tenant_id = await self.nodes.new_tenant()
        self.who = identity(self.tenant_id)
        self.bank = Bank(self.nodes.direct, self.tenant_id)

    async def adjust(self, database: Database) -> None:
        accounts = Accounts(database)
        for name in ("a", "b"):
            with suppress(RefusedError):
                await accounts.create(self.who, AccountSpec(account_id=name))
        await Adjustments(database).adjust(self.who, "a", AMOUNT, "salary", "key")
        with suppress(RefusedError):
            await accounts.freeze(self.who, "b")
            await accounts.unfreeze(self.who, "b")
            await accounts.change(self.who, "b", {"note": "spare"})
            await accounts.close(self.who, "b")

    async def act(self) -> None:
        await self.adjust(self.nodes.proxied)

    async def finish(self) -> None:
        await self.adjust(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("entries", await self.count("entry"), 2)
        self.expect("accounts told of", await self.told("account.created"), 3)
        await self.expect_money((AMOUNT, 0), (0, 0))
        return self.wrong

    async def told(self, kind: str) -> int:
        return await self.count("event", f"AND type = '{kind}'")


OPERATIONS: list[type[KillOperation]] = [
    AcceptPayment, CancelPayment, Settle, SettleTwoBatches, SettleHeld, Approve, Halt, Lift, Ask,
    Refuse, Expire, Reschedule, Execute, Refund, GiveUp, Adjust,
]  # fmt: skip
