"""`postdate serve`: bind the port, start the database, and load the program meanwhile."""

import asyncio
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final

from postdate.http.listener import bind, bind_beside
from postdate.node import api_process, database_address
from postdate.node.settings import ProcessSettings
from postdate.node.starting import Starting, StoppedError
from postdate.schema import migrate, upgrade

if TYPE_CHECKING:
    from postdate.database.connection.database import Database
    from postdate.node.trace import Tracing

ROLES: Final = ("api", "worker", "settlement", "publisher")

SWITCH_SECONDS: Final = 0.0005
"""How long a thread that computes keeps the interpreter when the event loop wants it back.

The loop gives it up at each read and write. With Python's own 5 ms a settlement, which needs some
dozen of them, waited 0.1 s for a tenant's forecast.
"""


async def serve(
    settings: ProcessSettings,
    role: str | None = None,
    tracing: "Tracing | None" = None,
    parent: int | None = None,
) -> None:
    """Run the given role, or all of them, until a signal ends it, or `parent` is gone."""
    with suppress(StoppedError):
        await _serve(settings, role, tracing, parent)


async def _serve(
    settings: ProcessSettings, role: str | None, tracing: "Tracing | None", parent: int | None
) -> None:
    sys.setswitchinterval(SWITCH_SECONDS)
    roles = [role] if role else list(ROLES)
    stop = _stop_on_signal()
    # Before anything else: if the port is taken, no database must be left running.
    listeners = _listeners(settings, roles, beside_parent=parent is not None)
    # Loading the program takes as long as the database needs to start: both at once.
    loading = asyncio.create_task(asyncio.to_thread(import_module, "postdate.node.process"))
    # Beside its parent a process that waits takes no connection.
    starting = Starting(listeners if parent is None else (), loading, stop)
    attach = role is not None
    try:
        async with database_address.serving(
            settings, attach=attach, start=starting.start
        ) as address:
            own = api_process.share(settings) if "api" in roles else settings
            database = await _open(starting, address, own)
            try:
                await loading
                from postdate.node.node import Node
                from postdate.node.process import prepare, run

                node = Node(settings=own, database=database, roles=roles, tracing=tracing)
                new_key = await starting.reach(
                    lambda: prepare(node),
                    lambda: upgrade.find_obstacle(address.app, database_address.session_name(own)),
                )
                await starting.end()
                await run(node, listeners, stop, parent, new_key=new_key)
            finally:
                await database.close()
                if tracing:
                    tracing.close()
    finally:
        await starting.end()


def _listeners(
    settings: ProcessSettings, roles: list[str], *, beside_parent: bool
) -> list[socket.socket]:
    """Take the port of the API, and the one on which this process alone answers."""
    own = [bind(settings.host, settings.metrics_port)] if settings.metrics_port else []
    if "api" not in roles:
        return own
    if beside_parent:
        return [bind_beside(settings.host, settings.port), *own]
    if settings.api_processes == 1:
        return [bind(settings.host, settings.port)]
    # A port in use must be refused: a shared socket would be bound beside the other process.
    with bind(settings.host, settings.port) as free:
        port = free.getsockname()[1]
    return [bind(settings.host, port, shared=True), *own]


async def _open(
    starting: Starting, address: database_address.DatabaseAddress, own: ProcessSettings
) -> "Database":
    """Bring the schema up to date, and open the pools."""
    await starting.reach(
        lambda: upgrade.ensure_current(address.owner),
        lambda: upgrade.find_obstacle(address.owner, migrate.SESSION),
    )
    return await starting.reach(
        lambda: database_address.connect(address, own, writers=own.writers, readers=own.readers)
    )


def _stop_on_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
