"""What a receiver is told, and what stands in the way of telling it."""

import base64
import hmac
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from standardwebhooks import Webhook as Verifier

from postdate.destination.spec.destination import DestinationType, Unavailable
from postdate.job.spec.outcome import Completed, Failed, Throttled
from postdate.words.signature import new_secret, secret_bytes
from support.receiver import Arrival, Receiver
from support.webhook import SECRET, HandlerSetup, delivery, destination, setup


@pytest.fixture
async def calls() -> AsyncIterator[HandlerSetup]:
    async with setup() as running:
        yield running


def lower(arrival: Arrival) -> dict[str, str]:
    return {name.lower(): value for name, value in arrival.headers.items()}


def verify(key: bytes, arrival: Arrival) -> None:
    Verifier(base64.b64encode(key).decode()).verify(arrival.body, lower(arrival))


async def test_the_reference_verifier_accepts_the_signature(
    calls: HandlerSetup, receiver: Receiver
) -> None:
    outcome = await calls.deliver(delivery(receiver.url("/hook?x=%2F")))
    assert isinstance(outcome, Completed)
    (arrival,) = receiver.arrivals
    verify(SECRET, arrival)
    with pytest.raises(Exception, match="signature"):
        verify(b"another secret that is as long..", arrival)
    assert (arrival.method, arrival.path, arrival.body) == ("POST", "/hook", b'{"hello":"world"}')


async def test_both_secrets_verify_during_a_rotation(
    calls: HandlerSetup, receiver: Receiver
) -> None:
    old, new = b"o" * 32, b"n" * 32
    calls.name("orders", receiver.url(), secrets=(new, old))
    await calls.deliver(delivery(destination={"type": "webhook", "name": "orders"}))
    (arrival,) = receiver.arrivals
    verify(old, arrival)
    verify(new, arrival)


async def test_headers_tell_job_attempt_and_token(calls: HandlerSetup, receiver: Receiver) -> None:
    first = delivery(receiver.url(), token=3, attempt=1, traceparent="00-ab-cd-01")
    again = delivery(receiver.url(), job_id=first.job_id, token=5, attempt=2)
    await calls.deliver(first)
    await calls.deliver(again)
    one, two = (lower(arrival) for arrival in receiver.arrivals)
    assert one["webhook-id"] == two["webhook-id"] == str(first.job_id)
    assert (one["postdate-attempt"], one["postdate-token"]) == ("1", "3")
    assert (two["postdate-attempt"], two["postdate-token"]) == ("2", "5")
    assert abs(int(one["webhook-timestamp"]) - time.time()) < 5
    assert one["traceparent"] == "00-ab-cd-01"
    assert one["user-agent"].startswith("Postdate/")
    assert "traceparent" not in two
    assert "postdate-origin" not in one
    assert "idempotency-key" not in one


async def test_lineage_and_occurrence_are_told(calls: HandlerSetup, receiver: Receiver) -> None:
    nominal = datetime(2030, 1, 1, 12, tzinfo=UTC)
    schedule, origin = UUID(int=7), UUID(int=9)
    parts = {"schedule_id": schedule, "scheduled_for": nominal, "origin_id": origin}
    await calls.deliver(delivery(receiver.url(), **parts))
    await calls.deliver(
        delivery(receiver.url(), **parts | {"scheduled_for": nominal + timedelta(1)})
    )
    one, two = (lower(arrival) for arrival in receiver.arrivals)
    assert one["idempotency-key"] == f"{schedule}/2030-01-01T12:00:00Z"
    assert two["idempotency-key"] == f"{schedule}/2030-01-02T12:00:00Z"
    assert one["postdate-origin"] == str(origin)


@pytest.mark.parametrize(
    ("parts", "body", "kind"),
    [
        ({"payload": b"\x00\xff", "content_type": "image/png"}, b"\x00\xff", "image/png"),
        (
            {"payload": b"x", "content_type": "text/plain\r\nevil: 1"},
            b"x",
            "application/octet-stream",
        ),
        ({"payload": None, "content_type": None}, b"", "application/json"),
        (
            {"payload": None, "payload_ref": "s3://bucket/key"},
            b'{"payload_ref":"s3://bucket/key"}',
            "application/json",
        ),
    ],
)
async def test_the_payload_arrives_as_it_is(
    calls: HandlerSetup, receiver: Receiver, parts: dict[str, object], body: bytes, kind: str
) -> None:
    assert isinstance(await calls.deliver(delivery(receiver.url(), **parts)), Completed)
    (arrival,) = receiver.arrivals
    assert (arrival.body, lower(arrival)["content-type"]) == (body, kind)
    verify_bytes(arrival)


def verify_bytes(arrival: Arrival) -> None:
    sent = lower(arrival)
    told = f"{sent['webhook-id']}.{sent['webhook-timestamp']}.".encode() + arrival.body
    expected = base64.b64encode(hmac.digest(SECRET, told, "sha256")).decode()
    assert sent["webhook-signature"] == f"v1,{expected}"


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (None, "destination_missing"),
        (
            destination(name="x", url="https://example.com/", disabled="by hand"),
            "destination_disabled",
        ),
        (destination(name="x", type=DestinationType.QUEUE), "destination_mismatch"),
        (destination(name="x", url="nonsense"), "invalid_url"),
    ],
)
async def test_a_destination_that_cannot_be_called_ends_the_job(
    calls: HandlerSetup, found: object, code: str
) -> None:
    if found is not None:
        calls.destinations["x"] = found  # type: ignore[assignment]
    outcome = await calls.deliver(delivery(destination={"type": "webhook", "name": "x"}))
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.retryable) == (code, False)


async def test_a_paused_destination_is_not_called_and_a_person_may_test_it(
    calls: HandlerSetup, receiver: Receiver
) -> None:
    for paused_seconds, most in ((0.0, 2.0), (60.0, 8.0), (86400.0, 30.0)):
        calls.name("x", receiver.url("/hook"), paused="release", paused_seconds=paused_seconds)
        outcome = await calls.deliver(delivery(destination={"type": "webhook", "name": "x"}))
        assert isinstance(outcome, Throttled)
        assert outcome.reason == "destination_paused"
        assert 0.75 * most <= outcome.seconds <= most
    assert receiver.arrivals == []
    to = delivery(destination={"type": "webhook", "name": "x"})
    assert isinstance(await calls.webhook.attempt(to), Completed)


async def test_a_destination_that_cannot_be_read_now_is_not_an_attempt(calls: HandlerSetup) -> None:
    calls.destinations["x"] = Unavailable("the database is away")
    outcome = await calls.deliver(delivery(destination={"type": "webhook", "name": "x"}))
    assert isinstance(outcome, Throttled)


def test_secrets_have_the_standards_form() -> None:
    secret = new_secret()
    assert secret.startswith("whsec_")
    assert len(secret_bytes(secret) or b"") == 32
    assert secret_bytes("whsec_c2hvcnQ=") is None
    assert secret_bytes("whsec_***") is None


def test_a_destination_does_not_print_its_secrets() -> None:
    assert "0123456789" not in repr(destination())


async def test_a_trace_that_could_end_its_line_is_left_out(
    calls: HandlerSetup, receiver: Receiver
) -> None:
    evil = delivery(receiver.url(), traceparent="00-ab\r\nevil: 1")
    assert isinstance(await calls.deliver(evil), Completed)
    assert not {"traceparent", "evil"} & lower(receiver.arrivals[0]).keys()


async def test_a_large_payload_arrives_whole(calls: HandlerSetup, receiver: Receiver) -> None:
    large = b"x" * (256 * 1024)
    assert isinstance(await calls.deliver(delivery(receiver.url(), payload=large)), Completed)
    assert receiver.arrivals[0].body == large
