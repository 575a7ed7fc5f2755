"""The guarded connector: what the URL does not tell is judged when it is known."""

import asyncio
import socket
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from conftest import eventually
from postdate.delivery.guard import (
    LOOKUPS_TENANT,
    Guard,
    LookupBusyError,
    TargetRefusedError,
    system_lookup,
)
from postdate.delivery.http_exchange import HttpExchange, NotSent
from postdate.delivery.threads import TenantThreads
from postdate.destination.spec.target import Target, networks
from postdate.job.spec.outcome import Completed, Failed, Throttled
from support.hostile_receiver import hostile, status
from support.target_corpus import ADDRESSES
from support.webhook import delivery, setup

# One loopback address stands for the public network, all others for what lies behind it.
PUBLIC, PRIVATE = "127.0.0.1", "127.0.0.2"
ALLOWED = f"{PUBLIC}/32"


class Names:
    """A resolver that gives one answer after the other."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, tenant_id: int, host: str, port: int) -> list[str]:
        del tenant_id
        self.asked.append(f"{host}:{port}")
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


async def test_a_name_is_resolved_once_and_what_was_judged_is_called() -> None:
    names = Names([PUBLIC], [PRIVATE])
    async with hostile(status(200)) as server, setup(ALLOWED, names) as calls:
        outcome = await calls.deliver(delivery(f"http://rebind.example:{server.port}/"))
        assert isinstance(outcome, Completed)
        assert (server.connections, names.asked) == (1, [f"rebind.example:{server.port}"])
        assert b"host: rebind.example" in server.requests[0].lower()


async def test_a_name_that_was_rebound_is_refused() -> None:
    names = Names([PUBLIC], [PRIVATE])
    close = status(200, "Connection: close")
    async with hostile(close) as server, setup(ALLOWED, names) as calls:
        url = f"http://rebind.example:{server.port}/"
        assert isinstance(await calls.deliver(delivery(url)), Completed)
        calls.webhook._exchange._pool.forget_names()
        outcome = await calls.deliver(delivery(url))
        assert isinstance(outcome, Failed)
        assert (outcome.code, outcome.retryable) == ("target_not_allowed", False)
        assert len(server.requests) == 1


async def test_one_private_address_among_public_ones_is_enough() -> None:
    async with hostile(status(200)) as server:
        for answer in ([PUBLIC, PRIVATE], [PRIVATE, PUBLIC], [PUBLIC, "::1"]):
            async with setup(ALLOWED, Names(answer)) as calls:
                outcome = await calls.deliver(delivery(f"http://mixed.example:{server.port}/"))
            assert isinstance(outcome, Failed)
            assert outcome.code == "target_not_allowed"
        assert server.connections == 0


@pytest.mark.parametrize("address", ADDRESSES)
async def test_no_name_leads_to_a_private_address(address: str) -> None:
    exchange = HttpExchange(Guard(networks(""), Names([address])))
    target = Target("http", "innocent.example", 80, "/", None)
    result = await exchange.post(1, target, {}, b"", timeout_seconds=1)
    await exchange.close()
    assert isinstance(result, NotSent)
    assert result.code == "target_not_allowed"


async def test_the_systems_resolver_is_judged_too() -> None:
    async with hostile(status(200)) as server, setup("10.0.0.0/8") as calls:
        outcome = await calls.deliver(delivery(f"http://localhost.:{server.port}/"))
        assert isinstance(outcome, Failed)
        assert outcome.code == "target_not_allowed"
        assert server.connections == 0


async def test_a_literal_address_is_judged_at_delivery_again() -> None:
    async with hostile(status(200)) as server, setup("") as calls:
        outcome = await calls.deliver(delivery(server.url))
        assert isinstance(outcome, Failed)
        assert (outcome.code, server.connections) == ("target_not_allowed", 0)


async def test_no_socket_is_made_for_a_refused_address() -> None:
    guard = Guard(networks(ALLOWED))
    guard.open_socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", (PUBLIC, 80))).close()
    with pytest.raises(TargetRefusedError):
        guard.open_socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", (PRIVATE, 80)))
    with pytest.raises(TargetRefusedError):
        guard.open_socket((socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%eth0", 80, 0, 2)))
    guard.close()


@pytest.mark.parametrize("peer", [(PRIVATE, 80), ("::ffff:10.0.0.1", 80, 0, 0)])
async def test_nothing_is_sent_to_a_peer_other_than_the_judged_one(
    peer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hostile(status(200)) as server, setup(ALLOWED) as calls:
        guard = calls.webhook._exchange._guard
        judge_peer = guard.judge_peer
        elsewhere = cast("Any", SimpleNamespace(getpeername=lambda: peer))
        monkeypatch.setattr(guard, "judge_peer", lambda _: judge_peer(elsewhere))
        outcome = await calls.deliver(delivery(server.url))
        assert isinstance(outcome, Failed)
        assert outcome.code == "target_not_allowed"
        assert server.requests == []


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hostile(status(200)) as proxy, hostile(status(200)) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with setup() as calls:
            assert isinstance(await calls.deliver(delivery(server.url)), Completed)
        assert (proxy.connections, server.connections) == (0, 1)


async def test_a_name_that_does_not_exist_is_not_delivered() -> None:
    async def nowhere(_: int, host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, f"no such name {host}:{port}")

    async with setup(ALLOWED, nowhere) as calls:
        outcome = await calls.deliver(delivery("http://nowhere.example/"))
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.retryable) == ("dns_failed", True)


async def _free(threads: TenantThreads) -> bool:
    return not threads._busy


async def test_slow_names_of_one_tenant_leave_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when nobody waits for them any more: the thread is held until the system answers."""
    answered = threading.Event()

    def ask(host: str, port: int, **_: Any) -> list[Any]:
        if host == "slow.example":
            answered.wait(10)
        return [(None, None, None, "", (PUBLIC, port))]

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    threads = TenantThreads("test", LOOKUPS_TENANT + 1, LOOKUPS_TENANT)
    lookup = system_lookup(threads)
    for _ in range(LOOKUPS_TENANT):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lookup(1, "slow.example", 80), 0.01)
    with pytest.raises(LookupBusyError):
        await lookup(1, "quick.example", 80)
    assert await lookup(2, "quick.example", 80) == [PUBLIC]
    answered.set()
    await eventually(partial(_free, threads))
    assert await lookup(1, "quick.example", 80) == [PUBLIC]
    threads.close()


async def test_too_many_names_at_once_are_not_an_attempt() -> None:
    async def busy(_: int, host: str, port: int) -> list[str]:
        raise LookupBusyError(f"{host}:{port}")

    async with setup(ALLOWED, busy) as calls:
        outcome = await calls.deliver(delivery("http://slow.example/"))
    assert isinstance(outcome, Throttled)


async def test_an_error_does_not_name_the_private_address_behind_a_name() -> None:
    for address in ("169.254.169.254", "fd00::1"):
        async with setup("", Names([address])) as calls:
            outcome = await calls.deliver(delivery("http://inside.example/"))
        assert isinstance(outcome, Failed)
        assert address not in f"{outcome.error}"
        assert "not public" in f"{outcome.error}"


async def test_a_failed_connection_does_not_name_the_address_behind_a_name() -> None:
    async with hostile(status(200)) as server:
        port = server.port
    async with setup(ALLOWED, Names([PUBLIC])) as calls:
        outcome = await calls.deliver(delivery(f"http://inside.example:{port}/"))
    assert isinstance(outcome, Failed)
    assert "(its address)" in f"{outcome.error}"
    assert PUBLIC not in f"{outcome.error}"
