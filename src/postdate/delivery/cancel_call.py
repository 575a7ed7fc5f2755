"""The call to a cancel URL: guarded, signed and bounded like any other of a job."""

import time
from typing import Final

import msgspec

from postdate.core.instant import instant_text
from postdate.core.log import Log
from postdate.delivery.http_exchange import HttpExchange, NotSent, ReceiverAnswer
from postdate.delivery.verdict import TOO_MANY
from postdate.delivery.webhook import AGENT
from postdate.destination.spec.destination import Destination, Missing, Resolve, Unavailable
from postdate.destination.spec.target import Malformed, Target, parse
from postdate.job.spec.cancel_call import CancelCall
from postdate.job.spec.job import Webhook
from postdate.words.signature import sign

log = Log()

SERVER_ERROR: Final = 500

CALL_SECONDS: Final = 10.0
"""How long a receiver has to answer."""


class CancelCalls:
    """Tells receivers of running jobs that these are to be cancelled."""

    def __init__(self, exchange: HttpExchange, resolve: Resolve) -> None:
        self._exchange = exchange
        self._resolve = resolve

    async def notify(self, call: CancelCall, destination: Webhook) -> bool:
        """Call a cancel URL; return whether the receiver has heard it, or never will."""
        target = parse(destination.cancel_url or "")
        if isinstance(target, Malformed):
            return True
        match found := await self._resolve(call.tenant_id, destination.name):
            case Missing() | Destination(disabled=str()):
                return True
            case Unavailable():
                return False
            case Destination():
                return await self._send(call, target, found.secrets)

    async def _send(self, call: CancelCall, target: Target, keys: tuple[bytes, ...]) -> bool:
        data = {"job_id": call.job_id, "cancel_deadline": instant_text(call.cancel_deadline)}
        body = msgspec.json.encode({"type": "job.cancel_requested", "data": data})
        message, now = f"{call.job_id}-cancel", int(time.time())
        headers = {
            "content-type": "application/json",
            "user-agent": AGENT,
            "webhook-id": message,
            "webhook-timestamp": str(now),
            "webhook-signature": sign(keys, message, now, body),
        }
        result = await self._exchange.post(
            call.tenant_id, target, headers, body, timeout_seconds=CALL_SECONDS
        )
        match result:
            case ReceiverAnswer(status=status) if status < SERVER_ERROR and status != TOO_MANY:
                return True
            case NotSent(final=True):
                log.warning("job.cancel_not_told", job_id=str(call.job_id), error=result.error)
                return True
            case _:
                return False
