"""The queue handler: find the destination, publish by its broker's connection, judge."""

import asyncio
import random
import time
from typing import Final

from postdate.delivery.breaker import Breakers, Health
from postdate.delivery.broker import (
    DeliveryInDoubtError,
    Message,
    NotSentError,
    QueueBroker,
    RejectedError,
)
from postdate.delivery.broker_connections import OPEN_ERRORS, BrokerConnections
from postdate.delivery.guard import LookupBusyError, TargetRefusedError
from postdate.delivery.threads import ThreadsBusyError
from postdate.delivery.webhook import answer_of, body_of, headers_of
from postdate.model.destination.destination import (
    Destination,
    DestinationType,
    Missing,
    Resolve,
    Unavailable,
)
from postdate.model.destination.trouble import DestinationKey
from postdate.model.job.outcome import Completed, Delivery, Failed, Outcome, Throttled, Unknown

LOOK_AGAIN_SECONDS: Final = 2.0
MAX_OPEN_SECONDS: Final = 4.0
"""How long a broker is left alone at most: one message finds out whether it is back, and whatever
waits for it must not wait for long once it is."""


class QueueHandler:
    """Delivers jobs whose destination is a named queue."""

    def __init__(
        self, resolve: Resolve, connections: BrokerConnections, breakers: Breakers | None = None
    ) -> None:
        self._resolve = resolve
        self._connections = connections
        self.breakers = breakers or Breakers(MAX_OPEN_SECONDS)

    async def deliver(self, delivery: Delivery) -> Outcome:
        """Run one attempt; the job is complete only when the broker has confirmed."""
        found = await self._find(delivery)
        if not isinstance(found, Destination):
            return found
        key = _key(found)
        now = time.monotonic()
        if wait := self.breakers.admit(key, now):
            return Throttled(seconds=wait + random.uniform(0.0, 0.5), reason="breaker_open")
        health, answer = Health.SILENT, ""
        try:
            outcome = await self._publish(delivery, found)
            health, answer = _health(outcome), answer_of(outcome)
        finally:
            self.breakers.record(key, now, time.monotonic(), health, answer=answer)
        return outcome

    async def attempt(self, delivery: Delivery) -> Outcome:
        """Run one attempt whatever the breaker says: somebody wants to know. Success closes it."""
        found = await self._find(delivery)
        if not isinstance(found, Destination):
            return found
        outcome = await self._publish(delivery, found)
        if _health(outcome) is Health.UP:
            self.breakers.forget(_key(found))
        return outcome

    async def _find(self, delivery: Delivery) -> Destination | Outcome:
        name = delivery.destination.get("name")
        match found := await self._resolve(delivery.tenant_id, name):
            case Missing():
                return _refused("destination_missing", f"there is no destination {name}")
            case Unavailable(reason, elsewhere):
                return Throttled(seconds=LOOK_AGAIN_SECONDS, reason=reason, elsewhere=elsewhere)
            case Destination(disabled=str(why)):
                return _refused("destination_disabled", f"{name} is disabled: {why}")
            case Destination(type=DestinationType.QUEUE, kind=str(kind)) if (
                kind not in self._connections.kinds
            ):
                # Its library is an extra, which another node may have.
                reason = f"this node cannot speak {kind}"
                return Throttled(seconds=LOOK_AGAIN_SECONDS, reason=reason, elsewhere=True)
            case Destination(type=DestinationType.QUEUE):
                return found
            case Destination():
                return _refused("destination_mismatch", f"{name} is not a queue")

    async def _publish(self, delivery: Delivery, found: Destination) -> Outcome:
        subject = str(
            delivery.destination.get("subject") or (found.config or {}).get("subject", "")
        )
        if not subject:
            return _refused("subject_missing", "neither the job nor its destination has a subject")
        name = str(delivery.job_id)
        key = delivery.order_key or name
        message = Message(name, subject, body_of(delivery), headers_of(delivery), key)
        broker: QueueBroker | None = None
        began = time.monotonic()
        try:
            async with asyncio.timeout(delivery.timeout_seconds):
                broker = await self._connections.open(found)
                await broker.publish(message, delivery.timeout_seconds)
        except (*OPEN_ERRORS, DeliveryInDoubtError) as error:
            outcome = _judge(error)
        except TimeoutError:
            outcome = _timed_out(broker, delivery.timeout_seconds)
        else:
            self._connections.confirm(found)
            return Completed()
        if isinstance(outcome, Unknown):
            await self._connections.give_up(found, began)
        return outcome


def _key(found: Destination) -> DestinationKey:
    return (found.tenant_id, found.name or "")


def _judge(error: Exception) -> Outcome:
    match error:
        case RejectedError(code=code):
            return Failed(code=code, error=str(error), retryable=code == "credentials_refused")
        case TargetRefusedError():
            return _refused("target_refused", str(error))
        case LookupBusyError() | ThreadsBusyError():
            return Throttled(seconds=LOOK_AGAIN_SECONDS, reason=str(error))
        case NotSentError():
            return Failed(code="broker_unavailable", error=str(error))
        case _:
            return Unknown(code="unconfirmed", error=str(error))


def _timed_out(broker: QueueBroker | None, seconds: float) -> Outcome:
    if broker is None:
        return Failed(code="broker_unavailable", error=f"no connection within {seconds:g} s")
    return Unknown(code="unconfirmed", error="no confirmation came in time")


def _health(outcome: Outcome) -> Health:
    match outcome:
        case Completed():
            return Health.UP
        case Failed(retryable=True) | Unknown():
            return Health.DOWN
        case _:
            return Health.SILENT


def _refused(code: str, error: str) -> Failed:
    return Failed(code=code, error=error, retryable=False)
