"""Destinations from the API to the receiver: secrets shown once, rotated, never stored plainly."""

import asyncio
import base64
from typing import Any

import asyncpg
import pytest
from aiohttp import web
from standardwebhooks import Webhook as Verifier

from conftest import Api, Clock, owner_dsn
from postdate.database.embedded import Embedded
from postdate.destination.spec.destination import Destination, Missing, Unavailable
from postdate.destination.store.directory import DestinationDirectory
from postdate.job.spec.outcome import Delivery
from postdate.secret.secret import Keyring
from postdate.tenant.change.tenant import Tenants
from support.receiver import Arrival, Receiver
from support.webhook import delivery

URL = "https://example.com/hook"
OWN = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def create(api: Api, **parts: Any) -> Any:
    answer = await api.call("POST", "/destinations", {"name": "orders", "url": URL} | parts)
    assert answer.status == 201, answer.body
    return answer.body


async def tenant_of(api: Api) -> int:
    found = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    return int(found)


def verify(secret: str, arrival: Arrival) -> None:
    sent = {name.lower(): value for name, value in arrival.headers.items()}
    Verifier(secret).verify(arrival.body, sent)


async def test_a_secret_is_shown_once_and_never_again(api: Api) -> None:
    made = await create(api, max_running=3, rate_per_second=2.5)
    assert made["secret"].startswith("whsec_")
    assert (made["type"], made["max_running"], made["rate_per_second"]) == ("webhook", 3, 2.5)
    one = await api.call("GET", "/destinations/orders")
    many = await api.call("GET", "/destinations")
    assert one.body == {name: made[name] for name in made if name != "secret"}
    assert many.body == {"destinations": [one.body], "next_cursor": None}


async def test_a_secret_of_ones_own_may_be_brought(api: Api) -> None:
    assert (await create(api, secret=OWN))["secret"] == OWN


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"url": URL}, "invalid_field", "name"),
        ({"name": "-x", "url": URL}, "invalid_field", "name"),
        ({"name": "a b", "url": URL}, "invalid_field", "name"),
        ({"name": "x"}, "invalid_field", "url"),
        ({"name": "x", "url": "ftp://example.com"}, "invalid_field", "url"),
        ({"name": "x", "url": "http://10.0.0.1/"}, "target_not_allowed", "url"),
        ({"name": "x", "url": "http://169.254.169.254/"}, "target_not_allowed", "url"),
        ({"name": "x", "url": URL, "secret": "whsec_c2hvcnQ="}, "invalid_field", "secret"),
        ({"name": "x", "url": URL, "max_running": 0}, "invalid_field", "max_running"),
        ({"name": "x", "url": URL, "rate_per_second": 0}, "invalid_field", "rate_per_second"),
        ({"name": "x", "url": URL, "config": {}}, "invalid_field", "config"),
        ({"name": "x", "url": URL, "disabled_at": None}, "unknown_field", "disabled_at"),
        ({"name": "x", "url": URL, "kind": "nats"}, "invalid_field", "kind"),
        ({"name": "x", "type": "queue", "url": URL}, "invalid_field", "url"),
        ({"name": "x", "type": "queue", "kind": "nats", "secret": OWN}, "invalid_field", "secret"),
        ({"name": "x", "type": "queue", "kind": "telegraph"}, "invalid_field", "kind"),
    ],
)
async def test_what_is_wrong_is_named_and_nothing_is_written(
    api: Api, body: dict[str, Any], code: str, field: str
) -> None:
    answer = await api.call("POST", "/destinations", body)
    assert (answer.status, answer.body["code"], answer.body["field"]) == (422, code, field)
    assert (await api.call("GET", "/destinations")).body["destinations"] == []


async def test_a_name_is_taken_once(api: Api) -> None:
    await create(api)
    answer = await api.call("POST", "/destinations", {"name": "orders", "url": URL})
    assert (answer.status, answer.body["code"]) == (409, "conflict")


async def test_limits_change_and_go(api: Api) -> None:
    await create(api, max_running=3)
    answer = await api.call("PATCH", "/destinations/orders", {"rate_per_second": 5})
    assert (answer.body["max_running"], answer.body["rate_per_second"]) == (3, 5)
    answer = await api.call("PATCH", "/destinations/orders", {"max_running": None})
    assert (answer.body["max_running"], answer.body["rate_per_second"]) == (None, 5)
    answer = await api.call("PATCH", "/destinations/orders", {"url": "http://127.0.0.1:1/x"})
    assert answer.status == 422
    answer = await api.call("PATCH", "/destinations/orders", {"url": "http://10.0.0.1/x"})
    assert (answer.status, answer.body["code"]) == (422, "target_not_allowed")


async def test_pages_go_by_name(api: Api) -> None:
    for name in ("c", "a", "b"):
        await create(api, name=name)
    first = (await api.call("GET", "/destinations?limit=2")).body
    assert [each["name"] for each in first["destinations"]] == ["a", "b"]
    rest = (await api.call("GET", f"/destinations?cursor={first['next_cursor']}")).body
    assert [each["name"] for each in rest["destinations"]] == ["c"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/destinations/orders"),
        ("PATCH", "/destinations/orders"),
        ("DELETE", "/destinations/orders"),
        ("POST", "/destinations/orders/rotate-secret"),
        ("POST", "/destinations/orders/disable"),
        ("POST", "/destinations/orders/enable"),
        ("POST", "/destinations/orders/resume"),
        ("POST", "/destinations/orders/test"),
    ],
)
async def test_anothers_destination_looks_missing(api: Api, method: str, path: str) -> None:
    await create(api)
    answer = await api.call(method, path, key=await stranger(api))
    assert (answer.status, answer.body["code"]) == (404, "not_found")


async def stranger(api: Api) -> str:
    tenants = Tenants(api.node.database)
    name = f"{api.tenant}-stranger"
    await tenants.create(name)
    return (await tenants.issue(name, ["admin"])).key


async def test_only_an_administrator_changes_or_sees_secrets(api: Api) -> None:
    await create(api)
    key = await api.new_key("jobs:read", "jobs:write")
    assert (await api.call("GET", "/destinations/orders", key=key)).status == 200
    for method, path in (
        ("POST", "/destinations"),
        ("DELETE", "/destinations/orders"),
        ("POST", "/destinations/orders/rotate-secret"),
        ("GET", "/signing-secret"),
        ("POST", "/signing-secret/rotate"),
    ):
        assert (await api.call(method, path, key=key)).status == 403


async def test_a_trial_is_signed_and_tells_what_came_of_it(api: Api, receiver: Receiver) -> None:
    made = await create(api, url=receiver.url("/hook"))
    answer = await api.call("POST", "/destinations/orders/test")
    assert (answer.status, answer.body["outcome"], answer.body["http_status"]) == (
        200,
        "completed",
        200,
    )
    (arrival,) = receiver.arrivals
    verify(made["secret"], arrival)
    assert b"destination.test" in arrival.body


async def test_both_secrets_sign_during_the_overlap_and_one_after(
    api: Api, receiver: Receiver, clock: Clock
) -> None:
    old = (await create(api, url=receiver.url()))["secret"]
    answer = await api.call("POST", "/destinations/orders/rotate-secret", {"overlap_seconds": 600})
    new = answer.body["secret"]
    assert new != old
    await api.call("POST", "/destinations/orders/test")
    verify(old, receiver.arrivals[-1])
    verify(new, receiver.arrivals[-1])
    await clock.advance(601)
    api.node.outgoing.directory.forget(await tenant_of(api), "orders")
    await api.call("POST", "/destinations/orders/test")
    verify(new, receiver.arrivals[-1])
    with pytest.raises(Exception, match="signature"):
        verify(old, receiver.arrivals[-1])
    shown = await api.call("GET", "/destinations/orders")
    assert shown.body["previous_secret_until"] is None


async def test_the_tenants_own_secret_is_made_once_and_rotated(api: Api) -> None:
    first, again = [(await api.call("GET", "/signing-secret")).body for _ in range(2)]
    assert first == again
    rotated = (await api.call("POST", "/signing-secret/rotate")).body
    assert rotated["secret"] != first["secret"]
    now = (await api.call("GET", "/signing-secret")).body
    assert now == rotated
    found = await api.node.outgoing.directory.resolve(await tenant_of(api), None)
    assert isinstance(found, Destination)
    assert len(found.secrets) == 2


async def test_disabling_and_enabling_are_told_and_idempotent(api: Api) -> None:
    await create(api)
    for _ in range(2):
        answer = await api.call("POST", "/destinations/orders/disable", {"reason": "moving"})
        assert answer.body["disabled_reason"] == "moving"
    tried = await api.call("POST", "/destinations/orders/test")
    assert (tried.body["outcome"], tried.body["code"]) == ("failed", "destination_disabled")
    for _ in range(2):
        answer = await api.call("POST", "/destinations/orders/enable")
        assert answer.body["disabled_at"] is None
    assert await told(api) == ["created", "disabled", "enabled"]


async def test_pausing_and_resuming_are_told_and_idempotent(api: Api) -> None:
    await create(api)
    for body in ({}, {"reason": ""}, {"reason": "x" * 501}, {"reason": None}):
        answer = await api.call("POST", "/destinations/orders/pause", body)
        assert (answer.status, answer.body["field"]) == (422, "reason")
    first = (await api.call("POST", "/destinations/orders/pause", {"reason": "release"})).body
    assert (first["status"], first["paused_reason"]) == ("PAUSED", "release")
    assert (await api.call("POST", "/destinations/orders/pause", {"reason": "release"})).body == (
        first
    )
    again = (await api.call("POST", "/destinations/orders/pause", {"reason": "longer"})).body
    assert (again["paused_at"], again["paused_reason"]) == (first["paused_at"], "longer")
    for _ in range(2):
        answer = await api.call("POST", "/destinations/orders/resume", {"reason": "done"})
        assert (answer.body["paused_at"], answer.body["status"]) == (None, "ACTIVE")
    assert await told(api) == ["created", "paused", "paused", "resumed"]


async def test_a_paused_one_can_be_tested(api: Api, receiver: Receiver) -> None:
    await create(api, url=receiver.url("/hook"))
    await api.call("POST", "/destinations/orders/pause", {"reason": "release"})
    tried = await api.call("POST", "/destinations/orders/test")
    assert tried.body["outcome"] == "completed"


async def told(api: Api) -> list[str]:
    rows = await api.node.database.writer.fetch(
        "SELECT type FROM event WHERE tenant_id = $1 AND type LIKE 'destination.%' "
        "ORDER BY event_id",
        await tenant_of(api),
    )
    return [row["type"].removeprefix("destination.") for row in rows]


async def test_one_that_says_it_is_gone_is_disabled(api: Api, receiver: Receiver) -> None:
    async def gone(_: web.Request) -> web.StreamResponse:
        return web.Response(status=410)

    receiver.script("/gone", gone)
    await create(api, url=receiver.url("/gone"))
    answer = await api.call("POST", "/destinations/orders/test")
    assert answer.body["code"] == "destination_gone"
    shown = await api.call("GET", "/destinations/orders")
    assert shown.body["disabled_reason"] == "it answered 410 Gone"


async def test_a_deleted_one_is_missing(api: Api) -> None:
    await create(api)
    tenant_id = await tenant_of(api)
    directory = api.node.outgoing.directory
    assert isinstance(await directory.resolve(tenant_id, "orders"), Destination)
    assert (await api.call("DELETE", "/destinations/orders")).status == 204
    assert (await api.call("DELETE", "/destinations/orders")).status == 404
    assert isinstance(await directory.resolve(tenant_id, "orders"), Missing)


async def test_the_directory_asks_once_for_all_and_gives_the_limits(api: Api) -> None:
    await create(api, max_running=7)
    tenant_id = await tenant_of(api)
    directory = DestinationDirectory(api.node.database, api.node.outgoing.directory._keyring)
    found = await asyncio.gather(*(directory.resolve(tenant_id, "orders") for _ in range(50)))
    assert len({id(each) for each in found}) == 1
    (limit,) = await directory.limits_of(to(tenant_id, name="orders"))
    assert (limit.max_running, limit.scope.partition(":")[0]) == (7, "destination")
    assert await directory.limits_of(to(tenant_id, name="nothing")) == ()
    assert await directory.limits_of(to(tenant_id, url=URL)) == ()


def to(tenant_id: int, **place: str) -> Delivery:
    return delivery(tenant_id=tenant_id, destination={"type": "webhook"} | place)


async def test_a_job_may_name_what_was_created_just_now(api: Api) -> None:
    job = {"destination": {"type": "webhook", "name": "orders"}, "delay_seconds": 3600}
    answer = await api.call("POST", "/jobs", job)
    assert (answer.status, answer.body["code"]) == (422, "unknown_destination")
    await create(api)
    assert (await api.call("POST", "/jobs", job)).status == 201
    wrong = job | {"destination": {"type": "queue", "name": "orders"}}
    answer = await api.call("POST", "/jobs", wrong)
    assert (answer.status, answer.body["field"]) == (422, "destination.type")


async def test_a_node_without_the_key_waits_instead_of_guessing(api: Api) -> None:
    await create(api)
    for keyring in (Keyring([b"x" * 32]), Keyring([])):
        directory = DestinationDirectory(api.node.database, keyring)
        tenant_id = await tenant_of(api)
        assert isinstance(await directory.resolve(tenant_id, "orders"), Unavailable)
        assert isinstance(await directory.resolve(tenant_id, None), Unavailable)


async def test_a_dump_contains_no_secret(api: Api, server: Embedded, database_name: str) -> None:
    canaries = [(await create(api, name=f"d{number}"))["secret"] for number in range(20)]
    canaries.append((await api.call("GET", "/signing-secret")).body["secret"])
    connection = await asyncpg.connect(owner_dsn(server, database_name))
    tables = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'postdate'::regnamespace "
        "AND relkind IN ('r', 'p')"
    )
    dump = ""
    for (table,) in tables:
        rows = await connection.fetch(f'SELECT t::text FROM postdate."{table}" t')
        dump += "".join(row[0] for row in rows)
    await connection.close()
    assert len(dump) > 5000
    for canary in canaries:
        raw = base64.b64decode(canary.removeprefix("whsec_"))
        for form in (canary, canary.removeprefix("whsec_"), raw.hex(), canary.encode().hex()):
            assert form not in dump
