"""Put back the timers that payments and jobs have lost, or say what would be done."""

from uuid import UUID

import msgspec

from postdate.core.identity import Identity
from postdate.core.test_clock import following_tenant
from postdate.database.connection.database import Database
from postdate.job.change.put_back import put_back_job
from postdate.key.authentication.identity import Identities
from postdate.ledger.prove import lost_timers
from postdate.payment.change.put_back import put_back_payment
from postdate.timer.lost_timer import LostTimer, Noun
from postdate.words.error import RefusedError


class RepairStep(msgspec.Struct, frozen=True):
    """What was done about a lost timer, or would be."""

    tenant_id: int
    noun: Noun
    subject: UUID
    done: str


async def repair_lost(
    database: Database, tenant_id: int | None, key: str | None
) -> list[RepairStep]:
    """Repair what has lost its timer on behalf of a key; without one, only say what would be."""
    lost = await lost_timers(database, tenant_id)
    if key is None:
        return [_step(each, "would be put back") for each in lost]
    actor = await Identities(database).authenticate(key) if lost else None
    return [_step(each, await _repair(database, actor, each)) for each in lost]


async def _repair(database: Database, actor: Identity | None, lost: LostTimer) -> str:
    try:
        with following_tenant(lost.tenant_id if lost.test else None):
            if lost.noun == "job":
                await put_back_job(database, lost)
                return "put back"
            if actor is None or actor.tenant_id != lost.tenant_id:
                return "needs a key of its tenant"
            return await put_back_payment(database, actor, lost)
    except RefusedError as error:
        return f"refused, {error.refusal.detail}"


def _step(lost: LostTimer, done: str) -> RepairStep:
    return RepairStep(lost.tenant_id, lost.noun, lost.subject, done)
