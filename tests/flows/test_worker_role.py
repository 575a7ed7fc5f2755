"""The worker role beside the API: hints make it prompt, stopping ends it in good order."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from aiohttp import web

from conftest import Api, eventually
from postdate.node import worker
from postdate.node.node import Node
from support.receiver import Receiver

pytestmark = pytest.mark.own_database("its loops work for every tenant")

Role = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture
async def role(api: Api) -> AsyncIterator[Role]:
    """A node of the worker role beside the API's; calling it stops it in good order."""
    node = Node(settings=api.node.settings, database=api.node.database, roles=["worker"])
    loops = [*node.housekeeping(), *worker.loops(node)]
    hints = [asyncio.create_task(each.wakeup.run()) for each in (node, api.node)]
    going = [asyncio.create_task(loop.run()) for loop in loops]

    async def stop() -> None:
        for loop in loops:
            loop.stop()
        await asyncio.gather(*going)

    yield stop
    await stop()
    for hint in hints:
        hint.cancel()
    await asyncio.gather(*hints, return_exceptions=True)
    await node.outgoing.close()


async def add(api: Api, url: str, **fields: Any) -> str:
    body = {"destination": {"type": "webhook", "url": url}, "payload": {"n": 1}, **fields}
    answered = await api.call("POST", "/jobs", body)
    assert answered.status == 201, answered.body
    return str(answered.body["job_id"])


async def ended(api: Api, job_id: str) -> Any:
    async def check() -> Any:
        body = (await api.call("GET", f"/jobs/{job_id}")).body
        return body if body["status"] in {"COMPLETED", "FAILED"} else None

    return await eventually(check)


@pytest.mark.usefixtures("role")
async def test_a_webhook_job_is_delivered_and_its_outcome_shown(
    api: Api, receiver: Receiver
) -> None:
    job_id = await add(api, receiver.url("/ok"), lane="brand-new")
    assert (await ended(api, job_id))["status"] == "COMPLETED"
    [arrived] = receiver.arrivals
    assert {k.lower(): v for k, v in arrived.headers.items()}["webhook-id"] == job_id
    assert msgspec.json.decode(arrived.body) == {"n": 1}


@pytest.mark.usefixtures("role")
async def test_a_known_lane_starts_within_the_promised_lateness(
    api: Api, receiver: Receiver
) -> None:
    await ended(api, await add(api, receiver.url("/ok")))
    ids = [await add(api, receiver.url("/ok"), delay_seconds=0.3) for _ in range(5)]
    for job_id in ids:
        await ended(api, job_id)
    rows = await api.node.database.writer.fetch(
        "SELECT started_at - due_at AS late FROM outcome WHERE subject = ANY($1::uuid[])", ids
    )
    late = [row["late"] for row in rows]
    assert len(late) == 5
    assert timedelta(0) <= min(late)
    assert max(late) < timedelta(seconds=2)


async def test_stopping_waits_for_what_is_under_way(
    api: Api, role: Role, receiver: Receiver
) -> None:
    answered = asyncio.Event()

    async def slowly(_: web.Request) -> web.Response:
        await answered.wait()
        return web.Response(text="ok")

    receiver.script("/slow", slowly)
    job_id = await add(api, receiver.url("/slow"), lane="leaving")
    await receiver.wait_for(1)
    stopping = asyncio.create_task(role())
    await asyncio.wait([stopping], timeout=0.3)
    assert not stopping.done()
    answered.set()
    await stopping
    assert (await api.call("GET", f"/jobs/{job_id}")).body["status"] == "COMPLETED"
    waiting = await add(api, receiver.url("/ok"), lane="leaving")
    assert (await api.call("GET", f"/jobs/{waiting}")).body["status"] == "READY"
