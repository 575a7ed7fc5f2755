"""The job that a worker's function runs: report progress, write lines, do steps once.

A plain function gets a `RunningJob`, an asynchronous one an `AsyncRunningJob`; both are leases.
"""

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, ParamSpec, TypeVar, overload

import msgspec

from postdate.client.client import AsyncClient
from postdate.client.errors import PostdateError, is_passing
from postdate.client.handler_report import GiveUpError, storable
from postdate.client.models.leases import Lease, RenewedLease

P = ParamSpec("P")
R = TypeVar("R")

CHECKPOINT_BYTES: Final = 16 * 1024
"""The most that all steps of a job may return together, as the server keeps it."""

LINE_CHARACTERS: Final = 1000
NOTE_CHARACTERS: Final = 500
MAX_LINES: Final = 100
"""The most lines of one report."""

BUFFERED_LINES: Final = 1000
"""The most lines that wait to be sent; older ones are dropped."""

LINES_SECONDS: Final = 1.0
"""How long a line waits for others before all are sent."""

PAUSE_SECONDS: Final = 0.2

log = logging.getLogger("postdate.worker")


class JobReporter:
    """What a worker knows of one job that it runs, and how it tells the server."""

    def __init__(self, client: AsyncClient, lease: Lease, lease_seconds: float) -> None:
        self._client = client
        self._lease = lease
        self._lease_seconds = lease_seconds
        self._loop = asyncio.get_running_loop()
        self._lines: deque[str] = deque(maxlen=BUFFERED_LINES)
        self._written = asyncio.Event()
        self._recording = asyncio.Lock()
        self._steps: dict[str, Any] = _steps_of(lease.checkpoint)
        self._begun: set[str] = set()
        self._cancelled = threading.Event()
        self.on_cancel: Callable[[], object] = bool

    @property
    def cancelled(self) -> bool:
        """Return whether the server has said that the job is to be cancelled."""
        return self._cancelled.is_set()

    def write(self, line: str) -> None:
        """Keep a line until the next report; callable from any thread."""
        self._lines.append(storable(line)[:LINE_CHARACTERS])
        self._loop.call_soon_threadsafe(self._written.set)

    async def rest(self, seconds: float) -> None:
        """Wait until the lease should be renewed, or a moment after a line was written."""
        try:
            async with asyncio.timeout(seconds):
                await self._written.wait()
            await asyncio.sleep(min(LINES_SECONDS, seconds))
        except TimeoutError:
            return

    async def renew(self) -> None:
        """Renew the lease, and send the lines that were written."""
        if self._lines:
            await self._send()
            return
        renewed = await self._client.leases.renew(
            self._lease.job_id, token=self._lease.token, lease_seconds=self._lease_seconds
        )
        self._heard(renewed)

    async def flush(self) -> None:
        """Send what is left of the lines; a server that does not answer gets none of them."""
        try:
            while self._lines:
                await self._send()
        except PostdateError as error:
            log.warning("job %s: lines of its log are lost: %s", self._lease.job_id, error)

    async def progress(self, percent: float | None, note: str | None) -> None:
        """Report how far it is; only a lost lease or a wrong value is worth an exception."""
        said = None if note is None else storable(note)[:NOTE_CHARACTERS]
        try:
            await self._send(percent=percent, note=said)
        except PostdateError as error:
            if not is_passing(error):
                raise
            log.warning("job %s: its progress was not reported: %s", self._lease.job_id, error)

    def recorded(self, name: str) -> bool:
        """Return whether an earlier attempt did a step; refuse a second step of this name."""
        if name in self._begun:
            raise ValueError(f"this job has a step {name!r} already: give each its own name")
        self._begun.add(name)
        return name in self._steps

    def result_of(self, name: str) -> Any:
        """Return what a recorded step returned."""
        return self._steps[name]

    async def record(self, name: str, result: Any) -> Any:
        """Record a step before the next one begins; return its result as it was recorded."""
        kept = _as_json(name, result)
        async with self._recording:
            steps = {**self._steps, name: kept}
            checkpoint = {"steps": steps}
            if len(msgspec.json.encode(checkpoint)) > CHECKPOINT_BYTES:
                raise GiveUpError(
                    f"step {name!r} was done, but the results of all steps together have more "
                    f"than {CHECKPOINT_BYTES:,} bytes",
                    code="checkpoint_too_large",
                )
            await self._insist(checkpoint)
            self._steps = steps
        return kept

    async def _insist(self, checkpoint: Any) -> None:
        """Record a checkpoint, again until the server hears it or the lease would have ended."""
        pause = PAUSE_SECONDS
        while True:
            try:
                await self._send(checkpoint=checkpoint)
            except PostdateError as error:
                if not is_passing(error) or pause > self._lease_seconds:
                    raise
                await asyncio.sleep(pause)
                pause *= 2
            else:
                return

    async def _send(self, **fields: Any) -> None:
        """Report to the server, with the next lines; those of a report that fails come again."""
        self._written.clear()
        lines = [self._lines.popleft() for _ in range(min(MAX_LINES, len(self._lines)))]
        try:
            renewed = await self._client.leases.progress(
                self._lease.job_id,
                token=self._lease.token,
                lease_seconds=self._lease_seconds,
                log=lines or None,
                **fields,
            )
        except BaseException:
            self._lines.extendleft(reversed(lines))
            raise
        self._heard(renewed)

    def _heard(self, renewed: RenewedLease) -> None:
        if renewed.cancel_requested and not self._cancelled.is_set():
            log.info("job %s: it is to be cancelled", self._lease.job_id)
            self._cancelled.set()
            self.on_cancel()

    def wait_for(self, doing: Coroutine[Any, Any, R]) -> R:
        """Run something on the worker's loop, from a thread."""
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()


class RunningJob(Lease, frozen=True, kw_only=True, dict=True):
    """The job that a plain function runs."""

    @property
    def cancelled(self) -> bool:
        """Return whether the job is to be cancelled: stop soon, or raise `JobCancelledError`."""
        return _reporter(self).cancelled

    def progress(self, percent: float | None = None, note: str | None = None) -> None:
        """Report how far it is: 0 to 100, and a few words; this renews the lease too."""
        reporter = _reporter(self)
        reporter.wait_for(reporter.progress(percent, note))

    def log(self, line: str) -> None:
        """Write a line that is kept with this attempt; it is sent within a second or so."""
        _reporter(self).write(line)

    def step(self, name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do a step once over all attempts; return its result, as JSON has it.

        The result is recorded before this returns. An attempt after it gets the recorded result,
        and the function is not called again.
        """
        reporter = _reporter(self)
        if reporter.recorded(name):
            found: R = reporter.result_of(name)
            return found
        result = function(*args, **kwargs)
        kept: R = reporter.wait_for(reporter.record(name, result))
        return kept


class AsyncRunningJob(Lease, frozen=True, kw_only=True, dict=True):
    """The job that an asynchronous function runs."""

    @property
    def cancelled(self) -> bool:
        """Return whether the job is to be cancelled; the function is cancelled as well."""
        return _reporter(self).cancelled

    async def progress(self, percent: float | None = None, note: str | None = None) -> None:
        """Report how far it is: 0 to 100, and a few words; this renews the lease too."""
        await _reporter(self).progress(percent, note)

    def log(self, line: str) -> None:
        """Write a line that is kept with this attempt; it is sent within a second or so."""
        _reporter(self).write(line)

    @overload
    async def step(
        self, name: str, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def step(
        self, name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    async def step(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Do a step once over all attempts; return its result, as JSON has it.

        The result is recorded before this returns. An attempt after it gets the recorded result,
        and the function is not called again.
        """
        reporter = _reporter(self)
        if reporter.recorded(name):
            return reporter.result_of(name)
        result = function(*args, **kwargs)
        if inspect.isawaitable(result):
            result = await result
        return await reporter.record(name, result)


JOBS: Final = (Lease, RunningJob, AsyncRunningJob)
"""The types by which a task's parameter asks for the job that it runs."""


def running_job(lease: Lease, reporter: JobReporter, *, asynchronous: bool) -> Lease:
    """Return the job as its function gets it."""
    fields = {name: getattr(lease, name) for name in lease.__struct_fields__}
    job = (AsyncRunningJob if asynchronous else RunningJob)(**fields)
    job.__dict__["reporter"] = reporter
    return job


def _reporter(job: Lease) -> JobReporter:
    found: JobReporter | None = job.__dict__.get("reporter")
    if found is None:
        raise RuntimeError("only the job that a worker hands to a function reports to the server")
    return found


def _steps_of(checkpoint: Any) -> dict[str, Any]:
    """Return the steps that earlier attempts recorded."""
    steps = checkpoint.get("steps") if isinstance(checkpoint, dict) else None
    return dict(steps) if isinstance(steps, dict) else {}


def _as_json(name: str, result: Any) -> Any:
    """Return a result as JSON has it; give up where it has no such form, for it was done."""
    try:
        return msgspec.json.decode(msgspec.json.encode(result))
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        message = f"step {name!r} was done, but what it returned is no JSON: {error}"
        raise GiveUpError(message, code="step_not_recorded") from error
