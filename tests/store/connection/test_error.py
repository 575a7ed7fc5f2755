"""The driver's errors are translated once, where they leave the store."""

import asyncpg
import pytest

from postdate.store.connection import error as meaning
from postdate.store.connection.database import Database
from postdate.store.connection.error import DatabaseError, translated


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        (asyncpg.QueryCanceledError("slow"), meaning.StatementTimedOutError),
        (asyncpg.AdminShutdownError("stop"), meaning.UnavailableError),
        (asyncpg.CannotConnectNowError("starting"), meaning.StartingError),
        (asyncpg.InterfaceError("closed"), meaning.UnavailableError),
        (asyncpg.TargetServerAttributeNotMatched("no primary"), meaning.UnavailableError),
        (ConnectionResetError("gone"), meaning.UnavailableError),
        (TimeoutError(), meaning.NoAnswerError),
        (asyncpg.DeadlockDetectedError("both wait"), meaning.SerializationFailureError),
        (asyncpg.LockNotAvailableError("held"), meaning.LockNotAvailableError),
        (asyncpg.DiskFullError("full"), meaning.StorageFullError),
        (asyncpg.TooManyConnectionsError("many"), meaning.TooManyConnectionsError),
        (asyncpg.DatetimeFieldOverflowError("far"), meaning.InvalidValueError),
        (asyncpg.PostgresIOError("block 7"), meaning.ServerFaultError),
        (asyncpg.UndefinedTableError("which?"), DatabaseError),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
def test_each_error_of_the_driver_has_one_meaning(
    driver: Exception, expected: type[DatabaseError]
) -> None:
    with pytest.raises(DatabaseError) as caught, translated:
        raise driver
    assert type(caught.value) is expected
    assert caught.value.__cause__ is driver
    assert str(caught.value) == str(driver)


def test_what_is_no_error_of_the_driver_stays_as_it_is() -> None:
    with pytest.raises(KeyError), translated:
        raise KeyError("mine")


@pytest.mark.parametrize(
    ("statement", "values", "expected"),
    [
        ("SELECT * FROM nothing_here", (), DatabaseError),
        ("SELECT $1::int", ("a word",), meaning.InvalidValueError),
        ("SELECT '300000-01-01'::timestamptz", (), meaning.InvalidValueError),
        ("INSERT INTO tenant (name) VALUES ('a'), ('a')", (), meaning.UniqueViolationError),
        ("DELETE FROM payment", (), meaning.PermissionDeniedError),
    ],
)
async def test_a_statement_raises_no_error_of_the_driver(
    database: Database, statement: str, values: tuple[object, ...], expected: type[DatabaseError]
) -> None:
    for way in ("execute", "fetch", "fetchrow", "fetchval"):
        async with database.connection() as connection:
            with pytest.raises(DatabaseError) as caught:
                await getattr(connection, way)(statement, *values)
        assert type(caught.value) is expected


async def test_a_connection_that_is_gone_is_unavailable(database: Database) -> None:
    async def ask() -> None:
        async with database.connection() as connection:
            connection.terminate()
            await connection.fetchval("SELECT 1")

    with pytest.raises(meaning.UnavailableError):
        await ask()
