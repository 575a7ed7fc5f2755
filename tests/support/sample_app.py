"""A small app with every kind of route, for tests of the shell."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from postdate.api.health import NotReady
from postdate.core.identity import Identity, Scope
from postdate.http.endpoint import Body, Call, Endpoint, Reply
from postdate.http.limit import RequestLimits
from postdate.http.page import PageQuery, decode_cursor
from postdate.http.shell import Shell
from postdate.key.api import whoami
from postdate.words.error import Code, Refusal, not_found, refuse
from support.raw_http import Answered, Running, make_app

KEY = "pd_live_secret_canary"
READER_KEY = "pd_live_reader_canary"
INTERNAL = "internal_canary"


@dataclass
class Services:
    calls: int = 0


class Inner(Body):
    x: int = 0


class Thing(Body):
    amount: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    note: str = ""
    inner: Inner | None = None
    extra: Any = None


class Echo(msgspec.Struct):
    amount: int
    note: str
    key: str | None
    tenant: str


class Listed(msgspec.Struct):
    limit: int
    after: int | None


class TranslatedError(Exception):
    """Stands for a lower layer's failure that the CLI knows how to explain."""


async def make_thing(call: Call[Services, Thing, None]) -> Reply:
    call.services.calls += 1
    body = call.body
    echo = Echo(body.amount, body.note, call.idempotency_key, call.actor.tenant)
    return Reply(echo, headers={"Idempotency-Replayed": "true"} if body.note == "again" else {})


async def get_thing(call: Call[Services, None, None]) -> Echo:
    raise not_found("thing", call.uuid("thing_id"))


async def get_name(call: Call[Services, None, None]) -> Echo:
    return Echo(1, call.text("name"), None, "")


async def list_things(call: Call[Services, None, PageQuery]) -> Listed:
    cursor = call.query.cursor
    return Listed(call.query.limit, decode_cursor(cursor, int) if cursor else None)


async def explode(call: Call[Services, None, None]) -> Echo:
    if call.text("how") == "translated":
        raise TranslatedError
    if call.text("how") == "refused":
        raise refuse(Code.CONFLICT, "It is done.", status_now="COMPLETED", status=1)
    raise RuntimeError(f"boom {KEY}")


async def stall(_: Call[Services, None, None]) -> Echo:
    await asyncio.Event().wait()
    raise AssertionError


async def stream(_: Call[Services, None, None]) -> Reply:
    async def chunks() -> AsyncIterator[bytes]:
        for number in range(3):
            yield f"data: {number}\n\n".encode()

    return Reply(chunks(), headers={"Content-Type": "text/event-stream"})


async def internal(_: Call[Services, None, None]) -> Reply:
    return Reply(b'{"done":true}')


async def opened(_: Call[Services, None, None]) -> Reply:
    return Reply()


def endpoint(method: Any, path: str, handler: Any, **more: Any) -> Any:
    defaults: dict[str, Any] = {
        "scope": Scope.JOBS_READ,
        "returns": Echo,
        "summary": "Test",
        "tag": "test",
    }
    return Endpoint(method=method, path=path, handler=handler, **(defaults | more))


ENDPOINTS = [
    *whoami.ROUTES.endpoints,
    endpoint(
        "POST",
        "/things",
        make_thing,
        scope=Scope.JOBS_WRITE,
        body=Thing,
        status=201,
        idempotency="required",
        errors=(Code.CONFLICT,),
    ),
    endpoint(
        "POST",
        "/things/batch",
        make_thing,
        scope=Scope.JOBS_WRITE,
        body=Thing,
        status=201,
        idempotency="optional",
        max_body=4 * 1024 * 1024,
    ),
    endpoint("GET", "/things", list_things, query=PageQuery, returns=Listed),
    endpoint("GET", "/things/{thing_id:uuid}", get_thing),
    endpoint("GET", "/names/{name}", get_name),
    endpoint("GET", "/explode/{how}", explode),
    endpoint("GET", "/stall", stall, max_seconds=0.05),
    endpoint("DELETE", "/stall", stall, max_seconds=0.05),
    endpoint("GET", "/stream", stream, returns=None),
    endpoint("POST", "/internal/run", internal, scope="internal"),
    endpoint("GET", "/opened", opened, scope=None, returns=None, status=204),
]


async def authenticate(key: str) -> Identity | None:
    scopes = {KEY: frozenset({Scope.ADMIN}), READER_KEY: frozenset({Scope.JOBS_READ})}
    if key not in scopes:
        return None
    return Identity(tenant_id=1, tenant="acme", key_id="k1", scopes=scopes[key])


def translate(error: Exception) -> Refusal | None:
    if isinstance(error, TranslatedError):
        return Refusal(code=Code.UNAVAILABLE, detail="Later.", extra={"retry_after_seconds": 7})
    return None


async def page(request: Request) -> PlainTextResponse:
    if request.method == "POST":
        return PlainTextResponse(str(len(await request.body())))
    if "boom" in request.url.path:
        raise RuntimeError("page boom")
    return PlainTextResponse("page", headers={"cache-control": "public"})


PAGES = [Route("/console/{rest:path}", page, methods=["GET", "POST"])]
NOT_READY: list[NotReady] = []


async def readiness() -> list[NotReady]:
    return list(NOT_READY)


def sample_app(services: Services | None = None, **limits: Any) -> Shell:
    return make_app(
        ENDPOINTS,
        services=services or Services(),
        authenticate=authenticate,
        readiness=readiness,
        internal_token=INTERNAL,
        extra_routes=PAGES,
        translate=translate,
        limits=RequestLimits(**limits),
    )


async def post(running: Running, body: bytes, **headers: str) -> Answered:
    sent = {"idempotency-key": "k-1"} | {k.replace("_", "-"): v for k, v in headers.items()}
    return await running.ask("POST", "/api/v1/things", body, sent)
