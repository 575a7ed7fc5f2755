"""A pull worker: claims jobs of a lane over HTTP, runs your function, keeps the lease, reports.

The function gets a `Lease` and may be plain or asynchronous. What it returns is kept with the job.
An exception fails the attempt, which is tried again as the job's policy says.
"""

import asyncio
import contextlib
import inspect
import random
import signal
from collections.abc import Awaitable, Callable
from typing import Any, Final

from postdate.client.client import AsyncClient
from postdate.client.errors import ProblemError, UnreachableError
from postdate.client.models import Lease, LeaseList

WAIT_SECONDS: Final = 20.0
"""How long one claim waits at the server for something to be due."""

PAUSE_SECONDS: Final = 0.2
PAUSE_MOST_SECONDS: Final = 10.0
"""The waits while the server does not answer."""

ERROR_CHARACTERS: Final = 1000
LEASE_LOST: Final = "lease_lost"


class RetryLaterError(Exception):
    """Raise it to fail this attempt and say how soon the next one may come."""

    def __init__(self, error: str, seconds: float | None = None) -> None:
        super().__init__(error)
        self.seconds = seconds


class GiveUpError(Exception):
    """Raise it when no further attempt can succeed; `code` is for machines."""

    def __init__(self, error: str, code: str = "gave_up") -> None:
        super().__init__(error)
        self.code = code


class InDoubtError(Exception):
    """Raise it when nobody can say whether it was done."""


Function = Callable[[Lease], Any] | Callable[[Lease], Awaitable[Any]]


class Worker:
    """Serves lanes with your functions until it is stopped."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        concurrency: int = 10,
        lease_seconds: float = 30.0,
    ) -> None:
        self._client = AsyncClient(url, api_key, retries=0)
        self._concurrency = concurrency
        self._lease_seconds = lease_seconds
        self._functions: dict[str, Function] = {}
        self._stopping = asyncio.Event()
        self._running: set[asyncio.Future[None]] = set()

    def handle(self, lane: str) -> Callable[[Function], Function]:
        """Register the function below as the one for a lane."""

        def register(function: Function) -> Function:
            self._functions[lane] = function
            return function

        return register

    def stop(self) -> None:
        """Claim nothing more; `run` ends when what is under way has ended."""
        self._stopping.set()

    def run_forever(self) -> None:
        """Work until SIGTERM or SIGINT, then finish what is under way."""
        asyncio.run(self._until_signal())

    async def _until_signal(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        await self.run()

    async def run(self) -> None:
        """Work until `stop`."""
        async with self._client:
            await asyncio.gather(*(self._serve(lane) for lane in self._functions))
            if self._running:
                await asyncio.wait(self._running)

    async def _serve(self, lane: str) -> None:
        room = asyncio.Semaphore(self._concurrency)
        pause = PAUSE_SECONDS
        while not self._stopping.is_set():
            await room.acquire()
            room.release()
            try:
                leases = await self._claim(lane, room)
                pause = PAUSE_SECONDS
            except (ProblemError, UnreachableError):
                # Refused, or out of reach: neither is better at once.
                await self._rest(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 2, PAUSE_MOST_SECONDS)
                continue
            for lease in leases:
                await room.acquire()
                running = asyncio.ensure_future(self._work(lane, lease))
                self._running.add(running)
                running.add_done_callback(self._running.discard)
                running.add_done_callback(lambda _: room.release())

    async def _claim(self, lane: str, room: asyncio.Semaphore) -> list[Lease]:
        """Ask for as much as there is room; stopping ends the wait at the server."""
        most = max(1, min(100, room._value))  # noqa: SLF001 - asyncio offers no other way to see it
        asking = asyncio.ensure_future(
            self._client.leases.claim(
                lane, max=most, lease_seconds=self._lease_seconds, wait_seconds=WAIT_SECONDS
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
        found: LeaseList = asking.result()
        return found.leases

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _work(self, lane: str, lease: Lease) -> None:
        working = asyncio.ensure_future(_call(self._functions[lane], lease))
        renewing = asyncio.ensure_future(self._renew(lease, working))
        try:
            verb, body = await _ended(working)
        except asyncio.CancelledError:
            return  # the lease is somebody else's: there is nothing left to say
        finally:
            renewing.cancel()
        await self._report(lease, verb, body)

    async def _renew(self, lease: Lease, working: asyncio.Future[Any]) -> None:
        """Keep the lease while the function works; when it is lost, the work is too."""
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            body = {"token": lease.token, "lease_seconds": self._lease_seconds}
            try:
                await self._client.call("POST", f"/leases/{lease.job_id}/renew", body)
            except UnreachableError:
                continue
            except ProblemError as error:
                if error.code == LEASE_LOST:
                    working.cancel()
                    return

    async def _report(self, lease: Lease, verb: str, body: dict[str, Any]) -> None:
        """Say how it ended, again until somebody hears it: a repeated report changes nothing."""
        pause = PAUSE_SECONDS
        while True:
            try:
                sent = {"token": lease.token, **body}
                await self._client.call("POST", f"/leases/{lease.job_id}/{verb}", sent)
            except UnreachableError:
                await asyncio.sleep(pause)
                pause *= 2
                if pause <= self._lease_seconds:
                    continue
            except ProblemError:
                pass  # lost meanwhile, or refused: the lease runs out and it is tried again
            return


async def _call(function: Function, lease: Lease) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(lease)
    return await asyncio.to_thread(function, lease)


async def _ended(working: asyncio.Future[Any]) -> tuple[str, dict[str, Any]]:
    """Wait for the function and put its end into the words of the API."""
    try:
        result = await working
    except RetryLaterError as error:
        body = {"error": _text(error)}
        return "fail", body if error.seconds is None else body | {
            "retry_after_seconds": error.seconds
        }
    except GiveUpError as error:
        return "fail", {"error": _text(error), "code": error.code, "retryable": False}
    except InDoubtError as error:
        return "fail", {"error": _text(error), "code": "in_doubt", "unknown": True}
    except Exception as error:  # noqa: BLE001 - whatever it is, the attempt has failed
        return "fail", {"error": f"{type(error).__name__}: {_text(error)}", "code": "handler_error"}
    return "complete", {} if result is None else {"result": result}


def _text(error: Exception) -> str:
    return str(error)[:ERROR_CHARACTERS] or type(error).__name__
