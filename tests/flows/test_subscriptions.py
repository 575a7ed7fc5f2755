"""Subscriptions from the API to a signed webhook and back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import msgspec
import nats
import pytest
from prometheus_client import CollectorRegistry
from standardwebhooks import Webhook

from conftest import Answered, Api
from postdate.node import publisher
from postdate.node.node import BackgroundTasks
from postdate.tenant.change.tenant import KeyLimits, Tenants
from support.event import seal_all
from support.local_broker import nats_cluster
from support.receiver import Receiver

pytestmark = pytest.mark.own_database("it seals the events of every tenant")

if TYPE_CHECKING:
    from nats.aio.msg import Msg

PRIVATE = "http://10.0.0.1/"


@pytest.fixture
async def publishing(api: Api) -> AsyncIterator[None]:
    """Run the publisher's loops beside the edge."""
    node = api.node
    node.registry = CollectorRegistry()  # each test counts from the beginning
    node.loops[:] = publisher.loops(node)
    group = BackgroundTasks()
    for loop in node.loops:
        group.start(loop.name, loop.run())
    yield
    for loop in node.loops:
        loop.stop()
    await group.stop(10)
    node.loops.clear()


async def subscribe(api: Api, destination: dict[str, Any], **parts: Any) -> Answered:
    return await api.call("POST", "/subscriptions", {"destination": destination, **parts})


@pytest.mark.usefixtures("publishing")
async def test_a_payment_is_told_by_a_signed_webhook(api: Api, receiver: Receiver) -> None:
    named = {"name": "told", "type": "webhook", "url": receiver.url()}
    secret = (await api.call("POST", "/destinations", named)).body["secret"]
    made = await subscribe(api, {"type": "webhook", "name": "told"}, types=["account.*"])
    assert made.status == 201
    await api.call("POST", "/accounts", {"account_id": "alice"})

    [request] = await receiver.wait_for(1)
    headers = {name.lower(): value for name, value in request.headers.items()}
    event = Webhook(secret).verify(request.body, headers)
    assert event["type"] == "account.created"
    assert event["data"]["account_id"] == "alice"
    assert headers["webhook-id"] == event["id"]
    assert headers["content-type"] == "application/cloudevents+json"
    [same] = (await api.call("GET", "/events?types=account.*")).body["events"]
    assert same == event


async def test_a_subscription_can_be_looked_at_and_changed(api: Api) -> None:
    destination = {"type": "webhook", "url": "http://127.0.0.1:18999/hook"}
    made = await subscribe(api, destination, types=["job.*", "payment.completed"])
    path = f"/subscriptions/{made.body['subscription_id']}"
    assert made.body["status"] == "ACTIVE"
    assert made.body["destination"] == destination
    assert (await api.call("GET", path)).body["types"] == ["job.*", "payment.completed"]
    listed = await api.call("GET", "/subscriptions?limit=1")
    assert [each["subscription_id"] for each in listed.body["subscriptions"]] == [
        made.body["subscription_id"]
    ]
    paused = await api.call("PATCH", path, {"paused": True, "note": "moving house"})
    assert (paused.body["status"], paused.body["paused_note"]) == ("PAUSED", "moving house")
    again = await api.call("PATCH", path, {"paused": False})
    assert (again.body["status"], again.body["paused_at"]) == ("ACTIVE", None)
    await seal_all(api.node.database)
    replayed = await api.call("POST", f"{path}/replay", {"from": "beginning"})
    assert replayed.body["cursor"] == "MA"
    assert replayed.body["lag_events"] > 0
    assert (await api.call("DELETE", path)).status == 204
    assert (await api.call("GET", path)).status == 404
    await seal_all(api.node.database)
    told = (await api.call("GET", "/events?types=subscription.*")).body["events"]
    verbs = [event["type"].partition(".")[2] for event in told]
    assert verbs == ["created", "paused", "resumed", "replayed", "deleted"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"destination": {"type": "worker"}}, 422, "invalid_field"),
        ({"destination": {"type": "webhook"}}, 422, "invalid_field"),
        (
            {"destination": {"type": "webhook", "url": "http://10.0.0.1/"}},
            422,
            "target_not_allowed",
        ),
        ({"destination": {"type": "webhook", "name": "nobody"}}, 422, "unknown_destination"),
        ({"destination": {"type": "queue", "name": "nobody"}}, 422, "unknown_destination"),
        ({"types": ["payment"]}, 422, "invalid_field"),
        ({"types": ["payment.complete"]}, 422, "invalid_field"),
        ({"types": ["a.b"] * 33}, 422, "invalid_field"),
        ({"accounts": []}, 422, "invalid_field"),
        ({"from": "yesterday"}, 422, "invalid_cursor"),
        ({"from": "OTk5OTk5"}, 422, "invalid_cursor"),
        ({"start": "now"}, 422, "unknown_field"),
    ],
)
async def test_a_wrong_wish_is_refused(
    api: Api, body: dict[str, Any], status: int, code: str
) -> None:
    fine = {
        "destination": {"type": "webhook", "url": "http://127.0.0.1:18999/"},
        "types": ["job.*"],
    }
    answer = await api.call("POST", "/subscriptions", fine | body)
    assert (answer.status, answer.body["code"]) == (status, code)


async def test_a_tenant_has_so_many_subscriptions(api: Api) -> None:
    await api.call("PUT", "/settings/event.max_subscriptions", {"value": 1})
    await api.node.refresh_settings()
    hook = {"type": "webhook", "url": "http://127.0.0.1:18999/"}
    assert (await subscribe(api, hook)).status == 201
    assert (await subscribe(api, hook)).body["code"] == "conflict"


async def test_subscriptions_are_the_business_of_their_tenants_admins(api: Api) -> None:
    hook = {"type": "webhook", "url": "http://127.0.0.1:18999/"}
    made = (await subscribe(api, hook)).body["subscription_id"]
    tenants = Tenants(api.node.database)
    await tenants.create(f"{api.tenant}-y")
    other = (await tenants.issue(f"{api.tenant}-y", ["admin"])).key
    path = f"/subscriptions/{made}"
    for method, where, body in (
        ("GET", path, None),
        ("PATCH", path, {"paused": True}),
        ("DELETE", path, None),
        ("POST", f"{path}/replay", {"from": "now"}),
    ):
        answer = await api.call(method, where, body, key=other)
        absent = await api.call(method, where.replace(made, str(uuid4())), body, key=other)
        assert (answer.status, absent.status) == (404, 404), method
    assert (await api.call("GET", "/subscriptions", key=other)).body["subscriptions"] == []
    reader = await api.new_key("payments:read", "jobs:read")
    assert (await api.call("GET", path, key=reader)).status == 403
    assert UUID((await api.call("GET", path)).body["subscription_id"]) == UUID(made)


async def test_a_key_of_some_accounts_subscribes_to_no_others(api: Api) -> None:
    tenants = Tenants(api.node.database)
    limits = KeyLimits(accounts=["alice"])
    key = (await tenants.issue(api.tenant, ["admin"], limits=limits)).key
    body = {"destination": {"type": "webhook", "url": "http://127.0.0.1:18999/"}, "types": []}
    own = await api.call("POST", "/subscriptions", body, key=key)
    assert own.body["accounts"] == ["alice"]
    other = await api.call("POST", "/subscriptions", body | {"accounts": ["bob"]}, key=key)
    assert (other.status, other.body["code"]) == (403, "forbidden")


@pytest.mark.usefixtures("publishing")
async def test_events_reach_a_queue_in_order(api: Api, tmp_path: Path) -> None:
    async with nats_cluster(tmp_path) as (server,):
        client = await nats.connect(f"nats://127.0.0.1:{server.port}")
        stream = client.jetstream()
        await stream.add_stream(name="postdate", subjects=["postdate.>"])
        config = {"servers": [f"nats://127.0.0.1:{server.port}"]}
        named = {"name": "nats", "type": "queue", "kind": "nats", "config": config}
        assert (await api.call("POST", "/destinations", named)).status == 201
        destination = {"type": "queue", "name": "nats", "subject": "postdate.{type}"}
        assert (await subscribe(api, destination, types=["account.*"])).status == 201
        await api.call("POST", "/accounts", {"account_id": "alice"})
        for note in "abc":
            await api.call("PATCH", "/accounts/alice", {"note": note})
        consumer = await stream.pull_subscribe("postdate.>", durable="test")
        messages: list[Msg] = []
        async with asyncio.timeout(20):
            while len(messages) < 4:
                with suppress(TimeoutError):
                    messages += await consumer.fetch(4 - len(messages), timeout=1)
        kinds = [message.subject for message in messages]
        assert kinds == ["postdate.account.created", *["postdate.account.changed"] * 3]
        events = [msgspec.json.decode(message.data) for message in messages]
        assert [message.headers["Nats-Msg-Id"] for message in messages if message.headers] == [
            event["id"] for event in events
        ]
        assert [int(event["sequence"]) for event in events] == sorted(
            int(event["sequence"]) for event in events
        )
        await client.close()
