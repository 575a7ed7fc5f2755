"""Every route against every kind of caller. A new route needs a row in `full_tenant.ROWS`."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from conftest import INTERNAL_TOKEN, Answered, Api
from postdate.api.endpoints import ENDPOINTS
from postdate.core.identity import Scope
from postdate.http.route_table import parameters_of
from postdate.tenant.change.tenant import KeyLimits, Tenants
from support.full_tenant import ROWS, FullTenant, build

ROUTES = {f"{endpoint.method} {endpoint.path}": endpoint for endpoint in ENDPOINTS}
each_route = pytest.mark.parametrize("name", ROUTES)


class Caller:
    """Calls one route on one tenant, as anybody."""

    def __init__(self, api: Api, name: str, full: FullTenant) -> None:
        self.api, self.full = api, full
        self.endpoint = ROUTES[name]
        self.row = ROWS[name]

    def path(self, thing: str | None = None) -> str:
        path = self.endpoint.path
        for parameter, is_uuid in parameters_of(path):
            given = thing or getattr(self.full, self.row.thing)
            path = path.replace(f"{{{parameter}:uuid}}" if is_uuid else f"{{{parameter}}}", given)
        return path

    def body(self) -> Any:
        return self.row.body(self.full) if self.row.body else None

    async def call(self, key: str, *, path: str | None = None, **more: Any) -> Answered:
        headers = {"Idempotency-Key": str(uuid4())} if self.endpoint.idempotency else {}
        headers |= more.pop("headers", {})
        body = more.pop("body", self.body())
        path = path or self.path()
        return await self.api.call(self.endpoint.method, path, body, key=key, headers=headers)


@pytest.fixture(scope="module")
async def read_only(edge_server: Api) -> tuple[Api, FullTenant]:
    """A tenant with one of everything for the routes that change nothing: made once."""
    tenants = Tenants(edge_server.node.database)
    await tenants.create("read-only")
    key = (await tenants.issue("read-only", ["admin"])).key
    owner = replace(edge_server, tenant="read-only", key=key)
    return owner, await build(owner)


@pytest.fixture
async def other(api: Api) -> Api:
    """Another tenant's admin."""
    tenants = Tenants(api.node.database)
    name = f"other-{uuid4().hex[:8]}"
    await tenants.create(name)
    return replace(api, tenant=name, key=(await tenants.issue(name, ["admin"])).key)


def test_every_route_has_a_row_that_names_its_thing_and_body() -> None:
    assert set(ROWS) == set(ROUTES)
    for name, endpoint in ROUTES.items():
        assert bool(ROWS[name].thing) == ("{" in endpoint.path), name
        assert (ROWS[name].body is not None) == (endpoint.body is not None), name


@each_route
async def test_only_the_owner_with_a_fitting_key_gets_through(
    api: Api, other: Api, read_only: tuple[Api, FullTenant], name: str
) -> None:
    endpoint = ROUTES[name]
    owner, full = read_only if endpoint.method == "GET" else (api, await build(api))
    caller = Caller(owner, name, full)
    if endpoint.scope is None:
        assert (await caller.call("wrong key")).status == endpoint.status
        return
    if endpoint.scope != "internal":
        await refuse_ended_keys(caller)
        await refuse_unfitting_key(caller)
        await refuse_other_tenant(caller, other)
    answer = await caller.call("wrong key", headers={"X-Internal-Auth": "wrong"})
    assert (answer.status, answer.body["code"]) == (401, "unauthenticated")
    # None of those calls changed a thing: the owner still finds it, and is served.
    answer = await caller.call(owner.key, headers={"X-Internal-Auth": INTERNAL_TOKEN})
    assert answer.status == (caller.row.live or endpoint.status), answer.body


async def refuse_ended_keys(caller: Caller) -> None:
    tenants = Tenants(caller.api.node.database)
    revoked = await tenants.issue(caller.api.tenant, ["admin"])
    await tenants.revoke(caller.api.tenant, revoked.key_id)
    past = KeyLimits(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    expired = await tenants.issue(caller.api.tenant, ["admin"], limits=past)
    for header in ("", "Basic abc", f"Bearer {revoked.key}", f"Bearer {expired.key}"):
        answer = await caller.call("", headers={"Authorization": header})
        assert (answer.status, answer.body["code"]) == (401, "unauthenticated"), header
        assert "www-authenticate" in {header.lower() for header in answer.headers}


async def refuse_unfitting_key(caller: Caller) -> None:
    if caller.endpoint.scope == "any":
        return
    others = [scope for scope in Scope if scope not in {caller.endpoint.scope, Scope.ADMIN}]
    answer = await caller.call(await caller.api.new_key(*others))
    assert (answer.status, answer.body["code"]) == (403, "forbidden")


async def refuse_other_tenant(caller: Caller, other: Api) -> None:
    named = caller.row.thing
    expected = caller.row.foreign or (404 if named else caller.endpoint.status)
    answer = await caller.call(other.key)
    assert answer.status == expected, answer.body
    if not named:
        assert_no_marks(caller, answer)
    elif expected == 404 and named != "setting":
        # What is somebody else's reads exactly as what was never there.
        there, never = getattr(caller.full, named), str(uuid4())
        missing = await caller.call(other.key, path=caller.path(never))
        assert plain(answer, there) == plain(missing, never)


def assert_no_marks(caller: Caller, answer: Answered) -> None:
    sent = msgspec.json.encode(caller.body()).decode()
    text = msgspec.json.encode(answer.body).decode()
    leaked = [mark for mark in caller.full.marks if mark and mark in text and mark not in sent]
    assert leaked == []


def plain(answer: Answered, thing: str) -> tuple[int, str]:
    body = {**answer.body, "request_id": ""}
    return answer.status, msgspec.json.encode(body).decode().replace(thing, "IT")


@each_route
async def test_an_unknown_field_is_refused_by_name(api: Api, name: str) -> None:
    endpoint = ROUTES[name]
    caller = Caller(api, name, FullTenant(dead=str(uuid4())))
    internal = {"X-Internal-Auth": INTERNAL_TOKEN}
    path = caller.path(str(uuid4())) if caller.row.thing else caller.path()
    if endpoint.body is not None:
        body = {**caller.body(), "tenant_id": 1}
        answer = await caller.call(api.key, path=path, body=body, headers=internal)
        seen = (answer.status, answer.body["code"], answer.body["field"])
        assert seen == (422, "unknown_field", "tenant_id")
    if endpoint.query is not None:
        answer = await caller.call(api.key, path=f"{path}?tenant_id=1", headers=internal)
        seen = (answer.status, answer.body["code"], answer.body["field"])
        assert seen == (422, "unknown_field", "tenant_id")
