"""One postmaster: bring it up or adopt it, ask how it is, take it down."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import psutil

from postdate.core.log import Log
from postdate.database.embedded import data_paths, process
from postdate.database.embedded.binaries import Binaries
from postdate.database.embedded.credentials import PORT, Credentials
from postdate.database.embedded.judge import ProbeAnswer
from postdate.database.embedded.movement import Observer
from postdate.database.embedded.probe import ask
from postdate.database.embedded.runas import RunAs
from postdate.words.error import StartError

MAX_FAILED_STARTS: Final = 20
"""How often a start is tried again while the remains of a killed server go away."""
FAST_SECONDS: Final = 10.0
IMMEDIATE_SECONDS: Final = 2.0
LOG_BYTES_MAX: Final = 8 * 1024 * 1024
_TICK_SECONDS: Final = 0.03
_TICK_SECONDS_MAX: Final = 0.2
_PAUSE_SECONDS_MAX: Final = 2.0
_TO_CLIENTS: Final = ("the database system is", "terminating connection")
_RETRIED: Final = ("lock file", "shared memory block", "Address already in use")
_SENT: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})
"""A server that dies of one of these was stopped from outside; it is restarted without a limit."""

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
        self._replaced = 0
        self._observer = Observer(self._cluster)
        self._trouble = ""

    @property
    def pid(self) -> int | None:
        """The postmaster's process, while it lives."""
        return self._process.pid if self._process and self.is_live() else None

    def is_live(self) -> bool:
        """Return whether the postmaster runs, without asking whether it answers."""
        if self._child is not None:
            return self._child.poll() is None
        return self._process is not None and process.is_live(self._process)

    def doing(self) -> str:
        """Return what the server is doing while it gets ready, as it says itself."""
        doing = self._observer.doing or "starting"
        return f"{doing}; before that it {self._trouble}" if self._trouble else doing

    async def up(self) -> None:
        """Bring the server up: adopt what runs and answers, or start it; raise if it cannot be.

        A server that recovers is waited for, however long that takes; one that is stuck is
        replaced.
        """
        self._forget_dead()
        failed, pause, tick = 0, _TICK_SECONDS, _TICK_SECONDS
        self._observer, answer = Observer(self._cluster, self._replaced), ProbeAnswer.NONE_YET
        while answer is not ProbeAnswer.READY:
            if not self._find_postmaster():
                if self._child is not None:
                    failed += self._explain_exit(retry=failed < MAX_FAILED_STARTS)
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, _PAUSE_SECONDS_MAX)
                await self._spawn()
                self._observer, tick = Observer(self._cluster, self._replaced), _TICK_SECONDS
            question = ask(self._known, self._cluster)
            answer = await self._answer(question) or ProbeAnswer.NONE_YET
            if answer is not ProbeAnswer.READY:
                await self._replace_if_stuck(answer)
                await asyncio.sleep(tick)
                tick = min(tick * 1.1, _TICK_SECONDS_MAX)
        self._replaced, self._trouble = 0, ""

    async def answered(self, question: Coroutine[Any, Any, T]) -> T | None:
        """Await an answer; None as soon as the postmaster is dead, or was stuck and is ended.

        How long the answer takes is not measured: we may be the slow ones.
        """
        self._observer = Observer(self._cluster, self._replaced)
        return await self._answer(question)

    async def _answer(self, question: Coroutine[Any, Any, T]) -> T | None:
        asking = asyncio.create_task(question)
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=_TICK_SECONDS_MAX)
                if not self.is_live():
                    return None
                if not asking.done() and await self._replace_if_stuck(ProbeAnswer.NONE_YET):
                    return None
            return await asking
        finally:
            if not asking.cancel() and not asking.cancelled():
                asking.exception()  # seen, so that asyncio does not report it as forgotten

    async def down(self) -> None:
        """Stop it in fast mode, and in immediate mode if that takes too long."""
        if self._process is not None and self.is_live():
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
            older = self._log.with_suffix(".log.1")
            older.unlink(missing_ok=True)
            with suppress(OSError):  # A full disk has no room for the older part.
                shutil.copy(self._log, older)
            os.truncate(self._log, 0)
        except FileNotFoundError:
            pass  # Before its first start a server has no log.
        except OSError as error:
            log.warning("postgres_log_not_trimmed", error=str(error))

    async def _replace_if_stuck(self, answer: ProbeAnswer) -> bool:
        """End a server that shows no sign of life, immediately; return whether it was ended."""
        if (pid := self.pid) is None or not self._observer.stuck(pid, answer):
            return False
        log.warning("postgres_stuck", answer=answer.name.lower(), pid=pid)
        self._replaced += 1
        self._trouble = "showed no sign of life and was ended"
        await self.halt()
        self._forget_dead()
        return True

    def _forget_dead(self) -> None:
        if not self.is_live():
            self._child = self._process = None

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
        output = self._open_log()
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

    def _open_log(self) -> int:
        """Open the server's log; a server without one is better than none."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        try:
            return os.open(self._log, flags, 0o600)
        except OSError as error:
            log.warning("postgres_log_not_written", error=str(error))
            return os.open(os.devnull, os.O_WRONLY)

    async def _ended(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        # An adopted server is not our child: there is nothing to wait for but its absence.
        while self.is_live() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_TICK_SECONDS)
        return not self.is_live()

    def _explain_exit(self, *, retry: bool) -> int:
        """Raise with the reason in the log, unless it is one that passes; return 1 for a failure.

        A server that was stopped from outside has not failed.
        """
        code = self._child.returncode if self._child else 0
        if -code in _SENT:
            log.warning("postgres_start_ended", signal=-code)
            self._trouble = f"was ended by signal {-code}"
            return 0
        lines = self._reasons()
        reason = lines[-1].split(":  ", 1)[-1].strip() if lines else "its log gives no reason"
        if retry and (code < 0 or any(word in reason for word in _RETRIED)):
            log.warning("postgres_start_failed", reason=reason, code=code)
            self._trouble = f"did not start: {reason}"
            return 1
        if any("No space left on device" in line for line in lines):
            reason = "the disk is full; free some space and start again"
        raise StartError(f"PostgreSQL in {self._cluster} does not start: {reason}.")

    def _reasons(self) -> list[str]:
        try:
            with self._log.open(errors="replace") as file:
                file.seek(self._log_start)
                return [line for line in file if _is_reason(line)]
        except OSError:
            return []


def _is_reason(line: str) -> bool:
    ours = "FATAL:" in line or "PANIC:" in line
    return ours and not any(words in line for words in _TO_CLIENTS)
