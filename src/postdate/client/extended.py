"""Calls that are more than one request: wait for an end, follow events."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Final, Protocol, TypeVar
from uuid import UUID

from postdate.client import encoding
from postdate.client.async_groups import events as async_events
from postdate.client.async_groups import jobs as async_jobs
from postdate.client.async_groups import payments as async_payments
from postdate.client.errors import UnreachableError, WaitTimeoutError
from postdate.client.models import Event, Job, Payment
from postdate.client.problems import OverloadedError, RateLimitedError, UnavailableError
from postdate.client.sync_groups import events as sync_events
from postdate.client.sync_groups import jobs as sync_jobs
from postdate.client.sync_groups import payments as sync_payments

TIMEOUT_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.05
MAX_POLL_SECONDS: Final = 2.0
STREAM_WAIT_SECONDS: Final = 20.0
ENDED: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
STUCK: Final = "UNKNOWN"
"""A job in doubt waits for a person, so that waiting for it has ended too."""

AWAY: Final = (UnreachableError, UnavailableError, OverloadedError, RateLimitedError)


class HasStatus(Protocol):
    """Something that ends."""

    @property
    def status(self) -> str:
        """Say where it stands."""


E = TypeVar("E", bound=HasStatus)


class AsyncJobs(async_jobs.AsyncJobs):
    """What the API offers about jobs, and to wait for one."""

    async def wait(
        self, job_id: UUID | str, *, timeout: float | timedelta = TIMEOUT_SECONDS
    ) -> Job:
        """Wait until a job has ended, or is in doubt, and give it."""
        return await _ended(lambda: self.get(job_id), f"job {job_id}", encoding.seconds(timeout))


class AsyncPayments(async_payments.AsyncPayments):
    """What the API offers about payments, and to wait for one."""

    async def wait(
        self, payment_id: UUID | str, *, timeout: float | timedelta = TIMEOUT_SECONDS
    ) -> Payment:
        """Wait until a payment has ended and give it."""
        name = f"payment {payment_id}"
        return await _ended(lambda: self.get(payment_id), name, encoding.seconds(timeout))


class AsyncEvents(async_events.AsyncEvents):
    """What the API offers about events, and to follow them."""

    def stream(
        self,
        *,
        after: str | None = None,
        types: str | None = None,
        subject: UUID | str | None = None,
    ) -> "AsyncEventStream":
        """Follow events as they happen, for ever; it goes on after the server was away."""
        return AsyncEventStream(self, after, types, subject)


class AsyncEventStream:
    """Events in order. Keep `cursor` to resume later: the events of its page may come again."""

    def __init__(
        self,
        events: async_events.AsyncEvents,
        after: str | None,
        types: str | None,
        subject: UUID | str | None,
    ) -> None:
        self.cursor = after
        self._events = events
        self._types = types
        self._subject = subject

    async def __aiter__(self) -> AsyncIterator[Event]:
        away = 0
        while True:
            try:
                page = await self._events.list_page(
                    after=self.cursor,
                    types=self._types,
                    subject=self._subject,
                    limit=100,
                    wait_seconds=STREAM_WAIT_SECONDS,
                )
                away = 0
            except AWAY:
                await asyncio.sleep(_rest(away))
                away += 1
                continue
            for event in page.events:
                yield event
            self.cursor = page.next_cursor


class Jobs(sync_jobs.Jobs):
    """What the API offers about jobs, and to wait for one."""

    def wait(self, job_id: UUID | str, *, timeout: float | timedelta = TIMEOUT_SECONDS) -> Job:
        """Wait until a job has ended, or is in doubt, and give it."""
        return _wait(lambda: self.get(job_id), f"job {job_id}", encoding.seconds(timeout))


class Payments(sync_payments.Payments):
    """What the API offers about payments, and to wait for one."""

    def wait(
        self, payment_id: UUID | str, *, timeout: float | timedelta = TIMEOUT_SECONDS
    ) -> Payment:
        """Wait until a payment has ended and give it."""
        name = f"payment {payment_id}"
        return _wait(lambda: self.get(payment_id), name, encoding.seconds(timeout))


class Events(sync_events.Events):
    """What the API offers about events, and to follow them."""

    def stream(
        self,
        *,
        after: str | None = None,
        types: str | None = None,
        subject: UUID | str | None = None,
    ) -> "EventStream":
        """Follow events as they happen, for ever; it goes on after the server was away."""
        return EventStream(self, after, types, subject)


class EventStream:
    """Events in order. Keep `cursor` to resume later: the events of its page may come again."""

    def __init__(
        self,
        events: sync_events.Events,
        after: str | None,
        types: str | None,
        subject: UUID | str | None,
    ) -> None:
        self.cursor = after
        self._events = events
        self._types = types
        self._subject = subject

    def __iter__(self) -> Iterator[Event]:
        away = 0
        while True:
            try:
                page = self._events.list_page(
                    after=self.cursor,
                    types=self._types,
                    subject=self._subject,
                    limit=100,
                    wait_seconds=STREAM_WAIT_SECONDS,
                )
                away = 0
            except AWAY:
                time.sleep(_rest(away))
                away += 1
                continue
            yield from page.events
            self.cursor = page.next_cursor


async def _ended(look: Callable[[], Awaitable[E]], name: str, seconds: float) -> E:
    deadline, pause = time.monotonic() + seconds, POLL_SECONDS
    while True:
        found = await look()
        if _over(found):
            return found
        await asyncio.sleep(_left(deadline, pause, found, name, seconds))
        pause = min(pause * 1.5, MAX_POLL_SECONDS)


def _wait(look: Callable[[], E], name: str, seconds: float) -> E:
    deadline, pause = time.monotonic() + seconds, POLL_SECONDS
    while True:
        found = look()
        if _over(found):
            return found
        time.sleep(_left(deadline, pause, found, name, seconds))
        pause = min(pause * 1.5, MAX_POLL_SECONDS)


def _over(found: HasStatus) -> bool:
    return found.status in ENDED or found.status == STUCK


def _left(deadline: float, pause: float, found: HasStatus, name: str, seconds: float) -> float:
    """Say how long to wait before looking again; nothing is left after the deadline."""
    left = deadline - time.monotonic()
    if left <= 0:
        message = f"{name} is still {found.status} after {seconds:g} s"
        raise WaitTimeoutError(message, str(found.status))
    return min(pause, left)


def _rest(away: int) -> float:
    return min(0.2 * 2.0**away, 5.0)
