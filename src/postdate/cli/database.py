"""Helpers of commands that connect directly to the database."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import uvloop

from postdate.database.connection.database import Connection, Database
from postdate.node import database_address, log
from postdate.node.settings import ProcessSettings, load
from postdate.tenant.store import tenant as tenant_store
from postdate.words.error import Code, refuse

T = TypeVar("T")
MAX_ROWS: Final = 1000
"""The most that such a command lists."""


def with_database(act: Callable[[Database], Awaitable[T]], *, altered: bool = False) -> T:
    """Connect to the running database, act, and close the connection.

    `altered` is for a command that says itself how the database differs from what was shipped.
    """

    async def run() -> T:
        async with database_address.opened(settings, altered=altered) as database:
            return await act(database)

    settings = configured()
    return uvloop.run(run())


def read_database(read: Callable[[Connection], Awaitable[T]]) -> T:
    """Open the database that is running, and read from it over one connection."""

    async def run(database: Database) -> T:
        async with database.connection() as connection:
            return await read(connection)

    return with_database(run)


def configured() -> ProcessSettings:
    """Load the settings, and log warnings and errors only."""
    settings = load()
    log.configure("warning", settings.log_format)
    return settings


async def tenant_number(database: Database, name: str) -> int:
    """Return the number of a tenant, refusing an unknown name."""
    async with database.connection() as connection:
        found = await tenant_store.find(connection, name)
    if found is None:
        raise refuse(Code.UNKNOWN_TENANT, f"There is no tenant {name}.", "tenant")
    return found
