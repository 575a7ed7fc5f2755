"""A second person approves or refuses large payments; undecided payments expire."""

import time
from typing import Final
from uuid import UUID

from postdate.audit.spec import SYSTEM
from postdate.core.identity import Identity
from postdate.core.log import Log
from postdate.core.status import PaymentStatus
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import LockNotAvailableError
from postdate.event.store.event import record_event
from postdate.payment.accept.meter import PaymentMeter
from postdate.payment.change.change import Ending, changeable_payment, end_payment, open_payment
from postdate.payment.store import approval as store
from postdate.payment.store.approval import Approval, Decider
from postdate.payment.store.payment_change import OpenPayment
from postdate.runtime.shared_read import SharedReads
from postdate.words.error import Code, RefusedError, refuse

log = Log()

LOOK_SECONDS: Final = 5.0
MAX_EXPIRED: Final = 100
HELD_SECONDS: Final = 10.0
"""How long a payment rests that could not expire because it or its account was locked."""


class Approvals:
    """Approves, refuses and expires payments that wait for approval."""

    def __init__(
        self,
        database: Database,
        meter: PaymentMeter | None = None,
        reads: SharedReads | None = None,
    ) -> None:
        self._database = database
        self._reads = reads or SharedReads(database)
        self._meter = meter or PaymentMeter()
        self._held: dict[UUID, float] = {}

    async def approve(self, actor: Identity, payment_id: UUID, note: str | None) -> Approval:
        """Approve a payment: it is settled when due, or immediately if it is overdue."""
        async with self._database.write("approval.approve") as connection:
            found, terms = await changeable_payment(connection, actor, payment_id)
            await self._check(connection, actor, found, terms.amount)
            decided = await store.decide(
                connection,
                actor.tenant_id,
                payment_id,
                "approved",
                Decider(actor.key_id, actor.persons),
                note,
            )
            await store.admit(connection, payment_id)
            about, data = (actor.tenant_id, payment_id), {"note": note} if note else None
            await record_event(connection, about, "payment.approved", actor.key_id, data)
        return _known(decided)

    async def refuse(self, actor: Identity, payment_id: UUID, note: str | None) -> Approval:
        """Refuse a payment that waits for approval; its hold is released."""
        async with self._database.write("approval.refuse") as connection:
            found, terms = await changeable_payment(connection, actor, payment_id)
            await self._check(connection, actor, found, terms.amount)
            ending = Ending(PaymentStatus.CANCELLED, "approval_refused", note, "refused")
            decided = await end_payment(connection, found, terms, ending, actor.key_id)
        self._meter.cancelled(terms.amount if terms.hold else 0)
        return _known(decided)

    async def run_once(self, limit: int = MAX_EXPIRED) -> int:
        """Expire payments that have waited too long; a locked one does not delay the others."""
        now, count = time.monotonic(), 0
        self._held = {key: until for key, until in self._held.items() if until > now}
        accounts: set[tuple[int, str]] = set()
        while count < limit:
            late = await store.expired(self._reads, limit - count, self._held, accounts)
            known = len(accounts)
            for tenant_id, payment_id, payer in late:
                # Wait for each locked account only once: its other payments may need it, too.
                if (tenant_id, payer) in accounts:
                    continue
                if await self._expired(tenant_id, payment_id):
                    count += 1
                else:
                    accounts.add((tenant_id, payer))
            if len(accounts) == known:
                break
        return count

    async def _expired(self, tenant_id: int, payment_id: UUID) -> bool:
        try:
            await self._expire(tenant_id, payment_id)
        except (LockNotAvailableError, RefusedError) as error:
            # Locked, or ended since it was read; the next round will see.
            log.warning("approval.held", payment_id=str(payment_id), error=str(error))
            self._held[payment_id] = time.monotonic() + HELD_SECONDS
            return False
        return True

    async def _expire(self, tenant_id: int, payment_id: UUID) -> None:
        nobody = Identity(tenant_id=tenant_id, tenant="", key_id=SYSTEM, scopes=frozenset())
        async with self._database.write("approval.expire") as connection:
            found, terms = await open_payment(connection, nobody, payment_id)
            if found.unapproved:
                error = "It was not approved in time."
                ending = Ending(PaymentStatus.FAILED, "approval_expired", error, "expired")
                await end_payment(connection, found, terms, ending, SYSTEM)

    async def _check(
        self, connection: Connection, actor: Identity, found: OpenPayment, amount: int
    ) -> None:
        payment_id = found.timer.subject
        asked = await store.find(connection, actor.tenant_id, payment_id)
        if asked is None or not found.unapproved:
            raise refuse(Code.CONFLICT, f"The payment {payment_id} does not wait for approval.")
        approval, persons = asked
        if approval.requested_by == actor.key_id:
            raise refuse(
                Code.APPROVAL_BY_REQUESTER,
                "The key that requested the payment cannot approve or refuse it.",
            )
        if not persons.isdisjoint(actor.persons):
            detail = (
                "Your key and the requester's key belong to one person: they were created or "
                "rotated by the same key, or you took part in the schedule of the payment."
            )
            raise refuse(Code.APPROVAL_BY_REQUESTER, detail)
        if actor.max_amount is not None and amount > actor.max_amount:
            raise refuse(
                Code.FORBIDDEN, f"The key may approve or refuse at most {actor.max_amount}."
            )


def _known(decided: Approval | None) -> Approval:
    if decided is None:
        raise RuntimeError("the approval of a locked payment was decided by somebody else")
    return decided
