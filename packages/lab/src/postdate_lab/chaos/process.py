"""Processes of a run: started, watched and started again by us, and ended by nobody else's id."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Literal

import msgspec

from postdate_lab.chaos import wrong_clock

AGAIN_SECONDS: Final = 0.5
"""How long after its end a process is started again, as an init system would."""

STOP_SECONDS: Final = 20.0
FULL: Final = Path("/dev/full")
"""A device that has no room for anything."""

LostLog = Literal["full", "unread"]


class Process:
    """One process of ours. While it is kept, it is started again whenever it has ended."""

    def __init__(
        self, name: str, command: list[str], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._command = command
        self._env = dict(env or {})
        self._log = log
        self._running: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self.starts = 0
        self.lost_log: LostLog | None = None
        """What it writes its log to from its next start on, instead of the file."""

    async def keep(self) -> None:
        """Start it, and see from now on that it runs."""
        await self._start()
        self._keeping = asyncio.create_task(self._keep())

    async def _start(self) -> None:
        with self._open_log() as log:
            self._running = await asyncio.create_subprocess_exec(
                *self._command, env=_inherited() | self._env, start_new_session=True,
                stdout=log, stderr=log,
            )  # fmt: skip
        self.starts += 1

    def _open_log(self) -> IO[bytes]:
        """Open the log, or what cannot be written: a full device, or a pipe that nobody reads."""
        if self.lost_log == "full":
            return FULL.open("wb")
        if self.lost_log == "unread":
            unread, log = os.pipe()
            os.close(unread)
            return os.fdopen(log, "wb")
        return self._log.open("ab")

    async def _keep(self) -> None:
        while self._running is not None:
            await self._running.wait()
            await asyncio.sleep(AGAIN_SECONDS)
            await self._start()

    def send(self, number: int) -> bool:
        """Send a signal, if it lives."""
        if self._running is None or self._running.returncode is not None:
            return False
        with suppress(ProcessLookupError):
            self._running.send_signal(number)
        return True

    async def end(self) -> int | None:
        """End it for good: asked first, killed when it does not listen."""
        if self._keeping is not None:
            self._keeping.cancel()
        if self._running is None:
            return None
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._running.wait()
        except TimeoutError:
            self.send(signal.SIGKILL)
            await self._running.wait()
        return self._running.returncode


def _inherited() -> dict[str, str]:
    """Return our environment without settings, and without the clock of the database."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    return wrong_clock.others(ours)


def postdate(*arguments: str) -> list[str]:
    """Return the command line of our own program."""
    return [str(Path(sys.executable).with_name("postdate")), *arguments]


def holdable(*arguments: str) -> list[str]:
    """Return the command line of our own program, whose loop a signal can hold."""
    return [sys.executable, "-m", "postdate_lab.chaos.held", *arguments]


async def command(env: Mapping[str, str], *words: str) -> Any:
    """Run one of our commands and decode what it prints; a finding is no failure."""
    process = await asyncio.create_subprocess_exec(
        *postdate(*words), env=_inherited() | dict(env),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, error = await process.communicate()
    try:
        return msgspec.json.decode(out)
    except msgspec.DecodeError as decoding:
        raise RuntimeError(f"{' '.join(words)}: {error.decode()}") from decoding


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
