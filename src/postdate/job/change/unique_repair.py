"""Repair the rows of unique keys: name the job that waits under each, or forget the key."""

from typing import Final
from uuid import UUID

import msgspec

from postdate.database.connection.database import Connection, Database
from postdate.job.spec.job import decode_unique
from postdate.job.store import job_unique, job_view
from postdate.job.store.job_unique import UniqueSlot, slot_at, slot_of
from postdate.ledger.prove import attached_range
from postdate.proof import prove

MAX_REPAIRS: Final = 1000
"""How many rows one call repairs; the next call goes on."""

_WAITING: Final = "waiting_job_holds_its_unique_key"
_NAMES: Final = "unique_key_names_its_job"


class UniqueRepair(msgspec.Struct, frozen=True):
    """What was done about the row of a unique key, or would be; it is known by job or by hash."""

    tenant_id: int
    subject: UUID
    done: str
    noun: str = "unique key of"


async def repair_unique(
    database: Database, tenant_id: int | None, *, write: bool
) -> list[UniqueRepair]:
    """Repair the rows of unique keys that proofs contradict; or only say what would be done."""
    async with prove.snapshot(database) as connection:
        attached = await attached_range(connection, tenant_id)
        where = msgspec.structs.replace(attached, limit=MAX_REPAIRS)
        unheld = await prove.check(connection, _WAITING, where)
        stray = await prove.check(connection, _NAMES, where)
    done: list[UniqueRepair] = []
    for each in stray:
        subject, words = UUID(each.subject), "would be forgotten"
        if write:
            words = await _forget(database, slot_at(each.tenant_id, subject))
        done.append(UniqueRepair(each.tenant_id, subject, words))
    for each in unheld:
        subject, words = UUID(each.subject), "would be named again"
        if write:
            words = await _name(database, each.tenant_id, subject)
        done.append(UniqueRepair(each.tenant_id, subject, words))
    return done


async def _forget(database: Database, slot: UniqueSlot) -> str:
    """Forget a key whose row names no job of its own."""
    async with database.write("job.unique_forget") as connection:
        named = (await job_unique.lock(connection, [slot]))[slot]
        if named is not None and await _slot(connection, slot.tenant_id, named) == slot:
            return "is right by now"
        await job_unique.name(connection, {slot: None})
        await job_unique.drop(connection, [slot])
    return "forgotten"


async def _name(database: Database, tenant_id: int, job_id: UUID) -> str:
    """Let a job hold its key again, unless another one that waits holds it."""
    async with database.write("job.unique_name") as connection:
        slot = await _slot(connection, tenant_id, job_id)
        if slot is None:
            return "is gone by now"
        named = (await job_unique.lock(connection, [slot]))[slot]
        if named not in {None, job_id} and await job_unique.waits(connection, tenant_id, named):
            return f"is held by {named}, which waits too: cancel one of them"
        await job_unique.name(connection, {slot: job_id})
    return "named again"


async def _slot(connection: Connection, tenant_id: int, job_id: UUID) -> UniqueSlot | None:
    """Return where the row of a job's unique key is."""
    rows = await job_view.find(connection, tenant_id, [job_id])
    unique = decode_unique(rows[job_id].unique_by) if job_id in rows else None
    return None if unique is None else slot_of(tenant_id, unique.key)
