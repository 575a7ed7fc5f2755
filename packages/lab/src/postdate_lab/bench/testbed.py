"""The ground of a measurement: a durable PostgreSQL of its own, a node, a tenant for each arm."""

import asyncio
import itertools
import math
import secrets
import statistics
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import asyncpg
import msgspec
import psutil
from prometheus_client import CollectorRegistry

from postdate.core.identity import Identity, Scope
from postdate.core.setting.setting import Stored
from postdate.database.connection import opening
from postdate.database.connection.database import SCHEMA, Database
from postdate.database.embedded import Embedded
from postdate.lane.spec import LaneKind
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import Lane, LaneKey
from postdate.node import garbage
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.publisher.meter import PublisherMeter
from postdate.publisher.sealer import Sealer
from postdate.runtime.loop import Loop
from postdate.schema import migrate
from postdate.secret.secret import KEY_BYTES
from postdate.setting import store as setting_store
from postdate.tenant.store import tenant as tenant_store
from postdate_lab.bench import database as bench

WRITERS: Final = 10
PROOF_ROUND_SECONDS: Final = 7 * 86400.0


class Measure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure; `target` says what it should be, `held` whether it is.

    Where it is the median of several rounds, `low` and `high` are the extremes.
    """

    arm: str
    what: str
    value: float
    unit: str
    target: str = ""
    held: bool | None = None
    low: float | None = None
    high: float | None = None


def median(arm: str, what: str, rounds: Sequence[float], unit: str) -> Measure:
    """Make a figure from rounds: the middle one informs, the extremes say how noisy it was."""
    return Measure(
        arm=arm, what=what, value=round(statistics.median(rounds), 2), unit=unit,
        low=round(min(rounds), 2), high=round(max(rounds), 2),
    )  # fmt: skip


def at_least(arm: str, what: str, value: float, minimum: float, unit: str = "x") -> Measure:
    """Make a figure that should not be below something."""
    return Measure(
        arm=arm, what=what, value=round(value, 2), unit=unit, target=f">= {minimum:g}",
        held=value >= minimum,
    )  # fmt: skip


def at_most(arm: str, what: str, value: float, maximum: float, unit: str) -> Measure:
    """Make a figure that should not be above something."""
    return Measure(
        arm=arm, what=what, value=round(value, 2), unit=unit, target=f"<= {maximum:g}",
        held=value <= maximum,
    )  # fmt: skip


def plain(arm: str, what: str, value: float, unit: str) -> Measure:
    """Make a figure that only informs."""
    return Measure(arm=arm, what=what, value=round(value, 2), unit=unit)


def admin(tenant_id: int, tenant: str = "bench") -> Identity:
    """Return who may do anything in a tenant."""
    return Identity(
        tenant_id=tenant_id, tenant=tenant, key_id="bench", scopes=frozenset({Scope.ADMIN})
    )


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value below which this part of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)]


@dataclass
class Testbed:
    """A server, a node on it, and fresh tenants."""

    server: Embedded
    node: Node
    home: Path
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def lane(self, kind: LaneKind = "pull", **changes: float) -> Lane:
        """Make a lane of a tenant of its own."""
        tenant_id, _ = await self.tenant()
        async with self.node.database.write() as connection:
            [lane] = await lane_store.ensure(connection, [LaneKey(tenant_id, "bench", kind)])
            if changes:
                changed = msgspec.structs.replace(lane, **changes)
                [lane] = await lane_store.change(connection, changed)
        self.node.lanes.remember([lane])
        return lane

    async def tenant(self) -> tuple[int, str]:
        """Make a tenant; give its id and name."""
        name = f"arm-{next(self._numbers)}"
        async with self.node.database.write() as connection:
            tenant_id = await tenant_store.create(connection, name)
        if tenant_id is None:
            raise RuntimeError("this name was free a moment ago")
        return tenant_id, name

    async def database(self, name: str) -> str:
        """Make an empty database for a peer; give the login of the superuser."""
        async with self.superuser("postgres") as connection:
            await connection.execute(f"CREATE DATABASE {name}")
        dsn: str = self.server.credentials.superuser_dsn(name)
        return dsn

    @asynccontextmanager
    async def superuser(self, database: str = "postdate") -> AsyncIterator[asyncpg.Connection]:
        """Open a connection that may do anything."""
        connection = await asyncpg.connect(
            self.server.credentials.superuser_dsn(database),
            server_settings={"search_path": f"{SCHEMA},public"},
        )
        try:
            yield connection
        finally:
            await connection.close()

    async def settle(self, database: str = "postdate") -> None:
        """Tidy up between two arms, so that none pays for the one before."""
        async with self.superuser(database) as connection:
            await connection.execute("VACUUM (ANALYZE)", timeout=3600)
            await connection.execute("CHECKPOINT", timeout=3600)

    async def seal(self) -> None:
        """Seal what the arms before have left, so that no server does it while it is measured."""
        await self.seal_all()
        await self.settle()

    async def seal_all(self) -> None:
        """Seal everything that was committed."""
        sealer = Sealer(self.node.database, PublisherMeter(CollectorRegistry()))
        while await sealer.run_once():
            pass

    @asynccontextmanager
    async def pinned(self) -> AsyncIterator[None]:
        """Hold a snapshot, as a forgotten report does."""
        async with (
            self.superuser() as connection,
            connection.transaction(isolation="repeatable_read"),
        ):
            await connection.fetchval("SELECT pg_current_snapshot()")
            yield

    def cpu_seconds(self) -> float:
        """Return the processor time of this process and of the database together."""
        return sum(self.processor())

    def processor(self, pid: int | None = None) -> "Processor":
        """Return the processor time of this process, or of a server with its children.

        And of the database: that of its living processes, and of those that it has outlived.
        """
        server = psutil.Process(self.server.pid)
        used = sum(server.cpu_times()[:4])
        for child in server.children():
            with suppress(psutil.NoSuchProcess):
                used += sum(child.cpu_times()[:2])
        return Processor(_used(pid), used)

    async def wal(self) -> int:
        """Return the position in the write-ahead log."""
        async with self.node.database.connection() as connection:
            return await bench.wal(connection)


def _used(pid: int | None) -> float:
    """Return the processor time of this process alone, or of another with all its processes."""
    process = psutil.Process(pid)
    used = sum(process.cpu_times()[:2])
    for child in process.children(recursive=True) if pid is not None else ():
        with suppress(psutil.NoSuchProcess):
            used += sum(child.cpu_times()[:2])
    return float(used)


class Processor(NamedTuple):
    """Seconds on a processor: of a process in Python, and of the database."""

    python: float
    database: float

    def per_item(self, since: "Processor", count: int) -> "Processor":
        """Return the microseconds that each of so many items took since then."""
        python, database = self.python - since.python, self.database - since.database
        return Processor(1e6 * python / count, 1e6 * database / count)


def processor_goals(
    arm: str, what: str, rounds: Sequence[Processor], limits: tuple[float, float]
) -> list[Measure]:
    """Make the two figures of what an item costs, medians of rounds, each with its limit."""
    python = statistics.median(each.python for each in rounds)
    database = statistics.median(each.database for each in rounds)
    return [
        at_most(arm, f"{what}, processor of Python", python, limits[0], "us"),
        at_most(arm, f"{what}, processor of PostgreSQL", database, limits[1], "us"),
    ]


@contextmanager
def _home() -> Iterator[Path]:
    """Make a directory, gone afterwards.

    Root's server has a user of its own, who must get through, or the cluster would lie elsewhere.
    """
    with TemporaryDirectory(prefix="pdb") as name:
        home = Path(name)
        home.chmod(0o711)
        yield home


async def _rest_proofs(database: Database) -> None:
    """Postpone the rounds of proofs: ledgers filled in bulk have no events."""
    rest = Stored(0, "proof.round_seconds", PROOF_ROUND_SECONDS)
    async with database.write() as connection:
        await setting_store.put(connection, rest, "bench")


@asynccontextmanager
async def running(loops: Sequence[Loop]) -> AsyncIterator[None]:
    """Run loops until the block ends."""
    tasks = [asyncio.create_task(loop.run()) for loop in loops]
    try:
        yield
    finally:
        for loop in loops:
            loop.stop()
        await asyncio.gather(*tasks)


@asynccontextmanager
async def testbed() -> AsyncIterator[Testbed]:
    """Start a server with the settings of production; leave nothing behind."""
    with _home() as home:
        server = Embedded(home / "data")
        await server.start()
        try:
            await migrate.migrate(server.credentials.login.owner_dsn())
            database = await opening.connect(
                server.credentials.login.app_dsn(), writers=WRITERS, readers=2
            )
            settings = ProcessSettings(
                data_dir=home,
                allow_private_targets="127.0.0.0/8",
                secret_key=secrets.token_bytes(KEY_BYTES).hex(),
            )
            node = Node(settings=settings, database=database, roles=["worker"])
            garbage.settle()
            await _rest_proofs(database)
            try:
                yield Testbed(server, node, home)
            finally:
                await node.outgoing.close()
                await database.close()
        finally:
            await server.stop()
