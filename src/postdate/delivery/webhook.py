"""The webhook handler: find the destination, sign, call, return the outcome."""

import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Final
from uuid import UUID

import msgspec

from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.delivery.breaker import Breakers
from postdate.delivery.handler import DestinationHandler, OutgoingCall, body_of, headers_of, refused
from postdate.delivery.http_exchange import HttpExchange
from postdate.delivery.verdict import GONE, DeliveryVerdict, judge
from postdate.destination.spec.destination import Destination, DestinationType, Disable, Resolve
from postdate.destination.spec.target import Malformed, Target, parse
from postdate.destination.spec.trouble import url_trouble_name
from postdate.job.spec.outcome import Completed, Delivery, Failed, Outcome, Unknown
from postdate.words.signature import sign

log = Log()

AGENT: Final = f"Postdate/{version('postdate')}"


Seal = Callable[[int, UUID, bytes], Awaitable[bytes]]
"""Encrypts what is kept of an answer to the call of a tenant's job, where that is wanted."""


async def as_it_is(_tenant_id: int, _job_id: UUID, answer: bytes) -> bytes:
    """Encrypt nothing."""
    return answer


class WebhookCall(OutgoingCall, frozen=True, kw_only=True):
    """Where a delivery goes and with which keys it is signed."""

    target: Target
    keys: tuple[bytes, ...]


class WebhookHandler(DestinationHandler[WebhookCall]):
    """Delivers jobs whose destination is a URL, named or bare."""

    def __init__(
        self,
        exchange: HttpExchange,
        resolve: Resolve,
        disable: Disable,
        settings: Settings,
        seal: Seal = as_it_is,
    ) -> None:
        super().__init__(resolve, Breakers())
        self._exchange = exchange
        self._disable = disable
        self._settings = settings
        self._seal = seal

    def _call_of(self, delivery: Delivery, found: Destination) -> WebhookCall | Outcome:
        if found.type is not DestinationType.WEBHOOK:
            return refused("destination_mismatch", f"{found.name} is not a webhook")
        target = parse(found.url or str(delivery.destination.get("url", "")))
        if isinstance(target, Malformed):
            return refused("invalid_url", f"the URL {target.reason}")
        # A bare URL stands for itself: another path of its host may well work.
        destination = found.name if found.name is not None else url_trouble_name(target)
        key = (delivery.tenant_id, destination)
        return WebhookCall(target=target, keys=found.secrets, breaker=key)

    async def _send(self, delivery: Delivery, call: WebhookCall) -> DeliveryVerdict:
        body = body_of(delivery)
        result = await self._exchange.post(
            delivery.tenant_id,
            call.target,
            headers(delivery, call.keys, body, int(time.time())),
            body,
            timeout_seconds=delivery.timeout_seconds,
        )
        verdict = judge(
            result,
            kept_bytes=self._settings.integer("webhook.response_bytes", delivery.tenant_id),
            ack_seconds=self._settings.number("webhook.ack_seconds", delivery.tenant_id),
            keep_answer=bool(delivery.destination.get("keep_answer")),
        )
        if self._settings.get("job.encryption", delivery.tenant_id) != "on":
            return verdict
        return verdict._replace(outcome=await self._sealed(delivery, verdict.outcome))

    async def _sealed(self, delivery: Delivery, outcome: Outcome) -> Outcome:
        """Encrypt what is kept of an answer, as payloads are: it may quote one."""
        if not isinstance(outcome, Completed | Failed | Unknown) or outcome.response is None:
            return outcome
        kept = await self._seal(delivery.tenant_id, delivery.job_id, outcome.response)
        return msgspec.structs.replace(outcome, response=kept)

    async def _finish(self, delivery: Delivery, verdict: DeliveryVerdict) -> None:
        """Disable a named destination that says it is gone for good."""
        name = delivery.destination.get("name")
        match verdict.outcome:
            case Failed(http_status=status) if status == GONE and name is not None:
                log.warning("destination.gone", tenant_id=delivery.tenant_id, destination=name)
                await self._disable(delivery.tenant_id, name, "it answered 410 Gone")
            case _:
                pass


def headers(
    delivery: Delivery, keys: tuple[bytes, ...], body: bytes, timestamp: int
) -> Mapping[str, str]:
    """Write the headers of a call, signed."""
    found = headers_of(delivery)
    found["user-agent"] = AGENT
    found["webhook-timestamp"] = str(timestamp)
    found["webhook-signature"] = sign(keys, found["webhook-id"], timestamp, body)
    return found
