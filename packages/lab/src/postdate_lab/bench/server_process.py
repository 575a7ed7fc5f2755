"""A `postdate serve` in a process of its own, on the server of the measurement."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from postdate.core.identity import Scope
from postdate.tenant.change.tenant import Tenants
from postdate_lab.bench.bank import Bank
from postdate_lab.bench.load import LoadRequest, connect
from postdate_lab.bench.machine import free_port
from postdate_lab.bench.testbed import Testbed

READY_SECONDS: Final = 60
_OK: Final = 200


@dataclass(slots=True, frozen=True)
class RunningServer:
    """A running server."""

    url: str
    pid: int
    ready_seconds: float

    def cpu_seconds(self) -> float:
        """Return how much of a processor it has used, without its database."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)


@asynccontextmanager
async def serving(
    testbed: Testbed, *arguments: str, processes: int = 1
) -> AsyncIterator[RunningServer]:
    """Run a server until the block ends, with so many processes that answer the API."""
    await testbed.seal()
    own = _settings(testbed) | {"POSTDATE_API_PROCESSES": str(processes)}
    async with _process(own, *arguments) as served:
        yield served


@asynccontextmanager
async def working(testbed: Testbed, window: int) -> AsyncIterator[RunningServer]:
    """Run a process of the worker role with a limit on its running jobs."""
    own = _settings(testbed) | {
        "POSTDATE_WORKER_WINDOW": str(window),
        "POSTDATE_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
    }
    async with _process(own, "--role", "worker") as served:
        yield served


def _settings(testbed: Testbed) -> dict[str, str]:
    """Return where a further node finds the database, and the key that opens its secrets."""
    login = testbed.server.credentials.login
    return {
        "POSTDATE_DATABASE_URL": login.app_dsn(),
        "POSTDATE_OWNER_DATABASE_URL": login.owner_dsn(),
        "POSTDATE_DATA_DIR": str(testbed.home / "served"),
        "POSTDATE_SECRET_KEY": testbed.node.settings.secret_key,
    }


@asynccontextmanager
async def serving_alone(data_dir: Path) -> AsyncIterator[RunningServer]:
    """Run a server of all roles with a PostgreSQL of its own, as `postdate serve` does."""
    async with _process({"POSTDATE_DATA_DIR": str(data_dir)}) as served:
        yield served


@asynccontextmanager
async def _process(own: dict[str, str], *arguments: str) -> AsyncIterator[RunningServer]:
    port = free_port()
    where = "POSTDATE_METRICS_PORT" if "worker" in arguments else "POSTDATE_PORT"
    own |= {where: str(port), "POSTDATE_LOG_LEVEL": "error"}
    others = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("postdate"),
        "serve",
        *arguments,
        env=others | own,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        async with asyncio.timeout(READY_SECONDS):
            await _until_ready(url, process)
        yield RunningServer(url, process.pid, time.monotonic() - began)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


async def key_for(bank: Bank) -> str:
    """Issue a key for a bank's tenant."""
    issued = await Tenants(bank.testbed.node.database).issue(bank.tenant, [Scope.ADMIN])
    return issued.key


async def _until_ready(url: str, process: asyncio.subprocess.Process) -> None:
    while not await _ready(url):
        if process.returncode is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        await asyncio.sleep(0.02)


async def _ready(url: str) -> bool:
    try:
        client = await connect(url, "")
        try:
            return (await client.ask(LoadRequest("GET", "/readyz")))[0] == _OK
        finally:
            client.close()
    except OSError:
        return False
