"""Reading events: in order, resumable, filtered, waited for, streamed, and only one's own."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import msgspec
import pytest

from conftest import Answered, Api
from postdate.core.identity import Scope
from postdate.event import api as events
from postdate.event.spec.types import EVENT_TYPES
from postdate.event.store import seal
from postdate.key.store import key as key_store
from postdate.tenant.change.tenant import KeyLimits, Tenants, draft
from postdate.tenant.store import tenant as tenant_store
from support.event import emit, new_event, seal_all, subjects

pytestmark = pytest.mark.own_database("it seals the events of every tenant")


async def tenant_of(api: Api) -> int:
    async with api.node.database.connection() as connection:
        found = await tenant_store.find(connection, api.tenant)
    assert found is not None
    return found


async def told(api: Api, *kinds: str, subject: UUID | None = None, **data: Any) -> list[UUID]:
    """Insert events of these types and seal them; give their ids."""
    database, tenant_id = api.node.database, await tenant_of(api)
    [own] = subjects(database, 1)
    made = [new_event(tenant_id, subject or own, kind, data) for kind in kinds]
    ids = [await emit(database, one) for one in made]
    await seal_all(database)
    return [event_id for [event_id] in ids]


@pytest.fixture
async def api(edge_server: Api) -> Api:
    """The edge as seen by the admin of a tenant without a single event, its own making included."""
    database, name = edge_server.node.database, f"quiet-{uuid4().hex[:12]}"
    async with database.write() as connection:
        tenant_id = await tenant_store.create(connection, name)
        assert tenant_id is not None
        row, key = draft(database, tenant_id, [Scope.ADMIN], KeyLimits())
        await key_store.create(connection, row)
    return replace(edge_server, key=key, tenant=name)


def ids(answer: Answered) -> list[UUID]:
    return [UUID(event["id"]) for event in answer.body["events"]]


async def test_events_come_in_order_and_page_by_page(api: Api) -> None:
    made = await told(api, *("job.accepted",) * 5)
    first = await api.call("GET", "/events?limit=3")
    rest = await api.call("GET", f"/events?limit=3&after={first.body['next_cursor']}")
    nothing = await api.call("GET", f"/events?after={rest.body['next_cursor']}")
    assert ids(first) + ids(rest) == made
    assert nothing.body == {"events": [], "next_cursor": rest.body["next_cursor"]}
    [new] = await told(api, "job.completed")
    again = await api.call("GET", f"/events?after={nothing.body['next_cursor']}")
    assert ids(again) == [new]


async def test_an_event_wears_the_envelope_of_cloudevents(api: Api) -> None:
    [thing] = subjects(api.node.database, 1)
    await told(api, "payment.scheduled", subject=thing, amount=500)
    [event] = (await api.call("GET", "/events")).body["events"]
    assert event.pop("time").endswith("Z")
    assert UUID(event.pop("id"))
    assert event == {
        "specversion": "1.0",
        "source": f"/tenants/{api.tenant}",
        "type": "payment.scheduled",
        "subject": str(thing),
        "datacontenttype": "application/json",
        "sequence": "1",
        "actor": "system",
        "data": {"amount": 500},
    }


async def test_types_and_subjects_filter(api: Api) -> None:
    [thing] = subjects(api.node.database, 1)
    accepted, completed = await told(api, "job.accepted", "job.completed", subject=thing)
    [paid] = await told(api, "payment.completed")
    assert ids(await api.call("GET", "/events?types=payment.*")) == [paid]
    assert ids(await api.call("GET", "/events?types=job.completed,payment.*")) == [completed, paid]
    assert ids(await api.call("GET", f"/events?subject={thing}")) == [accepted, completed]
    assert ids(await api.call("GET", f"/events?subject={thing}&types=payment.*")) == []


async def test_an_underscore_in_a_type_is_no_wildcard(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {*EVENT_TYPES, "payment.deadxlettered"}
    monkeypatch.setattr("postdate.event.store.event.EVENT_TYPES", known)
    [dead] = await told(api, "payment.dead_lettered")
    await told(api, "payment.deadxlettered")
    assert ids(await api.call("GET", "/events?types=payment.dead_lettered")) == [dead]


async def test_a_filter_that_matches_little_still_moves_on(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seal, "MAX_SCAN", 4)
    await told(api, *("job.accepted",) * 6)
    [wanted] = await told(api, "payment.completed")
    first = await api.call("GET", "/events?types=payment.*")
    assert first.body["events"] == []
    rest = await api.call("GET", f"/events?types=payment.*&after={first.body['next_cursor']}")
    assert ids(rest) == [wanted]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("types=payment", "invalid_field"),
        ("types=payment.complete", "invalid_field"),
        ("types=pament.*", "invalid_field"),
        ("types=Payment.*", "invalid_field"),
        ("types=*.completed", "invalid_field"),
        ("types=" + ",".join(f"job.{'a' * n}" for n in range(1, 40)), "invalid_field"),
        ("after=nonsense", "invalid_cursor"),
        ("after=LTE", "invalid_cursor"),
        ("limit=101", "invalid_field"),
        ("wait_seconds=31", "invalid_field"),
        ("subject=1", "invalid_field"),
        ("since=yesterday", "unknown_field"),
    ],
)
async def test_a_wrong_question_is_refused(api: Api, query: str, code: str) -> None:
    answer = await api.call("GET", f"/events?{query}")
    assert (answer.status, answer.body["code"]) == (422, code)


async def test_a_reader_waits_for_the_next_event(api: Api) -> None:
    await told(api, "job.accepted")
    cursor = (await api.call("GET", "/events")).body["next_cursor"]
    waiting = asyncio.create_task(api.call("GET", f"/events?after={cursor}&wait_seconds=20"))
    asleep = asyncio.create_task(api.call("GET", "/events?types=payment.*&wait_seconds=0.5"))
    assert ids(await asleep) == []
    assert not waiting.done()
    [new] = await told(api, "job.completed")
    assert ids(await waiting) == [new]


async def test_waiting_ends_with_its_time(api: Api) -> None:
    answer = await api.call("GET", "/events?wait_seconds=0.3")
    assert answer.body["events"] == []


async def test_a_tenant_sees_nothing_of_another(api: Api) -> None:
    [thing] = subjects(api.node.database, 1)
    await told(api, "job.accepted", subject=thing)
    tenants = Tenants(api.node.database)
    await tenants.create(f"{api.tenant}-x")
    key = (await tenants.issue(f"{api.tenant}-x", ["admin"])).key
    for query in ("", f"?subject={thing}", "?after=MA"):
        assert ids(await api.call("GET", f"/events{query}", key=key)) == []


async def test_a_key_sees_what_its_scopes_can_read(api: Api) -> None:
    [job, paid, schedule] = [
        (await told(api, kind))[0]
        for kind in ("job.accepted", "payment.completed", "schedule.created")
    ]
    jobs = await api.new_key("jobs:read")
    both = await api.new_key("jobs:read", "schedules:read")
    assert ids(await api.call("GET", "/events", key=jobs)) == [job]
    assert ids(await api.call("GET", "/events", key=both)) == [job, schedule]
    assert ids(await api.call("GET", "/events?types=*", key=both)) == [job, schedule]
    assert ids(await api.call("GET", "/events", key=await api.new_key("payments:read"))) == [paid]
    refused = await api.call("GET", "/events?types=payment.*", key=jobs)
    assert (refused.status, refused.body["code"]) == (403, "forbidden")
    writer = await api.call("GET", "/events", key=await api.new_key("jobs:write"))
    assert writer.status == 403


async def test_a_key_of_some_accounts_sees_events_about_them(api: Api) -> None:
    for account in ("alice", "bob", "carol"):
        assert (await api.call("POST", "/accounts", {"account_id": account})).status == 201
    order = {"from_account_id": "alice", "to_account_id": "bob", "amount": 5, "delay_seconds": 60}
    await api.call(
        "POST", "/accounts/alice/adjustments", {"amount": 50, "reason": "test"},
        headers={"Idempotency-Key": "a"},
    )  # fmt: skip
    paid = await api.call("POST", "/payments/schedule", order, headers={"Idempotency-Key": "p"})
    assert paid.status == 201
    await seal_all(api.node.database)
    tenants = Tenants(api.node.database)
    seen = {}
    for account in ("bob", "carol"):
        limits = KeyLimits(accounts=[account])
        key = (await tenants.issue(api.tenant, ["payments:read"], limits=limits)).key
        answer = await api.call("GET", "/events", key=key)
        seen[account] = [event["type"] for event in answer.body["events"]]
    assert seen == {"bob": ["account.created", "payment.scheduled"], "carol": ["account.created"]}


async def stream(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Read server-sent events as (id, data)."""
    last = ""
    async for line in response.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "id":
            last = value
        if name == "data":
            yield last, msgspec.json.decode(value)


async def test_a_stream_goes_on_where_it_broke_off(api: Api) -> None:
    made = await told(api, "job.accepted", "job.retried")
    headers = {"Authorization": f"Bearer {api.key}", "Accept": "text/event-stream"}
    url = f"{api.url}/api/v1/events"
    async with asyncio.timeout(20):
        async with api.session.get(url, headers=headers) as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            last, event = await anext(stream(response))
            assert event["id"] == str(made[0])
        async with api.session.get(url, headers=headers | {"Last-Event-ID": last}) as response:
            messages = stream(response)
            assert (await anext(messages))[1]["id"] == str(made[1])
            [new] = await told(api, "job.completed")
            assert (await anext(messages))[1]["id"] == str(new)


async def test_a_stream_ends_with_its_key(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "STREAM_BEAT_SECONDS", 0.1)
    tenants = Tenants(api.node.database)
    issued = await tenants.issue(api.tenant, ["jobs:read"])
    headers = {"Authorization": f"Bearer {issued.key}", "Accept": "text/event-stream"}
    async with api.session.get(f"{api.url}/api/v1/events", headers=headers) as response:
        assert await response.content.readline() == b"retry: 1000\n"
        await tenants.revoke(api.tenant, issued.key_id)
        async with asyncio.timeout(5):
            await response.read()
