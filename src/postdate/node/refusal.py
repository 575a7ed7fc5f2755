"""Translate failures of the database into refusals of a request."""

from postdate.model.error import Code, Refusal
from postdate.model.log import Log
from postdate.store.connection.error import (
    CommitUnknownError,
    InvalidValueError,
    LockNotAvailableError,
    ReadOnlyError,
    StartingError,
    StatementTimedOutError,
    StorageFullError,
    TenantHaltedError,
    TooManyConnectionsError,
    UnavailableError,
)

log = Log()

RETRY_SECONDS = 2

_READ_ONLY = (ReadOnlyError, StartingError)
_SLOW = (StatementTimedOutError, LockNotAvailableError, TooManyConnectionsError)


def translate(error: Exception) -> Refusal | None:
    """Turn a refusal or failure of the database into words; None when it is a surprise."""
    if isinstance(error, TenantHaltedError):
        return Refusal(Code.TENANT_HALTED, "The tenant was stopped, or accepts nothing new.")
    if isinstance(error, InvalidValueError):
        # The shapes let a value pass that PostgreSQL has no room for, an instant before Christ say.
        log.warning("value.refused", error=str(error))
        return Refusal(Code.INVALID_FIELD, "A value lies outside of what can be stored.")
    return _failure(error)


def _failure(error: Exception) -> Refusal | None:
    extra = {"retry_after_seconds": RETRY_SECONDS}
    match error:
        case CommitUnknownError():
            return Refusal(
                Code.OUTCOME_UNKNOWN,
                "The connection broke while the commit was under way.",
                extra=extra,
            )
        case _ if isinstance(error, StorageFullError):
            return Refusal(Code.UNAVAILABLE, "The database's disk is full.", extra=extra)
        case _ if isinstance(error, _READ_ONLY):
            return Refusal(Code.UNAVAILABLE, "The database is starting or read-only.", extra=extra)
        case _ if isinstance(error, _SLOW):
            return Refusal(Code.OVERLOADED, "The database is too busy just now.", extra=extra)
        case _ if isinstance(error, (UnavailableError, OSError)):
            return Refusal(Code.UNAVAILABLE, "The database does not answer.", extra=extra)
        case _:
            return None
