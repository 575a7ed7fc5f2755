"""The webhook handler: look the destination up, sign, call, judge."""

import random
import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

import msgspec

from postdate.delivery.breaker import Breakers, Health
from postdate.delivery.http_exchange import HttpExchange
from postdate.delivery.verdict import GONE, DeliveryVerdict, judge
from postdate.model.destination.destination import (
    Destination,
    DestinationType,
    Disable,
    Missing,
    Resolve,
    Unavailable,
)
from postdate.model.destination.signature import sign
from postdate.model.destination.target import Malformed, Target, parse
from postdate.model.destination.trouble import DestinationKey, url_trouble_name
from postdate.model.instant import instant_text
from postdate.model.job.outcome import Delivery, Failed, Outcome, Throttled, Unknown
from postdate.model.log import Log
from postdate.model.setting.setting import Settings

log = Log()

AGENT: Final = f"Postdate/{version('postdate')}"
LOOK_AGAIN_SECONDS: Final = 2.0
ANSWERED: Final = "ok"
ANSWER_CHARACTERS: Final = 200


class WebhookCall(msgspec.Struct, frozen=True):
    """Where a delivery goes and with which keys it is signed."""

    target: Target
    keys: tuple[bytes, ...]
    breaker: DestinationKey


class WebhookHandler:
    """Delivers jobs whose destination is a URL, named or bare."""

    def __init__(
        self,
        exchange: HttpExchange,
        resolve: Resolve,
        disable: Disable,
        settings: Settings,
        breakers: Breakers | None = None,
    ) -> None:
        self._exchange = exchange
        self._resolve = resolve
        self._disable = disable
        self._settings = settings
        self.breakers = breakers or Breakers()

    async def deliver(self, delivery: Delivery) -> Outcome:
        """Run one attempt; everything that can be foreseen comes back as an outcome."""
        call = await self._find(delivery)
        if not isinstance(call, WebhookCall):
            return call
        now = time.monotonic()
        if wait := self.breakers.admit(call.breaker, now):
            # Those who wait together should not come back together.
            return Throttled(seconds=wait + random.uniform(0.0, 0.5), reason="breaker_open")
        verdict: DeliveryVerdict | None = None
        try:
            verdict = await self._call(delivery, call)
        finally:
            self._record(call, now, verdict)
        await self._disable_if_gone(delivery, verdict)
        return verdict.outcome

    def _record(
        self, call: WebhookCall, admitted_at: float, verdict: DeliveryVerdict | None
    ) -> None:
        now = time.monotonic()
        if verdict is None:
            self.breakers.record(call.breaker, admitted_at, now, Health.SILENT)
        elif verdict.health is Health.UP:
            self.breakers.record(call.breaker, admitted_at, now, Health.UP, answer=ANSWERED)
        else:
            answer = answer_of(verdict.outcome)
            self.breakers.record(
                call.breaker, admitted_at, now, verdict.health, verdict.busy_seconds, answer
            )

    async def attempt(self, delivery: Delivery) -> Outcome:
        """Run one attempt whatever the breaker says: somebody wants to know. Success closes it."""
        call = await self._find(delivery)
        if not isinstance(call, WebhookCall):
            return call
        verdict = await self._call(delivery, call)
        if verdict.health is Health.UP:
            self.breakers.forget(call.breaker)
        await self._disable_if_gone(delivery, verdict)
        return verdict.outcome

    async def _find(self, delivery: Delivery) -> WebhookCall | Outcome:
        name = delivery.destination.get("name")
        match found := await self._resolve(delivery.tenant_id, name):
            case Missing():
                return _refused("destination_missing", f"there is no destination {name}")
            case Unavailable(reason, elsewhere):
                return Throttled(seconds=LOOK_AGAIN_SECONDS, reason=reason, elsewhere=elsewhere)
            case Destination():
                return _call_of(delivery, found)

    async def _call(self, delivery: Delivery, call: WebhookCall) -> DeliveryVerdict:
        body = body_of(delivery)
        result = await self._exchange.post(
            delivery.tenant_id,
            call.target,
            headers(delivery, call.keys, body, int(time.time())),
            body,
            timeout_seconds=delivery.timeout_seconds,
        )
        return judge(
            result,
            kept_bytes=self._settings.integer("webhook.response_bytes", delivery.tenant_id),
            ack_seconds=self._settings.number("webhook.ack_seconds", delivery.tenant_id),
        )

    async def _disable_if_gone(self, delivery: Delivery, verdict: DeliveryVerdict) -> None:
        """Disable a named destination that says it is gone for good."""
        name = delivery.destination.get("name")
        match verdict.outcome:
            case Failed(http_status=status) if status == GONE and name is not None:
                log.warning("destination.gone", tenant_id=delivery.tenant_id, destination=name)
                await self._disable(delivery.tenant_id, name, "it answered 410 Gone")
            case _:
                pass


def _call_of(delivery: Delivery, found: Destination) -> WebhookCall | Outcome:
    if found.disabled is not None:
        return _refused("destination_disabled", f"{found.name} is disabled: {found.disabled}")
    if found.type is not DestinationType.WEBHOOK:
        return _refused("destination_mismatch", f"{found.name} is not a webhook")
    target = parse(found.url or str(delivery.destination.get("url", "")))
    if isinstance(target, Malformed):
        return _refused("invalid_url", f"the URL {target.reason}")
    # A bare URL stands for itself: another path of its host may well work.
    destination = found.name if found.name is not None else url_trouble_name(target)
    return WebhookCall(target, found.secrets, (delivery.tenant_id, destination))


def answer_of(outcome: Outcome) -> str:
    """Return in a few words what came back, for whoever looks at a destination in trouble."""
    match outcome:
        case Failed(code=code, error=error) | Unknown(code=code, error=error):
            return f"{code}: {error}"[:ANSWER_CHARACTERS]
        case _:
            return ANSWERED


def _refused(code: str, error: str) -> Failed:
    return Failed(code=code, error=error, retryable=False)


def body_of(delivery: Delivery) -> bytes:
    """Return what is sent: the payload, or where to find it."""
    if delivery.payload_ref is not None:
        return msgspec.json.encode({"payload_ref": delivery.payload_ref})
    return delivery.payload or b""


def headers(
    delivery: Delivery, keys: tuple[bytes, ...], body: bytes, timestamp: int
) -> Mapping[str, str]:
    """Write the headers of a call, signed."""
    return {
        **headers_of(delivery),
        "user-agent": AGENT,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(keys, str(delivery.job_id), timestamp, body),
    }


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
