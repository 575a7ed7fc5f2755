"""Calls that are more than one request: wait for an end, follow events."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, Generic, Protocol, TypeVar
from uuid import UUID

from postdate.client import encoding
from postdate.client.call import Async, K, Sync, both
from postdate.client.calls import accounts, destinations, events, jobs, lanes, payments, schedules
from postdate.client.ensure import Ensured, compared
from postdate.client.errors import UnreachableError, WaitTimeoutError
from postdate.client.models import (
    Account,
    CreatedDestination,
    Destination,
    Event,
    Job,
    Lane,
    Payment,
    Schedule,
)
from postdate.client.problems import (
    AccountExistsError,
    ConflictError,
    IdempotencyInFlightError,
    IdempotencyKeyReusedError,
    NotFoundError,
    OverloadedError,
    RateLimitedError,
    UnavailableError,
)

TIMEOUT_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.05
MAX_POLL_SECONDS: Final = 2.0
STREAM_WAIT_SECONDS: Final = 20.0
IN_FLIGHT_TRIES: Final = 50
IN_FLIGHT_SECONDS: Final = 0.1
ENDED: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
STUCK: Final = "UNKNOWN"
"""A job in doubt waits for a person, so that waiting for it has ended too."""

AWAY: Final = (UnreachableError, UnavailableError, OverloadedError, RateLimitedError)


class HasStatus(Protocol):
    """Something that ends."""

    @property
    def status(self) -> str:
        """Return where it stands."""


E = TypeVar("E", bound=HasStatus)
C = TypeVar("C")


class Jobs(jobs.Jobs[K]):
    """What the API offers about jobs, and to wait for one."""

    @both
    async def wait(
        self: "Jobs[Async]",
        job_id: UUID | str,
        *,
        timeout: float | timedelta = TIMEOUT_SECONDS,
    ) -> Job:
        """Wait until a job has ended, or is in doubt, and return it."""
        return await _ended(lambda: self.get(job_id), f"job {job_id}", encoding.seconds(timeout))


class Payments(payments.Payments[K]):
    """What the API offers about payments, and to wait for one."""

    @both
    async def wait(
        self: "Payments[Async]",
        payment_id: UUID | str,
        *,
        timeout: float | timedelta = TIMEOUT_SECONDS,
    ) -> Payment:
        """Wait until a payment has ended and return it."""
        name = f"payment {payment_id}"
        return await _ended(lambda: self.get(payment_id), name, encoding.seconds(timeout))


class Accounts(accounts.Accounts[K]):
    """What the API offers about accounts, and to make sure that one exists."""

    @both
    async def ensure(self: "Accounts[Async]", /, account_id: str, **terms: Any) -> Ensured[Account]:
        """Create an account unless it exists; say which of the given terms differ."""
        try:
            return compared(await self.get(account_id), terms)
        except NotFoundError:
            pass
        try:
            made = await self.create(account_id=account_id, **terms)
        except AccountExistsError:
            # Another program was quicker.
            return compared(await self.get(account_id), terms)
        return Ensured(item=made, created=True)


class Destinations(destinations.Destinations[K]):
    """What the API offers about destinations, and to make sure that one exists."""

    @both
    async def ensure(
        self: "Destinations[Async]", /, name: str, **given: Any
    ) -> Ensured[Destination | CreatedDestination]:
        """Create a destination unless it exists; say which of the given fields differ.

        Secrets and queue settings are not shown, so they are not compared.
        """
        try:
            return compared(await self.get(name), given)
        except NotFoundError:
            pass
        try:
            made = await self.create(name=name, **given)
        except ConflictError:
            return compared(await self.get(name), given)
        return Ensured(item=made, created=True)


class Lanes(lanes.Lanes[K]):
    """What the API offers about lanes, and to make sure that one exists."""

    @both
    async def ensure(self: "Lanes[Async]", /, lane: str, **limits: Any) -> Ensured[Lane]:
        """Create a lane unless it exists; say which of the given limits differ."""
        try:
            return compared(await self.get(lane), limits)
        except NotFoundError:
            pass
        try:
            made = await self.create(lane=lane, **limits)
        except ConflictError:
            # Another program was quicker, or the lane's first job.
            return compared(await self.get(lane), limits)
        return Ensured(item=made, created=True)


class Schedules(schedules.Schedules[K]):
    """What the API offers about schedules, and to make sure that one of a name exists."""

    @both
    async def ensure(self: "Schedules[Async]", /, name: str, **given: Any) -> Ensured[Schedule]:
        """Create a schedule unless one of this name exists; say which of the fields differ."""
        found = (await self.list_page(name=name, limit=1)).schedules
        if found:
            return compared(found[0], given)
        # Programs that start together ask with one key, and one schedule is made. A name may have
        # any character, a key only printable ASCII.
        key = f"ensure/{sha256(name.encode()).hexdigest()}"
        try:
            made: Schedule = await _first(
                lambda: self.create(name=name, **given, idempotency_key=key)
            )
            made = await self.get(made.schedule_id)
        except (NotFoundError, IdempotencyKeyReusedError):
            # The key is that of a schedule that was deleted since, or of another rule.
            again = (await self.list_page(name=name, limit=1)).schedules
            if again:
                return compared(again[0], given)
            made = await self.create(name=name, **given)
        return Ensured(item=made, created=True)


async def _first(create: Callable[[], Awaitable[C]]) -> C:
    """Ask again while another program's request with the same key is being answered."""
    for _ in range(IN_FLIGHT_TRIES):
        try:
            return await create()
        except IdempotencyInFlightError:
            await asyncio.sleep(IN_FLIGHT_SECONDS)
    return await create()


class Events(events.Events[K]):
    """What the API offers about events, and to follow them."""

    def stream(
        self,
        *,
        after: str | None = None,
        types: str | None = None,
        subject: UUID | str | None = None,
    ) -> "EventStream[K]":
        """Follow events as they happen, forever; it reconnects after the server was unavailable."""
        return EventStream(self, after, types, subject)


class EventStream(Generic[K]):
    """Events in order. Keep `cursor` to resume later: the events of its page may come again."""

    def __init__(
        self,
        events: Events[K],
        after: str | None,
        types: str | None,
        subject: UUID | str | None,
    ) -> None:
        self.cursor = after
        self._caller = events.caller
        self._events: Events[Async] = events.awaited()
        self._types = types
        self._subject = subject

    def __aiter__(self: "EventStream[Async]") -> AsyncIterator[Event]:
        found: AsyncIterator[Event] = self._caller.iterate(self._pages())
        return found

    def __iter__(self: "EventStream[Sync]") -> Iterator[Event]:
        found: Iterator[Event] = self._caller.iterate(self._pages())
        return found

    async def _pages(self) -> AsyncIterator[list[Event]]:
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
            yield page.events
            self.cursor = page.next_cursor


async def _ended(look: Callable[[], Awaitable[E]], name: str, seconds: float) -> E:
    deadline, pause = time.monotonic() + seconds, POLL_SECONDS
    while True:
        found = await look()
        if _over(found):
            return found
        await asyncio.sleep(_left(deadline, pause, found, name, seconds))
        pause = min(pause * 1.5, MAX_POLL_SECONDS)


def _over(found: HasStatus) -> bool:
    return found.status in ENDED or found.status == STUCK


def _left(deadline: float, pause: float, found: HasStatus, name: str, seconds: float) -> float:
    """Return how long to wait before looking again; raise after the deadline."""
    left = deadline - time.monotonic()
    if left <= 0:
        message = f"{name} is still {found.status} after {seconds:g} s"
        raise WaitTimeoutError(message, str(found.status))
    return min(pause, left)


def _rest(away: int) -> float:
    return min(0.2 * 2.0**away, 5.0)
