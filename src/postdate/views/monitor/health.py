"""What is wrong with the database, and whether it can still be read."""

from collections.abc import Sequence
from typing import NamedTuple

from postdate.store.connection.database import Database
from postdate.store.connection.error import DatabaseError
from postdate.store.operate import partition
from postdate.store.secret import secret as secret_store
from postdate.store.tenant import halt as halt_store
from postdate.store.tenant import key as key_store

MIN_WEEKS = 2
"""With fewer weeks of partitions ahead, something has kept the maintenance from its work."""

READ_ONLY = "it is read-only: a standby, or a primary being replaced"


PROBE_SECONDS = 1.0
"""How long the tables that every request needs may keep a reader waiting."""

HALTS = "halts"


class DatabaseFault(NamedTuple):
    """A fault of the database; with `reads` it can still be read."""

    name: str
    reason: str
    reads: bool = True


async def readiness(database: Database) -> list[DatabaseFault]:
    """Ask the database whether it answers, and whether it can be written."""
    try:
        async with database.connection(2) as connection:
            if await connection.fetchval(
                "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean",
                timeout=2,
            ):
                return [DatabaseFault("database", READ_ONLY)]
            weeks = await partition.weeks_ahead(connection)
    except DatabaseError as error:
        reason = f"it does not answer: {type(error).__name__} {error}".strip()
        return [DatabaseFault("database", reason, reads=await _replica_answers(database))]
    if weeks < MIN_WEEKS:
        return [DatabaseFault("partitions", f"history has partitions for only {weeks} weeks ahead")]
    return []


async def entry(database: Database) -> list[DatabaseFault]:
    """Check the look-ups of every request: the key, and before a change, the halts.

    Somebody may have locked these tables, while everything else answers.
    """
    found = []
    try:
        async with database.look_up() as connection:
            await key_store.check_readable(connection, PROBE_SECONDS)
    except DatabaseError as error:
        reason = f"keys cannot be looked up, so every request is refused: {error}".strip()
        found.append(DatabaseFault("keys", reason, reads=False))
    try:
        async with database.connection(PROBE_SECONDS) as connection:
            await halt_store.check_readable(connection, PROBE_SECONDS)
    except DatabaseError as error:
        found.append(
            DatabaseFault(HALTS, f"halts cannot be read, so nothing is accepted: {error}".strip())
        )
    return found


async def secrets(database: Database, key_ids: Sequence[int]) -> list[DatabaseFault]:
    """Return a fault if this node lacks a key that has encrypted something here."""
    try:
        async with database.connection(PROBE_SECONDS) as connection:
            known = await secret_store.list_known(connection)
    except DatabaseError:
        return []  # What every request needs is looked at by `readiness` and `entry`.
    if not (missing := sorted(known.difference(key_ids))):
        return []
    names = ", ".join(f"{each:08x}" for each in missing)
    reason = (
        f"this node lacks a secret key of the others ({names}), so it leaves to them what needs "
        "the key, if there are any: give it the same POSTDATE_SECRET_KEY"
    )
    return [DatabaseFault("secrets", reason)]


async def _replica_answers(database: Database) -> bool:
    """Return whether a replica can serve reads while the primary is away."""
    if database.spares.look_up is None:
        return False
    try:
        async with database.look_up() as connection:
            return bool(await connection.fetchval("SELECT true", timeout=2))
    except DatabaseError:
        return False
