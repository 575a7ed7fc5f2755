"""The one ASGI entry: route, authenticate, limit, decode, call, answer, count, log."""

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol

import msgspec
import structlog
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as ConnectionScope

from postdate.api.http import head, request_reader
from postdate.api.http.active_request import InFlight
from postdate.api.http.answer import Answer, Outgoing, from_refusal, from_reply, send_answer
from postdate.api.http.deadline import Deadline
from postdate.api.http.endpoint import AnyEndpoint, Call
from postdate.api.http.limit import Limits
from postdate.api.http.meter import Meter
from postdate.api.http.open_request import HeldOpen
from postdate.api.http.route_table import RouteTable, convert, parameters_of
from postdate.api.http.trusted_proxy import TrustedProxies
from postdate.model import origin
from postdate.model.error import Code, Refusal, RefusedError, refuse
from postdate.model.tenant.identity import Identity
from postdate.model.tenant.login_throttle import Knocks

Authenticate = Callable[[str], Awaitable[Identity | None]]
Translate = Callable[[Exception], Refusal | None]
Pace = Callable[[Identity], Awaitable[Mapping[str, str]]]
"""Count a request against its limits: give the headers that tell of them, or refuse."""


class RequestSpan(Protocol):
    """The trace of one request."""

    @property
    def traceparent(self) -> str:
        """Give what is kept with whatever the request makes."""

    def answered(self, status: int) -> None:
        """Note how it ended."""


Trace = Callable[[str, str, str | None], AbstractContextManager[RequestSpan]]
"""Follow a request: its route, its method, and the traceparent it came with."""
Halted = Callable[[int, bool], Refusal | None]
"""Say why a tenant's change is refused; the flag says whether it is new work."""

NO_ANSWER: Final = 499
"""The status in logs and metrics of a request that was given up before it had an answer."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_API: Final = b"/api/"
_log = structlog.get_logger(__name__)


@dataclass(slots=True, frozen=True)
class _Bound:
    """An endpoint with everything that can be worked out before its first request."""

    endpoint: AnyEndpoint
    template: str
    parameters: list[tuple[str, bool]]
    decoder: msgspec.json.Decoder[Any] | None
    whole: bool
    max_body: int
    max_seconds: float


@dataclass(slots=True, frozen=True, kw_only=True)
class Doors:
    """What the shell is given from outside: who may enter, and what failures mean."""

    authenticate: Authenticate
    internal_token: str | None
    translate: Translate
    pace: Pace | None = None
    trace: Trace | None = None
    halted: Halted | None = None
    freshness: Callable[[], int] = lambda: 0
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    knocks: Knocks = field(default_factory=Knocks)


@dataclass(slots=True)
class _Request:
    """One request on its way: what came, and what became of it so far."""

    scope: ConnectionScope
    receive: Receive
    headers: Mapping[bytes, bytes]
    id: str
    address: str
    held: ExitStack | None = None
    route: str = "unmatched"
    status: int = NO_ANSWER
    came: origin.Origin | None = None
    told: Mapping[str, str] = field(default_factory=dict)
    traceparent: str | None = None


class Shell:
    """Serves endpoints below `/api/v1` itself and hands every other path to `pages`."""

    def __init__(  # noqa: PLR0917 - the one place where the edge is put together
        self,
        endpoints: Sequence[AnyEndpoint],
        services: Any,
        doors: Doors,
        meter: Meter,
        limits: Limits,
        draining: asyncio.Event,
        pages: ASGIApp,
    ) -> None:
        self._services = services
        self._doors = doors
        self._meter = meter
        self._limits = limits
        self.draining = draining
        self.in_flight = InFlight()
        self._waiting = HeldOpen("streams and long polls", limits.open)
        self._receiving = HeldOpen("requests on their way", limits.open)
        # Of pages, whose key is not known yet: a stranger uses up nothing that good keys need.
        self._receiving_pages = HeldOpen("requests on their way", limits.open)
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
        address = self._doors.proxies.client(peer[0], headers.get(b"x-forwarded-for"))
        request = _Request(scope, receive, headers, head.request_id(headers), address)
        request.came = origin.arrive(request.id, address)
        if scope["method"] not in _READING:
            request.came.wanted = origin.PRIMARY
        serving = self.in_flight.enter()
        try:
            if len(headers) != len(scope["headers"]) or head.TRANSFER_ENCODING in headers:
                await self._doubtful(request, send)
            else:
                await self._dispatch(request, send)
        except Exception:
            _log.exception("answer broken off", route=request.route)
            raise
        finally:
            if request.held is not None:
                request.held.close()
            self.in_flight.leave(serving)
            self._done(request, perf_counter() - started)

    async def _doubtful(self, request: _Request, send: Send) -> None:
        """Serve a request whose head has to be looked at, or say why not and hang up."""
        refusal = head.ambiguity(request.scope["headers"])
        if refusal is None:
            await self._dispatch(request, send)
        else:
            answer = from_refusal(refusal, request.id)
            answer.headers.append((b"connection", b"close"))
            await self._send(request, answer, send)

    async def _dispatch(self, request: _Request, send: Send) -> None:
        if request.scope["raw_path"].startswith(_API):
            await self._api(request, send)
        else:
            await self._page(request, send)

    async def _api(self, request: _Request, send: Send) -> None:
        answer = await self._answer(request)
        await self._send(request, answer, send)

    def _hold_open(self, request: _Request, who: Identity | None) -> None:
        """Count a request that waits until it ends, however it ends; refuse one too many."""
        if request.held is None:
            request.held = ExitStack()
        request.held.enter_context(self._waiting.hold(who, request.address))

    async def _send(self, request: _Request, answer: Answer, send: Send) -> None:
        request.status = answer.status
        answer.headers.extend(self._told_freshness(request))
        for name, value in request.told.items():
            answer.headers.append((name.encode(), value.encode()))
        await send_answer(send, request.receive, answer, request.id)

    def _told_freshness(self, request: _Request) -> Iterator[tuple[bytes, bytes]]:
        """Say that an answer may be old, or up to where a replica must be to know of a change."""
        if request.came is not None and request.came.stale:
            yield b"Postdate-Stale", b"possible"
        elif request.scope["method"] not in _READING and (reached := self._doors.freshness()):
            yield b"Postdate-Freshness", b"%x" % reached

    async def _answer(self, request: _Request) -> Answer:
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
        request.traceparent = head.traceparent(request.headers)
        if self._doors.trace is None:
            return await self._serve(bound, raw, request)
        with self._doors.trace(request.route, method, request.traceparent) as span:
            request.traceparent = span.traceparent
            answer = await self._serve(bound, raw, request)
            span.answered(answer.status)
            return answer

    async def _serve(self, bound: _Bound, raw: list[bytes], request: _Request) -> Answer:
        try:
            call = await self._admit(bound, raw, request)
            reply = await self._run(bound, call)
            return from_reply(reply, bound.endpoint.status)
        except RefusedError as error:
            return from_refusal(error.refusal, request.id)
        except Exception as error:  # noqa: BLE001 - the edge: it is logged, and answered 500
            return from_refusal(self._explain(error), request.id)

    async def _admit(
        self, bound: _Bound, raw: list[bytes], request: _Request
    ) -> Call[Any, Any, Any]:
        endpoint, headers = bound.endpoint, request.headers
        if request.came is not None and not request.came.wanted:
            request.came.wanted = request_reader.freshness(headers)
        who = await self._identify(endpoint, request)
        if who is not None and self._doors.pace is not None:
            request.told = await self._doors.pace(who)
        if who is not None and endpoint.method != "GET":
            self._check_halt(endpoint, who)
        path = convert(bound.parameters, raw)
        key = None
        if endpoint.idempotency is not None:
            key = request_reader.idempotency_key(
                headers, required=endpoint.idempotency == "required"
            )
        query_string = request.scope["query_string"]
        query = request_reader.query(query_string, endpoint.query) if endpoint.query else None
        data, body = b"", None
        if bound.decoder is not None:
            with self._receiving.hold(who, request.address):
                data = await request_reader.body(
                    request.receive, headers, bound.max_body, self._limits
                )
            depth = self._limits.json_depth
            body = request_reader.decode(data, bound.decoder, depth, whole=bound.whole)
        return Call(
            services=self._services,
            who=who,
            path=path,
            query=query,
            body=body,
            raw=data,
            idempotency_key=key,
            request_id=request.id,
            traceparent=request.traceparent,
            draining=self.draining,
            receive=request.receive,
            headers=headers,
            hold_open=partial(self._hold_open, request, who),
        )

    async def _identify(self, endpoint: AnyEndpoint, request: _Request) -> Identity | None:
        if endpoint.scope is None:
            return None
        if endpoint.scope == "internal":
            self._check_internal(request)
            return None
        who = await self._doors.authenticate(head.bearer(request.headers))
        if who is None:
            raise refuse(Code.UNAUTHENTICATED, "The key is not valid.")
        origin.identified(who.tenant)
        if endpoint.scope != "any" and not who.allows(endpoint.scope):
            detail = f"The key lacks the scope `{endpoint.scope}`."
            raise refuse(Code.FORBIDDEN, detail, scope=endpoint.scope)
        return who

    def _check_halt(self, endpoint: AnyEndpoint, who: Identity) -> None:
        """Refuse early what the transaction would refuse, and changes that none would."""
        if self._doors.halted is None or endpoint.halted == "served":
            return
        refusal = self._doors.halted(who.tenant_id, endpoint.halted == "new work")
        if refusal is not None:
            raise RefusedError(refusal)

    def _check_internal(self, request: _Request) -> None:
        token = self._doors.internal_token
        given = request.headers.get(b"x-internal-auth", b"")
        if not token or not hmac.compare_digest(given, token.encode()):
            self._doors.knocks.wrong(request.address, time.monotonic())
            raise refuse(Code.UNAUTHENTICATED, "The X-Internal-Auth header is not valid.")

    async def _run(self, bound: _Bound, call: Call[Any, Any, Any]) -> Any:
        deadline = Deadline(bound.max_seconds)
        try:
            with deadline:
                return await bound.endpoint.handler(call)
        except TimeoutError:
            if not deadline.expired:
                raise
            raise _too_slow(bound) from None

    async def _page(self, request: _Request, send: Send) -> None:
        outgoing = Outgoing(send, request.id)
        request.scope["request_id"] = request.id
        if request.came is not None and not request.came.wanted:
            # A person sees what was just done here, on the page that follows.
            request.came.wanted = self._doors.freshness()
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
        except Exception as error:  # noqa: BLE001 - the edge: it is logged, and answered 500
            # Starlette has answered 500 by now unless the answer had already begun.
            self._explain(error)
        request.status = outgoing.status or NO_ANSWER
        request.route = _page_name(request.scope)

    def _explain(self, error: Exception) -> Refusal:
        refusal = self._doors.translate(error)
        if refusal is not None:
            return refusal
        _log.exception("request failed", exc_info=error)
        return Refusal(code=Code.INTERNAL, detail="The request could not be answered.")

    def _done(self, request: _Request, seconds: float) -> None:
        method = request.scope["method"]
        method = method if method in _METHODS else "OTHER"
        self._meter.count(request.route, method, request.status, seconds)
        _log.debug(
            "request",
            route=request.route,
            method=method,
            status=request.status,
            ms=round(seconds * 1000, 2),
        )


def _page_name(scope: ConnectionScope) -> str:
    """Name a page by its endpoint: the path may hold anything and would flood the labels."""
    endpoint = scope.get("endpoint")
    if endpoint is None:
        return "unmatched"
    return str(getattr(endpoint, "__name__", type(endpoint).__name__))


def _not_allowed(methods: Mapping[str, _Bound], request_id: str) -> Answer:
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
