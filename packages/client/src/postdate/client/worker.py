"""A pull worker: claims jobs of lanes over HTTP, runs your functions, keeps leases, reports.

A function gets a `Lease` and may be plain (it runs in a thread) or asynchronous. What it returns is
kept with the job. An exception fails the attempt, which is tried again as the job's policy says.
"""

import asyncio
import contextlib
import contextvars
import inspect
import logging
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from postdate.client import handler_report
from postdate.client.client import AsyncClient
from postdate.client.errors import (
    PostdateError,
    ProblemError,
    UnreachableError,
    is_passing,
)
from postdate.client.handler_report import (
    ExitedError,
    GiveUpError,
    HandlerReport,
    InDoubtError,
    JobCancelledError,
    ResultRef,
    RetryLaterError,
)
from postdate.client.handlers import F, Handlers, kind_of
from postdate.client.models.leases import Lease
from postdate.client.once import CURRENT
from postdate.client.problems import ForbiddenError, LeaseLostError, UnauthenticatedError
from postdate.client.running_job import JobReporter, running_job

__all__ = [
    "GiveUpError",
    "InDoubtError",
    "JobCancelledError",
    "KeyRefusedError",
    "ResultRef",
    "RetryLaterError",
    "Worker",
]

WAIT_SECONDS: Final = 20.0
"""How long one claim waits at the server for something to be due."""

PAUSE_SECONDS: Final = 0.2
MAX_PAUSE_SECONDS: Final = 10.0
"""The waits while the server does not answer."""

MAX_REPORT_PAUSE_SECONDS: Final = 2.0
"""A report must come before another worker claims the job, whose lease has run out meanwhile."""

MAX_CLAIM: Final = 100
STOPPED_BY_SIGNAL: Final = 128

log = logging.getLogger("postdate.worker")


class KeyRefusedError(PostdateError):
    """The server does not take the worker's key: no patience helps."""


class Worker:
    """Serves lanes with your functions until it is stopped.

    `concurrency` is how many jobs of each lane run at once, and how many threads a lane has for
    plain functions.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        concurrency: int = 10,
        lease_seconds: float = 30.0,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency is at least 1, not {concurrency}")
        self._client = AsyncClient(url, api_key, retries=0)
        self._concurrency = concurrency
        self._lease_seconds = lease_seconds
        self._handlers = Handlers()
        self._stopping = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._threads: ThreadPoolExecutor | None = None

    def handler(self, lane: str, *, kind: str | None = None) -> Callable[[F], F]:
        """Register the function below for a lane, or for the jobs of one kind in it.

        The kind of a job stands in its metadata: `metadata={"kind": "send-mail"}`.
        """

        def register(function: F) -> F:
            self._handlers.add(lane, kind, function)
            return function

        return register

    def stop(self) -> None:
        """Begin nothing more; `run` ends when what is under way has ended."""
        self._stopping.set()

    def run_forever(self) -> None:
        """Work until SIGTERM or SIGINT, then finish what is under way; a second one ends it."""
        try:
            asyncio.run(self._until_signal())
        except KeyRefusedError as error:
            sys.exit(f"postdate worker: {error}")

    async def _until_signal(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        await self.run()

    def _signalled(self, number: int) -> None:
        if self._stopping.is_set():
            log.warning("stopped at once: the leases of what was under way run out")
            logging.shutdown()
            # Threads cannot be stopped, and an interpreter that ends waits for them.
            os._exit(STOPPED_BY_SIGNAL + number)
        log.info("stopping: %d under way; a second signal stops at once", len(self._running))
        self.stop()

    async def run(self) -> None:
        """Work until `stop`; raise when the server refuses the key."""
        async with self._open() as lanes:
            log.info(
                "working for %s with up to %d at once each", ", ".join(lanes), self._concurrency
            )
            await self._served([asyncio.ensure_future(self._serve(lane)) for lane in lanes])
        log.info("stopped")

    async def drain(self) -> int:
        """Run what is due until nothing is, and return how many jobs ran; for tests."""
        ran = 0
        async with self._open() as lanes:
            while leases := [(lane, each) for lane in lanes for each in await self._due(lane)]:
                await asyncio.gather(*(self._work(lane, lease) for lane, lease in leases))
                ran += len(leases)
        return ran

    async def _due(self, lane: str) -> list[Lease]:
        claimed = await self._client.leases.claim(
            lane, max=MAX_CLAIM, lease_seconds=self._lease_seconds
        )
        return claimed.leases

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncIterator[list[str]]:
        """Connect, keep threads for plain functions, and return the lanes to work for."""
        lanes = self._handlers.lanes
        if not lanes:
            raise ValueError("there is nothing to work for: register a handler first")
        self._threads = ThreadPoolExecutor(
            self._concurrency * len(lanes), thread_name_prefix="postdate-worker"
        )
        try:
            async with self._client:
                yield lanes
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _served(self, serving: Sequence["asyncio.Future[None]"]) -> None:
        try:
            await asyncio.gather(*serving)
        finally:
            # One lane whose key was refused ends them all; what is under way is finished.
            self.stop()
            await asyncio.gather(*serving, return_exceptions=True)
            if self._running:
                await asyncio.wait(self._running)

    async def _serve(self, lane: str) -> None:
        room = asyncio.Semaphore(self._concurrency)
        free = self._concurrency
        pause = PAUSE_SECONDS

        def left(_: object) -> None:
            nonlocal free
            free += 1
            room.release()

        while not self._stopping.is_set():
            await room.acquire()
            room.release()
            try:
                leases = await self._claim(lane, free)
                pause = PAUSE_SECONDS
            except (UnauthenticatedError, ForbiddenError) as error:
                message = f"the key may not work for lane {lane!r}: {error}"
                raise KeyRefusedError(message) from error
            except (ProblemError, UnreachableError) as error:
                log.warning("lane %s: %s", lane, error)
                await self._rest(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 2, MAX_PAUSE_SECONDS)
                continue
            for lease in leases:
                if self._stopping.is_set():
                    await self._give_back(lease)
                    continue
                free -= 1
                await room.acquire()
                running = asyncio.create_task(self._work(lane, lease))
                self._running.add(running)
                running.add_done_callback(self._running.discard)
                running.add_done_callback(left)

    async def _claim(self, lane: str, free: int) -> list[Lease]:
        """Ask for as much as there is room; stopping ends the wait at the server."""
        asking = asyncio.ensure_future(
            self._client.leases.claim(
                lane,
                max=max(1, min(MAX_CLAIM, free)),
                lease_seconds=self._lease_seconds,
                wait_seconds=WAIT_SECONDS,
            )
        )
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not asking.done():
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking
            return []
        return asking.result().leases

    async def _give_back(self, lease: Lease) -> None:
        """Return a job that was not begun, at no cost to it."""
        try:
            await self._client.leases.release(lease.job_id, token=lease.token)
        except PostdateError as error:
            log.warning("job %s: its lease runs out by itself: %s", lease.job_id, error)

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _work(self, lane: str, lease: Lease) -> None:
        function = self._handlers.find(lane, lease)
        if function is None:
            await self._report(lease, handler_report.unhandled(lane, kind_of(lease)))
            return
        reporter = JobReporter(self._client, lease, self._lease_seconds)
        asynchronous = inspect.iscoroutinefunction(function)
        job = running_job(lease, reporter, asynchronous=asynchronous)
        CURRENT.set(job)
        working = asyncio.ensure_future(self._call(function, job))
        if asynchronous:
            reporter.on_cancel = working.cancel
        renewing = asyncio.ensure_future(self._renew(lease, reporter, working))
        try:
            done, _ = await asyncio.wait({working}, timeout=lease.timeout_seconds or None)
            found = _ended(working, reporter) if done else _late(lease)
        finally:
            renewing.cancel()
            working.cancel()
        if found is not None:
            await reporter.flush()
            await self._report(lease, found)
        # A thread cannot be stopped: its place is taken until it ends, whatever it says then.
        await asyncio.wait({working})

    def _call(self, function: Callable[..., Any], lease: Lease) -> Coroutine[Any, Any, Any]:
        if inspect.iscoroutinefunction(function):
            return _kept_alive(function(lease))
        return _kept_alive(self._in_thread(function, lease))

    async def _in_thread(self, function: Callable[..., Any], lease: Lease) -> Any:
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        working = loop.run_in_executor(self._threads, context.run, function, lease)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            await asyncio.wait({working})
            if not working.cancelled() and working.exception() is not None:
                log.warning("job %s ended too late: %r", lease.job_id, working.exception())
            raise

    async def _renew(
        self, lease: Lease, reporter: JobReporter, working: "asyncio.Future[Any]"
    ) -> None:
        """Keep the lease while the function works; when it is lost, the work is too."""
        while True:
            await reporter.rest(self._lease_seconds / 3)
            try:
                await reporter.renew()
            except LeaseLostError:
                log.warning(
                    "job %s: the lease is lost, what it does now counts no more", lease.job_id
                )
                working.cancel()
                return
            except PostdateError as error:
                log.warning("job %s: the lease was not renewed: %s", lease.job_id, error)

    async def _report(self, lease: Lease, found: HandlerReport) -> None:
        """Report how it ended, again until the server records it: a repeat changes nothing.

        A server that is busy or has lost its database refuses for a while. A report that is
        dropped then would run the job once more.
        """
        _log(lease, found)
        pause, ends = PAUSE_SECONDS, time.monotonic() + 2 * self._lease_seconds
        while True:
            try:
                await self._send(lease, found)
            except (ProblemError, UnreachableError) as error:
                if not is_passing(error) or time.monotonic() > ends:
                    log.warning("job %s: its end was not recorded: %s", lease.job_id, error)
                    return
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 2, MAX_REPORT_PAUSE_SECONDS)
            else:
                return

    async def _send(self, lease: Lease, found: HandlerReport) -> None:
        if found.done:
            await self._client.leases.complete(
                lease.job_id, token=lease.token, result=found.result, result_ref=found.result_ref
            )
            return
        await self._client.leases.fail(
            lease.job_id,
            token=lease.token,
            error=found.error,
            code=found.code,
            retryable=found.retryable,
            retry_after_seconds=found.retry_after_seconds,
            unknown=found.unknown,
        )


async def _kept_alive(work: Coroutine[Any, Any, Any]) -> Any:
    """Await a function; if it calls `sys.exit`, the attempt fails and the worker goes on."""
    try:
        return await work
    except SystemExit as error:
        raise ExitedError from error


def _late(lease: Lease) -> HandlerReport:
    return handler_report.late(lease.timeout_seconds)


def _ended(working: "asyncio.Future[Any]", reporter: JobReporter) -> HandlerReport | None:
    """Put an end into words; None when the lease is somebody else's and nothing is left to say."""
    if working.cancelled():
        return handler_report.raised(JobCancelledError()) if reporter.cancelled else None
    error = working.exception()
    return (
        handler_report.returned(working.result()) if error is None else handler_report.raised(error)
    )


def _log(lease: Lease, found: HandlerReport) -> None:
    if found.done and handler_report.kept(found):
        log.debug("job %s: done, attempt %d", lease.job_id, lease.attempt)
    elif found.done:
        log.error("job %s: done, but %s", lease.job_id, found.result["not_kept"])
    else:
        log.warning("job %s: attempt %d: %s", lease.job_id, lease.attempt, found.error)
