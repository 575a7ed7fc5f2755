"""A client that goes away costs no connection, wherever it is in its transaction."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from conftest import admin, app_dsn, eventually
from postdate.core.identity import Identity
from postdate.core.setting.setting import Settings, Stored
from postdate.database.connection import opening
from postdate.database.connection import wakeup as wakeup_store
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.event.spec.event import EventFilter
from postdate.event.view import EventViews
from postdate.key.authentication.identity import Identities
from postdate.monitor.view.health import HealthCheck
from postdate.runtime.coalescer import Coalescer
from postdate.runtime.wakeup import Wakeup
from postdate.tenant.change.rate_limit import Rates
from support.cancellation import cancelled_at_each_await

NAME = "cancelled-awaits"
OPEN = """
SELECT count(*) FROM pg_stat_activity
 WHERE application_name = $1 AND (state <> 'idle' OR xact_start IS NOT NULL)
"""
Use = Callable[[Database, int], Coroutine[Any, Any, Any]]


@pytest.fixture
async def small(server: Embedded, database_name: str) -> AsyncIterator[Database]:
    """Pools in which one lost connection would be noticed."""
    dsn = app_dsn(server, database_name)
    opened = await opening.connect(dsn, writers=2, readers=1, name=NAME)
    yield opened
    await opened.close()


async def write(database: Database, tenant_id: int) -> None:
    async with database.write() as connection:
        await connection.execute("SELECT 1")
        await connection.fetchval("UPDATE tenant SET name = name WHERE tenant_id = $1", tenant_id)


async def write_and_fail(database: Database, _: int) -> None:
    async with database.write() as connection:
        await connection.execute("SELECT 1")
        raise ZeroDivisionError


async def read(database: Database, tenant_id: int) -> None:
    async with database.read(tenant_id) as connection:
        await connection.fetch("SELECT tenant_id FROM tenant")


async def plain(database: Database, _: int) -> None:
    async with database.connection() as connection:
        await connection.fetch("SELECT 1")


async def synchronize(database: Database, _: int) -> None:
    await database.synchronize()


async def begin_again(database: Database, tenant_id: int) -> None:
    """Both pools have connections that died while they were idle."""
    for pool in (database.writer, database.reader):
        await pool.expire_connections()
    await write(database, tenant_id)
    await read(database, tenant_id)


async def group(database: Database, _: int) -> None:
    async def commit(items: Any) -> Any:
        async with database.write() as connection:
            await connection.execute("SELECT 1")
        return items

    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    try:
        await Coalescer(commit)._answer([("item", answer)])
    finally:
        assert answer.done(), "somebody waits for ever"


async def tell(database: Database, _: int) -> None:
    wakeup = Wakeup(database)
    wakeup.hint(1, 0.0)
    await wakeup.send()


async def listen(database: Database, _: int) -> None:
    """Listen until the connection ends: here, when the test ends it."""

    async def end() -> None:
        connection.terminate()

    async with database.connection() as connection:
        asyncio.get_running_loop().call_later(0.2, lambda: asyncio.ensure_future(end()))
        await wakeup_store.listen(connection, lambda: None, lambda _: None)


async def wait_for_events(database: Database, tenant_id: int) -> None:
    views = EventViews(database)
    await views.last(tenant_id)
    await views.wait(tenant_id, EventFilter(patterns=["%"]), after=0, limit=5, seconds=0.3)


async def authenticate(database: Database, _: int) -> None:
    identities = Identities(database)
    await identities.authenticate("pdk_wrong")
    await identities.run_once(1)


async def look_whether_ready(database: Database, _: int) -> None:
    await HealthCheck(database).faults()


async def count_a_request(database: Database, tenant_id: int) -> None:
    settings = Settings()
    limit = Stored(tenant_id, "rate.key_per_second", 5)
    settings.replace({(tenant_id, limit.name): limit})
    who = Identity(tenant_id=tenant_id, tenant="t", key_id="k", scopes=frozenset())
    await Rates(database, settings, uuid4()).admit(who)


USES: list[Use] = [
    write,
    write_and_fail,
    read,
    plain,
    synchronize,
    begin_again,
    group,
    tell,
    listen,
    wait_for_events,
    authenticate,
    look_whether_ready,
    count_a_request,
]


async def whole(database: Database, superuser: asyncpg.Connection) -> bool:
    """Say whether every connection is back, and none is in a transaction."""
    pools = (database.writer, database.reader)
    back = all(pool.get_idle_size() == pool.get_size() for pool in pools)
    return back and await superuser.fetchval(OPEN, NAME) == 0


async def takes_all(pool: asyncpg.Pool) -> None:
    """Take every connection that the pool may have at once."""
    async with asyncio.timeout(5):
        taken = [await pool.acquire() for _ in range(pool.get_max_size())]
        assert not any([await connection.fetchval(LISTENS) for connection in taken])
        for connection in taken:
            await pool.release(connection)


LISTENS = "SELECT count(*) FROM pg_listening_channels()"


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
async def test_a_cancelled_await_gives_the_connection_back(
    small: Database, server: Embedded, tenant_id: int, use: Use, *, late: bool
) -> None:
    superuser = await asyncpg.connect(server.credentials.superuser_dsn())

    async def check(number: int) -> None:
        try:
            await eventually(lambda: whole(small, superuser), 5)
        except TimeoutError:
            pytest.fail(f"a connection is missing after being cancelled at await {number}")
        for pool in (small.writer, small.reader):
            await takes_all(pool)

    try:
        waits = await cancelled_at_each_await(lambda: use(small, tenant_id), check, late=late)
    finally:
        await superuser.close()
    assert waits >= 1


async def test_dead_connections_are_replaced_and_none_is_lost(
    small: Database, server: Embedded, tenant_id: int
) -> None:
    superuser = await asyncpg.connect(server.credentials.superuser_dsn())

    async def kill_and_use() -> None:
        await write(small, tenant_id)
        await read(small, tenant_id)

    async def check(_: int) -> None:
        await eventually(lambda: whole(small, superuser), 5)
        await admin(
            server,
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            f"WHERE application_name = '{NAME}'",
        )

    try:
        assert await cancelled_at_each_await(kill_and_use, check, late=False) > 5
        for pool in (small.writer, small.reader):
            await takes_all(pool)
    finally:
        await superuser.close()
