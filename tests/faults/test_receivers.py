"""Receivers that hang, drip, lie and die: each delivery ends in time, as what it was."""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator
from itertools import repeat

import pytest

from postdate.delivery.answer_parser import ANSWER_BYTES
from postdate.job.spec.outcome import Completed, Failed, Running, Unknown
from support.hostile_receiver import Act, Hostile, Peer, answering, hostile, status
from support.receiver import Receiver
from support.webhook import HandlerSetup, delivery, setup

TIMEOUT = 1.0
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def calls() -> AsyncIterator[HandlerSetup]:
    async with setup() as running:
        yield running


async def silent(peer: Peer) -> None:
    await peer.hang()


async def half_a_head(peer: Peer) -> None:
    await peer.write(b"HTTP/1.1 200 OK\r\nContent-Le")
    await peer.hang()


async def drip_head(peer: Peer) -> None:
    head = OK + b"Content-Length: 0\r\n\r\n"
    await peer.drip((bytes([byte]) for byte in head), 0.1)


async def drip_body(peer: Peer) -> None:
    await peer.write(OK + b"Content-Length: 1000\r\n\r\n")
    await peer.drip(repeat(b"x"), 0.1)


async def endless_continue(peer: Peer) -> None:
    await peer.drip(repeat(b"HTTP/1.1 100 Continue\r\n\r\n"), 0.05)


async def timed(
    calls: HandlerSetup, server: Hostile, seconds: float = TIMEOUT
) -> tuple[object, float]:
    started = time.monotonic()
    outcome = await calls.deliver(delivery(server.url, timeout_seconds=seconds))
    return outcome, time.monotonic() - started


@pytest.mark.parametrize(
    "act", [silent, half_a_head, drip_head, drip_body, endless_continue], ids=lambda a: a.__name__
)
async def test_the_deadline_covers_everything_and_leaves_doubt(
    calls: HandlerSetup, act: Act
) -> None:
    async with hostile(act) as server:
        outcome, took = await timed(calls, server)
    assert isinstance(outcome, Unknown)
    assert outcome.code in {"timeout", "answer_broken"}
    assert abs(took - TIMEOUT) <= 0.5


@pytest.mark.parametrize("seconds", [0.3, 2.0])
async def test_the_deadline_is_the_jobs_own(calls: HandlerSetup, seconds: float) -> None:
    async with hostile(silent) as server:
        _, took = await timed(calls, server, seconds)
    assert abs(took - seconds) <= 0.5


async def endless_body(peer: Peer) -> None:
    await peer.write(CHUNKED)
    while True:
        await peer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")


async def test_an_endless_body_is_cut_and_its_status_counts(calls: HandlerSetup) -> None:
    async with hostile(endless_body) as server:
        outcome, took = await timed(calls, server, 5.0)
    assert isinstance(outcome, Completed)
    assert took < 2.0
    assert len(outcome.response or b"") <= ANSWER_BYTES
    # What the kernel's buffers on both sides swallow cannot be given back.
    assert server.written < 16 * 2**20


async def test_a_gzip_bomb_stays_packed(calls: HandlerSetup) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    async with hostile(status(200, "Content-Encoding: gzip", body=bomb)) as server:
        outcome, took = await timed(calls, server, 5.0)
    assert isinstance(outcome, Completed)
    assert (outcome.response or b"").startswith(b"\x1f\x8b")
    assert len(outcome.response or b"") <= ANSWER_BYTES
    assert took < 1.0


async def dies_after_the_effect(peer: Peer) -> None:
    peer.reset()


async def ends_without_a_word(peer: Peer) -> None:
    peer.writer.close()


async def dies_in_the_body(peer: Peer) -> None:
    await peer.write(OK + b"Content-Length: 100\r\n\r\nhalf")
    peer.reset()


UNREADABLE = {
    "another protocol": answering(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "garbage": answering(b"\xff\xfe\x00garbage\r\n\r\n"),
    "a status that is no number": answering(b"HTTP/1.1 2xx Fine\r\n\r\n"),
    "a chunk of no size": answering(CHUNKED + b"ZZZ\r\nbad\r\n0\r\n\r\n"),
    "a chunk that stops": answering(CHUNKED + b"5\r\nabc"),
    "a negative length": answering(OK + b"Content-Length: -5\r\n\r\n"),
    "two lengths": answering(OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
    "a huge header": answering(OK + b"X: " + b"y" * 20_000 + b"\r\n\r\n"),
    "endless headers": answering(OK + b"".join(b"X-%d: y\r\n" % n for n in range(20_000))),
    "a reset": dies_after_the_effect,
    "an end": ends_without_a_word,
    "a reset in the body": dies_in_the_body,
}


@pytest.mark.parametrize("act", UNREADABLE.values(), ids=UNREADABLE)
async def test_an_answer_that_cannot_be_read_is_in_doubt(calls: HandlerSetup, act: Act) -> None:
    async with hostile(act) as server:
        outcome, took = await timed(calls, server)
    assert isinstance(outcome, Unknown), outcome
    assert took <= TIMEOUT + 0.5
    assert len(server.requests) == 1


ODD = {
    "7": 7.0,
    "0": 0.0,
    " 12 ": 12.0,
    "99999999999999999999999": 86_400.0,
    "-5": None,
    "1.5": None,
    "soon": None,
    "": None,
    "1e3": None,
    "\N{FULLWIDTH DIGIT ONE}": None,
    "Wed, 21 Oct 2015 07:28:00 GMT": 0.0,
    "Fri, 31 Dec 9999 23:59:59 GMT": 86_400.0,
    "Fri, 99 Foo 2042 07:28:00 GMT": None,
}


@pytest.mark.parametrize(("header", "wanted"), ODD.items())
@pytest.mark.parametrize("number", [429, 503])
async def test_retry_after_is_honoured_within_reason(
    calls: HandlerSetup, number: int, header: str, wanted: float | None
) -> None:
    async with hostile(status(number, f"Retry-After: {header}")) as server:
        outcome, _ = await timed(calls, server)
    assert isinstance(outcome, Failed)
    assert (outcome.retryable, outcome.retry_after_seconds) == (True, wanted)


async def test_a_date_counts_from_the_answers_own_date(calls: HandlerSetup) -> None:
    dates = ("Date: Wed, 21 Oct 2015 07:28:00 GMT", "Retry-After: Wed, 21 Oct 2015 07:28:30 GMT")
    async with hostile(status(503, *dates)) as server:
        outcome, _ = await timed(calls, server)
    assert isinstance(outcome, Failed)
    assert outcome.retry_after_seconds == 30.0


@pytest.mark.parametrize("number", [300, 301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_never_followed(calls: HandlerSetup, number: int) -> None:
    async with hostile(status(200)) as elsewhere:
        async with hostile(status(number, f"Location: {elsewhere.url}")) as server:
            outcome, _ = await timed(calls, server)
        assert elsewhere.connections == 0
    assert isinstance(outcome, Failed)
    assert outcome.http_status == number


async def test_gone_ends_the_job_and_disables_the_named_destination(calls: HandlerSetup) -> None:
    async with hostile(status(410)) as server:
        calls.name("orders", server.url)
        named = delivery(destination={"type": "webhook", "name": "orders"})
        outcome = await calls.deliver(named)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.retryable) == ("destination_gone", False)
    assert [(tenant, name) for tenant, name, _ in calls.disabled] == [(1, "orders")]


async def test_gone_from_a_bare_url_disables_nothing(calls: HandlerSetup) -> None:
    async with hostile(status(410)) as server:
        outcome, _ = await timed(calls, server)
    assert isinstance(outcome, Failed)
    assert calls.disabled == []


async def test_later_leaves_it_running(calls: HandlerSetup) -> None:
    async with hostile(status(202, "Postdate-Ack: later")) as server:
        outcome, _ = await timed(calls, server)
    assert isinstance(outcome, Running)
    async with hostile(status(202)) as server:
        outcome, _ = await timed(calls, server)
    assert isinstance(outcome, Completed)


JUDGED = dict.fromkeys((400, 422, 501), False) | dict.fromkeys(
    (401, 404, 408, 409, 425, 429, 500, 503, 599), True
)


@pytest.mark.parametrize(("number", "retryable"), JUDGED.items())
async def test_only_what_is_said_of_the_request_itself_is_final(
    calls: HandlerSetup, number: int, *, retryable: bool
) -> None:
    async with hostile(status(number, body=b"because")) as server:
        outcome, _ = await timed(calls, server)
    assert isinstance(outcome, Failed)
    assert (outcome.retryable, outcome.response) == (retryable, b"because")


@pytest.mark.parametrize("number", [502, 504])
async def test_a_gateway_that_lost_sight_of_it_leaves_doubt(
    calls: HandlerSetup, number: int
) -> None:
    async with hostile(status(number)) as server:
        outcome, _ = await timed(calls, server)
    assert isinstance(outcome, Unknown)
    assert outcome.http_status == number


async def test_a_refused_connection_is_certainly_not_delivered(calls: HandlerSetup) -> None:
    async with hostile(silent) as server:
        url = server.url
    outcome = await calls.deliver(delivery(url, timeout_seconds=TIMEOUT))
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.retryable) == ("connect_failed", True)


async def test_connections_are_used_again(calls: HandlerSetup) -> None:
    async with hostile(status(200, body=b"ok")) as server:
        for _ in range(5):
            assert isinstance(await calls.deliver(delivery(server.url)), Completed)
        assert (len(server.requests), server.connections) == (5, 1)


async def test_others_are_not_held_up(calls: HandlerSetup, receiver: Receiver) -> None:
    acts = (silent, drip_head, drip_body, endless_body, dies_after_the_effect, half_a_head)
    alone = sorted([await one(calls, receiver) for _ in range(100)])
    async with asyncio.TaskGroup() as group:
        for act in acts * 10:
            group.create_task(pester(calls, act))
        beside = sorted([await one(calls, receiver) for _ in range(100)])
    assert beside[90] < alone[90] + 0.25


async def pester(calls: HandlerSetup, act: Act) -> None:
    async with hostile(act) as server:
        await calls.deliver(delivery(server.url, tenant_id=2, timeout_seconds=TIMEOUT))


async def one(calls: HandlerSetup, receiver: Receiver) -> float:
    started = time.monotonic()
    assert isinstance(await calls.deliver(delivery(receiver.url())), Completed)
    return time.monotonic() - started
