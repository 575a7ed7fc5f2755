"""Jobs to named destinations through two worker nodes: signed, limited, held back, confirmed."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks import Webhook as Verifier

from conftest import Api, eventually
from postdate.delivery.breaker import FAILURES
from postdate.job.view import JobViews
from postdate.node.node import Node
from support.receiver import Arrival, Receiver

pytestmark = [
    pytest.mark.usefixtures("workers"),
    pytest.mark.own_database("its loops work for every tenant"),
]
WINDOW = 16


async def named(api: Api, url: str, **parts: Any) -> str:
    answer = await api.call("POST", "/destinations", {"name": "orders", "url": url, **parts})
    assert answer.status == 201, answer.body
    return str(answer.body["secret"])


async def add(api: Api, count: int, **fields: Any) -> list[str]:
    job = {"destination": {"type": "webhook", "name": "orders"}, "payload": {"n": 1}, **fields}
    answer = await api.call("POST", "/jobs/batch", {"jobs": [job] * count})
    return [each["job"]["job_id"] for each in answer.body["outcomes"]]


async def all_in(api: Api, ids: list[str], status: str, seconds: float = 20) -> None:
    async def check() -> bool:
        found = [(await api.call("GET", f"/jobs/{each}")).body["status"] for each in ids]
        return all(each == status for each in found)

    await eventually(check, seconds, 0.1)


def lower(arrival: Arrival) -> dict[str, str]:
    return {name.lower(): value for name, value in arrival.headers.items()}


async def test_the_named_secret_signs_and_the_limit_holds_over_all_nodes(
    api: Api, receiver: Receiver
) -> None:
    running, most = 0, 0

    async def slowly(_: web.Request) -> web.StreamResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await wait_a_moment()
        running -= 1
        return web.Response()

    receiver.script("/hook", slowly)
    secret = await named(api, receiver.url("/hook"), max_running=2)
    ids = await add(api, 12)
    await all_in(api, ids, "COMPLETED")
    assert most == 2
    for arrival in receiver.arrivals:
        Verifier(secret).verify(arrival.body, lower(arrival))
    assert sorted(lower(each)["webhook-id"] for each in receiver.arrivals) == sorted(ids)


async def test_jobs_of_a_paused_destination_wait_and_spend_no_attempt(
    api: Api, receiver: Receiver, workers: list[Node]
) -> None:
    """One that runs ends normally; the others run after the resume, each once."""
    arrived, let_go = asyncio.Event(), asyncio.Event()

    async def slowly(_: web.Request) -> web.StreamResponse:
        arrived.set()
        await let_go.wait()
        return web.Response()

    receiver.script("/hook", slowly)
    await named(api, receiver.url("/hook"))
    [running] = await add(api, 1)
    await asyncio.wait_for(arrived.wait(), 20)
    paused = await api.call("POST", "/destinations/orders/pause", {"reason": "their release"})
    assert paused.status == 200
    tenant_id = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    for node in workers:
        node.outgoing.directory.forget(tenant_id, "orders")
    waiting = await add(api, 5, retry={"max_attempts": 1})
    let_go.set()
    await all_in(api, [running], "COMPLETED")

    async def put_off() -> bool:
        found = [(await api.call("GET", f"/jobs/{each}")).body for each in waiting]
        return all(
            one["status"] == "PENDING" and one["next_attempt_at"] > one["effective_at"]
            for one in found
        )

    await eventually(put_off, 20, 0.1)
    assert len(receiver.arrivals) == 1
    views = JobViews(api.node.database, api.node.lanes)
    found = await views.waiting_at(tenant_id, "orders")
    assert (found.waiting, found.capped) == (5, False)
    await api.call("POST", "/destinations/orders/resume")
    for node in workers:
        node.outgoing.directory.forget(tenant_id, "orders")
    await all_in(api, waiting, "COMPLETED", 30)
    attempts = [(await api.call("GET", f"/jobs/{each}")).body["attempt"] for each in waiting]
    assert (attempts, len(receiver.arrivals)) == ([1] * 5, 6)


async def wait_a_moment() -> None:
    await asyncio.sleep(0.05)


async def test_a_destination_that_is_down_sees_few_and_loses_no_job(
    api: Api, receiver: Receiver
) -> None:
    up = False

    async def down(_: web.Request) -> web.StreamResponse:
        return web.Response(status=200 if up else 500)

    receiver.script("/down", down)
    await named(api, receiver.url("/down"), max_running=WINDOW)
    retry = {"max_attempts": 50, "backoff": "fixed", "initial_seconds": 0.2}
    ids = await add(api, 200, retry=retry)
    await receiver.wait_for(2 * FAILURES)
    while_down = await quiet(receiver)
    # Each node may have a window full in flight before its breaker opens; then only probes.
    assert while_down <= 2 * (WINDOW + FAILURES)
    up = True
    await all_in(api, ids, "COMPLETED", 60)
    assert len(receiver.arrivals) <= while_down + len(ids) + 20


async def quiet(receiver: Receiver) -> int:
    """Wait until nothing has arrived for half a second."""
    seen = -1

    async def check() -> bool:
        nonlocal seen
        before, seen = seen, len(receiver.arrivals)
        return before == seen

    await eventually(check, 20, 0.5)
    return seen


async def test_one_that_is_gone_ends_its_jobs_and_is_disabled(api: Api, receiver: Receiver) -> None:
    async def gone(_: web.Request) -> web.StreamResponse:
        return web.Response(status=410)

    receiver.script("/gone", gone)
    await named(api, receiver.url("/gone"))
    await all_in(api, await add(api, 1), "FAILED")
    shown = await api.call("GET", "/destinations/orders")
    assert shown.body["disabled_reason"] == "it answered 410 Gone"


async def test_later_runs_until_it_is_acknowledged(api: Api, receiver: Receiver) -> None:
    async def later(_: web.Request) -> web.StreamResponse:
        return web.Response(status=202, headers={"postdate-ack": "later"})

    receiver.script("/later", later)
    await named(api, receiver.url("/later"))
    ids = await add(api, 1)
    (arrival,) = await receiver.wait_for(1)
    await all_in(api, ids, "RUNNING")
    token = {"token": int(lower(arrival)["postdate-token"])}
    answer = await api.call("POST", f"/leases/{ids[0]}/complete", token)
    assert answer.status == 200, answer.body
    await all_in(api, ids, "COMPLETED")
    assert len(receiver.arrivals) == 1


async def test_a_receiver_that_hangs_up_leaves_doubt_to_the_end(
    api: Api, receiver: Receiver
) -> None:
    async def hang_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    receiver.script("/deaf", hang_up)
    await named(api, receiver.url("/deaf"))
    retry = {"max_attempts": 2, "backoff": "fixed", "initial_seconds": 0.05}
    [job_id] = await add(api, 1, retry=retry)
    await all_in(api, [job_id], "FAILED")
    attempts = (await api.call("GET", f"/jobs/{job_id}/attempts")).body["attempts"]
    assert [each["status"] for each in attempts] == ["UNKNOWN", "UNKNOWN"]
    assert (await api.call("GET", f"/jobs/{job_id}")).body["in_doubt"] is True
