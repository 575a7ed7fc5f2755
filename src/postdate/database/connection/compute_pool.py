"""A few processes that compute what is too much for a thread, and can be killed while they do.

Each has a thread that starts it when something is to be computed, hands it one computation at a
time, and ends it when it has been idle for a while. Tenants take turns, and a tenant has one
process at most.
"""

import atexit
import pickle
import select
import signal
import subprocess
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Thread
from typing import Any, Final

from postdate.core.log import Log
from postdate.database.connection.compute_worker import (
    MAX_RESULT_BYTES,
    ComputeEnding,
    ComputeResult,
    Packer,
)
from postdate.words.error import Code, RefusedError, refuse

log = Log()

PROCESSES: Final = 2
MAX_WAITING: Final = 32
"""How many computations wait for a process, of all tenants together."""

MAX_MEMORY_BYTES: Final = 256 * 1024 * 1024
"""How much memory a process may use beyond what it needs to start."""

MAX_CPU_SECONDS: Final = 10
MAX_SECONDS: Final = 60.0
"""How long a computation may take in all, on a machine that is busy with something else."""

IDLE_SECONDS: Final = 30.0
"""How long an idle process is kept."""

MEBIBYTE: Final = 1024 * 1024
PROGRAM: Final = "from postdate.database.connection.compute_worker import main; main()"


class PoolLimits:
    """The limits of a pool; tests choose their own."""

    def __init__(
        self,
        memory_bytes: int = MAX_MEMORY_BYTES,
        cpu_seconds: int = MAX_CPU_SECONDS,
        seconds: float = MAX_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.memory_bytes = memory_bytes
        self.cpu_seconds = cpu_seconds
        self.seconds = seconds
        self.idle_seconds = idle_seconds


class ComputeProcess:
    """One process, and the pipes to it."""

    def __init__(self, limits: PoolLimits) -> None:
        self._limits = limits
        self._process = subprocess.Popen(  # noqa: S603 - our own program and two numbers
            [sys.executable, "-c", PROGRAM, str(limits.memory_bytes), str(limits.cpu_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        return self._process.pid

    def kill(self) -> None:
        """End the process now."""
        self._process.kill()

    def end(self) -> int:
        """End the process, wait for it, and return its status."""
        self._process.kill()
        with self._process as ended:
            return ended.wait()

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> ComputeResult | None:
        """Compute something there; None where the process has ended or takes too long."""
        given, result = self._process.stdin, self._process.stdout
        if given is None or result is None:
            return None
        try:
            # Into the pipe, not into memory first: between two pieces the other threads run.
            Packer(given).dump((function, arguments))
        except OSError:
            return None
        if not _readable(result, self._limits.seconds):
            return None
        size = int.from_bytes(_read(result, 8))
        if not 0 < size <= MAX_RESULT_BYTES:
            return None
        packed = _read(result, size)
        return pickle.loads(packed) if len(packed) == size else None  # noqa: S301 - of our process


def _readable(result: Any, seconds: float) -> bool:
    """Wait until there is something to read; `select` knows no file beyond the 1,024th."""
    poll = select.poll()
    poll.register(result, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _read(result: Any, size: int) -> bytes:
    parts = []
    while size and (part := result.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Computation:
    """A computation that waits for a process, or runs in one."""

    def __init__(
        self, tenant_id: int | None, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        self.tenant_id = tenant_id
        self.function = function
        self.arguments = arguments
        self.future: Future[Any] = Future()
        self.process: ComputeProcess | None = None
        self._abandoned = False

    def abandon(self) -> None:
        """Record that no caller waits for it."""
        self._abandoned = True

    def is_abandoned(self) -> bool:
        """Return whether no caller waits for it."""
        return self._abandoned


class ComputePool:
    """Hands computations to processes, one tenant after the other."""

    def __init__(self, limits: PoolLimits | None = None, processes: int = PROCESSES) -> None:
        self.limits = limits or PoolLimits()
        self._max_threads = processes
        self._changed = Condition()
        self._waiting: OrderedDict[int | None, deque[Computation]] = OrderedDict()
        self._running: Counter[int | None] = Counter()
        self._processes: set[ComputeProcess] = set()
        self._threads = 0
        self._idle = 0

    def submit(
        self, tenant_id: int | None, function: Callable[..., Any], *arguments: Any
    ) -> Computation:
        """Have something computed; refuse it if too much waits already."""
        computation = Computation(tenant_id, function, arguments)
        with self._changed:
            waiting = sum(map(len, self._waiting.values()))
            if waiting >= MAX_WAITING:
                detail = f"{MAX_WAITING} computations wait for a process: try again soon."
                raise refuse(Code.OVERLOADED, detail, retry_after_seconds=1)
            self._waiting.setdefault(tenant_id, deque()).append(computation)
            if self._idle <= waiting and self._threads < self._max_threads:
                self._threads += 1
                Thread(target=self._serve, name="compute", daemon=True).start()
            self._changed.notify()
        return computation

    def abandon(self, computation: Computation) -> None:
        """Stop a computation without a waiting caller: kill its process."""
        with self._changed:
            computation.abandon()
            waiting = self._waiting.get(computation.tenant_id)
            if waiting is not None and computation in waiting:
                waiting.remove(computation)
            if computation.process is not None:
                computation.process.kill()

    def close(self) -> None:
        """Kill all processes."""
        with self._changed:
            for process in self._processes:
                process.kill()

    @property
    def pids(self) -> set[int]:
        """Return the processes that run."""
        with self._changed:
            return {each.pid for each in self._processes}

    def _next(self) -> Computation | None:
        """Take the oldest computation of the tenant whose turn it is."""
        for tenant_id, waiting in self._waiting.items():
            if waiting and not self._running[tenant_id]:
                self._waiting.move_to_end(tenant_id)
                return waiting.popleft()
        return None

    def _serve(self) -> None:
        """Compute what comes; end with the process when nothing has come for a while."""
        process: ComputeProcess | None = None
        while (computation := self._take()) is not None:
            process = self._compute(computation, process)
        if process is not None:
            self._end(process)

    def _take(self) -> Computation | None:
        with self._changed:
            self._idle += 1
            while (computation := self._next()) is None:
                if not self._changed.wait(self.limits.idle_seconds):
                    break
            self._idle -= 1
            if computation is None:
                self._threads -= 1
            else:
                self._running[computation.tenant_id] += 1
            return computation

    def _compute(
        self, computation: Computation, process: ComputeProcess | None
    ) -> ComputeProcess | None:
        """Compute something, and return the process if it can be used again."""
        kept: ComputeProcess | None = None
        try:
            process = process or self._started()
            kept = self._answer(computation, process)
        except Exception as error:  # noqa: BLE001 - the caller is told
            computation.future.set_exception(error)
        finally:
            if kept is None and process is not None:
                self._end(process)
            self._done(computation)
        return kept

    def _answer(self, computation: Computation, process: ComputeProcess) -> ComputeProcess | None:
        with self._changed:
            if computation.is_abandoned() or not computation.future.set_running_or_notify_cancel():
                return process
            computation.process = process
        result = process.run(computation.function, computation.arguments)
        with self._changed:
            computation.process = None
            if computation.is_abandoned():  # it may have been killed just now
                result = None
        if result is None:
            status = self._end(process)
            if not computation.is_abandoned():
                log.warning("compute.killed", tenant_id=computation.tenant_id, status=status)
            computation.future.set_exception(self._refusal(status))
            return None
        self._set_result(computation, result)
        return None if result[0] is ComputeEnding.NO_MEMORY else process

    def _set_result(self, computation: Computation, result: ComputeResult) -> None:
        ending, value = result
        match ending:
            case ComputeEnding.DONE:
                computation.future.set_result(value)
            case ComputeEnding.REFUSED:
                computation.future.set_exception(RefusedError(value))
            case ComputeEnding.NO_MEMORY:
                limit = f"{self.limits.memory_bytes // MEBIBYTE} MiB of memory"
                computation.future.set_exception(_too_costly(limit))
            case ComputeEnding.TOO_LARGE:
                limit = f"an answer of {MAX_RESULT_BYTES // MEBIBYTE} MiB"
                computation.future.set_exception(_too_costly(limit))
            case ComputeEnding.FAILED:
                computation.future.set_exception(RuntimeError(value))

    def _refusal(self, status: int) -> RefusedError:
        """Return why there is no result from a process that ended with a status."""
        if status == -signal.SIGXCPU:
            return _too_costly(f"{self.limits.cpu_seconds} s of CPU time")
        detail = f"The process that computed this was ended (status {status}): try again."
        return refuse(Code.OVERLOADED, detail, retry_after_seconds=1)

    def _started(self) -> ComputeProcess:
        process = ComputeProcess(self.limits)
        with self._changed:
            self._processes.add(process)
        return process

    def _end(self, process: ComputeProcess) -> int:
        status = process.end()
        with self._changed:
            self._processes.discard(process)
        return status

    def _done(self, computation: Computation) -> None:
        with self._changed:
            self._running[computation.tenant_id] -= 1
            if not self._running[computation.tenant_id]:
                del self._running[computation.tenant_id]
            if not self._waiting.get(computation.tenant_id, True):
                del self._waiting[computation.tenant_id]
            self._changed.notify()


def _too_costly(limit: str) -> RefusedError:
    detail = f"Computing this takes more than {limit}: ask for less at a time."
    return refuse(Code.TOO_COSTLY, detail)


POOL: Final = ComputePool()
"""The pool of this process."""

atexit.register(POOL.close)
