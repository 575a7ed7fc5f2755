"""Translate failures of the database into refusals of a request."""

from postdate.core.log import Log
from postdate.database.connection.error import (
    CommitUnknownError,
    InvalidValueError,
    LockNotAvailableError,
    PermissionDeniedError,
    ReadOnlyError,
    StartingError,
    StatementTimedOutError,
    StorageFullError,
    TenantHaltedError,
    TooManyConnectionsError,
    TransientError,
    UnavailableError,
    UniqueViolationError,
)
from postdate.words.error import Code, Refusal

log = Log()

RETRY_SECONDS = 2

_PASSING: tuple[tuple[tuple[type[Exception], ...], Code, str], ...] = (
    # The first match is used.
    (
        (CommitUnknownError,),
        Code.OUTCOME_UNKNOWN,
        "The connection broke while the commit was under way.",
    ),
    ((StorageFullError,), Code.UNAVAILABLE, "The database's disk is full."),
    (
        (PermissionDeniedError,),
        Code.UNAVAILABLE,
        "A right in the database was revoked: the operator finds it in `/readyz`.",
    ),
    ((ReadOnlyError, StartingError), Code.UNAVAILABLE, "The database is starting or read-only."),
    (
        (StatementTimedOutError, LockNotAvailableError, TooManyConnectionsError),
        Code.OVERLOADED,
        "The database is too busy just now.",
    ),
    ((UnavailableError, OSError), Code.UNAVAILABLE, "The database does not answer."),
    ((TransientError,), Code.UNAVAILABLE, "The database faltered."),
)


def translate(error: Exception) -> Refusal | None:
    """Return the refusal for an error of the database; None if it is unexpected."""
    if isinstance(error, TenantHaltedError):
        return Refusal(Code.TENANT_HALTED, "The tenant is stopped, or accepts no new work.")
    if isinstance(error, InvalidValueError):
        # The shapes accept values that PostgreSQL cannot store, such as an instant out of its
        # range.
        log.warning("value.refused", error=str(error))
        return Refusal(Code.INVALID_FIELD, "A value lies outside of what can be stored.")
    if isinstance(error, UniqueViolationError):
        # Where two may ask for the same at once, that is decided before. What is left is a row that
        # none of ours wrote, such as the outcome of something that is open.
        log.error("row.contradicts", error=str(error))
        return Refusal(
            Code.CONFLICT,
            "What is stored contradicts this change, and nothing was changed. Have the operator "
            "run `postdate prove`.",
        )
    return _failure(error)


def _failure(error: Exception) -> Refusal | None:
    for kinds, code, words in _PASSING:
        if isinstance(error, kinds):
            return Refusal(code, words, extra={"retry_after_seconds": RETRY_SECONDS})
    return None
