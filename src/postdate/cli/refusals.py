"""What a failing database means for a request."""

import asyncpg

from postdate.model.errors import Code, Refusal
from postdate.store.database import LOST, CommitUnknownError

RETRY_SECONDS = 2

_FULL = (asyncpg.DiskFullError, asyncpg.OutOfMemoryError)
_READ_ONLY = (asyncpg.ReadOnlySQLTransactionError, asyncpg.CannotConnectNowError)
_SLOW = (asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError, asyncpg.TooManyConnectionsError)


def translate(error: Exception) -> Refusal | None:
    """Turn a failure of the database into a refusal; None when it is a surprise."""
    extra = {"retry_after_seconds": RETRY_SECONDS}
    match error:
        case CommitUnknownError():
            return Refusal(
                Code.OUTCOME_UNKNOWN,
                "The connection broke while the commit was under way.",
                extra=extra,
            )
        case _ if isinstance(error, _FULL):
            return Refusal(Code.UNAVAILABLE, "The database's disk is full.", extra=extra)
        case _ if isinstance(error, _READ_ONLY):
            return Refusal(Code.UNAVAILABLE, "The database is starting or read-only.", extra=extra)
        case _ if isinstance(error, _SLOW):
            return Refusal(Code.OVERLOADED, "The database is too busy just now.", extra=extra)
        case _ if isinstance(error, LOST):
            return Refusal(Code.UNAVAILABLE, "The database does not answer.", extra=extra)
        case _:
            return None
