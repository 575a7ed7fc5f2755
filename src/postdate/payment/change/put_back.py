"""Put back the lost timers of payments: one person requests it, and another approves it."""

from typing import Final, Literal

from postdate.account.change.account import allow
from postdate.core.identity import Identity, Scope
from postdate.database.connection.database import Connection, Database
from postdate.event.store.event import record_event
from postdate.payment.store import settlement as settlement_store
from postdate.timer import lost_timer
from postdate.timer.lost_timer import LostTimer
from postdate.words.error import Code, not_found, refuse

REQUEST_SECONDS: Final = 86400.0
"""How long a request waits for a second person."""

PutBackResult = Literal["requested", "put back", "waits for another person"]
"""The result for one payment."""


async def put_back_payment(database: Database, actor: Identity, lost: LostTimer) -> PutBackResult:
    """Request that a payment is put back, or put it back if another person has requested it."""
    about = lost.tenant_id, lost.subject
    async with database.write("payment.put_back") as connection:
        await _allow(connection, actor, lost)
        asked = await lost_timer.requested(connection, lost, REQUEST_SECONDS)
        if asked is None:
            await lost_timer.refuse_found(connection, lost)
            asks, kind = {"persons": sorted(actor.persons)}, "payment.repair_requested"
            await record_event(connection, about, kind, actor.key_id, asks)
            return "requested"
        by, said = asked
        if by == actor.key_id or not actor.persons.isdisjoint(said["persons"]):
            return "waits for another person"
        due_at = await lost_timer.put_back(connection, lost)
        data = {"scheduled_time": due_at, "requested_by": by}
        await record_event(connection, about, "payment.repaired", actor.key_id, data)
    return "put back"


async def _allow(connection: Connection, actor: Identity, lost: LostTimer) -> None:
    """Refuse a key that may not repair the accounts of the payment."""
    if not actor.allows(Scope.LEDGER_ADJUST):
        detail = f"Putting a payment back needs the scope `{Scope.LEDGER_ADJUST}`."
        raise refuse(Code.FORBIDDEN, detail, scope=Scope.LEDGER_ADJUST)
    terms = await settlement_store.terms(connection, actor.tenant_id, lost.subject)
    if terms is None:
        raise not_found("payment", lost.subject)
    allow(actor, terms.from_account)
    if actor.max_amount is not None and terms.amount > actor.max_amount:
        raise refuse(Code.FORBIDDEN, f"The key may pay at most {actor.max_amount}.")
