"""Where the database is: our own in the data directory, or one given by its address."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeAlias

from postdate.database.connection import opening
from postdate.database.connection.address import writable
from postdate.database.connection.database import Database
from postdate.database.connection.error import DatabaseError
from postdate.database.embedded import Embedded, Login, find
from postdate.node.settings import ProcessSettings
from postdate.schema.migrate import require_current
from postdate.words.error import StartError

Start: TypeAlias = Callable[[Embedded], Awaitable[Login]]
"""How our own database is started."""


class DatabaseAddress(NamedTuple):
    """How to reach the database as the application and as the owner."""

    app: str
    owner: str
    read: str | None


def external(settings: ProcessSettings) -> DatabaseAddress | None:
    """Return the address of an external database."""
    if not settings.database_url:
        return None
    owner = writable(settings.owner_database_url or settings.database_url)
    return DatabaseAddress(settings.database_url, owner, settings.read_database_url or None)


async def running(settings: ProcessSettings) -> DatabaseAddress | None:
    """Return the address of a running database, for commands."""
    if address := external(settings):
        return address
    login = await find(settings.data_dir)
    if login is None:
        return None
    return DatabaseAddress(login.app_dsn(), login.owner_dsn(), settings.read_database_url or None)


@asynccontextmanager
async def serving(
    settings: ProcessSettings, *, attach: bool, start: Start = Embedded.start
) -> AsyncIterator[DatabaseAddress]:
    """Return the address for a server, starting our own database where none is given."""
    address = external(settings) or (await running(settings) if attach else None)
    if address:
        yield address
        return
    server = Embedded(settings.data_dir)
    login = await start(server)
    watching = asyncio.create_task(server.watch())
    try:
        yield DatabaseAddress(
            login.app_dsn(), login.owner_dsn(), settings.read_database_url or None
        )
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await server.stop()


@asynccontextmanager
async def opened(settings: ProcessSettings, *, altered: bool = False) -> AsyncIterator[Database]:
    """Open the database for one command; `altered` lets it name what `require_current` refuses."""
    address = await running(settings)
    if address is None:
        raise StartError(
            f"no database is running in {settings.data_dir}: start `postdate serve`, or set "
            "POSTDATE_DATA_DIR or POSTDATE_DATABASE_URL to where it runs"
        )
    opened_database = await open_database(address, settings, writers=2, readers=2)
    try:
        async with opened_database.connection() as connection:
            await require_current(connection, altered=altered)
        yield opened_database
    finally:
        await opened_database.close()


def session_name(settings: ProcessSettings) -> str:
    """Return the name of this process's sessions."""
    return f"postdate {settings.node_name}".strip()


async def connect(
    address: DatabaseAddress, settings: ProcessSettings, *, writers: int, readers: int
) -> Database:
    """Open the pools."""
    return await opening.connect(
        address.app,
        read_dsn=address.read,
        writers=writers,
        readers=readers,
        name=session_name(settings),
    )


async def open_database(
    address: DatabaseAddress, settings: ProcessSettings, *, writers: int, readers: int
) -> Database:
    """Open the pools; report an unreachable database in one clear sentence."""
    try:
        return await connect(address, settings, writers=writers, readers=readers)
    except DatabaseError as error:
        raise unreachable(error) from error


def unreachable(error: Exception) -> StartError:
    """Explain a database that does not answer, without repeating its address."""
    reason = str(error).strip() or type(error).__name__
    return StartError(
        f"the database cannot be used: {reason}; check POSTDATE_DATABASE_URL and that the "
        "server is running and reachable"
    )
