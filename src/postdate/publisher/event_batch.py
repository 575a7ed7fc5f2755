"""Deliver one batch of a subscription's events: in order per subject, many subjects at once."""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never
from uuid import UUID

import msgspec

from postdate.event.spec.event import MEDIA_TYPE, Sealed, envelope
from postdate.job.spec.outcome import (
    Completed,
    Delivery,
    Failed,
    JobHandler,
    Outcome,
    Running,
    Throttled,
    Unknown,
)
from postdate.subscription.store import LeasedSubscription

BATCH_SECONDS: Final = 5.0
"""After this no further delivery of a batch begins, so that the lease outlives the batch."""

LANE: Final = "events"
GONE: Final = 410
TYPE: Final = "{type}"
"""Stands in a queue's subject for the type of the event."""


class DeliveryStop(msgspec.Struct, frozen=True, kw_only=True):
    """What ended a batch early: until a person intervenes, or for some seconds."""

    error: str
    for_good: bool = False
    counts: bool = True
    seconds: float = 0.0


class EventBatch:
    """The events of one page, on their way to one destination."""

    def __init__(
        self,
        held: LeasedSubscription,
        token: int,
        handler: JobHandler,
        timeout: float,
        parents: Mapping[UUID, str],
    ) -> None:
        self._held = held
        self._parents = parents
        self._token = token
        self._handler = handler
        self._timeout = timeout
        self._done: set[int] = set()
        self._first: tuple[int, DeliveryStop] | None = None
        self._until = time.monotonic() + BATCH_SECONDS

    async def run(self, events: Sequence[Sealed], width: int) -> DeliveryStop | None:
        """Deliver until everything is sent or something fails; return the first failure."""
        waiting = deque(_by_subject(events).values())
        async with asyncio.TaskGroup() as group:
            for _ in range(min(width, len(waiting))):
                group.create_task(self._take(waiting))
        return self._first[1] if self._first else None

    def delivered_position(self, events: Sequence[Sealed], end: int) -> int:
        """Return the position up to which everything is delivered; `end` if all of it is."""
        left = next((event for event in events if event.position not in self._done), None)
        return end if left is None else left.position - 1

    @property
    def delivered(self) -> int:
        """Return how many were delivered."""
        return len(self._done)

    async def _take(self, waiting: deque[list[Sealed]]) -> None:
        while waiting:
            for event in waiting.popleft():
                if self._first is not None or time.monotonic() >= self._until:
                    return
                stop = judge(await self._deliver(event))
                if stop is not None:
                    self._stop_at(event, stop)
                    return
                self._done.add(event.position)

    def _stop_at(self, event: Sealed, stop: DeliveryStop) -> None:
        if self._first is None or event.position < self._first[0]:
            error = f"event {event.event_id}: {stop.error}"
            self._first = event.position, msgspec.structs.replace(stop, error=error)

    async def _deliver(self, event: Sealed) -> Outcome:
        delivery = Delivery(
            job_id=event.event_id,
            token=self._token,
            attempt=self._held.failures + 1,
            tenant_id=self._held.tenant_id,
            lane=LANE,
            destination=_destination(self._held.destination, event),
            due_at=event.time,
            timeout_seconds=self._timeout,
            payload=msgspec.json.encode(envelope(event, self._held.tenant)),
            content_type=MEDIA_TYPE,
            order_key=str(event.subject),
            traceparent=self._parents.get(event.subject),
        )
        try:
            return await self._handler(delivery)
        except Exception as error:  # noqa: BLE001 - a handler that breaks is an outcome in doubt
            return Unknown(code="handler_failed", error=f"{type(error).__name__}: {error}")


def _by_subject(events: Sequence[Sealed]) -> Mapping[UUID, list[Sealed]]:
    found = defaultdict(list)
    for event in events:
        found[event.subject].append(event)
    return found


def _destination(destination: Mapping[str, Any], event: Sealed) -> Mapping[str, Any]:
    """Fill the event's type into a queue's subject, so that consumers can choose by it."""
    subject = destination.get("subject")
    if not subject or TYPE not in subject:
        return destination
    return {**destination, "subject": subject.replace(TYPE, event.type)}


def judge(outcome: Outcome) -> DeliveryStop | None:
    """Return what an outcome means for the subscription; None when the event has arrived.

    A receiver that refuses an event may be repaired, so the event is retried. What cannot change by
    itself, for example a deleted destination, waits for a person.
    """
    match outcome:
        case Completed() | Running():
            return None
        case Throttled(seconds=seconds, reason=reason):
            return DeliveryStop(error=reason, counts=False, seconds=seconds)
        case Unknown(code=code, error=error):
            return DeliveryStop(error=f"{code}: {error}")
        case Failed(code=code, error=error):
            refused = outcome.http_status not in {None, GONE}
            return DeliveryStop(
                error=f"{code}: {error}",
                for_good=not outcome.retryable and not refused,
                seconds=outcome.retry_after_seconds or 0.0,
            )
        case other:
            assert_never(other)
