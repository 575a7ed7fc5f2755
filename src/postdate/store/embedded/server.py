"""One postmaster: bring it up or adopt it, ask how it is, take it down."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import psutil

from postdate.model.error import StartError
from postdate.model.log import Log
from postdate.store.embedded import data_paths, process
from postdate.store.embedded.binaries import Binaries
from postdate.store.embedded.credentials import PORT, Credentials
from postdate.store.embedded.probe import ProbeAnswer, ask
from postdate.store.embedded.progress import StartProgress
from postdate.store.embedded.runas import RunAs

START_SECONDS: Final = 15.0
"""How long a start is tried again while the remains of a killed server go away."""
STUCK_SECONDS: Final = 8.0
"""How long a server may be starting or recovering without any progress."""
SILENT_SECONDS: Final = 30.0
"""How long a server may give no answer at all; longer, because a busy machine is slow too."""
FAST_SECONDS: Final = 10.0
IMMEDIATE_SECONDS: Final = 2.0
LOG_BYTES_MAX: Final = 8 * 1024 * 1024
_TICK_SECONDS: Final = 0.03
_TICK_SECONDS_MAX: Final = 0.2
_TO_CLIENTS: Final = ("the database system is", "terminating connection")
_RETRIED: Final = ("lock file", "shared memory block", "Address already in use")

T = TypeVar("T")

log = Log()


class PostgresServer:
    """The postmaster of one cluster."""

    def __init__(self, home: Path, binaries: Binaries, user: RunAs, known: Credentials) -> None:
        self._cluster = home / data_paths.CLUSTER
        self._log = home / data_paths.LOG
        self._binaries = binaries
        self._user = user
        self._known = known
        self._child: subprocess.Popen[bytes] | None = None
        self._process: psutil.Process | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """The postmaster's process, while it lives."""
        return self._process.pid if self._process and self.is_live() else None

    def is_live(self) -> bool:
        """Return whether the postmaster runs, without asking whether it answers."""
        if self._child is not None:
            return self._child.poll() is None
        return self._process is not None and process.is_live(self._process)

    async def up(self) -> None:
        """Bring the server up: adopt what runs and answers, or start it; raise if it cannot be."""
        deadline = time.monotonic() + START_SECONDS
        tick = _TICK_SECONDS
        spawned = halted = False
        progress = StartProgress(self._cluster)
        while True:
            answer = await self._ask() if self._find_postmaster() else None
            if answer is ProbeAnswer.READY:
                return
            if answer is None:
                if spawned:
                    self._explain_exit(retry=time.monotonic() < deadline)
                await self._spawn()
                spawned, progress, tick = True, StartProgress(self._cluster), _TICK_SECONDS
            elif progress.idle_seconds() > _max_silence_seconds(answer):
                await self._abandon(answer, again=halted)
                spawned, halted = False, True
            await asyncio.sleep(tick)
            tick = min(tick * 1.1, _TICK_SECONDS_MAX)

    async def unless_dead(self, question: Coroutine[Any, Any, T]) -> T | None:
        """Await an answer, or None as soon as the postmaster is dead.

        A login that was under way when it died is answered by nobody, and would wait for its
        whole time limit.
        """
        asking = asyncio.create_task(question)
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=_TICK_SECONDS_MAX)
                if not self.is_live():
                    return None
            return await asking
        finally:
            if not asking.cancel() and not asking.cancelled():
                asking.exception()  # seen, so that asyncio does not report it as forgotten

    async def _ask(self) -> ProbeAnswer | None:
        return await self.unless_dead(ask(self._known, self._cluster))

    async def down(self) -> None:
        """Stop it in fast mode, and in immediate mode if that takes too long."""
        if self._process is None:
            return
        if self.is_live():
            process.send(self._process, signal.SIGINT)
            if not await self._ended(FAST_SECONDS):
                log.warning("postgres_stop_slow")
        await self.halt()

    async def halt(self) -> None:
        """Stop it in immediate mode; the next start recovers from the WAL."""
        if self._process is not None and self.is_live():
            process.send(self._process, signal.SIGQUIT)
            await self._ended(IMMEDIATE_SECONDS)
        await asyncio.to_thread(process.kill_all, self._cluster)
        await self._ended(IMMEDIATE_SECONDS)

    def trim_log(self) -> None:
        """Keep the log within its bound, with one older part; the server appends to the file."""
        try:
            if self._log.stat().st_size <= LOG_BYTES_MAX:
                return
        except FileNotFoundError:
            return
        older = self._log.with_suffix(".log.1")
        older.unlink(missing_ok=True)
        shutil.copy(self._log, older)
        os.truncate(self._log, 0)

    async def _abandon(self, answer: ProbeAnswer, *, again: bool) -> None:
        """Stop a server that makes no progress immediately; the second time, raise an error."""
        log.warning("postgres_stuck", answer=answer.name.lower())
        await self.halt()
        if again:
            raise StartError(
                f"PostgreSQL in {self._cluster} does not get ready; its log {self._log} says more."
            )

    def _find_postmaster(self) -> bool:
        """Know the live postmaster: the one we started, or the one the lock file truly names."""
        if self.is_live():
            return True
        found = process.postmaster(self._cluster)
        if found is None:
            return False
        self._child, self._process = None, found
        log.info("postgres_adopted", pid=found.pid)
        return True

    async def _spawn(self) -> None:
        killed = await asyncio.to_thread(process.kill_all, self._cluster)
        if killed:
            log.info("postgres_orphans_killed", count=killed)
        socket = Path(self._known.login.host, f".s.PGSQL.{PORT}.lock")
        process.remove_stale_locks(self._cluster / "postmaster.pid", socket)
        self.trim_log()
        self._launch()

    def _launch(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        output = os.open(self._log, flags, 0o600)
        try:
            self._log_start = os.fstat(output).st_size
            self._child = subprocess.Popen(  # noqa: S603 - our own program
                [self._binaries.path("postgres"), "-D", str(self._cluster)],
                cwd="/",
                env=process.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **self._user.popen(),
            )
        finally:
            os.close(output)
        self._process = psutil.Process(self._child.pid)

    async def _ended(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        # An adopted server is not our child: there is nothing to wait for but its absence.
        while self.is_live() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_TICK_SECONDS)
        return not self.is_live()

    def _explain_exit(self, *, retry: bool) -> None:
        """Raise with the reason in the log, unless it is one that passes by itself."""
        with self._log.open(errors="replace") as file:
            file.seek(self._log_start)
            lines = [line for line in file if _is_reason(line)]
        reason = lines[-1].split(":  ", 1)[-1].strip() if lines else "its log gives no reason"
        killed = self._child is not None and (self._child.returncode or 0) < 0
        if retry and (killed or any(word in reason for word in _RETRIED)):
            return
        if any("No space left on device" in line for line in lines):
            reason = "the disk is full; free some space and start again"
        raise StartError(f"PostgreSQL in {self._cluster} does not start: {reason}.")


def _is_reason(line: str) -> bool:
    ours = "FATAL:" in line or "PANIC:" in line
    return ours and not any(words in line for words in _TO_CLIENTS)


def _max_silence_seconds(answer: ProbeAnswer) -> float:
    return SILENT_SECONDS if answer is ProbeAnswer.SILENT else STUCK_SECONDS
