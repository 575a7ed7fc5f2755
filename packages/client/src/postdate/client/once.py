"""Do the work of a job once: its id is written down in the same transaction as the work.

A job may be handed out twice (a worker died after it was done, before it said so). A table of your
own, in the database that the work changes, tells the second time from the first:

    CREATE TABLE postdate_once (job_id uuid PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())
"""

from contextvars import ContextVar
from typing import Any, Final
from uuid import UUID

from postdate.client.models.leases import Lease

CURRENT: Final[ContextVar[Lease]] = ContextVar("postdate_lease")
"""The lease whose function is running."""

TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS postdate_once "
    "(job_id uuid PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())"
)
_INSERT: Final = "INSERT INTO postdate_once (job_id) VALUES ({}) ON CONFLICT DO NOTHING"
_AUTOCOMMITTED: Final = "once() belongs inside the transaction of the work: begin one around both"
_IDLE: Final = 0
"""psycopg's name for a connection without a transaction."""


async def once(connection: Any, job_id: UUID | str | None = None) -> bool:
    """Return whether this job is done for the first time; asyncpg, or psycopg's AsyncConnection.

    Within a worker's function the job is known. Whoever comes second waits for the first one's
    commit. True: do the work in the same transaction. False: it was done, return.
    """
    found = _job(job_id)
    if hasattr(connection, "is_in_transaction"):
        if not connection.is_in_transaction():
            raise RuntimeError(_AUTOCOMMITTED)
        done = await connection.execute(_INSERT.format("$1"), found)
        return bool(done == "INSERT 0 1")
    _check(connection)
    cursor = await connection.execute(_INSERT.format("%s"), [found])
    return bool(cursor.rowcount == 1)


def once_sync(connection: Any, job_id: UUID | str | None = None) -> bool:
    """Return whether this job is done for the first time; with psycopg's plain Connection."""
    found = _job(job_id)
    _check(connection)
    return bool(connection.execute(_INSERT.format("%s"), [found]).rowcount == 1)


def _job(job_id: UUID | str | None) -> UUID:
    if job_id is not None:
        try:
            return UUID(str(job_id))
        except ValueError:
            raise ValueError(f"{job_id!r} is no id of a job") from None
    lease = CURRENT.get(None)
    if lease is None:
        raise RuntimeError("once() knows the job only inside a worker's function: give its id")
    return UUID(lease.job_id)


def _check(connection: Any) -> None:
    if connection.autocommit and connection.info.transaction_status == _IDLE:
        raise RuntimeError(_AUTOCOMMITTED)
