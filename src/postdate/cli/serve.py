"""`postdate serve`: start everything, wait for the end, stop in good order."""

import asyncio
import signal
import socket
import sys
from typing import Final

import asyncpg
import structlog

from postdate.api.server import Server, ServerLimits, bind
from postdate.cli import edge, first, memory, place, stages, tokens
from postdate.cli.node import Group, Node
from postdate.cli.settings import Settings
from postdate.cli.trace import Tracing
from postdate.intake.quota import COUNT_SECONDS, PendingCounts
from postdate.intake.tenant import Tenants
from postdate.store import migrate
from postdate.store.database import LOST
from postdate.store.loop import Loop
from postdate.views.identity import USED_SECONDS, Identities
from postdate.views.vitals import POLL_SECONDS as VITAL_SECONDS

log = structlog.get_logger()

ROLES: Final = ("api", "worker", "settlement", "publisher")
STOP_SECONDS: Final = 5.0


async def serve(
    settings: Settings, role: str | None = None, tracing: Tracing | None = None
) -> None:
    """Run the given role, or all of them, until a signal ends it."""
    roles = [role] if role else list(ROLES)
    stop = _stop_on_signal()
    # Before anything else: a taken port must not leave a database behind.
    listener = _listener(settings, roles)
    async with place.serving(settings, attach=role is not None) as address:
        await _migrate(address)
        database = await place.open_database(
            address, settings, writers=settings.writers, readers=settings.readers
        )
        group = Group()
        if address.server:
            group.start("watchdog", address.server.watch(), endless=True)
        node = Node(settings=settings, database=database, roles=roles, tracing=tracing)
        try:
            await _run(node, group, listener, stop)
        finally:
            await group.stop(0)
            await node.close()
            await database.close()
            if tracing:
                tracing.close()


async def _run(
    node: Node, group: Group, listener: socket.socket | None, stop: asyncio.Event
) -> None:
    new_key = await first.ensure_key(Tenants(node.database), node.settings)
    await node.refresh_settings()
    await node.lanes.refresh()
    node.loops += [*node.housekeeping(), *stages.loops(node)]
    server = _http(node, group, listener) if listener else None
    for loop in node.loops:
        group.start(loop.name, loop.run())
    memory.settle()
    group.start("wakeup", node.wakeup.run(), endless=True)
    if server:
        _announce(server.url, new_key, node.settings)
    await _until(stop, group)
    log.info("server.stopping", roles=node.roles)
    await _stop(node, group, server)


def _http(node: Node, group: Group, listener: socket.socket) -> Server:
    identities = Identities(node.database, tokens=tokens.build(node))
    app = edge.build(node, identities) if "api" in node.roles else edge.signs(node, identities)
    server = Server(app, listener, ServerLimits(drain_seconds=node.settings.drain_seconds))
    node.loops += [
        Loop("keys", identities.run_once, limit=1, poll_seconds=USED_SECONDS),
        Loop(
            "quotas",
            PendingCounts(node.database, node.quotas).run_once,
            limit=1,
            poll_seconds=COUNT_SECONDS,
        ),
        Loop("vitals", node.vitals.run_once, limit=1, poll_seconds=VITAL_SECONDS),
    ]
    group.start("http", server.run())
    return server


def _listener(settings: Settings, roles: list[str]) -> socket.socket | None:
    if "api" in roles:
        return bind(settings.host, settings.port)
    return bind(settings.host, settings.metrics_port) if settings.metrics_port else None


async def _migrate(address: place.Address) -> None:
    try:
        await migrate.migrate(address.owner)
    except (asyncpg.PostgresError, *LOST) as error:
        raise place.unreachable(error) from error


def _announce(url: str, new_key: str | None, settings: Settings) -> None:
    log.info("server.ready", url=url)
    if new_key:
        print(first.welcome(url, new_key, settings), flush=True)
    elif sys.stdout.isatty():
        print(f"Postdate is ready: {url}/", flush=True)


def _stop_on_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _until(stop: asyncio.Event, group: Group) -> None:
    """Wait for the signal; a failed part of the process ends it too."""
    stopped = asyncio.create_task(stop.wait())
    group.failed.add_done_callback(lambda _: stop.set())
    await stopped
    if group.failed.done():
        group.failed.result()


async def _stop(node: Node, group: Group, server: Server | None) -> None:
    if server:
        server.stop()
    for loop in node.loops:
        loop.stop()
    await group.stop(node.settings.drain_seconds + STOP_SECONDS)
    try:
        await node.leave()
    except (asyncpg.PostgresError, *LOST) as error:
        log.debug("node.left_silently", error=str(error))
