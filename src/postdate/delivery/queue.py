"""The queue handler: find the destination, publish through its broker, return the outcome."""

import asyncio
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
from postdate.delivery.guard import LookupBusyError, TargetRefusedError, without_peers
from postdate.delivery.handler import (
    LOOK_AGAIN_SECONDS,
    DestinationHandler,
    OutgoingCall,
    body_of,
    headers_of,
    refused,
)
from postdate.delivery.threads import ThreadsBusyError
from postdate.delivery.verdict import DeliveryVerdict
from postdate.destination.spec.destination import Destination, DestinationType, Resolve
from postdate.job.spec.outcome import Completed, Delivery, Failed, Outcome, Throttled, Unknown

MAX_OPEN_SECONDS: Final = 4.0
"""How long a broker is left alone at most: one message finds out whether it is back, and whatever
waits for it must not wait for long once it is."""


class QueueCall(OutgoingCall, frozen=True, kw_only=True):
    """Which queue a delivery is put on."""

    destination: Destination


class QueueHandler(DestinationHandler[QueueCall]):
    """Delivers jobs whose destination is a named queue."""

    def __init__(self, resolve: Resolve, connections: BrokerConnections) -> None:
        super().__init__(resolve, Breakers(MAX_OPEN_SECONDS))
        self._connections = connections

    def _call_of(
        self,
        delivery: Delivery,  # noqa: ARG002 - the destination says it all
        found: Destination,
    ) -> QueueCall | Outcome:
        if found.type is not DestinationType.QUEUE:
            return refused("destination_mismatch", f"{found.name} is not a queue")
        if found.kind is not None and found.kind not in self._connections.kinds:
            # Its library is an extra, which another node may have.
            reason = f"this node cannot speak {found.kind}"
            return Throttled(seconds=LOOK_AGAIN_SECONDS, reason=reason, elsewhere=True)
        return QueueCall(destination=found, breaker=(found.tenant_id, found.name or ""))

    async def _send(self, delivery: Delivery, call: QueueCall) -> DeliveryVerdict:
        """Publish; the job is complete only when the broker has confirmed."""
        outcome = await self._publish(delivery, call.destination)
        return DeliveryVerdict(outcome, _health(outcome))

    async def _publish(self, delivery: Delivery, found: Destination) -> Outcome:
        subject = str(
            delivery.destination.get("subject") or (found.config or {}).get("subject", "")
        )
        if not subject:
            return refused("subject_missing", "neither the job nor its destination has a subject")
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


def _judge(error: Exception) -> Outcome:
    match error:
        case RejectedError(code=code):
            return Failed(code=code, error=str(error), retryable=code == "credentials_refused")
        case TargetRefusedError():
            return refused("target_refused", str(error))
        case LookupBusyError() | ThreadsBusyError():
            return Throttled(seconds=LOOK_AGAIN_SECONDS, reason=str(error))
        case NotSentError():
            return Failed(code="broker_unavailable", error=without_peers(str(error)))
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
