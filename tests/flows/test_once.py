"""A POST that creates something does so once for each Idempotency-Key, over every route."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import msgspec

from conftest import INTERNAL_TOKEN, Answered, Api
from postdate.api.endpoints import ENDPOINTS
from postdate.http import openapi
from postdate.http.route_table import parameters_of
from postdate.intake.create_once import CreateOnce, CreateRequest, Shown
from postdate.intake.idempotency import CREATED, Granted
from postdate.key.authentication.identity import Identities
from postdate.node import http as edge
from postdate.schedule.change.run import Triggered
from support.full_tenant import ROWS, FullTenant, build

POSTS = {f"POST {endpoint.path}": endpoint for endpoint in ENDPOINTS if endpoint.method == "POST"}

NOTHING_CREATED = {
    "POST /internal/tenants/{name}/disable": "sets a state",
    "POST /internal/tenants/{name}/enable": "sets a state",
    "POST /destinations/{name}/disable": "sets a state",
    "POST /destinations/{name}/enable": "sets a state",
    "POST /destinations/{name}/pause": "sets a state",
    "POST /destinations/{name}/resume": "sets a state",
    "POST /destinations/{name}/test": "sends a trial that nothing remembers",
    "POST /accounts/{account_id}/freeze": "sets a state",
    "POST /accounts/{account_id}/unfreeze": "sets a state",
    "POST /payments/{payment_id:uuid}/approve": "decides once: the second answer is 409",
    "POST /payments/{payment_id:uuid}/refuse": "decides once: the second answer is 409",
    "POST /internal/payments/{payment_id:uuid}/execute": "its `execution_id` is the key",
    "POST /payments/batch": "each item has its own `idempotency_key`",
    "POST /jobs/batch": "each item may have its own `idempotency_key`",
    "POST /jobs/{job_id:uuid}/cancel": "ends once",
    "POST /jobs/{job_id:uuid}/run-now": "moves the instant of a job that waits",
    "POST /jobs/{job_id:uuid}/resolve": "decides once: the second answer is 409",
    "POST /jobs/bulk/cancel": "ends each job once",
    "POST /jobs/bulk/reschedule": "sets instants",
    "POST /lanes/{lane}/claim": "a lease that nobody holds runs out",
    "POST /leases/{job_id:uuid}/complete": "its token is the key",
    "POST /leases/{job_id:uuid}/fail": "its token is the key",
    "POST /leases/{job_id:uuid}/renew": "its token is the key",
    "POST /leases/{job_id:uuid}/progress": "its token is the key",
    "POST /leases/{job_id:uuid}/release": "its token is the key",
    "POST /schedules/{schedule_id:uuid}/pause": "sets a state",
    "POST /schedules/{schedule_id:uuid}/resume": "sets a state",
    "POST /schedules/preview": "computes, and stores nothing",
    "POST /lanes/{lane}/pause": "sets a state",
    "POST /lanes/{lane}/resume": "sets a state",
    "POST /dead-letters/redrive": "a dead letter is redriven once, whoever asks how often",
    "POST /dead-letters/purge": "removes",
    "POST /change-sets/{change_set_id:uuid}/apply": "applied once, whoever asks how often",
    "POST /change-sets/{change_set_id:uuid}/undo": "undone once, whoever asks how often",
    "POST /bulk-actions/{bulk_action_id:uuid}/start": "begun once, whoever asks how often",
    "POST /bulk-actions/{bulk_action_id:uuid}/stop": "ended once, whoever asks how often",
}
"""POST routes without Idempotency-Key, and why repeating one makes nothing twice."""


def _range(hours: int) -> dict[str, Any]:
    begin, until = "2024-12-31T00:00:00Z", f"2025-01-01T{hours:02}:00:00Z"
    return {"from": begin, "until": until, "dry_run": False}


OTHER: dict[str, Callable[[FullTenant], Any]] = {
    "POST /keys": lambda _: {"scopes": ["jobs:write"]},
    "POST /keys/{key_id:uuid}/rotate": lambda _: {"overlap_seconds": 5},
    "POST /internal/tenants": lambda _: {"name": f"t-{uuid4().hex}"},
    "POST /destinations": lambda _: {"name": "other", "url": "https://example.com/"},
    "POST /destinations/{name}/rotate-secret": lambda _: {"overlap_seconds": 5},
    "POST /signing-secret/rotate": lambda _: {"overlap_seconds": 5},
    "POST /accounts": lambda _: {"account_id": "emil"},
    "POST /accounts/{account_id}/adjustments": lambda _: {"amount": 6, "reason": "r"},
    "POST /payments/schedule": lambda w: {
        "from_account_id": w.account,
        "to_account_id": w.payee,
        "amount": 6,
        "delay_seconds": 60,
    },
    "POST /payments/{payment_id:uuid}/refund": lambda _: {"amount": 2},
    "POST /lanes": lambda _: {"lane": "elsewhere"},
    "POST /jobs": lambda _: {"destination": {"type": "worker"}, "lane": "other"},
    "POST /subscriptions": lambda _: {
        "destination": {"type": "webhook", "url": "https://example.com/"},
        "types": ["job.*"],
    },
    "POST /subscriptions/{subscription_id:uuid}/replay": lambda _: {"from": "now"},
    "POST /schedules": lambda _: {
        "every_seconds": 7200,
        "template": {"job": {"destination": {"type": "worker"}}},
    },
    "POST /schedules/{schedule_id:uuid}/backfill": lambda _: _range(9),
    "POST /calendars": lambda _: {"name": "third", "holidays": []},
    "POST /change-sets": lambda w: {
        "changes": [{"type": "pause_lane", "lane": w.lane}],
        "note": "another",
    },
}
"""Another body for each route that takes one."""

KEYED = sorted(name for name in set(POSTS) - set(NOTHING_CREATED) if not ROWS[name].live)
"""Routes for tenants in test mode have tests of their own: this tenant is live."""


def test_every_post_honours_a_key_or_says_why_it_needs_none() -> None:
    document = openapi.document(ENDPOINTS, "test")
    for name, endpoint in POSTS.items():
        operation = document["paths"][endpoint.template]["post"]
        taken = b"idempotency" in msgspec.json.encode(operation.get("parameters", [])).lower()
        assert taken != (name in NOTHING_CREATED), name
        if endpoint.status == 201:
            assert taken, f"{name} creates something"


class Caller:
    """Calls one route of one tenant."""

    def __init__(self, api: Api, full: FullTenant, name: str) -> None:
        self.api, self.full, self.name = api, full, name
        self.endpoint = POSTS[name]

    async def call(self, key: str, body: Any, thing: str | None = None) -> Answered:
        path = self.endpoint.path
        for parameter, is_uuid in parameters_of(path):
            part = thing or getattr(self.full, ROWS[self.name].thing)
            path = path.replace(f"{{{parameter}:uuid}}" if is_uuid else f"{{{parameter}}}", part)
        headers = {"Idempotency-Key": key, "X-Internal-Auth": INTERNAL_TOKEN}
        return await self.api.call("POST", path, body, headers=headers)

    def body(self) -> Any:
        if self.name.endswith("/backfill"):
            return _range(8)
        make = ROWS[self.name].body
        return make(self.full) if make else None


async def rows(api: Api) -> dict[str, int]:
    """Count what every route could have made."""
    tables = "job payment schedule occurrence account api_key destination subscription calendar"
    fetch = api.node.database.writer.fetchval
    return {
        table: await fetch(f"SELECT count(*) FROM {table}")
        for table in [*tables.split(), "transfer", "event", "tenant"]
    }


def replayed(answer: Answered) -> bool:
    named = {name.lower(): value for name, value in answer.headers.items()}
    return named.get("idempotency-replayed") == "true"


SECRETS = ("key", "secret")


async def test_the_same_key_and_body_create_once_and_another_body_is_refused(api: Api) -> None:
    full = await build(api)
    for name in KEYED:
        caller, key = Caller(api, full, name), f"k {name}"
        body = caller.body()
        first = await caller.call(key, body)
        assert first.status == caller.endpoint.status, (name, first.body)
        assert not replayed(first), name
        before = await rows(api)
        again = await caller.call(key, body)
        assert again.status == first.status, (name, again.body)
        assert replayed(again), name
        told = {part: value for part, value in first.body.items() if part not in SECRETS}
        assert {p: v for p, v in again.body.items() if p not in SECRETS} == told, name
        if name in OTHER:
            other = await caller.call(key, OTHER[name](full))
        else:
            other = await caller.call(key, body, thing=str(uuid4()))
        assert (other.status, other.body["code"]) == (422, "idempotency_key_reused"), name
        assert await rows(api) == before, f"{name} made something twice"


async def test_a_secret_is_told_once_and_stored_nowhere(api: Api) -> None:
    given = "whsec_" + "QUJD" * 10
    asks: list[tuple[str, Any]] = [
        ("/keys", {"scopes": ["jobs:read"]}),
        ("/destinations", {"name": "mine", "url": "https://example.com/", "secret": given}),
        ("/signing-secret/rotate", {}),
        ("/destinations/mine/rotate-secret", {}),
    ]
    for path, body in asks:
        headers = {"Idempotency-Key": path}
        first = await api.call("POST", path, body, headers=headers)
        again = await api.call("POST", path, body, headers=headers)
        name = "key" if path == "/keys" else "secret"
        assert (first.body[name] is not None, again.body[name]) == (True, None), path
        rows = await api.node.database.writer.fetch(
            "SELECT kept FROM idempotency WHERE kept IS NOT NULL"
        )
        assert rows
        assert not any(first.body[name].encode() in row["kept"] for row in rows), path
    changed = {**asks[1][1], "secret": "whsec_" + "REVG" * 10}
    other = await api.call(
        "POST", "/destinations", changed, headers={"Idempotency-Key": asks[1][0]}
    )
    assert (other.status, other.body["differs"]) == (422, ["secret"])


async def payments_schedule(api: Api) -> str:
    for account in ("alice", "bob"):
        await api.call("POST", "/accounts", {"account_id": account})
    template = {"payment": {"from_account_id": "alice", "to_account_id": "bob", "amount": 5}}
    rule = {"every_seconds": 86_400, "template": template}
    return str((await api.call("POST", "/schedules", rule)).body["schedule_id"])


async def test_ten_triggers_at_once_under_one_key_make_one_payment(api: Api) -> None:
    path = f"/schedules/{await payments_schedule(api)}/trigger"
    headers = {"Idempotency-Key": "lost answer"}
    answers = await asyncio.gather(*(api.call("POST", path, headers=headers) for _ in range(10)))
    assert {answer.status for answer in answers} <= {201, 409}
    busy = [answer.body["code"] for answer in answers if answer.status == 409]
    assert set(busy) <= {"idempotency_in_flight"}
    made = {answer.body["payment_id"] for answer in answers if answer.status == 201}
    listed = (await api.call("GET", "/payments")).body["payments"]
    assert made == {one["payment_id"] for one in listed}
    assert len(listed) == 1


async def test_two_nodes_with_one_key_make_one_payment(api: Api) -> None:
    schedule_id = UUID(await payments_schedule(api))
    identities = Identities(api.node.database)
    who = await identities.authenticate(api.key)
    assert who is not None
    runs = edge.services(api.node, identities).schedule.run
    wanted = CreateRequest(
        tenant_id=who.tenant_id, operation="schedule.trigger", key="both", members={"a": 1}
    )

    async def trigger(node: CreateOnce) -> Granted:
        answer = await node.run(
            wanted,
            lambda remember: runs.trigger(who, schedule_id, remember=remember),
            lambda triggered: Shown(triggered, triggered),
            CREATED,
        )
        assert isinstance(answer, Granted)
        return answer

    nodes = [CreateOnce(api.node.database) for _ in range(4)]
    answers = await asyncio.gather(*map(trigger, nodes))
    assert len({answer.body_as(Triggered).payment_id for answer in answers}) == 1
    assert sorted(answer.replayed for answer in answers) == [False, True, True, True]
    assert len((await api.call("GET", "/payments")).body["payments"]) == 1
