"""A server starts while nothing can be written, and waits for a database that is not there yet."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import asyncpg
import pytest

from conftest import admin, app_dsn, eventually, owner_dsn, scratch
from postdate.database.embedded import Embedded
from support.serve_process import Served, free_port

ADMIN_KEY = "an-admin-key-of-the-tests"
RELOAD = "SELECT pg_reload_conf()"


@pytest.fixture
async def served(server: Embedded, template: str) -> AsyncIterator[Served]:
    """A server on a database of its own that has started once before."""
    name = "start_waits"
    await admin(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await admin(server, f"CREATE DATABASE {name} TEMPLATE {template} OWNER postdate_owner")
    await admin(server, f"ALTER DATABASE {name} SET synchronous_commit = 'on'")
    with scratch() as directory:
        env = {
            "POSTDATE_DATABASE_URL": app_dsn(server, name),
            "POSTDATE_OWNER_DATABASE_URL": owner_dsn(server, name),
            "POSTDATE_ADMIN_KEY": ADMIN_KEY,
        }
        found = Served(directory / "data", env=env)
        yield found
        if found.process and found.process.returncode is None:
            await found.stop()
    await admin(server, f"DROP DATABASE {name} WITH (FORCE)")


async def told(served: Served) -> tuple[int, Any]:
    try:
        async with asyncio.timeout(2):
            return await served.get("/readyz")
    except (aiohttp.ClientError, TimeoutError):
        return 0, {}


async def waits_for(served: Served, words: str) -> bool:
    """Say whether it answers that it waits, and for this."""
    status, answer = await told(served)
    reasons = [each["reason"] for each in answer.get("reasons", ())]
    return status == 503 and any(words in each for each in reasons)


@asynccontextmanager
async def no_standby(server: Embedded) -> AsyncIterator[None]:
    await admin(server, "ALTER SYSTEM SET synchronous_standby_names = '*'")
    await admin(server, RELOAD)
    try:
        yield
    finally:
        await admin(server, "ALTER SYSTEM RESET synchronous_standby_names")
        await admin(server, RELOAD)


async def test_it_starts_and_reads_without_a_standby_and_waits_where_it_must_write(
    served: Served, server: Embedded
) -> None:
    owner = served.env["POSTDATE_OWNER_DATABASE_URL"]
    # The first start has the tenant and the key to write: it waits, on an open port.
    async with no_standby(server):
        await served.start()
        await eventually(lambda: waits_for(served, "synchronous standby"), 30)
        assert (await served.get("/healthz"))[0] == 200
        for path in ("/api/v1/jobs", "/"):
            status, answer = await served.get(path, ADMIN_KEY)
            assert (status, answer["code"]) == (503, "unavailable")  # type: ignore[index]
        assert "start.waits" in served.log.read_text()
    await served.ready(30)
    assert await served.stop() == 0
    # Nothing is left to write, so the next one starts.
    async with no_standby(server):
        await served.start()
        await served.ready(30)

        async def reads_only() -> bool:
            _, answer = await told(served)
            return (answer.get("reads"), answer.get("writes")) == (True, False)

        await eventually(reads_only, 5)
        assert (await served.get("/api/v1/jobs", ADMIN_KEY))[0] == 200
        assert (await served.get("/readyz?for=reads"))[0] == 200
        assert "start.waits" not in served.log.read_text()
        await _kill(served)
        # A function is to be replaced.
        await _forget_functions(owner)
        await served.start()
        await eventually(lambda: waits_for(served, "synchronous standby"), 30)
        stopped = time.monotonic()
        assert await served.stop() == 0
        assert time.monotonic() - stopped < 10


async def _forget_functions(owner: str) -> None:
    connection = await asyncpg.connect(owner)
    await connection.execute("SET synchronous_commit = local")
    await connection.execute("DELETE FROM postdate.function_file WHERE noun = 'lease'")
    await connection.close()


async def _kill(served: Served) -> None:
    assert served.process
    served.process.kill()
    await served.process.communicate()


async def test_it_waits_for_a_database_that_is_not_there_yet_and_names_no_password(
    served: Served, server: Embedded
) -> None:
    port = free_port()
    for name in ("POSTDATE_DATABASE_URL", "POSTDATE_OWNER_DATABASE_URL"):
        parts = urlsplit(served.env[name])
        login = parts.netloc.rpartition("@")[0]
        served.env[name] = f"postgresql://{login}@127.0.0.1:{port}{parts.path}"
        socket = parse_qs(parts.query)["host"][0]
    await served.start()
    await eventually(lambda: waits_for(served, "POSTDATE_DATABASE_URL"), 30)

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other = await asyncio.open_unix_connection(f"{socket}/.s.PGSQL.5432")
        await asyncio.gather(_pump(reader, other[1]), _pump(other[0], writer))

    proxy = await asyncio.start_server(pipe, "127.0.0.1", port)
    await served.ready(30)
    said = served.log.read_text()
    assert said.count("start.waits") <= 5
    assert server.credentials.login.app_password not in said
    assert server.credentials.login.owner_password not in said
    assert await served.stop() == 0
    proxy.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    sink.close()


@pytest.mark.parametrize("wrong", ["password", "database"])
async def test_what_no_waiting_mends_is_refused_at_once(served: Served, wrong: str) -> None:
    for name in ("POSTDATE_DATABASE_URL", "POSTDATE_OWNER_DATABASE_URL"):
        parts = urlsplit(served.env[name])
        user = parts.username
        address = f"{user}:{'x' if wrong == 'password' else parts.password}@"
        path = "/nowhere" if wrong == "database" else parts.path
        served.env[name] = f"postgresql://{address}{path}?{parts.query}"
    assert "cannot be used" in await served.refused()
