"""What a server answers while its database is not there yet: that it lives, and why it waits."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec
from starlette.types import Receive, Scope, Send

from postdate.api.health import ALIVE, BOTH, NotReady, judge
from postdate.http import head
from postdate.http.active_request import ActiveRequests
from postdate.http.answer import JSON, OutgoingAnswer, from_refusal, send_answer
from postdate.words.error import Code, Refusal

RETRY_SECONDS: Final = 2
_CLOSE: Final = (b"connection", b"close")
_REFUSAL: Final = Refusal(
    Code.UNAVAILABLE,
    "The server starts: its database is not ready yet.",
    extra={"retry_after_seconds": RETRY_SECONDS},
)


class WaitingApp:
    """Answers `/healthz` and `/readyz`, and refuses every other request with 503."""

    def __init__(self, reason: Callable[[], str]) -> None:
        self._reason = reason
        self.draining = asyncio.Event()
        self.active = ActiveRequests()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        serving = cast("asyncio.Task[Any]", asyncio.current_task())
        self.active.add(serving)
        request_id = head.request_id(dict(scope["headers"]))
        try:
            answer = self._answer(scope["path"], request_id)
            # The server that has started answers on connections of its own.
            closing = answer._replace(headers=[*answer.headers, _CLOSE])
            await send_answer(send, receive, closing, request_id)
        finally:
            self.active.discard(serving)

    def _answer(self, path: str, request_id: str) -> OutgoingAnswer:
        if path == "/healthz":
            return OutgoingAnswer(200, [JSON], ALIVE)
        if path == "/readyz":
            answer = judge([NotReady("database", self._reason(), [*BOTH])], [])
            return OutgoingAnswer(503, [JSON], msgspec.json.encode(answer))
        return from_refusal(_REFUSAL, request_id)
