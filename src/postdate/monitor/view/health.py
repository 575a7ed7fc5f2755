"""What is wrong with the database, and what can still be served: reads and writes apart."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from postdate.database import obstacle, partition
from postdate.database.connection.database import READER, Database
from postdate.database.connection.error import DatabaseError
from postdate.database.obstacle import READ_ONLY, Obstacle
from postdate.runtime.heartbeat import WriteFault
from postdate.secret import secret as secret_store

MIN_WEEKS: Final = 2
"""With fewer weeks of partitions ahead, something has kept the maintenance from its work."""

PROBE_SECONDS: Final = 2.0
"""How long the database may take to say what is amiss."""

PASSING_SECONDS: Final = 0.3
"""A lock that is gone after this long is ordinary work, and is not mentioned."""


_STOP_ACCEPTING: Final = {
    "tenant_halt": (obstacle.EXCLUSIVE,),
    obstacle.HALT_LOCK: ("ExclusiveLock", obstacle.EXCLUSIVE),
}
"""The locks without which nothing is accepted, by table."""


class DatabaseFault(NamedTuple):
    """A fault of the database: what cannot be served, and whether anything can."""

    name: str
    reason: str
    reads: bool = True
    writes: bool = True
    serves: bool = True


class HealthCheck:
    """Asks the database what is amiss, once for all who ask at the same time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._asking: asyncio.Task[list[DatabaseFault]] | None = None

    async def faults(self) -> list[DatabaseFault]:
        """Return what is amiss now."""
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
            self._asking.add_done_callback(self._answered)
        return await asyncio.shield(self._asking)

    def _answered(self, asked: asyncio.Task[list[DatabaseFault]]) -> None:
        self._asking = None
        if not asked.cancelled():
            asked.exception()  # waiting callers get it; without any, it is ignored

    async def _ask(self) -> list[DatabaseFault]:
        try:
            async with self._database.probing(PROBE_SECONDS) as connection:
                found = await obstacle.list_all(connection, PROBE_SECONDS)
                if any(each.kind == "lock" for each in found):
                    await asyncio.sleep(PASSING_SECONDS)
                    again = await obstacle.list_all(connection, PROBE_SECONDS)
                    found = [each for each in again if each.kind != "lock" or each in found]
        except DatabaseError as error:
            return [await self._away(error)]
        return faults_of(found)

    async def _away(self, error: DatabaseError) -> DatabaseFault:
        reads = await _replica_answers(self._database)
        reason = f"it does not answer: {type(error).__name__} {error}".strip()
        return DatabaseFault("database", reason, reads=reads, writes=False, serves=reads)


def write_fault(fault: WriteFault) -> DatabaseFault:
    """Return the fault that the heartbeat has found: commits fail, reads do not commit."""
    return DatabaseFault(fault.name, fault.reason, writes=False)


def faults_of(found: Sequence[Obstacle]) -> list[DatabaseFault]:
    """Say what each obstacle keeps from being served."""
    faults = []
    if any(each.kind == "read_only" for each in found):
        faults.append(DatabaseFault("database", READ_ONLY, writes=False))
    for each in found:
        if each.kind == "lock" and (fault := _locked(each)):
            faults.append(fault)
        if each.kind == "denied":
            faults.append(_denied(each))
        if each.kind == "holder":
            faults.append(_held(each))
    return faults


def _locked(lock: Obstacle) -> DatabaseFault | None:
    exclusive = lock.detail == obstacle.EXCLUSIVE
    holder = f"session {lock.pid} holds or awaits {lock.detail}"
    if lock.subject in obstacle.UNASKED:
        return DatabaseFault("locks", f"table {lock.subject}: {holder}") if exclusive else None
    if exclusive and lock.subject in obstacle.KEYS:
        reason = f"keys cannot be looked up, so every request is refused: {holder}"
        return DatabaseFault("keys", reason, reads=False, writes=False, serves=False)
    if lock.detail in _STOP_ACCEPTING.get(lock.subject, ()):
        return DatabaseFault(
            "halts", f"halts cannot be read, so nothing is accepted: {holder}", writes=False
        )
    reads = not exclusive or lock.subject in obstacle.UNREAD
    return DatabaseFault("locks", f"table {lock.subject}: {holder}", reads=reads, writes=False)


def _held(lock: Obstacle) -> DatabaseFault:
    reason = (
        f"session {lock.pid} of {lock.detail}: it has held {lock.subject} for more than 2 s, and a "
        "kill switch or a change waits for that"
    )
    return DatabaseFault("locks", reason)


def _denied(right: Obstacle) -> DatabaseFault:
    role, _, name = right.detail.partition(" ")
    reason = f"{role} may not {name} on table {right.subject}: run `postdate migrate`, or GRANT it"
    if right.subject in obstacle.KEYS:
        return DatabaseFault("rights", reason, reads=False, writes=False, serves=False)
    reader = role == READER
    return DatabaseFault("rights", reason, reads=not reader, writes=reader)


async def neglected(database: Database, key_ids: Sequence[int] | None) -> list[DatabaseFault]:
    """Return what becomes a problem: few partitions, or a secret key that this node lacks."""
    try:
        async with asyncio.timeout(PROBE_SECONDS), database.look_up() as connection:
            weeks = await partition.weeks_ahead(connection)
            known = set() if key_ids is None else await secret_store.list_known(connection)
    except (DatabaseError, TimeoutError):
        return []  # `HealthCheck` checks what every request needs.
    found = []
    if weeks < MIN_WEEKS:
        reason = f"history has partitions for only {weeks} weeks ahead"
        found.append(DatabaseFault("partitions", reason))
    if missing := sorted(known.difference(key_ids or ())):
        found.append(_lacking(missing))
    return found


def _lacking(key_ids: Sequence[int]) -> DatabaseFault:
    names = ", ".join(f"{each:08x}" for each in key_ids)
    reason = (
        f"this node lacks a secret key of the others ({names}), so it leaves to them what needs "
        "the key, if there are any: give it the same POSTDATE_SECRET_KEY"
    )
    return DatabaseFault("secrets", reason)


async def _replica_answers(database: Database) -> bool:
    """Return whether a replica can serve reads while the primary is away."""
    if database.spares.look_up is None:
        return False
    try:
        async with database.look_up() as connection:
            return bool(await connection.fetchval("SELECT true", timeout=PROBE_SECONDS))
    except DatabaseError:
        return False
