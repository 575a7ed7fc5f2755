"""A primary with a streaming standby, and the API before them."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import aiohttp

from conftest import FAST, Api, eventually, scratch
from postdate.database.connection import opening
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded, binaries, runas
from postdate.database.embedded.probe import UNANSWERED
from postdate.http.listener import bind
from postdate.http.server import HttpServer
from postdate.key.authentication.identity import Identities
from postdate.node import http as edge
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.schema import migrate
from postdate.tenant.change.tenant import Tenants
from support.embedded_server import query


@dataclass
class Pair:
    """A primary and what follows it."""

    primary: Embedded
    standby_socket: Path

    @property
    def app(self) -> str:
        """Give the address of the primary."""
        return self.primary.credentials.login.app_dsn()

    def standby(self, dsn: str) -> str:
        """Give the address of the standby for a login of the primary."""
        before = dsn.partition("?")[0]
        return f"{before}?host={quote(str(self.standby_socket), safe='')}"

    async def pause(self) -> None:
        """Let the standby fall behind."""
        await query(self.standby(self._superuser), "SELECT pg_wal_replay_pause()::text")

    async def resume(self) -> None:
        """Let the standby catch up."""
        await query(self.standby(self._superuser), "SELECT pg_wal_replay_resume()::text")

    async def caught_up(self) -> None:
        """Wait until the standby knows what the primary has written."""
        written = await query(self._superuser, "SELECT pg_current_wal_insert_lsn()::text")
        reached = f"SELECT pg_last_wal_replay_lsn() >= '{written}'"

        async def check() -> bool:
            return bool(await query(self.standby(self._superuser), reached))

        await eventually(check)

    @property
    def _superuser(self) -> str:
        return self.primary.credentials.superuser_dsn("postdate")


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    """Start a primary, migrate it, copy it and let the copy follow."""
    with scratch() as home, scratch() as copy:
        primary = Embedded(home, settings=FAST)
        await primary.start()
        try:
            await migrate.migrate(primary.credentials.login.owner_dsn())
            superuser = primary.credentials.superuser_dsn("postgres")
            await query(
                primary.credentials.superuser_dsn("postdate"),
                """INSERT INTO postdate.setting (tenant_id, name, value, operator, changed_by)
                   VALUES (0, 'payment.unsafe_commits', '"accept"', true, 'tests')""",
            )
            hba_file = Path(str(await query(superuser, "SHOW hba_file")))
            rules = await asyncio.to_thread(hba_file.read_text)
            rules += "local replication postgres scram-sha-256\n"
            await asyncio.to_thread(hba_file.write_text, rules)
            await query(superuser, "SELECT pg_reload_conf()")
            async with _standby(superuser, copy) as socket:
                found = Pair(primary, socket)
                await found.caught_up()
                yield found
        finally:
            await primary.stop()


@asynccontextmanager
async def _standby(superuser: str, home: Path) -> AsyncIterator[Path]:
    user = runas.choose(None)
    programs = binaries.locate(user)
    cluster, socket = home / "cluster", home / "socket"
    socket.mkdir()
    for path in (home, socket):
        user.hand_over(path, 0o700)
    server = await asyncio.to_thread(_follow, programs, user, superuser, cluster, socket)
    try:
        address = f"{superuser.partition('?')[0]}?host={quote(str(socket), safe='')}"

        async def answers() -> bool:
            with suppress(*UNANSWERED):
                return bool(await query(address, "SELECT pg_is_in_recovery()"))
            return False

        await eventually(answers, 30)
        yield socket
    finally:
        server.terminate()
        await asyncio.to_thread(server.wait)


def _follow(
    programs: binaries.Binaries, user: runas.RunAs, superuser: str, cluster: Path, socket: Path
) -> "subprocess.Popen[bytes]":
    """Copy the primary, and start a server that follows it."""
    copy = [programs.path("pg_basebackup"), "--pgdata", str(cluster), "--dbname", superuser]
    copy += ["--checkpoint", "fast", "--write-recovery-conf", "--no-sync"]
    subprocess.run(copy, check=True, **user.popen())
    serve = [programs.path("postgres"), "-D", str(cluster)]
    serve += ["-c", f"unix_socket_directories={socket}", "-c", "listen_addresses="]
    serve += ["-c", "fsync=off", "-c", "hot_standby=on"]
    return subprocess.Popen(serve, stderr=subprocess.DEVNULL, **user.popen())


@asynccontextmanager
async def api_over(database: Database, tenant: str = "") -> AsyncIterator[Api]:
    """Serve the HTTP edge over these pools to an admin of this tenant, or of a new one."""
    node = Node(settings=ProcessSettings(secret_key="5e" * 32), database=database, roles=["api"])
    await node.refresh_settings()
    listener = bind("127.0.0.1", 0)
    running = HttpServer(edge.build(node, Identities(database)), listener)
    serving = asyncio.create_task(running.run())
    tenants = Tenants(database)
    if not tenant:
        tenant = "reader"
        await tenants.create(tenant)
    key = (await tenants.issue(tenant, ["admin"])).key
    try:
        async with aiohttp.ClientSession() as session:
            yield Api(running.url, session, node, key, tenant)
    finally:
        running.stop()
        await serving
        await node.close()


@asynccontextmanager
async def opened(dsn: str, read_dsn: str | None = None) -> AsyncIterator[Database]:
    """Open the pools."""
    database = await opening.connect(dsn, read_dsn=read_dsn, writers=4, readers=4)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def over_tcp(socket: Path) -> AsyncIterator[int]:
    """Let a server on a unix socket be reached at a port of 127.0.0.1."""

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other = await asyncio.open_unix_connection(str(socket / ".s.PGSQL.5432"))
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, other[1]), pump(other[0], writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
