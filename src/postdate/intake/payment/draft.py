"""What a group of new payments writes: decided in memory, written as sets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Self
from uuid import UUID

import msgspec

from postdate.intake.accept.answers import Answer, Ask, created, refused
from postdate.ledger.hold import admit
from postdate.model.error import Refusal
from postdate.model.payment.payment import AmountLimits, PaymentOrder, due
from postdate.model.status import PaymentStatus
from postdate.store.account import account as account_store
from postdate.store.account.account import Account, AccountKey, BalanceChange
from postdate.store.connection.database import Connection
from postdate.store.payment import approval as approval_store
from postdate.store.payment import payment as payment_store
from postdate.store.payment.approval import ApprovalRequest
from postdate.store.payment.payment import NewPayment
from postdate.store.tenant import halt as halt_store
from postdate.store.timer.timer import LONG_AGO


class NeedsApproval(msgspec.Struct, frozen=True):
    """A second person must approve the payment before it is settled."""

    required: bool = True


class Scheduled(msgspec.Struct, frozen=True):
    """The answer to a payment that was accepted."""

    payment_id: UUID
    scheduled_time: datetime
    status: PaymentStatus = PaymentStatus.PENDING
    approval: NeedsApproval | msgspec.UnsetType = msgspec.UNSET


class PaymentAsk(Ask, frozen=True, kw_only=True):
    """One payment of a group, with the limits that hold for it."""

    order: PaymentOrder
    payer: AccountKey
    payee: AccountKey
    actor: str
    persons: frozenset[str]
    traceparent: str | None
    schedule_id: UUID | None
    limits: AmountLimits
    max_delay_seconds: int
    approval_seconds: float | None = None

    @property
    def holds(self) -> bool:
        """Say whether money is reserved now."""
        return self.order.funding == "hold"


class StaleError(Exception):
    """A payer has changed since it was looked at: decide again, with the payers locked."""


class Draft:
    """The rows of a group, filled item by item so that its size changes no result."""

    def __init__(
        self, accounts: Mapping[AccountKey, Account], now: datetime, *, locked: bool
    ) -> None:
        self._accounts = accounts
        self._now = now
        self._locked = locked
        self._holds: Counter[AccountKey] = Counter()
        self._payments: list[NewPayment] = []
        self._requests: list[ApprovalRequest] = []

    @classmethod
    async def begin(
        cls, connection: Connection, asks: Sequence[PaymentAsk], *, locked: bool
    ) -> Self:
        """Look at the accounts, and take the database's time; lock the payers that hold if asked.

        Payees are not locked: a busy one would make every payer wait. What becomes of a payee
        later is settlement's business.
        """
        if not asks:
            return cls({}, LONG_AGO, locked=locked)
        if locked:
            # Everybody has a share of the lock of halts before an account, or two would wait for
            # each other, a switch between them.
            await halt_store.share(connection)
        holders = {ask.payer for ask in asks if ask.holds} if locked else set()
        others = {key for ask in asks for key in (ask.payee, ask.payer)} - holders
        now, accounts = await account_store.gather(connection, holders, others)
        return cls(accounts, now, locked=locked)

    def decide(self, ask: PaymentAsk, payment_id: UUID) -> Answer:
        """Accept or refuse one payment, seeing what those before it have reserved."""
        due_at = due(ask.order, self._now, ask.max_delay_seconds)
        if isinstance(due_at, Refusal):
            return refused(due_at)
        payer, payee = self._accounts.get(ask.payer), self._accounts.get(ask.payee)
        refusal = admit(ask.order, payer, payee, ask.limits)
        if refusal is not None:
            return refused(refusal)
        return self._accept(ask, due_at, payment_id)

    def _accept(self, ask: PaymentAsk, due_at: datetime, payment_id: UUID) -> Answer:
        order, (bucket, tenant_id, _) = ask.order, ask.payer
        if ask.holds:
            self._holds[ask.payer] += order.amount
        self._payments.append(
            NewPayment(
                bucket,
                tenant_id,
                payment_id,
                order.from_account_id,
                order.to_account_id,
                order.amount,
                due_at,
                ask.holds,
                order.retry_until,
                order.description,
                ask.schedule_id,
                ask.traceparent,
                order.on_broken,
                ask.actor,
                ask.key.key,
            )
        )
        if ask.approval_seconds is None:
            return created(Scheduled(payment_id, due_at), payment_id)
        where = (bucket, tenant_id, payment_id)
        self._requests.append(
            ApprovalRequest(*where, ask.actor, ask.persons, None, None, ask.approval_seconds)
        )
        return created(Scheduled(payment_id, due_at, approval=NeedsApproval()), payment_id)

    async def write(self, connection: Connection) -> None:
        """Write payments, timers and events of everything that was accepted, then the holds."""
        await payment_store.accept(connection, self._payments)
        await approval_store.request(connection, self._requests)
        if self._locked:
            await account_store.write(connection, [self._accounts[key] for key in self._holds])
        elif self._holds:
            await self._hold(connection)

    async def _hold(self, connection: Connection) -> None:
        """Add the holds to payers that were only looked at: until now nobody waited for them.

        Their own CHECK tells whether the money is there; that nothing else about them has changed
        is looked at here.
        """
        holds = {key: BalanceChange(0, amount, 0) for key, amount in self._holds.items()}
        found = await account_store.add(connection, holds)
        if any(_terms(found.get(key)) != _terms(self._accounts[key]) for key in holds):
            raise StaleError


def _terms(account: Account | None) -> tuple[object, ...] | None:
    if account is None:
        return None
    return account.floor, account.max_amount, account.frozen_at, account.closed_at
