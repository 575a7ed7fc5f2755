"""The driver's errors are translated once, where they leave the store."""

from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from postdate.database.connection import error as meaning
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import DRIVER_ERRORS, DatabaseError, translated
from postdate.database.embedded import Embedded
from postdate.node.refusal import translate
from postdate.words.error import EXPLANATIONS, Code


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
        (asyncpg.InternalServerError("a bug"), meaning.ServerFaultError),
        (
            asyncpg.InternalServerError(
                'duplicate key value violates unique constraint "k_102094"'
            ),
            meaning.UniqueViolationError,
        ),
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


PASSING_STATES = {"25006", "25P03", "25P04", "26000", "55P03"}
PASSING_CLASSES = {"08", "40", "53", "57"}
"""What the server says when nothing is wrong with what was asked; all else is somebody's fault."""


def _driver_errors() -> list[type[Exception]]:
    found = [each for each in vars(asyncpg.exceptions).values() if isinstance(each, type)]
    return [each for each in found if issubclass(each, DRIVER_ERRORS)]


def _passing(driver: type[Exception]) -> bool:
    """Return whether an error should be passing, by a rule that knows no class of ours."""
    state = getattr(driver, "sqlstate", None)
    if state is not None:
        cached = driver is asyncpg.InvalidCachedStatementError
        return cached or state in PASSING_STATES or state[:2] in PASSING_CLASSES
    return not issubclass(driver, (asyncpg.PostgresError, ValueError))


@pytest.mark.parametrize("driver", _driver_errors(), ids=lambda each: each.__name__)
def test_each_class_of_the_driver_is_passing_or_not(driver: type[Exception]) -> None:
    with pytest.raises(DatabaseError) as caught, translated:
        raise driver("as the server says it")
    assert isinstance(caught.value, meaning.TransientError) is _passing(driver)


def _passing_meanings() -> list[type[DatabaseError]]:
    found = [each for each in vars(meaning).values() if isinstance(each, type)]
    return [each for each in found if issubclass(each, meaning.TransientError)]


@pytest.mark.parametrize("kind", _passing_meanings(), ids=lambda each: each.__name__)
def test_whoever_asks_is_told_to_ask_again_after_what_passes(kind: type[DatabaseError]) -> None:
    refusal = translate(kind("for a moment"))
    assert refusal is not None, "it would be answered as a fault of ours"
    assert EXPLANATIONS[refusal.code].status == 503
    assert refusal.extra["retry_after_seconds"] > 0


def test_a_revoked_right_is_the_operators_to_grant_not_a_fault_of_ours() -> None:
    refusal = translate(meaning.PermissionDeniedError("permission denied for table job"))
    assert refusal is not None
    assert (refusal.code, refusal.extra["retry_after_seconds"] > 0) == (Code.UNAVAILABLE, True)
    assert "/readyz" in refusal.detail
    assert "job" not in refusal.detail


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("08999", meaning.UnavailableError),
        ("22999", meaning.InvalidValueError),
        ("40999", meaning.SerializationFailureError),
        ("53999", meaning.ExhaustedError),
        ("57P99", meaning.UnavailableError),
        ("58999", meaning.ServerFaultError),
        ("XX999", meaning.ServerFaultError),
        ("42999", DatabaseError),
        ("PD004", meaning.TenantHaltedError),
        ("PD999", DatabaseError),
    ],
)
async def test_a_state_that_the_driver_does_not_know_is_judged_by_its_class(
    database: Database, state: str, expected: type[DatabaseError]
) -> None:
    async with database.connection() as connection:
        with pytest.raises(DatabaseError) as caught:
            await connection.execute(f"DO $$BEGIN RAISE 'odd' USING ERRCODE = '{state}'; END$$")
    assert type(caught.value) is expected
    assert caught.value.sqlstate == state


WAYS: list[Callable[[Connection], Awaitable[object]]] = [
    lambda lost: lost.execute("SELECT 1"),
    lambda lost: lost.executemany("SELECT $1::int", [(1,)]),
    lambda lost: lost.fetch("SELECT 1"),
    lambda lost: lost.fetchrow("SELECT 1"),
    lambda lost: lost.fetchval("SELECT 1"),
    lambda lost: lost.transaction().start(),
    lambda lost: lost.add_listener("somewhere", print),
]


@pytest.mark.parametrize("way", range(len(WAYS)))
async def test_a_connection_lost_between_two_statements_is_unavailable_to_whoever_asks(
    database: Database, way: int
) -> None:
    """Also inside the block: whoever tells passing errors from others does so there."""
    async with database.connection() as connection:
        connection.terminate()
        assert connection.is_closed()
        with pytest.raises(meaning.UnavailableError):
            await WAYS[way](connection)


async def test_a_login_that_is_refused_for_a_while_is_nobodys_fault(
    server: Embedded, database_name: str, database: Database
) -> None:
    """Whatever keeps a connection from being made; else it would be taken for an item's fault."""
    superuser = await asyncpg.connect(server.credentials.superuser_dsn("postgres"))
    try:
        await superuser.execute(f'ALTER DATABASE "{database_name}" ALLOW_CONNECTIONS false')
        await database.writer.expire_connections()
        with pytest.raises(meaning.UnavailableError) as caught:
            async with database.write():
                pass
        assert caught.value.sqlstate == "55000"
    finally:
        await superuser.execute(f'ALTER DATABASE "{database_name}" ALLOW_CONNECTIONS true')
        await superuser.close()
