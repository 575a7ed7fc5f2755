"""One trace from the request to the receiver, or to the settlement; nothing of it when off."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bank_ground import settings as tolerant
from conftest import SECRET_KEY, Api, eventually
from postdate.api.server import Server, bind
from postdate.cli import edge, settlement, trace, worker
from postdate.cli.node import Node
from postdate.cli.settings import Settings
from postdate.cli.trace import Tracing
from postdate.intake.tenant import Tenants
from postdate.model.errors import StartError
from postdate.model.knock import Knocks
from postdate.store.database import Database
from postdate.views.identity import Identities
from receiver import Receiver

TRACE, SPAN = "ab" * 16, "cd" * 8
GIVEN = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


@dataclass
class Followed:
    """A whole server of one process that tells its spans."""

    api: Api
    spans: InMemorySpanExporter

    async def span(self, name: str) -> ReadableSpan:
        """Wait for the span of a name."""

        async def look() -> ReadableSpan | None:
            ended = self.spans.get_finished_spans()
            return next((span for span in ended if span.name == name), None)

        found: ReadableSpan = await eventually(look)
        return found


@pytest.fixture(scope="module")
async def serving(database: Database) -> AsyncIterator[Followed]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    node = Node(
        settings=Settings(secret_key=SECRET_KEY, allow_private_targets="127.0.0.0/8"),
        database=database,
        roles=["api", "worker", "settlement"],
        runtime=tolerant(),
        tracing=Tracing(provider),
    )
    running = Server(
        edge.build(node, Identities(database, Knocks(free=10**9))), bind("127.0.0.1", 0)
    )
    loops = [*worker.loops(node), *settlement.loops(node)]
    going = [asyncio.create_task(loop.run()) for loop in loops]
    server = asyncio.create_task(running.run())
    await Tenants(database).create("followed")
    key = (await Tenants(database).issue("followed", ["admin"])).key
    async with aiohttp.ClientSession() as session:
        yield Followed(Api(running.url, session, node, key, "followed"), exporter)
    for loop in loops:
        loop.stop()
    running.stop()
    await asyncio.gather(server, *going)
    await node.close()


def ids(span: ReadableSpan) -> tuple[str, str | None, str]:
    """Give trace, parent and own id."""
    context = span.get_span_context()
    assert context is not None
    parent = f"{span.parent.span_id:016x}" if span.parent else None
    return f"{context.trace_id:032x}", parent, f"{context.span_id:016x}"


async def test_a_job_is_followed_from_the_request_to_the_receiver(
    serving: Followed, receiver: Receiver
) -> None:
    api = serving.api
    body = {"destination": {"type": "webhook", "url": receiver.url("/hook")}, "payload": {}}
    made = await api.call("POST", "/jobs", body, headers=GIVEN)
    assert made.status == 201
    arrived = (await receiver.wait_for(1))[0]
    request = ids(await serving.span("POST /api/v1/jobs"))
    delivered = await serving.span("deliver webhook")
    assert request[:2] == (TRACE, SPAN)
    assert ids(delivered)[:2] == (TRACE, request[2])
    assert arrived.headers["traceparent"] == f"00-{TRACE}-{ids(delivered)[2]}-01"
    told = delivered.attributes or {}
    assert told["postdate.job_id"] == made.body["job_id"]
    assert told["postdate.outcome"] == "completed"


async def test_a_payment_is_followed_to_its_settlement(serving: Followed) -> None:
    api = serving.api
    for name in ("ann", "bob"):
        await api.call("POST", "/accounts", {"account_id": name})
    await api.call(
        "POST",
        "/accounts/ann/adjustments",
        {"amount": 100, "reason": "opening"},
        headers={"Idempotency-Key": "open"},
    )
    order = {"from_account_id": "ann", "to_account_id": "bob", "amount": 5, "delay_seconds": 1}
    made = await api.call(
        "POST", "/payments/schedule", order, headers={**GIVEN, "Idempotency-Key": "one"}
    )
    assert made.status == 201
    request = ids(await serving.span("POST /api/v1/payments/schedule"))
    settled = await serving.span("settle payment")
    assert ids(settled)[:2] == (TRACE, request[2])
    told = settled.attributes or {}
    assert told["postdate.payment_id"] == made.body["payment_id"]
    assert told["postdate.outcome"] == "completed"


async def test_a_failed_delivery_is_an_error_in_its_trace(
    serving: Followed, receiver: Receiver
) -> None:
    async def broken(_: web.Request) -> web.StreamResponse:
        return web.Response(status=500)

    receiver.script("/broken", broken)
    serving.spans.clear()
    to = {"type": "webhook", "url": receiver.url("/broken")}
    body = {"destination": to, "payload": {}, "retry": {"max_attempts": 1}}
    assert (await serving.api.call("POST", "/jobs", body)).status == 201
    span = await serving.span("deliver webhook")
    assert not span.status.is_ok
    assert (span.attributes or {})["error.type"] == "http_500"


def test_log_lines_carry_the_ids_of_the_span() -> None:
    tracing = Tracing(TracerProvider())
    with tracing.request("/jobs", "POST", GIVEN["traceparent"]) as span:
        line = trace.add_trace(None, "info", {"event": "x"})
    assert span.traceparent == f"00-{line['trace_id']}-{line['span_id']}-01"
    assert trace.add_trace(None, "info", {"event": "x"}) == {"event": "x"}


@pytest.mark.parametrize(
    ("environ", "exporter"),
    [
        ({}, None),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}, None),
    ],
)
def test_the_standard_variables_decide(environ: dict[str, str], exporter: str | None) -> None:
    assert trace.wanted(environ) == exporter


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_TRACES_EXPORTER": "zipkin"},
        {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
)
def test_what_is_not_offered_is_refused_in_words(environ: dict[str, str]) -> None:
    with pytest.raises(StartError, match="OTEL_"):
        trace.configure(environ)


@pytest.mark.parametrize("traceparent", [None, "", "nonsense", "00-xx-yy-01", "00-1-2"])
def test_a_bad_traceparent_begins_a_new_trace(traceparent: str | None) -> None:
    assert trace.context_of(traceparent) == {}


def _modules(environ: dict[str, str], make: str) -> Any:
    code = f"import sys; {make}; print('opentelemetry.sdk' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


def test_the_sdk_is_loaded_only_when_asked_for() -> None:
    make = "from postdate.cli import main, trace; print(trace.configure())"
    assert _modules({}, make) == "None\nFalse"


async def test_without_tracing_the_handlers_are_what_they_were(database: Database) -> None:
    node = Node(settings=Settings(secret_key=SECRET_KEY), database=database, roles=["worker"])
    deliver: Callable[..., Any] = node.outgoing.webhook.deliver
    assert node.handler("webhook", deliver) is deliver
    await node.close()
