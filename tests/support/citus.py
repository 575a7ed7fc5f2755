"""A Citus cluster on loopback: a coordinator and workers, from the server that a directory holds.

`POSTDATE_TEST_CITUS` names the directory: PostgreSQL with the extension installed
(docs/operate/shards.md says how to build it). Nothing of it is part of this repository.
"""

import asyncio
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import asyncpg

from postdate.database.connection.session import connect_alone
from postdate.database.embedded import runas
from postdate.database.embedded.probe import UNANSWERED
from postdate.database.shard import shard
from postdate.schema import migrate

VARIABLE = "POSTDATE_TEST_CITUS"
SUITE_VARIABLE = "POSTDATE_TEST_ON_CITUS"
DIRECTORY = os.environ.get(VARIABLE, "")
SUITES = bool(os.environ.get(SUITE_VARIABLE))
"""Whether every suite's database is a Citus one."""

SETTINGS = {
    "shared_preload_libraries": "citus",
    "listen_addresses": "127.0.0.1",
    "max_connections": "300",
    "max_prepared_transactions": "300",
    "max_worker_processes": "64",
    "max_locks_per_transaction": "1000",
    "wal_level": "logical",
    "shared_buffers": "128MB",
    # Few shards: each week of each table is a relation of its own on every shard.
    "citus.shard_count": "4",
    "citus.enable_statistics_collection": "off",
    # A prepared transaction whose node died is looked for once a minute, unless told otherwise.
    "citus.recover_2pc_interval": "2s",
}
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass
class Login:
    """The logins, as `Embedded` has them."""

    host: str
    """The directory of its socket; the others know it by its port on loopback."""
    port: int
    password: str

    def dsn(self, user: str, database: str = "postdate") -> str:
        """Write the address for a role."""
        place = f"host={quote(self.host)}&port={self.port}"
        return f"postgresql://{user}:{self.password}@/{database}?{place}"

    def owner_dsn(self) -> str:
        """Give the owner's address."""
        return self.dsn("postdate_owner")

    def app_dsn(self) -> str:
        """Give the address of the login that nodes use."""
        return self.dsn("postdate_app")


@dataclass
class Credentials:
    """What `Embedded` calls its credentials."""

    login: Login

    def superuser_dsn(self, database: str = "postgres") -> str:
        """Give the superuser's address."""
        return self.login.dsn("postgres", database)


@dataclass
class DatabaseNode:
    """One server of the cluster."""

    home: Path
    login: Login
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def port(self) -> int:
        """Give the port on loopback."""
        return self.login.port

    @property
    def credentials(self) -> Credentials:
        """Give the logins of this node."""
        return Credentials(self.login)

    def start(self, settings: dict[str, str]) -> None:
        """Start it; the caller waits until it answers."""
        command = [f"{DIRECTORY}/bin/postgres", "-D", str(self.home / "cluster")]
        wanted = SETTINGS | settings
        wanted |= {"port": str(self.port), "unix_socket_directories": str(self.home)}
        for name, value in wanted.items():
            command += ["-c", f"{name}={value}"]
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stderr=log, stdout=log, cwd="/", env=self._environment(), **_user().popen()
            )

    def kill(self) -> None:
        """End it at once, with all its processes, as a machine that loses power."""
        assert self.process is not None
        children = _children(self.process.pid)
        for pid in (self.process.pid, *children):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it in order."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def make(self) -> None:
        """Make the files of a new server."""
        user = _user()
        user.hand_over(self.home, 0o700)
        for name, text in (
            ("password", self.login.password),
            ("pgpass", f"*:*:*:*:{self.login.password}"),
        ):
            (self.home / name).write_text(text + "\n")
            user.hand_over(self.home / name, 0o600)
        command = [f"{DIRECTORY}/bin/initdb", "-D", str(self.home / "cluster"), "-U", "postgres"]
        command += ["--auth=scram-sha-256", f"--pwfile={self.home / 'password'}", "--no-sync"]
        command += ["--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        command += ["--locale=C"]
        subprocess.run(command, check=True, capture_output=True, cwd="/", **user.popen())

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("POSTDATE_", "PG"))}
        return kept | {"PGPASSFILE": str(self.home / "pgpass")}


@dataclass
class CitusCluster:
    """A coordinator and its workers; in the suites it stands where the embedded server does."""

    nodes: list[DatabaseNode]
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def coordinator(self) -> DatabaseNode:
        """Give the node that all else is asked of."""
        return self.nodes[0]

    @property
    def credentials(self) -> Credentials:
        """Give the logins of the coordinator."""
        return self.coordinator.credentials

    async def start(self, nodes: Sequence[DatabaseNode] | None = None) -> None:
        """Start the nodes, and wait until each answers."""
        chosen = self.nodes if nodes is None else nodes
        for node in chosen:
            node.start(self.settings)
        for node in chosen:
            await _wait_for_answer(node)

    def stop(self) -> None:
        """End every node."""
        for node in self.nodes:
            node.stop()

    async def run(self, statement: str, database: str = "postgres") -> None:
        """Run a statement as the superuser on every node, for its own part of the cluster."""
        for node in self.nodes:
            await _run(node, f"SET citus.enable_ddl_propagation = off;{statement}", database)

    async def run_as_owner(self, statements: str, database: str) -> None:
        """Run statements as the owner on the coordinator, which tells the others."""
        dsn = self.coordinator.login.dsn("postdate_owner", database)
        connection = await connect_alone(dsn, 5, {"search_path": "postdate"})
        try:
            await connection.execute(statements)
            await shard.unfold_functions(connection)
        finally:
            await connection.close()

    async def make_database(self, name: str) -> None:
        """Make a database on every node, join them, and migrate it."""
        for node in self.nodes:
            await self.prepare_node(name, node)
        await self.join(name, self.nodes[1:])
        await self._let_log_in(name)
        await migrate.migrate(self.credentials.superuser_dsn(name), citus=True)
        await self._let_app_in(name)

    async def prepare_node(self, name: str, node: DatabaseNode) -> None:
        """Make a node ready to be added to a database."""
        await _run(node, f"CREATE DATABASE {name}", "postgres")
        await _run(node, "CREATE EXTENSION citus", name)

    async def join(self, name: str, workers: Sequence[DatabaseNode]) -> None:
        """Let workers join the coordinator of a database."""
        connection = await asyncpg.connect(self.credentials.superuser_dsn(name))
        try:
            await connection.execute(
                f"SELECT citus_set_coordinator_host('127.0.0.1', {self.coordinator.port})"
            )
            for worker in workers:
                await connection.execute(f"SELECT citus_add_node('127.0.0.1', {worker.port})")
        finally:
            await connection.close()

    async def _let_log_in(self, name: str) -> None:
        """Make the roles, with a password, on the coordinator; it tells the others."""
        connection = await asyncpg.connect(self.credentials.superuser_dsn(name))
        try:
            known = {row[0] for row in await connection.fetch("SELECT rolname FROM pg_roles")}
            for role in ("owner", "writer", "reader", "app"):
                if f"postdate_{role}" not in known:
                    await connection.execute(
                        f"CREATE ROLE postdate_{role} LOGIN "
                        f"PASSWORD '{self.coordinator.login.password}'"
                    )
        finally:
            await connection.close()

    async def _let_app_in(self, name: str) -> None:
        connection = await asyncpg.connect(self.credentials.superuser_dsn(name))
        try:
            await connection.execute("GRANT postdate_writer, postdate_reader TO postdate_app")
            await connection.execute("GRANT pg_read_all_stats TO postdate_writer")
        finally:
            await connection.close()

    async def close_template(self, name: str) -> None:
        """Let nobody in any more: a database is only copied while nobody is there."""
        await self.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await self.run(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )

    async def copy_database(self, template: str, name: str) -> None:
        """Copy a database on every node: what Citus knows of its shards is copied with it."""
        for node in self.nodes:
            await _run(
                node,
                f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy",
                "postgres",
            )
            await _run(node, f"GRANT CREATE ON DATABASE {name} TO postdate_owner", "postgres")
            await _copy_settings(node, template, name)

    async def drop_database(self, name: str) -> None:
        """Drop a database on every node, when the daemons of all nodes have left it."""
        await self.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        for node in self.nodes:
            await _wait_dropped(node, name)


async def _wait_dropped(node: DatabaseNode, name: str) -> None:
    """Drop a database; a process that ends as slowly as a busy machine lets it keeps it."""
    async with asyncio.timeout(60):
        while True:
            with suppress(asyncpg.ObjectInUseError):
                await _run(node, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", "postgres")
                return
            await asyncio.sleep(0.1)


async def _copy_settings(node: DatabaseNode, template: str, name: str) -> None:
    """A copied database has not the settings that ALTER DATABASE gave the first."""
    connection = await asyncpg.connect(node.credentials.superuser_dsn("postgres"))
    try:
        await connection.execute("SET citus.enable_ddl_propagation = off")
        for role, settings in await connection.fetch(
            """SELECT r.rolname, s.setconfig FROM pg_db_role_setting s
                 JOIN pg_database d ON d.oid = s.setdatabase AND d.datname = $1
                 LEFT JOIN pg_roles r ON r.oid = s.setrole""",
            template,
        ):
            subject = f"ROLE {role} IN DATABASE {name}" if role else f"DATABASE {name}"
            for setting in settings:
                key, _, value = setting.partition("=")
                await connection.execute(f"ALTER {subject} SET {key} = '{value}'")
    finally:
        await connection.close()


async def _run(node: DatabaseNode, statement: str, database: str) -> None:
    connection = await asyncpg.connect(node.credentials.superuser_dsn(database))
    try:
        for each in filter(None, map(str.strip, statement.split(";"))):
            await connection.execute(each)
    finally:
        await connection.close()


async def _wait_for_answer(node: DatabaseNode) -> None:
    async with asyncio.timeout(60):
        while True:
            with suppress(*UNANSWERED):
                await _run(node, "SELECT 1", "postgres")
                return
            await asyncio.sleep(0.05)


def _children(pid: int) -> list[int]:
    found = subprocess.run(
        ["/usr/bin/pgrep", "-P", str(pid)], check=False, capture_output=True, text=True
    )
    return [int(line) for line in found.stdout.split()]


def _user() -> runas.RunAs:
    return runas.choose(None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def new_node(home: Path, password: str) -> DatabaseNode:
    """Make the files of a server in a directory of its own."""
    home.mkdir()
    node = DatabaseNode(home, Login(str(home), _free_port(), password))
    node.make()
    return node


@asynccontextmanager
async def cluster(
    directory: Path, workers: int = 2, settings: dict[str, str] | None = None
) -> AsyncIterator[CitusCluster]:
    """Form a coordinator and workers below a directory, and end them afterwards."""
    password = secrets.token_hex(12)
    made = [new_node(directory / f"node{number}", password) for number in range(workers + 1)]
    formed = CitusCluster(made, FAST if settings is None else settings)
    try:
        await formed.start()
        yield formed
    finally:
        formed.stop()
