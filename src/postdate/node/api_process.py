"""Several API processes on one port, started and supervised by the first of them.

The kernel spreads connections over all sockets that listen on the port (SO_REUSEPORT). The others
are `postdate serve --role api` with the settings of the first, each with its part of the budget.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import fields, replace
from typing import Final

from postdate.core.log import Log
from postdate.node.settings import PREFIX, TEST_PREFIX, ProcessSettings

log = Log()

RESTART_SECONDS: Final = 1.0
"""How long a process that has ended is missing: one that fails at once must not fill the log."""

PARENT_SECONDS: Final = 1.0
"""How often a process says that it is alive, and checks whether the first one is."""

START_SECONDS: Final = 120.0
"""How long a process may take to start: until then it gets no connections."""

SILENT_SECONDS: Final = 5.0
MAX_SILENCES: Final = 2
"""A process that was silent so often in a row is ended: the kernel would give it connections that
stay unanswered. Once is too few, for the first process may itself have stood still."""

MIN_CONNECTIONS: Final = 64
RUN: Final = "from postdate.cli.main import main; main()"


def share(settings: ProcessSettings) -> ProcessSettings:
    """Return the settings of one process; all together stay within the configured limits."""
    count = settings.api_processes
    return replace(
        settings,
        writers=settings.writers // count,
        readers=settings.readers // count,
        connections=max(MIN_CONNECTIONS, settings.connections // count),
    )


def environment(settings: ProcessSettings, port: int, number: int) -> dict[str, str]:
    """Return the environment of another process, from the share of the first.

    It names every setting: the first may have some from flags or from a file.
    """
    metrics_port = settings.metrics_port + number if settings.metrics_port else 0
    own = replace(settings, api_processes=1, port=port, metrics_port=metrics_port)
    others = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) or name.startswith(TEST_PREFIX)
    }
    return others | {
        f"{PREFIX}{each.name.upper()}": str(getattr(own, each.name)) for each in fields(own)
    }


class ApiProcesses:
    """The other processes of the API: one that ends is started again, until they are stopped."""

    def __init__(self, settings: ProcessSettings, port: int) -> None:
        self._settings = settings
        self._port = port
        self._stopped = asyncio.Event()
        self._running: set[asyncio.subprocess.Process] = set()

    async def run(self) -> None:
        """Keep them running; return when all have ended after `stop`."""
        numbers = range(1, self._settings.api_processes)
        try:
            await asyncio.gather(*(self._keep(number) for number in numbers))
        finally:
            self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Let each finish its requests, and end."""
        self._stopped.set()
        self._signal(signal.SIGTERM)

    async def _keep(self, number: int) -> None:
        environ = environment(self._settings, self._port, number)
        words = ("serve", "--role", "api", "--parent", str(os.getpid()))
        while not self._stopped.is_set():
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", RUN, *words, env=environ, stdout=asyncio.subprocess.PIPE
            )
            self._running.add(process)
            if self._stopped.is_set():
                self._signal(signal.SIGTERM)
            await _until_silent(process)
            code = await process.wait()
            self._running.discard(process)
            if not self._stopped.is_set():
                log.error("api_process.ended", number=number, pid=process.pid, code=code)
                with suppress(TimeoutError):
                    async with asyncio.timeout(RESTART_SECONDS):
                        await self._stopped.wait()

    def _signal(self, number: signal.Signals) -> None:
        for process in self._running:
            with suppress(ProcessLookupError):
                process.send_signal(number)


async def _until_silent(process: asyncio.subprocess.Process) -> None:
    """Wait until a process has ended; kill one that no longer reports that it is alive."""
    if process.stdout is None:
        raise TypeError("the process was started without a pipe")
    silences, seconds = 0, START_SECONDS
    while silences < MAX_SILENCES:
        try:
            async with asyncio.timeout(seconds):
                said = await process.stdout.read(64)
        except TimeoutError:
            silences += 1
            continue
        if not said:
            return
        silences, seconds = 0, SILENT_SECONDS
    log.error("api_process.silent", pid=process.pid)
    with suppress(ProcessLookupError):
        process.kill()


async def end_with(parent: int, stop: asyncio.Event) -> None:
    """Keep reporting that this process is alive; stop it when its parent is gone."""
    pipe = sys.stdout.fileno()
    os.set_blocking(pipe, False)
    while os.getppid() == parent:
        with suppress(OSError):
            os.write(pipe, b".")
        await asyncio.sleep(PARENT_SECONDS)
    stop.set()
