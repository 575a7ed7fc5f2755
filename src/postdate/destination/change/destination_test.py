"""Test a destination: one delivery without a job."""

import time
from collections.abc import Mapping
from typing import Any, Final, Literal, assert_never

import msgspec

from postdate.core.identity import Identity
from postdate.core.ids import BUCKETS, new_id
from postdate.database.connection import clock
from postdate.database.connection.database import Database
from postdate.destination.spec.destination import DestinationType
from postdate.destination.store import destination as destination_store
from postdate.job.spec.outcome import (
    Completed,
    Delivery,
    Failed,
    JobHandler,
    Outcome,
    Running,
    Throttled,
    Unknown,
)
from postdate.words.error import Code, not_found, refuse

TIMEOUT_SECONDS: Final = 10.0
SHOWN_BYTES: Final = 1024


class DestinationTestResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a test, in the form of an attempt."""

    outcome: Literal["completed", "failed", "unknown", "running", "throttled"]
    duration_ms: int
    http_status: int | None = None
    code: str | None = None
    error: str | None = None
    response: str | None = None


class DestinationTests:
    """Sends a small event of the type `destination.test`."""

    def __init__(self, database: Database, handlers: Mapping[DestinationType, JobHandler]) -> None:
        self._database = database
        self._handlers = handlers

    async def run(self, actor: Identity, name: str) -> DestinationTestResult:
        """Deliver once and return the result; nothing is stored or retried."""
        async with self._database.read(actor.tenant_id) as connection:
            row = await destination_store.find(connection, actor.tenant_id, name)
            now = await clock.now(connection)
        if row is None:
            raise not_found("destination", name)
        handler = self._handlers.get(DestinationType(row.type))
        if handler is None:
            raise refuse(Code.CONFLICT, f"This node has no handler for type {row.type}.")
        delivery = Delivery(
            job_id=new_id(actor.tenant_id % BUCKETS, self._database.unix_ms()),
            token=1,
            attempt=1,
            tenant_id=actor.tenant_id,
            lane="",
            destination={"type": row.type, "name": name},
            due_at=now,
            timeout_seconds=TIMEOUT_SECONDS,
            payload=msgspec.json.encode({"type": "destination.test", "destination": name}),
            content_type="application/json",
        )
        started = time.monotonic()
        outcome = await handler(delivery)
        return _result(outcome, int((time.monotonic() - started) * 1000))


def _result(outcome: Outcome, duration_ms: int) -> DestinationTestResult:
    shown: dict[str, Any] = {"duration_ms": duration_ms}
    match outcome:
        case Completed(status, response):
            return DestinationTestResult(
                outcome="completed", http_status=status, response=_text(response), **shown
            )
        case Failed() | Unknown():
            return DestinationTestResult(
                outcome="failed" if isinstance(outcome, Failed) else "unknown",
                http_status=outcome.http_status,
                code=outcome.code,
                error=outcome.error,
                response=_text(outcome.response),
                **shown,
            )
        case Running():
            return DestinationTestResult(outcome="running", **shown)
        case Throttled(reason=reason):
            return DestinationTestResult(outcome="throttled", code=reason, **shown)
        case _:
            assert_never(outcome)


def _text(response: bytes | None) -> str | None:
    return None if response is None else response[:SHOWN_BYTES].decode(errors="replace")
