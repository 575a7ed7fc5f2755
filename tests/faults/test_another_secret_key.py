"""A node with another secret key than the others: it loses nothing, and says what it lacks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from conftest import INTERNAL_TOKEN, SECRET_KEY, Api, Clock, eventually
from postdate.database.connection.database import Database
from postdate.http.listener import bind
from postdate.http.login_throttle import LoginThrottle
from postdate.http.server import HttpServer
from postdate.job.spec.outcome import Throttled
from postdate.key.authentication.identity import Identities
from postdate.node import http as edge
from postdate.node import worker as worker_stage
from postdate.node.node import Node
from postdate.node.schedule import occurrences
from postdate.node.settings import ProcessSettings
from postdate.scheduler.expander import Expander
from postdate.secret.payload_encryption import PayloadCipher
from postdate.secret.secret import Keyring, parse_key
from support.local_queue import queue_to
from support.plain_browser import Browser
from support.receiver import Receiver
from support.schedule import create, drain, labels
from support.webhook import delivery

WORKER = {"type": "worker"}
PAYLOAD = {"name": "Ada Lovelace"}
TEMPLATE = {"job": {"destination": WORKER, "lane": "lane", "payload": PAYLOAD}}
OTHER = ProcessSettings(internal_token=INTERNAL_TOKEN, secret_key="ab" * 32)
OWN = ProcessSettings(secret_key=SECRET_KEY, allow_private_targets="127.0.0.0/8")
JOBS = 40


async def _seal(*apis: Api) -> None:
    """Have the payloads of a tenant encrypted from now on."""
    switched = await apis[0].call("PUT", "/settings/job.encryption", {"value": "on"})
    assert switched.status == 200
    for each in apis:
        await each.node.refresh_settings()


@pytest.fixture
async def lacking(api: Api) -> AsyncIterator[Api]:
    """Another API node of the same database, which was given another key."""
    node = Node(settings=OTHER, database=api.node.database, roles=["api"])
    identities = Identities(api.node.database, LoginThrottle(free=10**9))
    running = HttpServer(edge.build(node, identities), bind("127.0.0.1", 0))
    serving = asyncio.create_task(running.run())
    yield replace(api, url=running.url, node=node)
    running.stop()
    await serving
    await node.close()


async def test_whatever_needs_the_key_is_refused_by_name(api: Api, lacking: Api) -> None:
    await _seal(api, lacking)
    job = {"destination": WORKER, "lane": "lane", "payload": PAYLOAD}
    held = await api.call("POST", "/jobs", {**job, "delay_seconds": 600})
    assert held.status == 201
    path = f"/jobs/{held.body['job_id']}"
    schedule = await api.call("POST", "/schedules", {"every_seconds": 3600, "template": TEMPLATE})
    where = f"/schedules/{schedule.body['schedule_id']}"
    assert (await api.call("GET", "/signing-secret")).status == 200
    assert (await api.call("POST", "/jobs", job)).status == 201
    await lacking.node.lanes.refresh()
    calls: list[tuple[str, str, Any]] = [
        ("PATCH", path, {"payload": {"a": 1}}),
        ("POST", "/jobs", job),
        ("POST", "/jobs/batch", {"jobs": [job]}),
        ("POST", "/lanes/lane/claim", {"max": 10}),
        ("PATCH", where, {"name": "x"}),
        ("POST", f"{where}/trigger", {}),
        ("POST", "/schedules", {"every_seconds": 3600, "template": TEMPLATE}),
        ("POST", "/dead-letters/redrive", {"job_ids": [held.body["job_id"]]}),
        ("GET", "/signing-secret", None),
        ("POST", "/signing-secret/rotate", {}),
        ("POST", "/destinations", {"name": "b", "url": "https://example.com/"}),
    ]
    for method, at, body in calls:
        for headers in ({}, {"Idempotency-Key": uuid4().hex}):
            told = await lacking.call(method, at, body, headers=headers)
            assert (told.status, told.body["code"]) == (503, "secret_key_missing"), (method, at)


async def test_everything_of_a_job_but_its_payload_is_shown_without_the_key(
    api: Api, lacking: Api
) -> None:
    """Whoever is on call must see the job, and learn why its payload is not there."""
    await _seal(api, lacking)
    job = {"destination": WORKER, "lane": "lane", "payload": PAYLOAD, "description": "a <letter>"}
    held = (await api.call("POST", "/jobs", {**job, "delay_seconds": 600})).body
    path = f"/jobs/{held['job_id']}"
    await lacking.node.lanes.refresh()
    whole, shown = [(await one.call("GET", path)).body for one in (api, lacking)]
    assert whole.pop("payload") == PAYLOAD
    assert shown.pop("payload_error") == "secret_key_missing"
    assert shown == whole
    listed = (await lacking.call("GET", "/jobs?lane=lane")).body["jobs"]
    assert [one["job_id"] for one in listed] == [held["job_id"]]
    # What is done to it is done, and said so: before, the answer to it was 503.
    due = await lacking.call("POST", f"{path}/run-now")
    assert (due.status, due.body["payload_error"]) == (200, "secret_key_missing")
    async with Browser(lacking) as browser:
        await browser.sign_in()
        page = await browser.get(path)
        assert page.status == 200
        assert "a &lt;letter&gt;" in page.text
        assert "lacks the secret key" in page.text
        assert (await browser.get("/jobs?lane=lane")).status == 200


async def test_the_page_of_a_job_names_the_key_that_no_node_has(api: Api, lacking: Api) -> None:
    """Also for the last of many destinations, and for a payload that a worker would pull."""
    await _seal(api, lacking)
    names = [f"d{number}" for number in range(6)]
    for name in names:
        body = {"name": name, "url": "https://example.com/"}
        assert (await api.call("POST", "/destinations", body)).status == 201
    hook = {"type": "webhook", "name": names[-1]}
    wanted = {"api": {"destination": WORKER, "payload": PAYLOAD}, "worker": {"destination": hook}}
    await api.node.database.writer.execute("DELETE FROM node")
    worker = Node(settings=OTHER, database=api.node.database, roles=["worker"])
    await asyncio.gather(worker.heartbeat.run_once(), lacking.node.heartbeat.run_once())
    try:
        async with Browser(lacking) as browser:
            await browser.sign_in()
            for role, job in wanted.items():
                made = (await api.call("POST", "/jobs", {**job, "lane": role})).body
                await lacking.node.lanes.refresh()
                page = (await browser.get(f"/jobs/{made['job_id']}")).text
                assert f"No node with the role {role} has had the secret key" in page
    finally:
        await api.node.database.writer.execute("DELETE FROM node")
        await worker.close()


async def test_a_payload_that_its_key_does_not_open_hides_nothing_else(api: Api) -> None:
    await _seal(api)
    job = {"destination": WORKER, "lane": "lane", "payload": PAYLOAD, "delay_seconds": 600}
    made = (await api.call("POST", "/jobs", job)).body["job_id"]
    assert (await api.call("GET", f"/jobs/{made}")).body["payload"] == PAYLOAD
    keys = api.node.outgoing.cipher._keys
    keys.update(dict.fromkeys(keys, bytes(32)))
    shown = await api.call("GET", f"/jobs/{made}")
    assert (shown.status, shown.body["payload_error"]) == (200, "payload_unreadable")
    async with Browser(api) as browser:
        await browser.sign_in()
        page = await browser.get(f"/jobs/{made}")
        assert (page.status, "cannot be opened" in page.text) == (200, True)


@pytest.mark.parametrize("sealed_before", [True, False])
async def test_a_schedule_waits_for_a_node_that_has_the_key(
    api: Api, clock: Clock, *, sealed_before: bool
) -> None:
    node = Node(settings=OTHER, database=api.node.database, roles=["worker"])
    if sealed_before:
        await _seal(api)
    made = await create(api, every_seconds=60, template=TEMPLATE)
    plain = await create(api, every_seconds=60)
    if not sealed_before:
        await _seal(api)
        # Its key is made by the first payload; the template stays in the clear.
        job = {"destination": WORKER, "lane": "lane", "payload": PAYLOAD}
        assert (await api.call("POST", "/jobs", job)).status == 201
    await node.refresh_settings()
    await clock.advance(61)
    await drain(Expander(node.database, occurrences(node), settings=node.runtime))
    assert await labels(api, made["schedule_id"]) == []
    assert await labels(api, plain["schedule_id"]) == ["FIRED"]
    shown = (await api.call("GET", f"/schedules/{made['schedule_id']}")).body
    assert shown["status"] == "ACTIVE"
    await drain(Expander(api.node.database, occurrences(api.node), settings=api.node.runtime))
    assert await labels(api, made["schedule_id"]) == ["FIRED"]
    await node.close()


async def test_a_key_that_was_rolled_back_encrypts_nothing(
    database: Database, tenant_id: int
) -> None:
    keyring = Keyring([parse_key(SECRET_KEY)])
    cipher, job_id = PayloadCipher(keyring), UUID(int=7)
    with suppress(ZeroDivisionError):
        async with database.write() as connection:
            await cipher.prepare(connection, [tenant_id])
            raise ZeroDivisionError
    async with database.write() as connection:
        await cipher.prepare(connection, [tenant_id])
    encrypted = cipher.encrypt(tenant_id, job_id, b"Ada Lovelace")
    after_restart = PayloadCipher(keyring)
    async with database.connection() as connection:
        opened = await after_restart.decrypt(connection, tenant_id, job_id, encrypted)
    assert opened == b"Ada Lovelace"


async def test_webhooks_go_to_the_worker_that_has_the_key(api: Api, receiver: Receiver) -> None:
    assert (await api.call("GET", "/signing-secret")).status == 200
    nodes = [
        Node(settings=each, database=api.node.database, roles=["worker"]) for each in (OTHER, OWN)
    ]
    for node in nodes:
        await node.refresh_settings()
        await node.heartbeat.run_once()
    loops = [loop for node in nodes for loop in [*worker_stage.loops(node), *node.housekeeping()]]
    running = [asyncio.create_task(loop.run()) for loop in loops]
    jobs = [
        {"destination": {"type": "webhook", "url": receiver.url(f"/{number}")}, "lane": "mail"}
        for number in range(JOBS)
    ]
    assert (await api.call("POST", "/jobs/batch", {"jobs": jobs})).status == 200

    async def all_arrived() -> bool:
        return len({each.path for each in receiver.arrivals}) == JOBS

    try:
        await eventually(all_arrived, seconds=20)
    finally:
        for loop in loops:
            loop.stop()
        await asyncio.gather(*running)
        for node in nodes:
            await node.close()


async def test_a_message_is_left_to_a_worker_that_has_the_library() -> None:
    handler = queue_to("nats", {"servers": ["nats://127.0.0.1:4222"], "subject": "a"})
    handler._connections.kinds = {}
    told = await handler.deliver(delivery(destination={"type": "queue", "name": "q"}))
    assert isinstance(told, Throttled)
    assert (told.elsewhere, told.reason) == (True, "this node cannot speak nats")
