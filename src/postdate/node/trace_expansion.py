"""The spans of schedules: each occurrence starts a trace that its job or payment continues."""

from collections.abc import Sequence
from typing import assert_never

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
)

from postdate.core.instant import instant_text
from postdate.schedule.spec.firing import Fired, Firing
from postdate.words.error import Refusal


class Expansion:
    """The spans of one batch of occurrences.

    A schedule may run for years: as one trace it could not be read. So each occurrence is
    the root of its own, linked to the batch that made it and to the request that asked for it.
    """

    def __init__(self, tracer: Tracer, batch: SpanContext) -> None:
        self._tracer = tracer
        self._batch = batch
        self._spans: list[tuple[Span, Firing]] = []

    def begin(self, firings: Sequence[Firing]) -> Sequence[Firing]:
        """Start a trace span for each occurrence; the job or payment it creates continues it."""
        self._spans = [(self._span(firing), firing) for firing in firings]
        return [
            msgspec.structs.replace(firing, traceparent=traceparent_of(span.get_span_context()))
            for span, firing in self._spans
        ]

    def _span(self, firing: Firing) -> Span:
        asked = trace.get_current_span(context_of(firing.asked_by)).get_span_context()
        return self._tracer.start_span(
            "expand schedule",
            context=Context(),
            kind=SpanKind.PRODUCER,
            links=[Link(one) for one in (self._batch, asked) if one.is_valid],
            attributes={
                "postdate.schedule_id": str(firing.schedule_id),
                "postdate.scheduled_for": instant_text(firing.scheduled_for),
            },
        )

    def end(self, fired: Sequence[Fired | Refusal]) -> None:
        """Record the outcome of each occurrence, in order, after the commit."""
        for (span, firing), result in zip(self._spans, fired, strict=True):
            match result:
                case Fired(subject=subject):
                    span.set_attribute(f"postdate.{firing.template.kind}_id", str(subject))
                    outcome = "merged" if result.merged else "fired"
                    span.set_attribute("postdate.outcome", outcome)
                case Refusal(code=code, detail=detail):
                    span.set_attribute("postdate.outcome", "refused")
                    span.set_attribute("error.type", str(code))
                    span.set_status(Status(StatusCode.ERROR, detail))
                case other:
                    assert_never(other)
            span.end()
        self._spans = []

    def record_failure(self, error: BaseException) -> None:
        """Record that nothing was committed."""
        for span, _ in self._spans:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR, str(error)))
            span.end()
        self._spans = []


def traceparent_of(span: SpanContext) -> str:
    """Write a span's context as W3C does."""
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}"


def context_of(traceparent: str | None) -> Context:
    """Read the context that a request brought or a job kept; without one a new trace begins."""
    parts = (traceparent or "").split("-")
    if len(parts) != 4:  # noqa: PLR2004 - version, trace, span, flags
        return Context()
    try:
        numbers = [int(part, 16) for part in parts]
    except ValueError:
        return Context()
    parent = SpanContext(numbers[1], numbers[2], is_remote=True, trace_flags=TraceFlags(numbers[3]))
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())
