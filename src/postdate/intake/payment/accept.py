"""Schedule payments: hold, payment, timer, event and answer in one transaction."""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.intake.accept.answers import Answer, Answers, commit, refused
from postdate.intake.accept.busy_account import AroundLocked
from postdate.intake.accept.idempotency import InFlight, canonical, in_flight
from postdate.intake.payment.draft import Draft, PaymentAsk, StaleError
from postdate.intake.payment.meter import PaymentMeter
from postdate.model.durability import CommitSafety
from postdate.model.error import Code, Refusal
from postdate.model.payment.payment import PaymentOrder, amount_limits, approval_seconds, validate
from postdate.model.setting.setting import Settings
from postdate.model.tenant.identity import Identity
from postdate.model.tenant.quota import Quotas
from postdate.runtime.coalescer import MAX_GROUPS
from postdate.store.account.account import AccountKey, key_of
from postdate.store.connection.database import Connection, Database
from postdate.store.connection.driver_id import new_ids
from postdate.store.connection.error import CheckViolationError
from postdate.store.idempotency.idempotency import key_of as idempotency_key_of
from postdate.store.operate.item_log import items

SCOPE: Final = "payment"
BATCH_MOST: Final = 1000
"""The most payments of one request."""


class Wish(msgspec.Struct, frozen=True):
    """An order with the client's key for it, and where it comes from."""

    order: PaymentOrder
    key: str
    traceparent: str | None = None
    schedule_id: UUID | None = None


class Payments:
    """Accept payments, one by one (grouped with others) or many at once."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        meter: PaymentMeter | None = None,
        quotas: Quotas | None = None,
        safety: CommitSafety | None = None,
    ) -> None:
        self._database = database
        self._quotas = quotas or Quotas(settings)
        self._settings = settings
        self._meter = meter or PaymentMeter()
        self._safety = safety or CommitSafety(settings)
        self._in_flight = InFlight()
        self._around = AroundLocked(database, self._commit, _changed)
        self._batches = asyncio.Semaphore(MAX_GROUPS)

    async def schedule(self, who: Identity, wish: Wish) -> Answer:
        """Accept one payment, in one commit with whatever else arrives now."""
        ask = self._ask(who, wish)
        if isinstance(ask, Refusal):
            return refused(ask)
        with self._in_flight.hold(ask.key):
            return await self._around.submit(ask)

    async def schedule_all(self, who: Identity, wishes: Sequence[Wish]) -> list[Answer]:
        """Accept many payments as if one came after the other: one answer for each, in order."""
        asks = [self._ask(who, wish) for wish in wishes]
        keys = {ask.key for ask in asks if isinstance(ask, PaymentAsk)}
        with self._in_flight.hold_all(keys) as busy:
            ready = [a for a in asks if isinstance(a, PaymentAsk) and a.key not in busy]
            answers = iter(await self._commit_all(ready))
            return [
                refused(ask)
                if isinstance(ask, Refusal)
                else refused(in_flight().refusal)
                if ask.key in busy
                else next(answers)
                for ask in asks
            ]

    def _ask(self, who: Identity, wish: Wish) -> PaymentAsk | Refusal:
        order = wish.order
        refusal = self._safety.refusal() or validate(order) or _forbidden(who, order)
        if refusal is not None:
            return refusal
        tenant_id = who.tenant_id
        request = msgspec.structs.asdict(order)
        request.pop("idempotency_key", None)
        return PaymentAsk(
            key=idempotency_key_of(tenant_id, SCOPE, wish.key),
            request=canonical(request),
            order=order,
            payer=key_of(tenant_id, order.from_account_id),
            payee=key_of(tenant_id, order.to_account_id),
            actor=who.key_id,
            persons=who.persons,
            traceparent=wish.traceparent,
            schedule_id=wish.schedule_id,
            limits=amount_limits(self._settings, tenant_id),
            max_delay_seconds=self._settings.whole("payment.max_delay_seconds", tenant_id),
            approval_seconds=approval_seconds(self._settings, tenant_id, order.amount),
        )

    async def _commit_all(self, asks: Sequence[PaymentAsk]) -> list[Answer]:
        """Commit a request at once: half as many commits."""
        answers: list[Answer] = []
        async with self._batches:
            for first in range(0, len(asks), BATCH_MOST):
                answers += await self._around.commit(asks[first : first + BATCH_MOST])
        return answers

    async def _commit(self, asks: Sequence[PaymentAsk]) -> list[Answer]:
        try:
            answers = await self._answer(asks, locked=False)
        except (StaleError, CheckViolationError):
            answers = await self._answer(asks, locked=True)
        self._count(asks, answers)
        return answers

    async def _answer(self, asks: Sequence[PaymentAsk], *, locked: bool) -> list[Answer]:
        group = Group(asks, self._database.unix_ms(), self._quotas, locked)
        return await commit(self._database, partial(_accept, group))

    def _count(self, asks: Sequence[PaymentAsk], answers: Sequence[Answer]) -> None:
        fresh = [pair for pair in zip(asks, answers, strict=True) if not pair[1].replayed]
        self._meter.accepted(
            (ask.order.funding, ask.order.amount) for ask, answer in fresh if answer.subject
        )
        self._meter.refused(refusal.code for _, answer in fresh if (refusal := answer.refusal))
        if items.wants("accepted"):
            items.write("payment.accepted", [pair for pair in fresh if pair[1].subject], _line)


def _line(taken: tuple[PaymentAsk, Answer]) -> dict[str, Any]:
    ask, answer = taken
    return {"tenant_id": ask.payer.tenant_id, "payment_id": str(answer.subject)}


class Group(NamedTuple):
    """What one commit answers, and whether its payers are locked first."""

    asks: Sequence[PaymentAsk]
    unix_ms: int
    quotas: Quotas
    locked: bool


async def _accept(group: Group, connection: Connection) -> list[Answer]:
    """Answer a group: look up keys and accounts, decide in order, write as sets, holds last."""
    asks, unix_ms, quotas, locked = group
    answers = await Answers.find(connection, asks)
    fresh = [ask for ask in asks if answers.fresh(ask)]
    draft = await Draft.begin(connection, fresh, locked=locked)
    ids = new_ids([ask.payer.bucket for ask in asks], unix_ms)
    told: list[Answer] = []
    for ask, payment_id in zip(asks, ids, strict=True):
        if not answers.fresh(ask):
            told.append(answers.known(ask))
        elif refusal := quotas.take(ask.payer.tenant_id, "payments"):
            # Not remembered: there may be room the next time.
            told.append(refused(refusal))
        else:
            told.append(answers.add(ask, draft.decide(ask, payment_id)))
    await draft.write(connection)
    await answers.keep(connection)
    return told


def _changed(ask: PaymentAsk) -> Collection[AccountKey]:
    return (ask.payer,) if ask.holds else ()


def _forbidden(who: Identity, order: PaymentOrder) -> Refusal | None:
    """Hold a limited key to its accounts and amount; not remembered, another key may do it."""
    if who.accounts is not None and order.from_account_id not in who.accounts:
        return Refusal(
            Code.FORBIDDEN, f"The key may not pay from {order.from_account_id}.", "from_account_id"
        )
    if who.max_amount is not None and order.amount > who.max_amount:
        return Refusal(Code.FORBIDDEN, f"The key may pay {who.max_amount} at most.", "amount")
    return None
