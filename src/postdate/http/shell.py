"""The one ASGI entry: route, authenticate, limit, decode, call, answer, count, log."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, Final, cast

import msgspec
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as ConnectionScope

from postdate.core import origin, test_clock
from postdate.core.identity import Identity
from postdate.core.log import Log
from postdate.http import head, request_reader
from postdate.http.active_request import ActiveRequests
from postdate.http.answer import OutgoingAnswer, PageSender, from_refusal, from_reply, send_answer
from postdate.http.deadline import Deadline
from postdate.http.endpoint import AnyEndpoint, Call
from postdate.http.exchange import EXCHANGE, PIECE_BYTES, Exchange
from postdate.http.gate import Gate
from postdate.http.limit import RequestLimits
from postdate.http.meter import HttpMeter
from postdate.http.open_request import OpenRequests
from postdate.http.route_table import RouteTable, convert, parameters_of
from postdate.words.error import Code, Refusal, RefusedError, refuse

NO_ANSWER: Final = 499
"""The status in logs and metrics of a request that was abandoned before its answer."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_API: Final = b"/api/"
_FAILED: Final = "The request could not be answered."
_log = Log()


@dataclass(slots=True, frozen=True)
class _Bound:
    """An endpoint with everything that can be computed before its first request."""

    endpoint: AnyEndpoint
    template: str
    parameters: list[tuple[str, bool]]
    decoder: msgspec.json.Decoder[Any] | None
    whole: bool
    max_body: int
    max_seconds: float


@dataclass(slots=True)
class _Request:
    """The state of one request while it is served."""

    scope: ConnectionScope
    exchange: Exchange | None
    receive: Receive
    headers: Mapping[bytes, bytes]
    id: str
    address: str
    came: origin.Origin
    held: ExitStack | None = None
    route: str = "unmatched"
    status: int = NO_ANSWER
    rate_headers: Mapping[str, str] = field(default_factory=dict)
    traceparent: str | None = None


class Shell:
    """Serves endpoints below `/api/v1` itself and hands every other path to `pages`."""

    def __init__(  # noqa: PLR0917 - the one place where the edge is put together
        self,
        endpoints: Sequence[AnyEndpoint],
        services: Any,
        gate: Gate,
        meter: HttpMeter,
        limits: RequestLimits,
        draining: asyncio.Event,
        pages: ASGIApp,
    ) -> None:
        self._services = services
        self._gate = gate
        self._meter = meter
        self._limits = limits
        self.draining = draining
        self.active = ActiveRequests()
        self._waiting = OpenRequests("streams and long polls", limits.open)
        self._receiving = OpenRequests("requests on their way", limits.open)
        # Of pages, whose key is not known yet: a stranger uses up nothing that good keys need.
        self._receiving_pages = OpenRequests("requests on their way", limits.open)
        self._pages = pages
        self._table: RouteTable[_Bound] = RouteTable()
        for endpoint in endpoints:
            self._table.add(endpoint, self._bind(endpoint))

    def _bind(self, endpoint: AnyEndpoint) -> _Bound:
        return _Bound(
            endpoint=endpoint,
            template=endpoint.template,
            parameters=parameters_of(endpoint.path),
            decoder=msgspec.json.Decoder(endpoint.body) if endpoint.body else None,
            whole=bool(endpoint.body)
            and request_reader.keeps_raw(msgspec.inspect.type_info(endpoint.body)),
            max_body=endpoint.max_body or self._limits.body_bytes,
            max_seconds=endpoint.max_seconds or self._limits.handler_seconds,
        )

    async def __call__(self, scope: ConnectionScope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        started = perf_counter()
        headers = dict(scope["headers"])
        peer = scope.get("client") or ("", 0)
        address = peer[0]
        if (forwarded := headers.get(b"x-forwarded-for")) is not None:
            address = self._gate.proxies.client(address, forwarded)
        request_id = head.request_id(headers)
        came = origin.arrive(request_id, address)
        if scope["method"] not in _READING:
            came.required_position = origin.PRIMARY
        exchange = scope.get(EXCHANGE)
        request = _Request(scope, exchange, receive, headers, request_id, address, came)
        serving = cast("asyncio.Task[Any]", asyncio.current_task())
        self.active.add(serving)
        try:
            refusal = None
            if len(headers) != len(scope["headers"]) or head.TRANSFER_ENCODING in headers:
                refusal = head.ambiguity(scope["headers"])
            if refusal is not None:
                answer = from_refusal(refusal, request.id)
                answer.headers.append((b"connection", b"close"))
                await self._send(request, answer, send)
            elif scope["raw_path"].startswith(_API):
                await self._send(request, await self._answer(request), send)
            else:
                await self._page(request, send)
        except Exception:
            _log.exception("answer broken off", route=request.route)
            raise
        finally:
            if request.held is not None:
                request.held.close()
            self.active.discard(serving)
            seconds = perf_counter() - started
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            self._meter.count(request.route, method, request.status, seconds)
            if _log.debugs():
                fields = {"method": method, "status": request.status}
                _log.debug("request", route=request.route, ms=round(seconds * 1000, 2), **fields)

    def _hold_open(self, request: _Request, actor: Identity | None) -> None:
        """Count an open request until it ends, however it ends; refuse it beyond the limit."""
        if request.held is None:
            request.held = ExitStack()
        request.held.enter_context(self._waiting.hold(actor, request.address))

    async def _send(self, request: _Request, answer: OutgoingAnswer, send: Send) -> None:
        request.status = answer.status
        if request.came.stale:
            answer.headers.append((b"Postdate-Stale", b"possible"))
        elif request.scope["method"] not in _READING and (reached := self._gate.freshness()):
            # The position that a change has reached.
            answer.headers.append((b"Postdate-Freshness", b"%x" % reached))
        for name, value in request.rate_headers.items():
            answer.headers.append((name.encode(), value.encode()))
        body = answer.body
        if request.exchange is None or not isinstance(body, bytes) or len(body) > PIECE_BYTES:
            await send_answer(send, request.receive, answer, request.id)
        else:
            request.exchange.answer(answer.status, answer.headers, body, request.id.encode())

    async def _answer(self, request: _Request) -> OutgoingAnswer:
        found = self._table.find(request.scope["raw_path"])
        if found is None:
            refusal = Refusal(code=Code.NOT_FOUND, detail="There is no such route.")
            return from_refusal(refusal, request.id)
        methods, raw = found
        method = request.scope["method"]
        bound = methods.get("GET" if method == "HEAD" else method)
        request.route = (bound or next(iter(methods.values()))).template
        if bound is None:
            return _not_allowed(methods, request.id)
        if b"traceparent" in request.headers:
            request.traceparent = head.traceparent(request.headers)
        if self._gate.trace is None:
            return await self._serve(bound, raw, request)
        with self._gate.trace(request.route, method, request.traceparent) as span:
            request.traceparent = span.traceparent
            answer = await self._serve(bound, raw, request)
            span.answered(answer.status)
            return answer

    async def _serve(self, bound: _Bound, raw: list[bytes], request: _Request) -> OutgoingAnswer:
        deadline = Deadline(bound.max_seconds)
        try:
            call = await self._admit(bound, raw, request)
            if call.caller is not None and call.caller.test:
                # Not before: rates and keys are counted by the server's clock.
                test_clock.follow(call.caller.tenant_id)
            with deadline:
                reply = await bound.endpoint.handler(call)
            return from_reply(reply, bound.endpoint.status)
        except Exception as error:  # noqa: BLE001 - the last resort: it is logged, and answered 500
            if deadline.expired and isinstance(error, TimeoutError):
                error = _too_slow(bound)
            return from_refusal(self._gate.explain(error, _FAILED), request.id)

    async def _admit(
        self, bound: _Bound, raw: list[bytes], request: _Request
    ) -> Call[Any, Any, Any]:
        endpoint, headers = bound.endpoint, request.headers
        if not request.came.required_position and request_reader.FRESHNESS in headers:
            request.came.required_position = request_reader.freshness(headers)
        actor = None
        if endpoint.scope == "internal":
            self._gate.check_internal(headers.get(b"x-internal-auth", b""), request.address)
        elif endpoint.scope is not None:
            actor = await self._gate.identify(head.bearer(headers), request.came)
            if actor is None:
                raise refuse(Code.UNAUTHENTICATED, "The key is not valid.")
            self._gate.check_rights(actor, endpoint.scope, endpoint.limited)
            request.rate_headers = await self._gate.pace(actor)
            if endpoint.method != "GET" and endpoint.halted != "served":
                self._gate.check_halt(actor, new_work=endpoint.halted == "new work")
        path = convert(bound.parameters, raw) if raw else {}
        key = None
        if endpoint.idempotency is not None:
            key = request_reader.idempotency_key(
                headers, required=endpoint.idempotency == "required"
            )
        query_string = request.scope["query_string"]
        query = request_reader.query(query_string, endpoint.query) if endpoint.query else None
        body = None
        if bound.decoder is not None:
            exchange = request.exchange
            data = None if exchange is None else exchange.whole_body()
            if data is None:
                data = await self._receive(bound.max_body, request, actor)
            else:
                request_reader.check_arrived(data, headers, bound.max_body)
            depth = self._limits.json_depth
            body = request_reader.decode(data, bound.decoder, depth, whole=bound.whole)
        return Call(
            services=self._services,
            caller=actor,
            path=path,
            query=query,
            body=body,
            idempotency_key=key,
            request_id=request.id,
            traceparent=request.traceparent,
            draining=self.draining,
            receive=request.receive,
            headers=headers,
            hold_open=partial(self._hold_open, request, actor),
        )

    async def _receive(self, max_bytes: int, request: _Request, actor: Identity | None) -> bytes:
        """Receive a body that did not come with its head, counted and timed."""
        with self._receiving.hold(actor, request.address):
            return await request_reader.body(
                request.receive, request.headers, max_bytes, self._limits
            )

    async def _page(self, request: _Request, send: Send) -> None:
        outgoing = PageSender(send, request.id)
        request.scope["request_id"] = request.id
        if not request.came.required_position:
            # A person sees what was just done here, on the page that follows.
            request.came.required_position = self._gate.freshness()
        # A page that streams ends when the server drains.
        request.scope["draining"] = self.draining
        receive = request_reader.bounded(request.receive, self._limits)
        request.scope["hold_open"] = partial(self._hold_open, request)
        sends = request.scope["method"] not in {"GET", "HEAD"}
        try:
            with self._receiving_pages.hold(None, request.address) if sends else nullcontext():
                await self._pages(request.scope, receive, outgoing)
        except RefusedError as error:
            await self._send(request, from_refusal(error.refusal, request.id), send)
            return
        except Exception as error:  # noqa: BLE001 - the last resort: it is logged, and answered 500
            # Starlette has answered 500 by now unless the answer had already begun.
            self._gate.explain(error, _FAILED)
        request.status = outgoing.status or NO_ANSWER
        request.route = _page_name(request.scope)


def _page_name(scope: ConnectionScope) -> str:
    """Return the name of a page: its endpoint, since paths would flood the metric labels."""
    endpoint = scope.get("endpoint")
    if endpoint is None:
        return "unmatched"
    return str(getattr(endpoint, "__name__", type(endpoint).__name__))


def _not_allowed(methods: Mapping[str, _Bound], request_id: str) -> OutgoingAnswer:
    allow = sorted({*methods, "HEAD"} if "GET" in methods else methods)
    detail = f"This route takes {', '.join(allow)}."
    answer = from_refusal(Refusal(code=Code.METHOD_NOT_ALLOWED, detail=detail), request_id)
    answer.headers.append((b"allow", ", ".join(allow).encode()))
    return answer


def _too_slow(bound: _Bound) -> RefusedError:
    detail = f"The request was not done within {bound.max_seconds:g} s."
    # A write that was cut off may have been committed: only the key can tell.
    reads = bound.endpoint.method == "GET"
    return refuse(Code.OVERLOADED if reads else Code.OUTCOME_UNKNOWN, detail)
