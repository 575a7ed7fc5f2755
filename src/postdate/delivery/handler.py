"""An attempt at a destination: find it, ask its breaker, send, and record how it went."""

import random
import time
from abc import ABC, abstractmethod
from typing import Final, Generic, TypeVar

import msgspec

from postdate.core.instant import instant_text
from postdate.delivery.breaker import Breakers, Health
from postdate.delivery.verdict import DeliveryVerdict
from postdate.destination.spec.destination import Destination, Missing, Resolve, Unavailable
from postdate.destination.spec.trouble import DestinationKey
from postdate.job.spec.outcome import Delivery, Failed, Outcome, Throttled, Unknown

LOOK_AGAIN_SECONDS: Final = 2.0
MAX_PAUSE_SECONDS: Final = 30.0
"""How long after a pause ends its jobs may still wait."""

ANSWERED: Final = "ok"
ANSWER_CHARACTERS: Final = 200


class OutgoingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery whose destination was found, and whose breaker decides whether it may go."""

    breaker: DestinationKey


C = TypeVar("C", bound=OutgoingCall)


class DestinationHandler(ABC, Generic[C]):
    """Delivers jobs to destinations of one type."""

    def __init__(self, resolve: Resolve, breakers: Breakers) -> None:
        self._resolve = resolve
        self.breakers = breakers

    async def deliver(self, delivery: Delivery) -> Outcome:
        """Run one attempt; everything that can be foreseen comes back as an outcome."""
        call = await self._find(delivery)
        if not isinstance(call, OutgoingCall):
            return call
        now = time.monotonic()
        if wait := self.breakers.admit(call.breaker, now):
            # Jobs that wait together should not come back together.
            return Throttled(seconds=wait + random.uniform(0.0, 0.5), reason="breaker_open")
        verdict: DeliveryVerdict | None = None
        try:
            verdict = await self._send(delivery, call)
        finally:
            self._record(call, now, verdict)
        await self._finish(delivery, verdict)
        return verdict.outcome

    async def attempt(self, delivery: Delivery) -> Outcome:
        """Run one attempt whatever breaker and pause say: a person asked. Success closes it."""
        call = await self._find(delivery, paused_too=True)
        if not isinstance(call, OutgoingCall):
            return call
        verdict = await self._send(delivery, call)
        if verdict.health is Health.UP:
            self.breakers.forget(call.breaker)
        await self._finish(delivery, verdict)
        return verdict.outcome

    async def _find(self, delivery: Delivery, *, paused_too: bool = False) -> C | Outcome:
        name = delivery.destination.get("name")
        match found := await self._resolve(delivery.tenant_id, name):
            case Missing():
                return refused("destination_missing", f"there is no destination {name}")
            case Unavailable(reason, elsewhere):
                return Throttled(seconds=LOOK_AGAIN_SECONDS, reason=reason, elsewhere=elsewhere)
            case Destination(disabled=str(why)):
                return refused("destination_disabled", f"{found.name} is disabled: {why}")
            case Destination(paused=str(), paused_seconds=seconds) if not paused_too:
                return Throttled(seconds=pause_seconds(seconds), reason="destination_paused")
            case Destination():
                return self._call_of(delivery, found)

    def _record(self, call: C, admitted_at: float, verdict: DeliveryVerdict | None) -> None:
        now = time.monotonic()
        if verdict is None:
            self.breakers.record(call.breaker, admitted_at, now, Health.SILENT)
        else:
            self.breakers.record(
                call.breaker,
                admitted_at,
                now,
                verdict.health,
                verdict.busy_seconds,
                _answer_of(verdict.outcome),
                failed=isinstance(verdict.outcome, Failed | Unknown),
            )

    @abstractmethod
    def _call_of(self, delivery: Delivery, found: Destination) -> C | Outcome:
        """Return the call to a destination that is enabled, or why there is none."""

    @abstractmethod
    async def _send(self, delivery: Delivery, call: C) -> DeliveryVerdict:
        """Send a delivery and judge what came back."""

    async def _finish(self, delivery: Delivery, verdict: DeliveryVerdict) -> None:
        """Do what an answer asks for beside the job."""


def _answer_of(outcome: Outcome) -> str:
    """Return in a few words what came back, for the page of the destination."""
    match outcome:
        case Failed(code=code, error=error) | Unknown(code=code, error=error):
            return f"{code}: {error}"[:ANSWER_CHARACTERS]
        case _:
            return ANSWERED


def pause_seconds(paused_seconds: float) -> float:
    """Return when to ask a paused destination again: a long pause costs few questions."""
    wait = LOOK_AGAIN_SECONDS + paused_seconds / 10
    # Jobs that wait together should not come back together.
    return min(MAX_PAUSE_SECONDS, wait) * random.uniform(0.75, 1.0)


def refused(code: str, error: str) -> Failed:
    """Return the outcome of an attempt that no repetition helps."""
    return Failed(code=code, error=error, retryable=False)


def body_of(delivery: Delivery) -> bytes:
    """Return what is sent: the payload, or where to find it."""
    if delivery.payload_ref is not None:
        return msgspec.json.encode({"payload_ref": delivery.payload_ref})
    return delivery.payload or b""


def headers_of(delivery: Delivery) -> dict[str, str]:
    """Return what is delivered; the id is that of the job, the same over all attempts."""
    found = {
        "content-type": _content_type(delivery),
        "webhook-id": str(delivery.job_id),
        "postdate-attempt": str(delivery.attempt),
        "postdate-token": str(delivery.token),
    }
    if delivery.traceparent is not None and _clean(delivery.traceparent):
        found["traceparent"] = delivery.traceparent
    if delivery.origin_id is not None:
        found["postdate-origin"] = str(delivery.origin_id)
    if delivery.schedule_id is not None and delivery.scheduled_for is not None:
        nominal = instant_text(delivery.scheduled_for)
        found["idempotency-key"] = f"{delivery.schedule_id}/{nominal}"
    return found


def _content_type(delivery: Delivery) -> str:
    given = delivery.content_type
    if delivery.payload_ref is not None or given is None:
        return "application/json"
    # It came from outside: what cannot stand in a header is not repeated in one.
    return given if _clean(given) else "application/octet-stream"


def _clean(text: str) -> bool:
    return text.isascii() and text.isprintable()
