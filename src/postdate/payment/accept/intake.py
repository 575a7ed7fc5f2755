"""Accept payments: hold, payment, timer, event and key in one transaction."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from postdate.account.store.account import AccountKey, key_of
from postdate.core.identity import Identity
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.database.durability_rule import CommitSafety
from postdate.halt import store as halt_store
from postdate.intake.busy_account import AroundBusyAccounts
from postdate.intake.idempotency import OpenKeys, Refused, canonical, key_busy, keyed
from postdate.intake.pipeline import Known, Pipeline, Strategy
from postdate.intake.store import IdempotencyKey, KeyScope
from postdate.intake.store import key_of as idempotency_key_of
from postdate.monitor.store.item_log import items as item_log
from postdate.payment.accept.group import PaymentGroup
from postdate.payment.accept.meter import PaymentMeter
from postdate.payment.accept.request import (
    AcceptedPayment,
    CheckedPayment,
    NeedsApproval,
    PaymentRequest,
    Scheduled,
)
from postdate.payment.spec.payment import (
    PaymentOrder,
    amount_limits,
    approval_seconds,
    due,
    validate,
)
from postdate.payment.store import approval as approval_store
from postdate.payment.store import payment as payment_store
from postdate.runtime.coalescer import MAX_GROUPS
from postdate.tenant.spec.quota import Quotas
from postdate.words.error import Code, Refusal

MAX_BATCH: Final = 1000
"""The most payments of one request."""

ANY_DELAY_SECONDS: Final = 10**10
"""No limit at all: for what was found to be within its limits before."""

AskedBy = tuple[Identity, PaymentRequest]
PaymentAnswer = AcceptedPayment | Refused


class PaymentStrategy(Strategy[AskedBy, CheckedPayment, AcceptedPayment]):
    """How payments go through the pipeline."""

    def __init__(
        self, database: Database, settings: Settings, quotas: Quotas, safety: CommitSafety
    ) -> None:
        self._database = database
        self._settings = settings
        self._quotas = quotas
        self._safety = safety

    async def validate(self, items: Sequence[AskedBy]) -> list[CheckedPayment | Refusal]:
        """Validate what needs no database."""
        return [self.check(actor, request) for actor, request in items]

    def check(self, actor: Identity, request: PaymentRequest) -> CheckedPayment | Refusal:
        """Validate an order, and limit a key to its accounts and amount."""
        order, tenant_id = request.order, actor.tenant_id
        refusal = self._safety.refusal() or validate(order) or _forbidden(actor, order)
        if refusal is not None:
            return refusal
        key = idempotency_key_of(tenant_id, KeyScope.PAYMENT, request.key)
        return CheckedPayment(
            order=order,
            payer=key_of(tenant_id, order.from_account_id),
            payee=key_of(tenant_id, order.to_account_id),
            actor=actor.key_id,
            persons=actor.persons,
            limits=amount_limits(self._settings, tenant_id),
            max_delay_seconds=self._settings.integer("payment.max_delay_seconds", tenant_id),
            approval_seconds=approval_seconds(self._settings, tenant_id, order.amount),
            traceparent=request.traceparent,
            keyed=keyed(key, canonical(_members(request)), actor.accounts),
            refunds=request.refunds,
        )

    async def look(
        self, connection: Connection, items: Sequence[CheckedPayment], *, locked: bool
    ) -> PaymentGroup:
        """Read keys, accounts and the database's time; lock the payers of holds if asked to.

        Payees are not locked: a busy payee would make every payer wait. Settlement checks the payee
        again.
        """
        if locked:
            # Share the lock of halts before locking an account; otherwise two transactions and a
            # switch could deadlock.
            await halt_store.share(connection)
        payers = {each.payer for each in items if each.holds} if locked else set()
        others = {key for each in items for key in (each.payee, each.payer)} - payers
        keys = list({each.keyed.key for each in items if each.keyed is not None})
        seen = await payment_store.look(connection, keys, payers, others)
        # Every refund of a payment holds money of its payee, who is locked by now: none is missed.
        refundable = {
            each.payment_id: each.paid
            - await payment_store.refunded(connection, item.payer, each.payment_id)
            for item in items
            if (each := item.refunds) is not None
        }
        return PaymentGroup(*seen, self._quotas, self._database.unix_ms(), refundable)

    def locks(self, items: Sequence[CheckedPayment | Refusal]) -> bool:
        """Lock the payers of refunds first: what was refunded before is counted under the lock."""
        return any(isinstance(each, CheckedPayment) and each.refunds is not None for each in items)

    async def replay(
        self, connection: Connection, known: Sequence[Known[CheckedPayment]]
    ) -> list[AcceptedPayment]:
        """Rebuild the answers from the payments as they were accepted."""
        rows = [each.row for each in known]
        ids = [(row.key.tenant_id, row.subject) for row in rows if row.subject is not None]
        waiting = await approval_store.requested(connection, ids)
        found: list[AcceptedPayment] = []
        for each in known:
            at = due(each.item.order, each.row.created_at, ANY_DELAY_SECONDS)
            if isinstance(at, Refusal) or each.row.subject is None:
                raise TypeError(f"the key {each.row.key.hash} led to no payment")
            approval = NeedsApproval() if each.row.subject in waiting else msgspec.UNSET
            body = Scheduled(each.row.subject, at, approval=approval)
            found.append(AcceptedPayment(body, replayed=True))
        return found

    async def differing_fields(
        self, connection: Connection, known: Known[CheckedPayment]
    ) -> list[str] | None:
        """Return the fields in which an order differs from the payment as it was accepted.

        None where the payment is not there, or not of an account that the client is limited to.
        """
        row, order = known.row, known.item.order
        payment = None
        if row.subject is not None:
            payment = await payment_store.as_accepted(connection, row.key.tenant_id, row.subject)
        if payment is None:
            return None
        own = known.request.accounts
        if own is not None and own.isdisjoint((payment.from_account, payment.to_account)):
            return None
        before = {
            "from_account_id": payment.from_account,
            "to_account_id": payment.to_account,
            "amount": payment.amount,
            "description": payment.description,
            "funding": "hold" if payment.hold else "at_execution",
            "on_broken": payment.on_broken,
        }
        differs = [name for name, value in before.items() if getattr(order, name) != value]
        refunds = known.item.refunds
        if payment.refund_of != (None if refunds is None else refunds.payment_id):
            differs.append("refund_of")
        if due(order, row.created_at, ANY_DELAY_SECONDS) != payment.due_at:
            differs.append("scheduled_time" if order.delay_seconds is None else "delay_seconds")
        if order.retry_until != payment.retry_until:
            differs.append("on_insufficient")
        return sorted(differs)


class PaymentIntake:
    """Accepts payments, one by one (grouped with others) or many at once."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        meter: PaymentMeter | None = None,
        quotas: Quotas | None = None,
        safety: CommitSafety | None = None,
    ) -> None:
        self._strategy = PaymentStrategy(
            database, settings, quotas or Quotas(settings), safety or CommitSafety(settings)
        )
        self.pipeline = Pipeline(database, self._strategy)
        self._meter = meter or PaymentMeter()
        self._open_keys = OpenKeys()
        self._around: AroundBusyAccounts[CheckedPayment, PaymentAnswer] = AroundBusyAccounts(
            database, self._commit, _changed
        )
        self._batches = asyncio.Semaphore(MAX_GROUPS)

    async def submit(self, actor: Identity, request: PaymentRequest) -> PaymentAnswer:
        """Accept one payment, in one commit with whatever else arrives now."""
        item = self._strategy.check(actor, request)
        if isinstance(item, Refusal):
            return Refused(item)
        with self._open_keys.hold(_key(item)):
            return await self._around.submit(item)

    async def accept(
        self, actor: Identity, requests: Sequence[PaymentRequest]
    ) -> list[PaymentAnswer]:
        """Accept many payments as if scheduled one by one: one outcome for each, in order."""
        items = [self._strategy.check(actor, request) for request in requests]
        keys = {_key(item) for item in items if isinstance(item, CheckedPayment)}
        with self._open_keys.hold_all(keys) as busy:
            ready = [i for i in items if isinstance(i, CheckedPayment) and _key(i) not in busy]
            results = iter(await self._commit_all(ready))
            return [
                Refused(item)
                if isinstance(item, Refusal)
                else Refused(key_busy().refusal)
                if _key(item) in busy
                else next(results)
                for item in items
            ]

    async def _commit_all(self, items: Sequence[CheckedPayment]) -> list[PaymentAnswer]:
        """Commit a request at once: half as many commits."""
        results: list[PaymentAnswer] = []
        async with self._batches:
            for first in range(0, len(items), MAX_BATCH):
                results += await self._around.commit(items[first : first + MAX_BATCH])
        return results

    async def _commit(self, items: Sequence[CheckedPayment]) -> list[PaymentAnswer]:
        """Commit items; count and log new outcomes."""
        results = await self.pipeline.commit(items)
        fresh = [pair for pair in zip(items, results, strict=True) if not pair[1].replayed]
        accepted = [(i, made) for i, made in fresh if isinstance(made, AcceptedPayment)]
        self._meter.accepted((item.order.funding, item.order.amount) for item, _ in accepted)
        if len(accepted) < len(fresh):
            self._meter.refused(each.refusal.code for _, each in fresh if isinstance(each, Refused))
        if item_log.is_enabled("accepted"):
            item_log.write("payment.accepted", accepted, _line)
        return results


def _line(accepted: tuple[CheckedPayment, AcceptedPayment]) -> dict[str, Any]:
    item, made = accepted
    return {"tenant_id": item.payer.tenant_id, "payment_id": str(made.subject)}


def _key(item: CheckedPayment) -> IdempotencyKey:
    if item.keyed is None:
        raise TypeError("whoever asks for a payment brings a key")
    return item.keyed.key


def _members(request: PaymentRequest) -> dict[str, Any]:
    """Return what an order asks for, as requests under one key are compared."""
    members = {
        name: value
        for name in PaymentOrder.__struct_fields__
        if (value := getattr(request.order, name)) is not None
    }
    if request.refunds is not None:
        members["refund_of"] = request.refunds.payment_id
    return members


def _changed(item: CheckedPayment) -> Collection[AccountKey]:
    return (item.payer,) if item.holds else ()


def _forbidden(actor: Identity, order: PaymentOrder) -> Refusal | None:
    """Refuse a payment beyond a key's accounts or amount; not stored, as another key may do it."""
    if actor.accounts is not None and order.from_account_id not in actor.accounts:
        return Refusal(
            Code.FORBIDDEN, f"The key may not pay from {order.from_account_id}.", "from_account_id"
        )
    if actor.max_amount is not None and order.amount > actor.max_amount:
        return Refusal(Code.FORBIDDEN, f"The key may pay at most {actor.max_amount}.", "amount")
    return None
