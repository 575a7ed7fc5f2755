"""Cancel and reschedule open payments: whoever locks the timer first decides."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from postdate.intake.accept.events import record_event
from postdate.intake.payment.meter import PaymentMeter
from postdate.intake.payment.request import NeedsApproval, Scheduled
from postdate.ledger.hold import release
from postdate.model.error import Code, RefusedError, refuse
from postdate.model.payment.payment import When, instant
from postdate.model.setting.setting import Settings
from postdate.model.status import PaymentStatus
from postdate.model.tenant.identity import Identity
from postdate.store.account import account as account_store
from postdate.store.account.account import AccountKey
from postdate.store.connection.database import Connection, Database
from postdate.store.payment import approval as approval_store
from postdate.store.payment import payment_change as store
from postdate.store.payment import settlement as settlement_store
from postdate.store.payment.approval import Approval, Decider, Decision
from postdate.store.payment.payment_change import OpenPayment
from postdate.store.payment.settlement import LockedTimer, PaymentTerms
from postdate.store.tenant import halt as halt_store


class Ending(NamedTuple):
    """How an open payment ends without money moving; `decision` is that of a waiting approval."""

    status: PaymentStatus
    code: str | None = None
    error: str | None = None
    decision: Decision = "withdrawn"


class PaymentEnds:
    """End open payments: release, outcome, event, and no timer any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def end(
        self,
        connection: Connection,
        found: OpenPayment,
        terms: PaymentTerms,
        ending: Ending,
        actor: str,
    ) -> Approval | None:
        """End a locked payment; return its approval, decided, where it waited for one."""
        timer = found.timer
        if terms.hold:
            key = AccountKey(timer.bucket, timer.tenant_id, terms.from_account)
            accounts = await account_store.lock(connection, [key])
            release(accounts[key], terms.amount)
            await account_store.write(connection, list(accounts.values()))
        status, code, error, decision = ending
        await store.write_end(connection, timer, status, code, error)
        decided = None
        if found.unapproved:
            decided = await approval_store.decide(
                connection, timer.tenant_id, timer.subject, decision, Decider(actor), error
            )
        data = {"code": code, "error": error} if code else None
        kind = f"payment.{status.lower()}"
        await record_event(
            connection,
            self._database,
            (timer.tenant_id, timer.subject),
            kind,
            actor,
            data,
            decides=found.unapproved,
        )
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
        self.ends = PaymentEnds(database)

    async def cancel(self, actor: Identity, payment_id: UUID) -> None:
        """End an open payment and release its hold; refused with its status when it has ended.

        To cancel it once more changes nothing and is no mistake: an answer may have been lost.
        """
        async with self._database.write("payment.cancel") as connection:
            found, terms = await _payment(connection, actor, payment_id)
            if found is None:
                ended = await _ended(connection, payment_id)
                if ended == PaymentStatus.CANCELLED:
                    await self._database.confirm()
                    return
                raise _not_pending(payment_id, ended)
            await halt_store.refuse_killed(connection, actor.tenant_id)
            ending = Ending(PaymentStatus.CANCELLED)
            await self.ends.end(connection, found, terms, ending, actor.key_id)
        self._meter.cancelled(terms.amount if terms.hold else 0)

    async def reschedule(self, actor: Identity, payment_id: UUID, when: When) -> Scheduled:
        """Move an open payment to another instant; one that waits for a person is tried again then.

        Who approved it approved the old instant: it waits for a second person once more.
        """
        max_seconds = self._settings.integer("payment.max_delay_seconds", actor.tenant_id)
        async with self._database.write("payment.reschedule") as connection:
            found, terms = await changeable_payment(connection, actor, payment_id)
            timer = found.timer
            if actor.max_amount is not None and terms.amount > actor.max_amount:
                raise refuse(Code.FORBIDDEN, f"The key may pay {actor.max_amount} at most.")
            due_at = instant(when, timer.at, max_seconds, terms.retry_until)
            if not isinstance(due_at, datetime):
                raise RefusedError(due_at)
            await store.move(connection, timer, due_at)
            data = {"scheduled_time": due_at, "before": timer.due_at}
            about = actor.tenant_id, payment_id
            await record_event(
                connection, self._database, about, "payment.rescheduled", actor.key_id, data
            )
            waits = await self._ask_again(connection, actor, timer)
        return Scheduled(payment_id, due_at, approval=NeedsApproval() if waits else msgspec.UNSET)

    async def _ask_again(self, connection: Connection, actor: Identity, timer: LockedTimer) -> bool:
        """Ask for approval once more, if the payment needs one; who changed it must not give it."""
        seconds = self._settings.number("payment.approval_seconds", actor.tenant_id)
        asks = Decider(actor.key_id, actor.persons)
        if not await approval_store.void(connection, actor.tenant_id, timer.subject, asks, seconds):
            return False
        about, kind = (actor.tenant_id, timer.subject), "payment.approval_requested"
        await record_event(connection, self._database, about, kind, actor.key_id)
        return True


async def changeable_payment(
    connection: Connection, actor: Identity, payment_id: UUID
) -> tuple[OpenPayment, PaymentTerms]:
    """Lock an open payment, of a tenant that nobody has killed."""
    found, terms = await open_payment(connection, actor, payment_id)
    await halt_store.refuse_killed(connection, actor.tenant_id)
    return found, terms


async def open_payment(
    connection: Connection, actor: Identity, payment_id: UUID
) -> tuple[OpenPayment, PaymentTerms]:
    """Lock an open payment of this tenant, or refuse in the words that fit."""
    found, terms = await _payment(connection, actor, payment_id)
    if found is None:
        raise await not_pending(connection, payment_id)
    return found, terms


async def _payment(
    connection: Connection, actor: Identity, payment_id: UUID
) -> tuple[OpenPayment | None, PaymentTerms]:
    """Lock a payment that the caller may change; None where it has ended."""
    found = await store.lock(connection, payment_id, actor.tenant_id)
    terms = await settlement_store.terms(connection, actor.tenant_id, payment_id)
    if terms is None or not _sees(actor, terms):
        raise refuse(Code.NOT_FOUND, f"There is no payment {payment_id}.")
    if actor.accounts is not None and terms.from_account not in actor.accounts:
        raise refuse(Code.FORBIDDEN, f"The key may not pay from {terms.from_account}.")
    return found, terms


def _sees(actor: Identity, terms: PaymentTerms) -> bool:
    return actor.accounts is None or not actor.accounts.isdisjoint(
        (terms.from_account, terms.to_account)
    )


async def not_pending(connection: Connection, payment_id: UUID) -> RefusedError:
    """Make the refusal for a payment that has ended."""
    return _not_pending(payment_id, await _ended(connection, payment_id))


async def _ended(connection: Connection, payment_id: UUID) -> str:
    ended = await store.find_end(connection, payment_id)
    if ended is None:
        raise RuntimeError(f"payment {payment_id} has neither timer nor outcome: run reconcile")
    return ended.status


def _not_pending(payment_id: UUID, status: str) -> RefusedError:
    return refuse(
        Code.PAYMENT_NOT_PENDING,
        f"The payment {payment_id} is {status}.",
        payment_status=status,
    )
