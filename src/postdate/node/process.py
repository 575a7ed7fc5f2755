"""A process with its database open: wire its roles, run their loops, shut down."""

import asyncio
import socket
import sys
from collections.abc import Sequence
from typing import Final

from postdate.core.log import Log
from postdate.database.connection.error import DatabaseError
from postdate.delivery import http_exchange
from postdate.http.connection_registry import ConnectionLimits
from postdate.http.server import HttpServer, ServerLimits
from postdate.key.authentication.identity import USED_SECONDS, Identities
from postdate.monitor.view.vitals import POLL_SECONDS as VITAL_SECONDS
from postdate.node import garbage, http, initial_key, role, token
from postdate.node.api_process import ApiProcesses, end_with
from postdate.node.client_file import local_url, write_client_file
from postdate.node.line_writer import LineWriter
from postdate.node.node import BackgroundTasks, Node
from postdate.node.settings import ProcessSettings
from postdate.runtime.loop import Loop
from postdate.tenant.change.quota import COUNT_SECONDS, PendingCounts
from postdate.tenant.change.tenant import Tenants

log = Log()

STOP_SECONDS: Final = 5.0


async def run(
    node: Node,
    listeners: Sequence[socket.socket],
    stop: asyncio.Event,
    parent: int | None = None,
    *,
    new_key: str | None = None,
) -> None:
    """Run the node's roles until `stop` is set, `parent` is gone or a part of the process fails."""
    group = BackgroundTasks()
    if parent is not None:
        group.start("parent", end_with(parent, stop), endless=True)
    try:
        await _run(node, group, listeners, stop, new_key)
    finally:
        await group.stop(0)
        await node.close()


async def prepare(node: Node) -> str | None:
    """Read what every request needs; return the admin key if this start had to make one."""
    new_key = await initial_key.ensure_key(Tenants(node.database), node.settings)
    await node.refresh_settings()
    await node.clock_guard.look()
    await node.lanes.refresh()
    return new_key


async def _run(
    node: Node,
    group: BackgroundTasks,
    listeners: Sequence[socket.socket],
    stop: asyncio.Event,
    new_key: str | None,
) -> None:
    node.loops += [*node.housekeeping(), *role.loops(node)]
    servers = _http(node, group, listeners) if listeners else []
    for loop in node.loops:
        group.start(loop.name, loop.run())
    garbage.settle()
    group.start("wakeup", node.wakeup.run(), endless=True)
    group.start("loop watch", node.loop_watch.run(), endless=True)
    if servers:
        if "api" in node.roles:
            write_client_file(servers[0].url, node.settings)
        _announce(servers[0].url, new_key, node.settings)
    others = _other_processes(node, group, listeners)
    group.start("load delivery", http_exchange.load())
    await _until(stop, group)
    log.info("server.stopping", roles=node.roles)
    await _stop(node, group, [*servers, *others])


def _other_processes(
    node: Node, group: BackgroundTasks, listeners: Sequence[socket.socket]
) -> list[ApiProcesses]:
    if "api" not in node.roles or node.settings.api_processes == 1:
        return []
    others = ApiProcesses(node.settings, listeners[0].getsockname()[1])
    group.start("api processes", others.run())
    return [others]


def _http(
    node: Node, group: BackgroundTasks, listeners: Sequence[socket.socket]
) -> list[HttpServer]:
    """Serve one app on each listener."""
    identities = Identities(node.database, tokens=token.build(node))
    app = http.build(node, identities) if "api" in node.roles else http.health_app(node, identities)
    servers = [HttpServer(app, each, _server_limits(node.settings)) for each in listeners]
    node.loops += [
        Loop("keys", identities.run_once, limit=1, poll_seconds=USED_SECONDS),
        Loop(
            "quotas",
            PendingCounts(node.database, node.quotas, node.reads).run_once,
            limit=1,
            poll_seconds=COUNT_SECONDS,
        ),
        Loop("vitals", node.vitals.run_once, limit=1, poll_seconds=VITAL_SECONDS),
    ]
    for server in servers:
        group.start("http", server.run())
    return servers


def _server_limits(settings: ProcessSettings) -> ServerLimits:
    return ServerLimits(
        drain_seconds=settings.drain_seconds,
        grace_seconds=settings.drain_grace_seconds,
        connections=ConnectionLimits(
            total=settings.connections,
            per_address=settings.connections_per_address,
            exempt=http.proxies(settings).trusts,
        ),
    )


def _announce(url: str, new_key: str | None, settings: ProcessSettings) -> None:
    log.info("server.ready", url=url)
    if new_key:
        # The key itself is for a person: output that is not a terminal may end up in a log.
        shown = new_key if sys.stdout.isatty() else None
        _show(initial_key.welcome_message(local_url(url), shown, settings))
    elif sys.stdout.isatty():
        _show(f"Postdate is ready: {local_url(url)}/")


def _show(text: str) -> None:
    """Show a text to a person, if it can be: nothing depends on it, the key is also in its file."""
    LineWriter(sys.stdout.fileno()).write(text)


async def _until(stop: asyncio.Event, group: BackgroundTasks) -> None:
    """Wait for the signal; a failed part of the process ends it too."""
    stopped = asyncio.create_task(stop.wait())
    group.failed.add_done_callback(lambda _: stop.set())
    await stopped
    if group.failed.done():
        group.failed.result()


async def _stop(
    node: Node, group: BackgroundTasks, serving: Sequence[HttpServer | ApiProcesses]
) -> None:
    for each in serving:
        each.stop()
    for loop in node.loops:
        loop.stop()
    settings = node.settings
    await group.stop(settings.drain_grace_seconds + settings.drain_seconds + STOP_SECONDS)
    try:
        await node.leave()
    except DatabaseError as error:
        log.debug("node.left_silently", error=str(error))
