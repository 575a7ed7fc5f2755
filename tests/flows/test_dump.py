"""A dump of the database, and its files, give no secret away: a hundred canaries, none found."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from secrets import token_hex
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from conftest import Api, admin
from postdate.database.embedded import Embedded, binaries, runas
from postdate.setting.change import SettingChanges
from postdate.tenant.change.tenant import Tenants

AT_ONCE = 16
SHAPES = re.compile(rb"canary-[0-9a-f]{32}|pdk_[\w-]{20,}|whsec_[\w+/=]{20,}")
"""What every canary looks like, so that one look at a file is enough."""


async def many(count: int, make: Callable[[], Awaitable[str]]) -> list[str]:
    """Make so many secrets, some at a time."""
    left = iter(range(count))

    async def work() -> list[str]:
        return [await make() for _ in left]

    parts = await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return [secret for part in parts for secret in part]


async def done(api: Api, method: str, path: str, body: Any = None) -> Any:
    answer = await api.call(method, path, body, headers={"Idempotency-Key": str(uuid4())})
    assert answer.status < 300, answer.body
    return answer.body


async def hide(api: Api, times: int) -> list[str]:
    """Store secrets of every kind, twenty times `times` of them, and remember them."""

    async def webhook() -> str:
        body = {"name": token_hex(8), "url": "https://example.com/"}
        made = await done(api, "POST", "/destinations", body)
        return str(made["secret"])

    async def rotated() -> str:
        body = {"name": token_hex(8), "url": "https://example.com/"}
        await done(api, "POST", "/destinations", body)
        made = await done(api, "POST", f"/destinations/{body['name']}/rotate-secret", {})
        return str(made["secret"])

    async def queue() -> str:
        canary = f"canary-{token_hex(16)}"
        config = {"servers": ["nats://127.0.0.1:2"], "password": canary}
        body = {"type": "queue", "kind": "nats", "config": config, "force": True}
        await done(api, "POST", "/destinations", {"name": token_hex(8), **body})
        return canary

    async def key() -> str:
        return str((await done(api, "POST", "/keys", {"scopes": ["jobs:read"]}))["key"])

    async def signing() -> str:
        tenants = Tenants(api.node.database)
        name = f"t-{token_hex(8)}"
        await tenants.create(name)
        issued = await tenants.issue(name, ["admin"])
        told = await api.call("GET", "/signing-secret", key=issued.key)
        return str(told.body["secret"])

    async def payload() -> str:
        canary = f"canary-{token_hex(16)}"
        job = {"destination": {"type": "worker"}, "payload": {"secret": canary}}
        made = await done(api, "POST", "/jobs", {**job, "delay_seconds": 600})
        shown = await done(api, "GET", f"/jobs/{made['job_id']}")
        assert shown["payload"] == {"secret": canary}
        return canary

    await SettingChanges(api.node.database).put(0, "destination.max_count", 10_000)
    await done(api, "PUT", "/settings/job.encryption", {"value": "on"})
    await api.node.refresh_settings()
    found = await many(4 * times, webhook) + await many(2 * times, rotated)
    found += await many(times, queue) + await many(4 * times, payload)
    return found + await many(6 * times, key) + await many(3 * times, signing)


@pytest.mark.parametrize("times", [5, pytest.param(50, marks=pytest.mark.soak)])
async def test_neither_a_dump_nor_the_files_hold_a_secret(
    api: Api, server: Embedded, database_name: str, times: int
) -> None:
    canaries = await hide(api, times)
    assert len(set(canaries)) == 20 * times
    assert all(SHAPES.fullmatch(canary.encode()) for canary in canaries)
    dump = await asyncio.create_subprocess_exec(
        binaries.locate(runas.choose(None)).path("pg_dump"),
        "--dbname",
        server.credentials.superuser_dsn(database_name),
        stdout=asyncio.subprocess.PIPE,
    )
    text, _ = await dump.communicate()
    assert dump.returncode == 0
    assert b"COPY postdate.destination " in text
    assert SHAPES.findall(text) == []
    # A bytea is written in hexadecimal: what is stored in the clear would be there so.
    assert [one for one in canaries if one.encode().hex().encode() in text] == []
    await admin(server, "CHECKPOINT")
    found = await asyncio.to_thread(scan, await data_directory(server))
    assert found == []


async def data_directory(server: Embedded) -> Path:
    connection = await asyncpg.connect(server.credentials.superuser_dsn("postgres"))
    try:
        return Path(await connection.fetchval("SHOW data_directory"))
    finally:
        await connection.close()


def scan(directory: Path) -> list[tuple[str, bytes]]:
    """Look through every byte that the server keeps, the log of its writes included."""
    return [
        (path.name, found)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        for found in SHAPES.findall(path.read_bytes())
    ]
