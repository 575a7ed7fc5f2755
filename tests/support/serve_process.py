"""A `postdate serve` of its own, for tests that start, stop and kill it."""

import asyncio
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from conftest import eventually

COMMAND = Path(sys.executable).with_name("postdate")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def postmaster_file(directory: Path) -> Path:
    (found,) = directory.glob("*/postmaster.pid")
    return found


@dataclass
class Served:
    """A `postdate serve` of its own."""

    directory: Path
    port: int = field(default_factory=free_port)
    env: dict[str, str] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None
    command: Path = COMMAND

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
        environ |= {
            "POSTDATE_DATA_DIR": str(self.directory),
            "POSTDATE_PORT": str(self.port),
            **self.env,
        }
        # To a file, not a pipe: nobody reads while the server runs, and a full pipe would stop it.
        with self.log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                self.command,
                "serve",
                *arguments,
                env=environ,
                start_new_session=True,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        return self.process

    @property
    def log(self) -> Path:
        return self.directory.parent / f"{self.port}.log"

    async def get(self, path: str, key: str = "") -> tuple[int, object]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(
                f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Bearer {key}"}
            ) as response,
        ):
            return response.status, await response.json()

    async def send(self, method: str, path: str, key: str, body: object) -> int:
        """Call with a body; 0 when nobody answers."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.request(
                    method,
                    f"http://127.0.0.1:{self.port}{path}",
                    json=body,
                    headers={"Authorization": f"Bearer {key}"},
                ) as response,
            ):
                return response.status
        except aiohttp.ClientError:
            return 0

    async def is_ready(self) -> bool:
        try:
            return (await self.get("/readyz"))[0] == 200
        except aiohttp.ClientError:
            return False

    async def ready(self, seconds: float = 60) -> float:
        began = time.monotonic()
        await eventually(self.is_ready, seconds, 0.05)
        return time.monotonic() - began

    @property
    def key(self) -> str:
        return (self.directory / "admin.key").read_text().strip()

    async def stop(self) -> int:
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode

    async def refused(self, *arguments: str) -> str:
        """Start, and give the one sentence with which it ends."""
        process = await self.start(*arguments)
        async with asyncio.timeout(30):
            await process.communicate()
        assert process.returncode == 1
        said = self.log.read_text()
        last = said.strip().splitlines()[-1]
        assert last.startswith("postdate: ")
        assert "Traceback" not in said
        return last
