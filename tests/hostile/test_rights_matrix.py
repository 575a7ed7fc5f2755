"""Every operation and page with every kind of key: what is declared about it is what holds."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from conftest import Answered, Api
from postdate.api.endpoints import ENDPOINTS
from postdate.console.button_table import BUTTONS
from postdate.console.page_table import PAGES
from postdate.core.identity import Scope
from postdate.event.spec.event import VISIBLE
from postdate.http.endpoint import AnyEndpoint, Limited
from postdate.tenant.change.tenant import KeyLimits, Tenants
from support.full_tenant import ROWS, FullTenant, build
from support.plain_browser import Browser

pytestmark = pytest.mark.own_database("it lists the nodes and tenants of the whole database")

NOBODY = frozenset[Scope]()
EXPIRED = KeyLimits(expires_at=datetime(2020, 1, 1, tzinfo=UTC))
MINE = KeyLimits(accounts=["mine"])


@dataclass(frozen=True)
class Caller:
    """A key, or what is given as one, and what it may do."""

    name: str
    key: str
    scopes: frozenset[Scope] = NOBODY
    limited: bool = False
    foreign: bool = False

    def allows(self, endpoint: AnyEndpoint) -> bool:
        return endpoint.scope == "any" or not self.scopes.isdisjoint({endpoint.scope, Scope.ADMIN})


@dataclass
class Bank:
    """A tenant with one of everything, what must stay as it is, and everybody who calls."""

    owner: Api
    full: FullTenant
    callers: list[Caller]

    @property
    def marks(self) -> list[str]:
        """What no key limited to another account may read; calendars are everybody's."""
        return [mark for mark in self.full.marks if mark != self.full.calendar]


async def everybody(api: Api) -> list[Caller]:
    tenants = Tenants(api.node.database)
    revoked = await tenants.issue(api.tenant, ["admin"])
    await tenants.revoke(api.tenant, revoked.key_id)
    expired = await tenants.issue(api.tenant, ["admin"], limits=EXPIRED)
    callers = [
        Caller("nobody", ""),
        Caller("garbage", "pdk_garbage"),
        Caller("revoked", revoked.key),
        Caller("expired", expired.key),
    ]
    for scope in Scope:
        own = await tenants.issue(api.tenant, [scope])
        narrow = await tenants.issue(api.tenant, [scope], limits=MINE)
        callers.append(Caller(f"{scope}", own.key, frozenset({scope})))
        callers.append(Caller(f"{scope} of mine", narrow.key, frozenset({scope}), limited=True))
    await tenants.create("another")
    other = await tenants.issue("another", ["admin"])
    callers.append(Caller("another", other.key, frozenset({Scope.ADMIN}), foreign=True))
    return callers


@pytest.fixture(scope="module")
async def bank(edge_server: Api) -> Bank:
    tenants = Tenants(edge_server.node.database)
    await tenants.create("bank")
    key = (await tenants.issue("bank", ["admin"])).key
    owner = replace(edge_server, tenant="bank", key=key)
    full = await build(owner)
    await owner.call("POST", "/accounts", {"account_id": "mine"})
    return Bank(owner, full, await everybody(owner))


async def ask(bank: Bank, endpoint: AnyEndpoint, caller: Caller) -> tuple[Answered, str]:
    """Call an operation on the tenant's own things; also return what was sent."""
    row = ROWS[f"{endpoint.method} {endpoint.path}"]
    path = re.sub(r"\{.+?\}", getattr(bank.full, row.thing, ""), endpoint.path)
    body = row.body(bank.full) if row.body else None
    headers = {"Idempotency-Key": str(uuid4())} if endpoint.idempotency else {}
    answer = await bank.owner.call(endpoint.method, path, body, key=caller.key, headers=headers)
    return answer, path + msgspec.json.encode(body).decode()


def expected(endpoint: AnyEndpoint, caller: Caller) -> set[int]:
    """Compute from the declaration how a caller is answered who is not the owner's own."""
    row = ROWS[f"{endpoint.method} {endpoint.path}"]
    if endpoint.scope is None:
        return {endpoint.status}
    if endpoint.scope == "internal" or not caller.scopes:
        return {401}
    blind = endpoint.path == "/events" and caller.scopes.isdisjoint(VISIBLE)
    if blind or not caller.allows(endpoint) or (caller.limited and endpoint.limited == "refused"):
        return {403}
    usual = {endpoint.status, row.live or endpoint.status}
    if caller.limited and endpoint.limited == "filtered":
        return {403, 404} if row.thing else {*usual, 403, 404}
    if caller.foreign:
        return {row.foreign or (404 if row.thing else endpoint.status)}
    return _of_bulk_action(endpoint, caller) if row.thing == "bulk_action" else usual


def _of_bulk_action(endpoint: AnyEndpoint, caller: Caller) -> set[int]:
    """Who may read or write the jobs of a bulk action sees it, who may write them stops it."""
    if caller.scopes.isdisjoint({Scope.JOBS_READ, Scope.JOBS_WRITE, Scope.ADMIN}):
        return {404}
    reads = endpoint.method == "GET" or Scope.JOBS_READ not in caller.scopes
    return {endpoint.status} if reads else {403}


def called(endpoint: AnyEndpoint, caller: Caller) -> bool:
    """Return whether a call changes nothing of the owner's, so that all can follow each other."""
    rightful = bool(caller.scopes) and caller.allows(endpoint)
    return endpoint.method == "GET" or caller.limited or not rightful


async def state(bank: Bank) -> list[Any]:
    """Return what a key that is not the owner's must leave as it is."""
    full = bank.full
    paths = (
        f"/accounts/{full.account}",
        f"/payments/{full.payment}",
        f"/payments/{full.unapproved}",
        f"/schedules/{full.schedule}",
        f"/jobs/{full.job}",
        f"/destinations/{full.destination}",
        f"/lanes/{full.lane}",
        f"/change-sets/{full.change_set}",
        f"/bulk-actions/{full.bulk_action}",
        f"/calendars/{full.calendar}",
        "/halts",
        "/signing-secret",
        "/settings",
    )
    seen = [(await bank.owner.call("GET", path)).body for path in paths]
    listed = (await bank.owner.call("GET", "/subscriptions")).body["subscriptions"]
    keys = (await bank.owner.call("GET", "/keys?limit=100")).body["keys"]
    seen.append([each["paused_at"] for each in listed if each["accounts"] is None])
    seen.append([each["revoked_at"] for each in keys if each["key_id"] == full.key])
    return seen


async def test_every_operation_answers_every_key_as_it_is_declared(bank: Bank) -> None:
    before, calls = await state(bank), 0
    for endpoint in ENDPOINTS:
        for caller in bank.callers:
            if not called(endpoint, caller):
                continue
            answer, sent = await ask(bank, endpoint, caller)
            calls += 1
            where = (caller.name, endpoint.method, endpoint.path, answer.status, answer.body)
            assert answer.status in expected(endpoint, caller), where
            if caller.limited or caller.foreign:
                text = msgspec.json.encode(answer.body).decode()
                assert [mark for mark in bank.marks if mark in text and mark not in sent] == [], (
                    where
                )
    assert calls > 2000
    assert await state(bank) == before


def test_only_keys_and_subscriptions_are_for_an_admin_limited_to_accounts() -> None:
    open_to_it = {
        endpoint.path.split("/")[1]
        for endpoint in ENDPOINTS
        if endpoint.scope is Scope.ADMIN and endpoint.limited != "refused"
    }
    assert open_to_it == {"keys", "subscriptions"}


def pages() -> Iterator[tuple[str, Limited]]:
    """Return every address of the console, and how it treats a limited key."""
    for page in PAGES:
        yield page.path, page.limited
    for button in BUTTONS:
        yield button.path, button.endpoint.limited


NAMES = {"job_id": "job", "payment_id": "payment", "account_id": "account", "lane": "lane"} | {
    "schedule_id": "schedule",
    "subscription_id": "subscription",
    "key_id": "key",
    "change_set_id": "change_set",
}


def address(full: FullTenant, path: str) -> str:
    """Fill an address of the console in with the things of the owner."""

    def named(part: re.Match[str]) -> str:
        known = NAMES.get(part[1])
        if known is None:
            return str(uuid4()) if part[2] else {"kind": "csv"}.get(part[1], full.destination)
        return str(getattr(full, known))

    return re.sub(r"\{(\w+)(:uuid)?\}", named, path)


async def test_no_page_shows_a_limited_admin_what_is_not_of_its_accounts(bank: Bank) -> None:
    [admin] = [each for each in bank.callers if each.limited and Scope.ADMIN in each.scopes]
    async with Browser(bank.owner) as browser:
        await browser.sign_in(admin.key)
        for path, limited in pages():
            where = address(bank.full, path)
            seen = await browser.get(where)
            assert seen.status < 500, where
            if limited == "refused":
                assert seen.status == 403, where
            elif path not in {"/find", "/find/peek"}:
                shown = seen.text.replace(where, "")
                leaked = [mark for mark in bank.marks if mark in shown and mark not in where]
                assert leaked == [], where
        for mark in bank.marks:
            found = await browser.get(f"/find/peek?q={mark}")
            assert "href" not in found.text, mark


async def test_the_nodes_and_other_tenants_are_for_no_limited_key(bank: Bank) -> None:
    """The first tenant's admins see the cluster, but only those that see their whole tenant."""
    tenants = Tenants(bank.owner.node.database)
    first = "default"
    await tenants.create(first)
    narrow = (await tenants.issue(first, ["admin"], limits=MINE)).key
    whole = (await tenants.issue(first, ["admin"])).key
    for key, status in ((narrow, 403), (whole, 200)):
        async with Browser(bank.owner) as browser:
            await browser.sign_in(key)
            for path in ("/nodes", "/foresight?by=tenant"):
                assert (await browser.get(path)).status == status, path


async def test_a_limited_admin_works_with_its_own_subscriptions_and_keys(bank: Bank) -> None:
    [admin] = [each for each in bank.callers if each.limited and Scope.ADMIN in each.scopes]
    narrow = replace(bank.owner, key=admin.key)
    hook = {"destination": {"type": "webhook", "url": "https://example.com/"}}
    made = (await narrow.call("POST", "/subscriptions", hook)).body
    assert made["accounts"] == ["mine"]
    listed = (await narrow.call("GET", "/subscriptions")).body["subscriptions"]
    assert made["subscription_id"] in [each["subscription_id"] for each in listed]
    where = f"/subscriptions/{made['subscription_id']}"
    assert (await narrow.call("PATCH", where, {"paused": True})).body["status"] == "PAUSED"
    assert (await narrow.call("POST", f"{where}/replay", {"from": "beginning"})).status == 200
    assert (await narrow.call("DELETE", where)).status == 204
    wish = {"scopes": ["payments:read"], "accounts": ["mine"]}
    key_id = (await narrow.call("POST", "/keys", wish)).body["key_id"]
    keys = (await narrow.call("GET", "/keys?limit=100")).body["keys"]
    assert key_id in [each["key_id"] for each in keys]
    assert all(each["accounts"] == ["mine"] for each in keys)
    assert (await narrow.call("DELETE", f"/keys/{key_id}")).status == 204
