"""The server as its operator sees it: started, refused, killed, started again."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from conftest import admin, eventually, owner_dsn, scratch
from postdate.database.embedded import Embedded, find
from support.serve_process import Served, postmaster_file


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    with scratch() as directory:
        one = Served(directory / "data")
        yield one
        if one.process and one.process.returncode is None:
            await one.stop()


async def test_first_start_stop_and_second_start(served: Served) -> None:
    process = await served.start()
    await served.ready()
    key = served.key
    status, who = await served.get("/api/v1/whoami", key)
    assert status == 200
    assert isinstance(who, dict)
    assert who["tenant"] == "default"
    for name in ("admin.key", "client.json"):
        assert (served.directory / name).stat().st_mode & 0o777 == 0o600
    assert await found_by_itself(served) == who
    process.send_signal(signal.SIGTERM)
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert key not in out.decode(), "the output is no terminal"
    assert str(served.directory / "admin.key") in out.decode()
    assert key not in served.log.read_text()
    assert await find(served.directory) is None, "the database was left running"
    await served.start()
    await served.ready()
    assert (await served.get("/api/v1/whoami", key))[0] == 200


async def found_by_itself(served: Served) -> object:
    """Ask with nothing but the directory: neither the address nor the key is given."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    environ["POSTDATE_DATA_DIR"] = str(served.directory)
    asking = await asyncio.create_subprocess_exec(
        *(Path(sys.executable).with_name("postdate"), "whoami", "--json"),
        env=environ,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asking.communicate()
    return json.loads(out)


async def test_killed_with_everything_it_comes_back_and_has_lost_nothing(served: Served) -> None:
    served.env = {"POSTDATE_ADMIN_KEY": "an-admin-key-of-the-tests"}
    process = await served.start()
    await served.ready()
    postmaster = int((postmaster_file(served.directory)).read_text().splitlines()[0])
    os.killpg(process.pid, signal.SIGKILL)
    os.killpg(postmaster, signal.SIGKILL)
    await process.communicate()
    await served.start()
    await served.ready()  # within 10 s on a machine of its own: test_serve_soak.py
    assert (await served.get("/api/v1/whoami", "an-admin-key-of-the-tests"))[0] == 200


async def test_a_taken_port_is_one_sentence_and_starts_no_database(served: Served) -> None:
    with socket.create_server(("127.0.0.1", served.port)):
        said = await served.refused()
    assert f"port {served.port}" in said
    assert "POSTDATE_PORT" in said
    assert not (served.directory / "credentials.json").exists()


async def test_an_unknown_setting_is_refused_by_name(served: Served) -> None:
    served.env = {"POSTDATE_PROT": "1"}
    assert "POSTDATE_PROT is not a setting" in await served.refused()


async def test_a_newer_schema_is_refused_and_left_alone(
    served: Served, server: Embedded, template: str
) -> None:
    await admin(server, "DROP DATABASE IF EXISTS newer WITH (FORCE)")
    await admin(server, f"CREATE DATABASE newer TEMPLATE {template} OWNER postdate_owner")
    owner = owner_dsn(server, "newer")
    connection = await asyncpg.connect(owner)
    await connection.execute("INSERT INTO postdate.migration VALUES (999, 'x', 'x')")
    await connection.close()
    served.env = {"POSTDATE_DATABASE_URL": owner}
    assert "schema version 999" in await served.refused()


async def test_a_second_server_on_the_same_directory_is_refused(served: Served) -> None:
    await served.start()
    await served.ready()
    assert str(served.directory) in await Served(served.directory).refused()
    assert await served.is_ready()


async def test_roles_share_an_external_database(
    served: Served, server: Embedded, template: str
) -> None:
    await admin(server, "DROP DATABASE IF EXISTS shared WITH (FORCE)")
    await admin(server, f"CREATE DATABASE shared TEMPLATE {template} OWNER postdate_owner")
    login = server.credentials.login
    urls = {
        "POSTDATE_DATABASE_URL": login.app_dsn().replace("/postdate?", "/shared?"),
        "POSTDATE_OWNER_DATABASE_URL": login.owner_dsn().replace("/postdate?", "/shared?"),
        "POSTDATE_ADMIN_KEY": "an-admin-key-of-the-tests",
    }
    served.env = urls
    await served.start("--role", "api")
    worker = Served(served.directory, env=urls)
    await worker.start("--role", "worker")
    await served.ready()
    connection = await asyncpg.connect(urls["POSTDATE_OWNER_DATABASE_URL"])

    async def both() -> bool:
        roles = await connection.fetch("SELECT roles FROM postdate.node ORDER BY roles")
        return [row["roles"] for row in roles] == [["api"], ["worker"]]

    await eventually(both)
    assert await worker.stop() == 0
    assert await connection.fetchval("SELECT count(*) FROM postdate.node") == 1
    await connection.close()
