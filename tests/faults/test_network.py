"""The network between node and database: parted, half open, losing; by namespaces and nft."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import asyncpg
import pytest

from conftest import eventually, scratch
from postdate.database.embedded import Embedded
from support.serve_process import COMMAND, Served

NAME = f"pdn{os.getpid() % 100000}"
HOST, NODE = "10.207.61.1", "10.207.61.2"
KEY = "an-admin-key-of-the-tests"
BROKEN_SECONDS = 25.0
NOTICED_SECONDS = 15.0
"""5 s for an answer, 5 s for a new connection; what TCP does not get across, 12 s."""
SERVING_SECONDS = 30.0
CALL_SECONDS = 20.0

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("nft") is None,
        reason="namespaces need root, ip and nft (Debian: iproute2, nftables)",
    ),
]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def nft(text: str) -> None:
    """Set the rules inside the namespace."""
    command = ["ip", "netns", "exec", NAME, "nft", "-f", "-"]
    subprocess.run(command, input=text.encode(), check=True, capture_output=True)


@pytest.fixture(scope="module")
def namespace() -> Iterator[None]:
    """A network of its own for the node, with one cable to us."""
    try:
        ip("netns", "add", NAME)
    except subprocess.CalledProcessError:
        pytest.skip("this machine makes no network namespaces")
    try:
        ip("link", "add", NAME, "type", "veth", "peer", "name", "node", "netns", NAME)
        ip("addr", "add", f"{HOST}/30", "dev", NAME)
        ip("link", "set", NAME, "up")
        for words in (
            ("addr", "add", f"{NODE}/30", "dev", "node"),
            ("link", "set", "node", "up"),
            ("link", "set", "lo", "up"),
        ):
            ip("-n", NAME, *words)
        yield
    finally:
        ip("netns", "del", NAME)


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def listening(socket: Path) -> AsyncIterator[int]:
    """Let the database be reached over the cable."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs = await asyncio.open_unix_connection(str(socket))
        await asyncio.gather(carry(reader, theirs[1]), carry(theirs[0], writer))

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


class Node:
    """A `postdate serve` on the other side of the cable."""

    def __init__(self, served: Served, database_port: int, dsn: str) -> None:
        self.served = served
        self.database_port = database_port
        self.dsn = dsn

    async def call(self, path: str, body: Any = None, key: str = "") -> int:
        """Call it; 0 when nobody answers in time."""
        headers = {"Authorization": f"Bearer {KEY}", "Idempotency-Key": key}
        method = "GET" if body is None else "POST"
        limit = aiohttp.ClientTimeout(total=CALL_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=limit) as session,
                session.request(
                    method, f"http://{NODE}:{self.served.port}{path}", json=body, headers=headers
                ) as response,
            ):
                await response.read()
                return response.status
        except (aiohttp.ClientError, TimeoutError):
            return 0

    async def is_ready(self) -> bool:
        return await self.call("/readyz") == 200

    async def pay(self, number: int) -> bool:
        body = {"from_account_id": "a", "to_account_id": "b", "amount": 1, "delay_seconds": 1}
        return await self.call("/api/v1/payments/schedule", body, f"pay-{number}") == 201

    async def balance(self) -> tuple[int, int]:
        connection = await asyncpg.connect(self.dsn)
        try:
            row = await connection.fetchrow(
                "SELECT balance, version FROM postdate.account WHERE account_id = 'b'"
            )
            assert row is not None
            return (row[0], row[1])
        finally:
            await connection.close()


def over_tcp(dsn: str, port: int) -> str:
    """Return the address of the same login over the cable."""
    parts = urlsplit(dsn)
    return f"postgresql://{parts.username}:{parts.password}@{HOST}:{port}/postdate"


@pytest.fixture
async def node(namespace: None) -> AsyncIterator[Node]:  # noqa: ARG001 - its network
    with scratch() as directory:
        server = Embedded(directory / "database")
        login = await server.start()
        async with listening(Path(login.host) / ".s.PGSQL.5432") as port:
            script = directory / "postdate"
            script.write_text(f'#!/bin/sh\nexec ip netns exec {NAME} {COMMAND} "$@"\n')
            script.chmod(0o755)
            env = {
                "POSTDATE_DATABASE_URL": over_tcp(login.app_dsn(), port),
                "POSTDATE_OWNER_DATABASE_URL": over_tcp(login.owner_dsn(), port),
                "POSTDATE_ADMIN_KEY": KEY,
                "POSTDATE_HOST": NODE,
            }
            (directory / "data").mkdir()
            served = Served(directory / "data", env=env, command=script)
            await served.start()
            made = Node(served, port, server.credentials.superuser_dsn("postdate"))
            await eventually(made.is_ready, 90)
            for account in ("a", "b"):
                body = {"account_id": account}
                assert await made.call("/api/v1/accounts", body, f"account-{account}") == 201
            credit = {"amount": 1000, "reason": "opening"}
            assert await made.call("/api/v1/accounts/a/adjustments", credit, "opening") == 201
            yield made
            nft("flush ruleset")
            await served.stop()
        await server.stop()


RULES = {
    "parted": "tcp dport {port} drop",
    "half open": "tcp sport {port} drop",
    "losing": "tcp dport {port} numgen random mod 100 < 30 drop",
}
HOOKS = {"parted": "output", "half open": "input", "losing": "output"}


def broken(how: str, port: int) -> str:
    hook, rule = HOOKS[how], RULES[how].format(port=port)
    return (
        "flush ruleset\nadd table ip cut\n"
        f"add chain ip cut cut {{ type filter hook {hook} priority 0; }}\n"
        f"add rule ip cut cut {rule}\n"
    )


@pytest.mark.parametrize("how", list(RULES))
async def test_what_was_acknowledged_is_paid_once_when_the_network_is_back(
    node: Node, how: str
) -> None:
    acknowledged = [n for n in range(10) if await node.pay(n)]
    assert len(acknowledged) == 10
    nft(broken(how, node.database_port))
    began, noticed, number = time.monotonic(), None, 10
    while time.monotonic() - began < BROKEN_SECONDS:
        number += 1
        if await node.pay(number):
            acknowledged.append(number)
        elif noticed is None:
            noticed = time.monotonic() - began
    nft("flush ruleset")
    healed = time.monotonic()
    await eventually(node.is_ready, SERVING_SECONDS)
    serving = time.monotonic() - healed
    for each in range(number + 1):  # whoever got no answer asks again
        assert await node.pay(each)

    async def settled() -> bool:
        return await node.balance() == (number + 1, number + 1)

    await eventually(settled, 60)
    print(
        f"{how}: {len(acknowledged)} of {number + 1} acknowledged at first, first refusal after "
        f"{noticed or -1:.1f} s, ready {serving:.1f} s after"
    )
    if how != "losing":
        assert noticed is not None
        assert noticed <= NOTICED_SECONDS
