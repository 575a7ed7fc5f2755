"""The fixtures: a real PostgreSQL, a template database, a settable clock, a receiver."""

import asyncio
import gc
import inspect
import itertools
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import aiohttp
import asyncpg
import hypothesis
import msgspec
import pytest
import uvloop

from postdate.database.connection import opening
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.http.listener import bind
from postdate.http.login_throttle import LoginThrottle
from postdate.http.server import HttpServer
from postdate.key.authentication.identity import Identities
from postdate.node import http as edge
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.schema import migrate
from postdate.tenant.change.tenant import Tenants
from postdate.tenant.store import tenant as tenant_store
from support import citus, event_data, file_order, loop_holds, own_database
from support.documented import check_answer
from support.receiver import Receiver

pytest_plugins = ["support.real_browser", "support.worker_nodes"]

# A busy machine must not fail a test: a deadline would only measure its neighbours.
hypothesis.settings.register_profile(
    "postdate", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("postdate")

TEMPLATE = "postdate_template"
INTERNAL_TOKEN = "internal-token-of-the-tests"
SECRET_KEY = "5e" * 32
_numbers = itertools.count(1)

# Durability is what the fault tests check with their own servers; here it would only cost time.
FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "scram_iterations": "1",  # 4,096 cost each new connection 10 ms of our side
}

CLOCK_SHIFT = """
CREATE TABLE public.clock_shift (shift interval NOT NULL);
INSERT INTO public.clock_shift VALUES ('0');
GRANT SELECT, UPDATE ON public.clock_shift TO postdate_writer;
GRANT SELECT ON public.clock_shift TO postdate_reader, postdate_owner;
"""


def shifted_functions() -> str:
    """The functions that tell the time, as they are shipped, by a clock that tests can move."""
    [shipped] = [each.sql for each in migrate.known_functions() if each.noun == "clock"]
    moved = "(SELECT statement_timestamp() + shift FROM public.clock_shift)"
    shifted = shipped.replace("statement_timestamp()", moved)
    return shifted.replace("CREATE OR REPLACE FUNCTION ", "CREATE OR REPLACE FUNCTION postdate.")


SHIFTED_CLOCK = """
INSERT INTO postdate.setting (tenant_id, name, value, operator, changed_by)
    VALUES (0, 'payment.unsafe_commits', '"accept"', true, 'tests');
""" + shifted_functions()


event_data.watch()

# Collecting makes a million objects that stay: to look for garbage among them takes a third of it.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage again, among what the tests make alone."""
    gc.freeze()
    gc.enable()


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run on the loop that the server runs on."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test with what it needs, for `-m`."""
    if isinstance(item, pytest.Function):
        for name in file_order.marks_of(item):
            item.add_marker(name)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a plain test that asks for the server: it would tear it down for all that follow."""
    file_order.spread(items)
    for item in items:
        own_database.notice(item)
        if isinstance(item, pytest.Function) and "server" in item.fixturenames:
            test = inspect.unwrap(item.function)
            test = getattr(getattr(test, "hypothesis", None), "inner_test", test)
            if not inspect.iscoroutinefunction(test):
                raise pytest.UsageError(f"{item.nodeid} uses the server: make it async")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test in which the server kept the loop to itself, or recorded undeclared data."""
    loop_holds.WATCH.holds.clear()
    event_data.WRONG.clear()
    result = yield
    if event_data.WRONG:
        told = "\n".join(dict.fromkeys(event_data.WRONG))
        pytest.fail(f"declare it in postdate.event.spec.types:\n{told}", pytrace=False)
    found = loop_holds.server_holds(list(loop_holds.WATCH.holds))
    if found and item.get_closest_marker("holds_loop") is None:
        pytest.fail(loop_holds.described(found), pytrace=False)
    return result


@pytest.fixture(scope="session")
async def loop_watch() -> AsyncIterator[None]:
    """Watch the loop, which the tests share with the servers that they start."""
    watching = asyncio.create_task(loop_holds.WATCH.run())
    yield
    watching.cancel()


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory with a short path, gone afterwards: sockets do not fit into pytest's own."""
    path = Path(mkdtemp(prefix="pdt"))
    path.chmod(0o711)  # a server started by root runs as somebody else, who must get through
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[Embedded | citus.CitusCluster]:
    """An embedded server, or a Citus cluster where POSTDATE_TEST_ON_CITUS asks for one."""
    with scratch() as directory:
        if citus.SUITES:
            async with citus.cluster(directory) as formed:
                yield formed
            return
        embedded = Embedded(directory, settings=FAST)
        await embedded.start()
        yield embedded
        await embedded.stop()


def owner_dsn(server: Embedded | citus.CitusCluster, name: str) -> str:
    return server.credentials.login.owner_dsn().replace("/postdate?", f"/{name}?")


def app_dsn(server: Embedded | citus.CitusCluster, name: str) -> str:
    return server.credentials.login.app_dsn().replace("/postdate?", f"/{name}?")


async def admin(server: Embedded, statement: str, database: str = "postgres") -> None:
    connection = await asyncpg.connect(server.credentials.superuser_dsn(database))
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
async def template(server: Embedded | citus.CitusCluster) -> str:
    """Migrate once; every module copies it."""
    if isinstance(server, citus.CitusCluster):
        await server.make_database(TEMPLATE)
        # A table of its own on every node: whoever asks for the time must ask no other node.
        await server.run(CLOCK_SHIFT, TEMPLATE)
        await server.run_as_owner(SHIFTED_CLOCK, TEMPLATE)
        await server.close_template(TEMPLATE)
        return TEMPLATE
    await admin(server, f"CREATE DATABASE {TEMPLATE} OWNER postdate_owner")
    await migrate.migrate(owner_dsn(server, TEMPLATE))
    connection = await asyncpg.connect(owner_dsn(server, TEMPLATE))
    await connection.execute(CLOCK_SHIFT + SHIFTED_CLOCK)
    await connection.close()
    return TEMPLATE


@asynccontextmanager
async def copied(server: Embedded | citus.CitusCluster, template: str) -> AsyncIterator[str]:
    """Copy the template; the copy is dropped afterwards."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    if isinstance(server, citus.CitusCluster):
        await server.copy_database(template, name)
        yield name
        await server.drop_database(name)
        return
    await admin(
        server,
        f"CREATE DATABASE {name} TEMPLATE {template} OWNER postdate_owner STRATEGY file_copy",
    )
    yield name
    await admin(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
async def database_name(server: Embedded | citus.CitusCluster, template: str) -> AsyncIterator[str]:
    """A database of the module's own."""
    async with copied(server, template) as name:
        yield name


@pytest.fixture(scope="module")
async def module_database(
    server: Embedded,
    database_name: str,
    loop_watch: None,  # noqa: ARG001 - it runs beside
) -> AsyncIterator[Database]:
    """The pools of the module's own database."""
    opened = await opening.connect(app_dsn(server, database_name), writers=12, readers=4)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
async def worker_database(
    server: Embedded,
    template: str,
    loop_watch: None,  # noqa: ARG001 - it runs beside
) -> AsyncIterator[Database]:
    """The pools of the database that the modules of one pytest worker share."""
    async with copied(server, template) as name:
        opened = await opening.connect(app_dsn(server, name), writers=12, readers=4)
        yield opened
        await opened.close()


@pytest.fixture(scope="module")
async def shared_database(worker_database: Database) -> AsyncIterator[Database]:
    """The shared database, of which a module changes nothing that other tenants would notice."""
    before = await own_database.common_state(worker_database)
    yield worker_database
    assert await own_database.common_state(worker_database) == before, own_database.LEFT_BEHIND


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> Database:
    """The shared database, or the module's own where one of its tests needs that."""
    name = "module_database" if request.path in own_database.MODULES else "shared_database"
    found: Database = request.getfixturevalue(name)
    return found


@pytest.fixture
async def tenant_id(database: Database) -> int:
    """A tenant of its own for each test."""
    async with database.write() as connection:
        created = await tenant_store.create(connection, f"tenant-{next(_numbers)}")
    assert created is not None
    return created


@dataclass
class Clock:
    """Moves the time of one test database."""

    database: Database
    seconds: float = 0.0

    async def set(self, seconds: float) -> None:
        self.seconds = seconds
        statement = f"UPDATE public.clock_shift SET shift = make_interval(secs => {seconds})"
        if self.database.sharded:
            await self.database.writer.execute("SELECT run_command_on_all_nodes($1)", statement)
        else:
            await self.database.writer.execute(statement)

    async def advance(self, seconds: float) -> None:
        await self.set(self.seconds + seconds)


@pytest.fixture
async def clock(database: Database) -> AsyncIterator[Clock]:
    settable = Clock(database)
    yield settable
    await settable.set(0)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A web server that records what reaches it and answers as told."""
    async with Receiver() as running:
        yield running


@dataclass(slots=True)
class Answered:
    """An HTTP answer, decoded."""

    status: int
    body: Any
    headers: dict[str, str]


@dataclass
class Api:
    """A running HTTP edge and a client of it; `key` is an admin key of a fresh tenant."""

    url: str
    session: aiohttp.ClientSession
    node: Node
    key: str = ""
    tenant: str = ""

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answered:
        """Call a route below /api/v1 and decode what comes back."""
        sent = {"Authorization": f"Bearer {self.key if key is None else key}", **(headers or {})}
        async with self.session.request(
            method, f"{self.url}/api/v1{path}", json=body, headers=sent
        ) as response:
            data = await response.read()
            decoded = msgspec.json.decode(data) if data else None
            check_answer(method, path, response.status, decoded)
            return Answered(response.status, decoded, dict(response.headers))

    async def new_key(self, *scopes: str, tenant: str | None = None) -> str:
        """Issue another key."""
        tenants = Tenants(self.node.database)
        return (await tenants.issue(tenant or self.tenant, scopes or ["admin"])).key


@pytest.fixture(scope="module")
async def edge_server(database: Database) -> AsyncIterator[Api]:
    """The whole HTTP edge on a free port, over this module's database."""
    settings = ProcessSettings(
        internal_token=INTERNAL_TOKEN,
        secret_key=SECRET_KEY,
        allow_private_targets="127.0.0.0/8",
    )
    node = Node(settings=settings, database=database, roles=["api"])
    listener = bind("127.0.0.1", 0)
    running = HttpServer(
        edge.build(node, Identities(database, LoginThrottle(free=10**9))), listener
    )
    serving = asyncio.create_task(running.run())
    async with aiohttp.ClientSession() as session:
        yield Api(running.url, session, node)
    running.stop()
    await serving
    await node.close()


@pytest.fixture
async def api(edge_server: Api) -> Api:
    """The edge as seen by a fresh tenant's admin."""
    name = f"tenant-{next(_numbers)}"
    tenants = Tenants(edge_server.node.database)
    await tenants.create(name)
    key = (await tenants.issue(name, ["admin"])).key
    return replace(edge_server, key=key, tenant=name)


async def eventually(
    check: Callable[[], Awaitable[Any]], seconds: float = 10.0, step: float = 0.02
) -> Any:
    """Poll until the check gives something true."""
    async with asyncio.timeout(seconds):
        while not (found := await check()):  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(step)
    return found
