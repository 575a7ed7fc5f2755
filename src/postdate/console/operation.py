"""Operations of the API, carried out for who is signed in exactly as the API would do it."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from postdate.api.endpoints import ENDPOINTS
from postdate.console.page_request import PageRequest
from postdate.http import request_reader
from postdate.http.endpoint import AnyEndpoint, Call, Reply
from postdate.http.limit import RequestLimits
from postdate.words.error import Code, refuse

BodyFields = Mapping[str, Any]
"""The JSON body of a request."""
Answer = dict[str, Any]
ENDPOINT_BY_NAME: Final = {endpoint.handler.__name__: endpoint for endpoint in ENDPOINTS}
_FIRST_REFUSAL: Final = 400


def decode_body(endpoint: AnyEndpoint, body: BodyFields | None) -> Any:
    """Decode a body as the API does, and refuse what the API refuses."""
    raw = b"" if body is None else msgspec.json.encode(body)
    decoder = msgspec.json.Decoder(endpoint.body)
    return request_reader.decode(raw, decoder, RequestLimits().json_depth)


def check_halt(request: PageRequest, endpoint: AnyEndpoint) -> None:
    """Refuse what the operation refuses while the tenant is halted."""
    if endpoint.method != "GET" and endpoint.halted != "served":
        request.gate.check_halt(request.actor, new_work=endpoint.halted == "new work")


async def call_endpoint(
    request: PageRequest,
    endpoint: AnyEndpoint,
    body: BodyFields | None = None,
    *,
    path: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Answer:
    """Carry out an operation as the API does, for who is signed in, and return its answer."""
    request.require(endpoint.scope, endpoint.limited)
    check_halt(request, endpoint)
    answer = await endpoint.handler(
        Call(
            services=request.services,
            caller=request.actor,
            path=request.http.path_params if path is None else path,
            query=None,
            body=None if endpoint.body is None else decode_body(endpoint, body),
            idempotency_key=idempotency_key if endpoint.idempotency else None,
            request_id=request.http.scope["request_id"],
            traceparent=None,
            draining=request.http.scope["draining"],
            receive=request.http.receive,
            headers={},
            hold_open=lambda: None,
        )
    )
    return _answered(answer)


def _answered(answer: Reply | msgspec.Struct) -> Answer:
    """Return the body of an answer; a remembered refusal is raised as if it were the first."""
    body = answer.body if isinstance(answer, Reply) else answer
    if isinstance(body, msgspec.Struct):
        body = msgspec.json.encode(body)
    if not isinstance(body, bytes):
        return {}
    found: Answer = msgspec.json.decode(body)
    if isinstance(answer, Reply) and (answer.status or 200) >= _FIRST_REFUSAL:
        raise refuse(Code(found["code"]), found["detail"], found.get("field"))
    return found
