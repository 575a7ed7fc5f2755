"""Create the ASGI app from the endpoints and what they need."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute

from postdate.api.document import document_routes
from postdate.api.health import OverdueNow, Readiness, health_routes
from postdate.http import openapi
from postdate.http.answer import from_refusal
from postdate.http.endpoint import AnyEndpoint, Endpoint
from postdate.http.gate import Gate
from postdate.http.limit import RequestLimits
from postdate.http.meter import HttpMeter
from postdate.http.shell import Shell
from postdate.words.error import EXPLANATIONS, Code, Refusal, RefusedError

S = TypeVar("S")

_CODES: Final = {
    401: Code.UNAUTHENTICATED,
    403: Code.FORBIDDEN,
    404: Code.NOT_FOUND,
    405: Code.METHOD_NOT_ALLOWED,
}


def create_app(  # noqa: PLR0913 - every part is injected here, by name
    *,
    endpoints: Sequence[Endpoint[S, Any, Any]],
    services: S,
    gate: Gate,
    readiness: Readiness,
    registry: CollectorRegistry,
    extra_routes: Sequence[BaseRoute] = (),
    limits: RequestLimits | None = None,
    overdue: OverdueNow = list,
) -> Shell:
    """Make the ASGI app. Setting its `draining` event turns `/readyz` false and ends long polls."""
    _check(endpoints)
    draining = asyncio.Event()
    routes = [
        *health_routes(readiness, registry, draining, overdue),
        *document_routes(partial(openapi.document, endpoints, version("postdate"))),
        *extra_routes,
    ]
    return Shell(
        endpoints=endpoints,
        services=services,
        gate=gate,
        meter=HttpMeter(registry),
        limits=limits or RequestLimits(),
        draining=draining,
        pages=_pages(routes),
    )


def _check(endpoints: Sequence[AnyEndpoint]) -> None:
    if names := openapi.open_shapes(endpoints):
        raise TypeError(f"request shapes must derive from Body or Query: {', '.join(names)}")


def _pages(routes: Sequence[BaseRoute]) -> Starlette:
    return Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: _http_error,
            RefusedError: _refused,
            Exception: _failed,
        },
    )


async def _http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    code = _CODES.get(error.status_code)
    if code is None:
        return PlainTextResponse(error.detail, error.status_code, error.headers)
    refusal = Refusal(code=code, detail=f"{EXPLANATIONS[code].title}.")
    return _problem(request, refusal, error.headers)


async def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, RefusedError):
        raise error
    return _problem(request, error.refusal)


async def _failed(request: Request, _: Exception) -> Response:
    refusal = Refusal(code=Code.INTERNAL, detail="The page could not be answered.")
    return _problem(request, refusal)


def _problem(
    request: Request, refusal: Refusal, headers: Mapping[str, str] | None = None
) -> Response:
    answer = from_refusal(refusal, request.scope["request_id"])
    response = Response(answer.body, answer.status, headers)
    for name, value in answer.headers:
        response.headers[name.decode()] = value.decode()
    return response
