"""Cancel and reschedule open payments; the first transaction to lock the timer decides."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.account.store import account as account_store
from postdate.account.store.account import AccountKey
from postdate.core.identity import Identity
from postdate.core.ids import bucket_of
from postdate.core.setting.setting import Settings
from postdate.core.status import PaymentStatus
from postdate.database.connection.database import Connection, Database
from postdate.event.store import event as event_store
from postdate.event.store.event import NewEvent, record_event
from postdate.halt import store as halt_store
from postdate.intake.create_once import Remember
from postdate.ledger.hold import release
from postdate.payment.accept.meter import PaymentMeter
from postdate.payment.accept.request import NeedsApproval, Scheduled
from postdate.payment.spec.payment import When, instant
from postdate.payment.store import approval as approval_store
from postdate.payment.store import payment_change as store
from postdate.payment.store import settlement as settlement_store
from postdate.payment.store.approval import Approval, ApprovalDecision, Decider
from postdate.payment.store.payment_change import OpenPayment
from postdate.payment.store.settlement import LockedTimer, PaymentTerms
from postdate.timer import lost_timer
from postdate.timer.lost_timer import LostTimer
from postdate.words.error import Code, RefusedError, not_found, refuse

DELAY: Final = "payment.max_delay_seconds"


class Ending(NamedTuple):
    """How an open payment ends without money moving; `decision` is that of a waiting approval."""

    status: PaymentStatus
    code: str | None = None
    error: str | None = None
    decision: ApprovalDecision = "withdrawn"


LockedOpen = tuple[OpenPayment, PaymentTerms]
"""An open payment, its timer locked, with its terms."""


class PaymentMoved(NamedTuple):
    """A payment that was moved: when it was due before, and the revision that it has now."""

    payment_id: UUID
    before: datetime
    revision: int


async def _release(connection: Connection, payments: Sequence[LockedOpen]) -> None:
    """Release the holds of payments: lock their accounts in one order, and write each once."""
    held = [
        (AccountKey(found.timer.bucket, found.timer.tenant_id, terms.from_account), terms.amount)
        for found, terms in payments
        if terms.hold
    ]
    if held:
        accounts = await account_store.lock(connection, sorted({key for key, _ in held}))
        for key, amount in held:
            account = accounts.get(key)
            if account is None or account.held < amount:
                detail = f"{key.account_id} does not hold what the payment needs: repair it first."
                raise refuse(Code.CONFLICT, detail)
            release(account, amount)
        await account_store.write(connection, list(accounts.values()))


async def end_payment(
    connection: Connection, found: OpenPayment, terms: PaymentTerms, ending: Ending, actor: str
) -> Approval | None:
    """End a locked payment; return its decided approval if it waited for one."""
    await _release(connection, [(found, terms)])
    return await _end(connection, found, ending, actor)


async def _end(
    connection: Connection, found: OpenPayment, ending: Ending, actor: str
) -> Approval | None:
    """Write outcome and event, and leave no timer."""
    timer = found.timer
    about = timer.tenant_id, timer.subject
    status, code, error, decision = ending
    await store.write_end(connection, timer, status, code, error)
    decided = None
    if found.unapproved:
        decided = await approval_store.decide(connection, *about, decision, Decider(actor), error)
    data = {"code": code, "error": error} if code else None
    kind = f"payment.{status.lower()}"
    await record_event(connection, about, kind, actor, data, decides=found.unapproved)
    await settlement_store.delete(connection, [timer])
    return decided


class PaymentChanges:
    """What a client may still change about a payment."""

    def __init__(
        self, database: Database, settings: Settings, meter: PaymentMeter | None = None
    ) -> None:
        self._database = database
        self._settings = settings
        self._meter = meter or PaymentMeter()

    async def cancel(self, actor: Identity, payment_id: UUID) -> None:
        """End an open payment and release its hold; refused with its status when it has ended.

        Cancelling it twice changes nothing and is not an error: an answer may have been lost.
        """
        async with self._database.write("payment.cancel") as connection:
            found, terms = await _payment(connection, actor, payment_id)
            if found is None:
                ended = await store.find_end(connection, payment_id)
                if ended is not None and ended.status == PaymentStatus.CANCELLED:
                    await self._database.confirm()
                    return
                if ended is not None:
                    raise _not_pending(payment_id, ended.status)
                found = await _recovered(connection, actor.tenant_id, payment_id)
            await halt_store.refuse_killed(connection, actor.tenant_id)
            ending = Ending(PaymentStatus.CANCELLED)
            await end_payment(connection, found, terms, ending, actor.key_id)
        self._meter.cancelled(terms.amount if terms.hold else 0)

    async def cancel_these(
        self, actor: Identity, payment_ids: Sequence[UUID], remember: Remember[Sequence[LockedOpen]]
    ) -> None:
        """Cancel the open ones of these payments, in one transaction."""
        async with self._database.write("payment.cancel_these") as connection:
            found = await _lock_open(connection, actor, payment_ids)
            await halt_store.refuse_killed(connection, actor.tenant_id)
            # All timers are locked before the first account.
            await _release(connection, found)
            for payment, _ in found:
                await _end(connection, payment, Ending(PaymentStatus.CANCELLED), actor.key_id)
            await remember(connection, found)
        for _, terms in found:
            self._meter.cancelled(terms.amount if terms.hold else 0)

    async def move_these(
        self,
        actor: Identity,
        moves: Mapping[UUID, Callable[[OpenPayment], When | None]],
        remember: Remember[Sequence[PaymentMoved]],
    ) -> None:
        """Move the open ones of these payments where allowed, in one transaction.

        A callback returns the new instant of each; None leaves it as it is.
        """
        moved = []
        async with self._database.write("payment.move_these") as connection:
            for found, terms in await _lock_open(connection, actor, list(moves)):
                when = moves[found.timer.subject](found)
                if when is not None and await self._moved(connection, actor, found, terms, when):
                    before, subject = found.timer.due_at, found.timer.subject
                    moved.append(PaymentMoved(subject, before, found.revision + 1))
            await halt_store.refuse_killed(connection, actor.tenant_id)
            await remember(connection, moved)

    async def _moved(
        self,
        connection: Connection,
        actor: Identity,
        found: OpenPayment,
        terms: PaymentTerms,
        when: When,
    ) -> bool:
        try:
            await self._move(connection, actor, found, terms, when)
        except RefusedError:
            return False
        return True

    async def reschedule(self, actor: Identity, payment_id: UUID, when: When) -> Scheduled:
        """Move an open payment to another instant; one that waits for a person is retried then.

        An approval covers the old instant: the payment needs a new one.
        """
        async with self._database.write("payment.reschedule") as connection:
            found, terms = await changeable_payment(connection, actor, payment_id)
            return await self._move(connection, actor, found, terms, when)

    async def _move(
        self,
        connection: Connection,
        actor: Identity,
        found: OpenPayment,
        terms: PaymentTerms,
        when: When,
    ) -> Scheduled:
        """Move a locked payment; refused before anything is written."""
        timer, max_seconds = found.timer, self._settings.integer(DELAY, actor.tenant_id)
        if actor.max_amount is not None and terms.amount > actor.max_amount:
            raise refuse(Code.FORBIDDEN, f"The key may pay at most {actor.max_amount}.")
        due_at = instant(when, timer.at, max_seconds, terms.retry_until)
        if not isinstance(due_at, datetime):
            raise RefusedError(due_at)
        await store.move(connection, timer, due_at)
        # The order of its moves: clocks may go back between two of them.
        revision = found.revision + 1
        data = {"scheduled_time": due_at, "before": timer.due_at, "revision": revision}
        about = actor.tenant_id, timer.subject
        events = [NewEvent(*about, "payment.rescheduled", actor.key_id, data)]
        if waits := await self._needs_new_approval(connection, actor, timer):
            events.append(NewEvent(*about, "payment.approval_requested", actor.key_id))
        await event_store.insert(connection, events)
        approval = NeedsApproval() if waits else msgspec.UNSET
        return Scheduled(timer.subject, due_at, approval=approval)

    async def _needs_new_approval(
        self, connection: Connection, actor: Identity, timer: LockedTimer
    ) -> bool:
        """Void the approval if the payment needs one; its author cannot approve it."""
        seconds = self._settings.number("payment.approval_seconds", actor.tenant_id)
        asks = Decider(actor.key_id, actor.persons)
        return await approval_store.void(connection, actor.tenant_id, timer.subject, asks, seconds)


async def _lock_open(
    connection: Connection, actor: Identity, payment_ids: Sequence[UUID]
) -> list[LockedOpen]:
    """Lock those of these payments that are open, in the order of buckets and ids."""
    ordered = sorted(payment_ids, key=lambda payment_id: (bucket_of(payment_id), payment_id))
    locked = [await _payment(connection, actor, payment_id) for payment_id in ordered]
    return [(found, terms) for found, terms in locked if found is not None]


async def changeable_payment(
    connection: Connection, actor: Identity, payment_id: UUID
) -> tuple[OpenPayment, PaymentTerms]:
    """Lock an open payment of a tenant whose kill switch is off."""
    found, terms = await open_payment(connection, actor, payment_id)
    await halt_store.refuse_killed(connection, actor.tenant_id)
    return found, terms


async def open_payment(
    connection: Connection, actor: Identity, payment_id: UUID
) -> tuple[OpenPayment, PaymentTerms]:
    """Lock an open payment of this tenant, or raise the matching refusal."""
    found, terms = await _payment(connection, actor, payment_id)
    if found is None:
        raise await not_pending(connection, actor.tenant_id, payment_id)
    return found, terms


async def _payment(
    connection: Connection, actor: Identity, payment_id: UUID
) -> tuple[OpenPayment | None, PaymentTerms]:
    """Lock a payment that the caller may change; None where it has ended."""
    found = await store.lock(connection, payment_id, actor.tenant_id)
    terms = await settlement_store.terms(connection, actor.tenant_id, payment_id)
    if terms is None or not _sees(actor, terms):
        raise not_found("payment", payment_id)
    if actor.accounts is not None and terms.from_account not in actor.accounts:
        raise refuse(Code.FORBIDDEN, f"The key may not pay from {terms.from_account}.")
    return found, terms


def _sees(actor: Identity, terms: PaymentTerms) -> bool:
    return actor.accounts is None or not actor.accounts.isdisjoint(
        (terms.from_account, terms.to_account)
    )


async def not_pending(connection: Connection, tenant_id: int, payment_id: UUID) -> RefusedError:
    """Make the refusal for a payment that has ended, or has lost its timer."""
    ended = await store.find_end(connection, payment_id)
    if ended is None:
        return lost_timer.is_lost(LostTimer(tenant_id, payment_id, "payment"))
    return _not_pending(payment_id, ended.status)


async def _recovered(connection: Connection, tenant_id: int, payment_id: UUID) -> OpenPayment:
    """Put a lost timer back and lock it, in order to end the payment."""
    lost = LostTimer(tenant_id, payment_id, "payment")
    await lost_timer.put_back(connection, lost)
    found = await store.lock(connection, payment_id, tenant_id)
    if found is None:
        raise lost_timer.is_lost(lost)
    return found


def _not_pending(payment_id: UUID, status: str) -> RefusedError:
    return refuse(
        Code.PAYMENT_NOT_PENDING,
        f"The payment {payment_id} is {status}.",
        payment_status=status,
    )
