"""The errors of the database, by what they mean for the caller.

The driver's errors are translated only here: no code outside the store knows the driver.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar

import asyncpg

P = ParamSpec("P")
R = TypeVar("R")


class DatabaseError(Exception):
    """The database refused a statement, or did not answer."""

    def __init__(self, message: str = "", sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class TransientError(DatabaseError):
    """A temporary failure: the same statements may succeed next time."""


class CommitUnknownError(TransientError):
    """The connection broke, or waiting was cancelled, while a commit was under way."""


class UnavailableError(TransientError):
    """The connection broke, or the server stops, starts or does not answer: nothing was done."""


class NoAnswerError(UnavailableError, TimeoutError):
    """No free connection or no answer came in time."""


class StatementTimedOutError(UnavailableError):
    """The server ended a statement that took too long."""


class StartingError(UnavailableError):
    """The server is starting, or recovering, and takes no connections yet."""


class ReadOnlyError(TransientError):
    """The server is a standby, or a primary that is being replaced."""


class LockNotAvailableError(TransientError):
    """Another transaction has held a row's lock for longer than we wait."""


class SerializationFailureError(TransientError):
    """The transaction was rolled back in favour of another: a deadlock, or a conflict."""


class ExhaustedError(TransientError):
    """The server lacks a resource."""


class StorageFullError(ExhaustedError):
    """The server's disk or memory is full."""


class TooManyConnectionsError(ExhaustedError):
    """The server has no connection left."""


class ServerFaultError(DatabaseError):
    """The server failed, for example its disk; the statement is hardly the cause."""


class InvalidValueError(DatabaseError):
    """PostgreSQL cannot store a value, such as an instant out of its range."""


class UniqueViolationError(DatabaseError):
    """A row with this key exists already."""


class CheckViolationError(DatabaseError):
    """A row violates a constraint of its table."""


class PermissionDeniedError(DatabaseError):
    """The role may not do this."""


class TenantHaltedError(DatabaseError):
    """The tenant is halted by a kill switch or a freeze window (`functions/halt.sql`)."""


class PartitionRefusedError(DatabaseError):
    """A partition of history must not be moved (`functions/history.sql`, `partition.sql`)."""


class KeyTakenError(DatabaseError):
    """Another transaction has used an idempotency key since it was looked up: look it up again."""


class StaleAccountError(DatabaseError):
    """A payer has changed since it was read: decide again, with the payers locked."""


_OWN_STATES: Final[dict[str, type[DatabaseError]]] = {
    "PD003": PartitionRefusedError,
    "PD004": TenantHaltedError,
    "PD006": StaleAccountError,
}
"""SQLSTATEs that our own functions raise and that callers distinguish."""

_BY_DRIVER_CLASS: Final[dict[type, type[DatabaseError]]] = {
    # Looked up along each error's base classes, nearest first.
    asyncpg.QueryCanceledError: StatementTimedOutError,
    asyncpg.CannotConnectNowError: StartingError,
    asyncpg.OperatorInterventionError: UnavailableError,
    asyncpg.PostgresConnectionError: UnavailableError,
    # The server has ended a session that idled or took too long within a transaction.
    asyncpg.IdleInTransactionSessionTimeoutError: UnavailableError,
    asyncpg.TransactionTimeoutError: UnavailableError,
    # Among them: no host of the address is what it should be. The primary is gone, and no other
    # is one yet.
    asyncpg.InternalClientError: UnavailableError,
    asyncpg.InterfaceError: UnavailableError,
    TimeoutError: NoAnswerError,
    OSError: UnavailableError,
    asyncpg.DataError: InvalidValueError,
    asyncpg.ReadOnlySQLTransactionError: ReadOnlyError,
    asyncpg.LockNotAvailableError: LockNotAvailableError,
    asyncpg.TransactionRollbackError: SerializationFailureError,
    asyncpg.InsufficientResourcesError: ExhaustedError,
    asyncpg.DiskFullError: StorageFullError,
    asyncpg.OutOfMemoryError: StorageFullError,
    asyncpg.TooManyConnectionsError: TooManyConnectionsError,
    asyncpg.PostgresSystemError: ServerFaultError,
    asyncpg.InternalServerError: ServerFaultError,
    # A session's prepared statements are out of date, after a migration say, or gone; the driver
    # prepares them again next time.
    asyncpg.InvalidCachedStatementError: TransientError,
    asyncpg.InvalidSQLStatementNameError: TransientError,
    asyncpg.UniqueViolationError: UniqueViolationError,
    asyncpg.CheckViolationError: CheckViolationError,
    asyncpg.InsufficientPrivilegeError: PermissionDeniedError,
    asyncpg.PostgresError: DatabaseError,
}

_BY_STATE_CLASS: Final[dict[str, type[DatabaseError]]] = {
    "08": UnavailableError,
    "22": InvalidValueError,
    "40": SerializationFailureError,
    "53": ExhaustedError,
    "57": UnavailableError,
    "58": ServerFaultError,
    "XX": ServerFaultError,
}
"""By the first two characters of an SQLSTATE that the driver has no class for."""

_COPIED_TWICE: Final = "duplicate key value violates unique constraint"
"""What is left of a unique violation where Citus has copied the row to a shard: XX000."""

DRIVER_ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""All that the driver raises; a TimeoutError is an OSError."""


def _meaning(error: Exception) -> DatabaseError:
    sqlstate: str | None = getattr(error, "sqlstate", None)
    found = _OWN_STATES.get(sqlstate or "") or _class_of(type(error))
    if found is DatabaseError and isinstance(error, asyncpg.exceptions.UnknownPostgresError):
        found = _BY_STATE_CLASS.get((sqlstate or "")[:2], found)
    if found is ServerFaultError and str(error).startswith(_COPIED_TWICE):
        found = UniqueViolationError
    return found(str(error), sqlstate)


def _class_of(driver: type[Exception]) -> type[DatabaseError]:
    # A value that the driver cannot send is the sender's fault, though the driver calls it its own.
    if issubclass(driver, ValueError):
        return InvalidValueError
    return next(_BY_DRIVER_CLASS[each] for each in driver.__mro__ if each in _BY_DRIVER_CLASS)


class Translation:
    """Context manager for calls of the driver: raise translated errors."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if isinstance(error, DRIVER_ERRORS) and not isinstance(error, DatabaseError):
            raise _meaning(error) from error


translated: Final = Translation()


def translating(
    method: Callable[P, Coroutine[Any, Any, R]],
) -> Callable[P, Coroutine[Any, Any, R]]:
    """Wrap a method of the driver so that it raises translated errors."""

    @wraps(method)
    async def call(*arguments: P.args, **options: P.kwargs) -> R:
        with translated:
            return await method(*arguments, **options)

    return call
