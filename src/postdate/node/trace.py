"""Tracing by OpenTelemetry, from a request to its delivery or settlement; off by default."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, Final, assert_never

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from postdate.job.spec.outcome import Completed, Delivery, JobHandler, Outcome, Running, Throttled
from postdate.job.spec.outcome import Failed as DeliveryFailed
from postdate.job.spec.outcome import Unknown as DeliveryUnknown
from postdate.ledger.settle import (
    DuePayment,
    Paid,
    RetryLater,
    SettlementResult,
    TransferFailed,
    Waits,
)
from postdate.ledger.settle import TransferCompleted as Settled
from postdate.node.trace_expansion import Expansion, context_of, traceparent_of
from postdate.words.error import StartError

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
EXPORTER: Final = "OTEL_TRACES_EXPORTER"
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
FLUSH_SECONDS: Final = 5.0
"""How long the last spans may take to leave when the process ends."""

_SERVER_ERROR: Final = 500


class RecordedRequest:
    """The span of one request, as the HTTP side sees it."""

    __slots__ = ("_span", "traceparent")

    def __init__(self, span: Span) -> None:
        self._span = span
        self.traceparent = traceparent_of(span.get_span_context())

    def answered(self, status: int) -> None:
        """Record the status of the answer."""
        self._span.set_attribute("http.response.status_code", status)
        if status >= _SERVER_ERROR:
            self._span.set_status(Status(StatusCode.ERROR))


class Tracing:
    """The spans of one process. `provider` is OpenTelemetry's, which knows where to export."""

    def __init__(
        self, provider: trace.TracerProvider, close: Callable[[], None] = lambda: None
    ) -> None:
        self._tracer = provider.get_tracer("postdate", version("postdate"))
        self._close = close

    @contextmanager
    def request(
        self, route: str, method: str, traceparent: str | None
    ) -> Iterator[RecordedRequest]:
        """Start the span of a request; the jobs and payments it accepts continue its trace."""
        with self._tracer.start_as_current_span(
            f"{method} {route}",
            context=context_of(traceparent),
            kind=SpanKind.SERVER,
            attributes={"http.route": route, "http.request.method": method},
        ) as span:
            yield RecordedRequest(span)

    def handler(self, kind: str, deliver: JobHandler) -> JobHandler:
        """Add a span to each delivery; the destination receives it as `traceparent`."""
        return self._sending(f"deliver {kind}", _producing(kind), deliver, _attributes)

    def publishing(self, kind: str, deliver: JobHandler) -> JobHandler:
        """Add a span to each delivery of an event, in the trace of its job or payment."""
        return self._sending(f"publish {kind}", _producing(kind), deliver, _event_attributes)

    def _sending(
        self,
        name: str,
        kind: SpanKind,
        deliver: JobHandler,
        attributes: Callable[[Delivery], dict[str, str | int]],
    ) -> JobHandler:
        async def traced(delivery: Delivery) -> Outcome:
            with self._tracer.start_as_current_span(
                name,
                context=context_of(delivery.traceparent),
                kind=kind,
                attributes=attributes(delivery),
            ) as span:
                traceparent = traceparent_of(span.get_span_context())
                outcome = await deliver(msgspec.structs.replace(delivery, traceparent=traceparent))
                _set_outcome(span, outcome)
                return outcome

        return traced

    @contextmanager
    def expanding(self, buckets: Sequence[int]) -> Iterator[Expansion]:
        """Start a span for a batch of schedules; each occurrence gets a trace linked to it."""
        with self._tracer.start_as_current_span(
            "expand schedules", context=Context(), attributes={"postdate.buckets": buckets}
        ) as span:
            spans = Expansion(self._tracer, span.get_span_context())
            try:
                yield spans
            except BaseException as error:
                spans.record_failure(error)
                raise

    def settled(
        self, dues: Sequence[DuePayment], results: Sequence[SettlementResult], seconds: float
    ) -> None:
        """Record a span for each payment of a committed batch that has a trace."""
        ended = time.time_ns()
        began = ended - int(seconds * 1e9)
        for due, result in zip(dues, results, strict=True):
            if due.traceparent is None or isinstance(result, Waits):
                continue
            span = self._tracer.start_span(
                "settle payment",
                context=context_of(due.traceparent),
                kind=SpanKind.INTERNAL,
                attributes={"postdate.payment_id": str(due.payment_id)},
                start_time=began,
            )
            _judge(span, result)
            span.end(ended)

    def close(self) -> None:
        """Export the last spans, for a limited time: the collector may be gone."""
        closing = threading.Thread(target=self._close, daemon=True, name="trace-close")
        closing.start()
        closing.join(FLUSH_SECONDS)


def _producing(kind: str) -> SpanKind:
    return SpanKind.PRODUCER if kind == "queue" else SpanKind.CLIENT


def _event_attributes(delivery: Delivery) -> dict[str, str | int]:
    return {
        "postdate.event_id": str(delivery.job_id),
        "postdate.subject": delivery.order_key or "",
        "postdate.attempt": delivery.attempt,
        "postdate.token": delivery.token,
    }


def _attributes(delivery: Delivery) -> dict[str, str | int]:
    return {
        "postdate.job_id": str(delivery.job_id),
        "postdate.lane": delivery.lane,
        "postdate.attempt": delivery.attempt,
        "postdate.token": delivery.token,
    }


def _set_outcome(span: Span, outcome: Outcome) -> None:
    span.set_attribute("postdate.outcome", type(outcome).__name__.lower())
    match outcome:
        case DeliveryFailed(code=code) | DeliveryUnknown(code=code):
            span.set_attribute("error.type", code)
            span.set_status(Status(StatusCode.ERROR, outcome.error))
        case Completed() | Running() | Throttled():
            pass
        case other:
            assert_never(other)


def _judge(span: Span, result: SettlementResult) -> None:
    match result:
        case Settled() | Paid():
            span.set_attribute("postdate.outcome", "completed")
        case TransferFailed(reason=reason, error=error) | RetryLater(reason=reason, error=error):
            ended = isinstance(result, TransferFailed)
            span.set_attribute("postdate.outcome", "failed" if ended else "retrylater")
            span.set_attribute("error.type", str(reason))
            span.set_status(Status(StatusCode.ERROR, error))
        case Waits():
            pass
        case other:
            assert_never(other)


def add_trace(line: dict[str, Any]) -> None:
    """Put the ids of the current span into a log line."""
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        line["trace_id"] = f"{span.trace_id:032x}"
        line["span_id"] = f"{span.span_id:016x}"


def requested_exporter(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the exporter that the standard variables select, or None."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    named = environ.get(EXPORTER, "").strip().lower()
    if named:
        return None if named == "none" else named
    return "otlp" if any(environ.get(name) for name in ENDPOINTS) else None


def configure(environ: Mapping[str, str] = os.environ) -> Tracing | None:
    """Return the tracing that the environment selects; only then is the SDK loaded."""
    exporter = requested_exporter(environ)
    if exporter is None:
        return None
    if exporter not in {"otlp", "console"}:
        raise StartError(f"{EXPORTER} is otlp, console or none, not {exporter}")
    for name in PROTOCOLS:
        if environ.get(name, "http/protobuf") != "http/protobuf":
            raise StartError(f"{name} is http/protobuf: postdate exports in no other way")
    try:
        return _load(exporter)
    except ImportError as error:
        raise StartError(
            "tracing is asked for by OTEL_… variables, but OpenTelemetry's SDK is not installed: "
            f"install postdate[otel], or set {EXPORTER}=none ({error})"
        ) from error


def _load(exporter: str) -> Tracing:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    target: SpanExporter
    if exporter == "console":
        target = ConsoleSpanExporter()
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        target = OTLPSpanExporter()
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "postdate"}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(target))
    return Tracing(provider, provider.shutdown)
