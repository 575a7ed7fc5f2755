"""One trace from the request to the receiver, or to the settlement; nothing of it when off."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from aiohttp import web
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from conftest import SECRET_KEY, Api, eventually
from postdate.database.connection.database import Database
from postdate.http.listener import bind
from postdate.http.login_throttle import LoginThrottle
from postdate.http.server import HttpServer
from postdate.job.spec.job import Worker
from postdate.key.authentication.identity import Identities
from postdate.node import http as edge
from postdate.node import publisher, settlement, trace, worker
from postdate.node import schedule as schedules
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.node.trace import Tracing
from postdate.node.trace_expansion import context_of
from postdate.schedule.spec.firing import Firing
from postdate.schedule.spec.schedule import JobTemplate, Policies, Template
from postdate.scheduler.firer import untraced
from postdate.tenant.change.tenant import Tenants
from postdate.words.error import StartError
from support.bank import settings as tolerant
from support.receiver import Receiver

pytestmark = pytest.mark.own_database("its loops work for every tenant")

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
        settings=ProcessSettings(secret_key=SECRET_KEY, allow_private_targets="127.0.0.0/8"),
        database=database,
        roles=["api", "worker", "settlement"],
        runtime=tolerant(),
        tracing=Tracing(provider),
    )
    running = HttpServer(
        edge.build(node, Identities(database, LoginThrottle(free=10**9))), bind("127.0.0.1", 0)
    )
    publishing = [loop for loop in publisher.loops(node) if loop.name in {"seal", "deliver"}]
    loops = [*worker.loops(node), *settlement.loops(node), *schedules.loops(node), *publishing]
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


def linked(span: ReadableSpan) -> set[str]:
    return {f"{link.context.trace_id:032x}" for link in span.links}


async def test_an_occurrence_begins_a_trace_that_its_job_carries_on(
    serving: Followed, receiver: Receiver
) -> None:
    serving.spans.clear()
    to = {"type": "webhook", "url": receiver.url("/tick")}
    body = {"every_seconds": 1, "max_runs": 1, "template": {"job": {"destination": to}}}
    made = await serving.api.call("POST", "/schedules", body, headers=GIVEN)
    assert made.status == 201, made.body
    (arrived,) = await receiver.wait_for(1)
    expanded = await serving.span("expand schedule")
    batch = await serving.span("expand schedules")
    delivered = await serving.span("deliver webhook")
    trace_id, parent, span_id = ids(expanded)
    assert parent is None
    assert linked(expanded) == {TRACE, ids(batch)[0]}
    assert ids(delivered)[:2] == (trace_id, span_id)
    assert arrived.headers["traceparent"].split("-")[1] == trace_id
    told = expanded.attributes or {}
    assert told["postdate.schedule_id"] == made.body["schedule_id"]
    assert told["postdate.job_id"] == (delivered.attributes or {})["postdate.job_id"]
    assert told["postdate.outcome"] == "fired"


async def test_a_schedule_run_by_hand_stays_in_the_trace_of_the_request(
    serving: Followed, receiver: Receiver
) -> None:
    to = {"type": "webhook", "url": receiver.url("/by-hand")}
    body = {"cron": "@yearly", "template": {"job": {"destination": to}}}
    made = (await serving.api.call("POST", "/schedules", body)).body
    serving.spans.clear()
    path = f"/schedules/{made['schedule_id']}/trigger"
    assert (await serving.api.call("POST", path, headers=GIVEN)).status == 201
    await receiver.wait_for(1)
    request = ids(await serving.span("POST /api/v1/schedules/{schedule_id}/trigger"))
    assert ids(await serving.span("deliver webhook"))[:2] == (TRACE, request[2])


async def test_an_event_reaches_its_subscriber_in_the_trace_of_its_job(
    serving: Followed, receiver: Receiver
) -> None:
    serving.spans.clear()
    to = {"type": "webhook", "url": receiver.url("/events")}
    made = await serving.api.call(
        "POST", "/subscriptions", {"destination": to, "types": ["job.cancelled"]}
    )
    assert made.status == 201, made.body
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600}
    job = await serving.api.call("POST", "/jobs", spec, headers=GIVEN)
    assert (await serving.api.call("POST", f"/jobs/{job.body['job_id']}/cancel")).status == 200
    (arrived,) = await receiver.wait_for(1)
    request = ids(await serving.span("POST /api/v1/jobs"))
    published = await serving.span("publish webhook")
    assert ids(published)[:2] == (TRACE, request[2])
    assert arrived.headers["traceparent"] == f"00-{TRACE}-{ids(published)[2]}-01"
    told = published.attributes or {}
    assert told["postdate.subject"] == job.body["job_id"]
    assert told["postdate.event_id"] == arrived.headers["webhook-id"]
    path = f"/subscriptions/{made.body['subscription_id']}"
    assert (await serving.api.call("DELETE", path)).status == 204


def test_what_is_rolled_back_is_an_error_in_its_trace() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    now = datetime.now(UTC)
    template = Template(job=JobTemplate(destination=Worker()))
    firing = Firing(1, uuid4(), now, now, 1, template, Policies())

    def break_off() -> None:
        with Tracing(provider).expanding([0]) as spans:
            assert spans.begin([firing])[0].traceparent is not None
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        break_off()
    ended = exporter.get_finished_spans()
    assert [(span.name, span.status.is_ok) for span in ended] == [
        ("expand schedule", False),
        ("expand schedules", False),
    ]


def test_log_lines_carry_the_ids_of_the_span() -> None:
    tracing = Tracing(TracerProvider())
    with tracing.request("/jobs", "POST", GIVEN["traceparent"]) as span:
        line = {"event": "x"}
        trace.add_trace(line)
    assert span.traceparent == f"00-{line['trace_id']}-{line['span_id']}-01"
    outside = {"event": "x"}
    trace.add_trace(outside)
    assert outside == {"event": "x"}


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
    assert trace.requested_exporter(environ) == exporter


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
    assert context_of(traceparent) == {}


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
    make = (
        "from postdate.cli import main; from postdate.node import trace; print(trace.configure())"
    )
    assert _modules({}, make) == "None\nFalse"


async def test_without_tracing_the_handlers_are_what_they_were(database: Database) -> None:
    node = Node(
        settings=ProcessSettings(secret_key=SECRET_KEY), database=database, roles=["worker"]
    )
    deliver: Callable[..., Any] = node.outgoing.webhook.deliver
    assert node.handler("webhook", deliver) is deliver
    assert node.publishing("webhook", deliver) is deliver
    with untraced([0]) as spans:
        made: list[Any] = []
        assert spans.begin(made) is made
    await node.close()
