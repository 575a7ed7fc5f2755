"""Keys over HTTP: made, listed, rotated, revoked, never beyond their maker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conftest import Answered, Api, Clock, eventually
from postdate.core import origin
from postdate.http.login_throttle import FORGET_SECONDS, MAX_REMEMBERED, LoginThrottle
from postdate.key.authentication import identity
from postdate.key.authentication.identity import Identities
from postdate.tenant.change.tenant import KeyLimits, Tenants
from postdate.words.error import Code, RefusedError
from support.pause import wait_out


async def made(api: Api, key: str | None = None, **body: Any) -> Answered:
    return await api.call("POST", "/keys", {"scopes": ["jobs:read"], **body}, key=key)


async def test_a_key_opens_its_own_tenant(api: Api) -> None:
    answer = await api.call("GET", "/whoami")
    assert (answer.status, answer.body["tenant"]) == (200, api.tenant)


async def test_a_wrong_key_is_refused(api: Api) -> None:
    answer = await api.call("GET", "/whoami", key="pdk_wrong")
    assert (answer.status, answer.body["code"]) == (401, "unauthenticated")


async def test_a_key_is_shown_once_and_listed_without_itself(api: Api) -> None:
    answer = await made(api, note="reports", accounts=["alice"], max_amount=5)
    assert answer.status == 201
    key = answer.body["key"]
    assert len(key) >= 36
    who = (await api.call("GET", "/whoami", key=key)).body
    assert (who["scopes"], who["accounts"], who["max_amount"]) == (["jobs:read"], ["alice"], 5)
    page = await api.call("GET", "/keys?limit=1")
    rest = await api.call("GET", f"/keys?cursor={page.body['next_cursor']}")
    [listed] = rest.body["keys"]
    assert (listed["note"], listed["hint"], rest.body["next_cursor"]) == ("reports", key[:8], None)
    assert key not in str(rest.body)


async def test_a_revoked_key_is_refused_by_every_node_within_five_seconds(api: Api) -> None:
    issued = (await made(api)).body
    other = Identities(api.node.database)
    assert await other.authenticate(issued["key"])
    assert (await api.call("GET", "/whoami", key=issued["key"])).status == 200
    assert (await api.call("DELETE", f"/keys/{issued['key_id']}")).status == 204

    async def refused() -> bool:
        here = await api.call("GET", "/whoami", key=issued["key"])
        return here.status == 401 and await other.authenticate(issued["key"]) is None

    await eventually(refused, seconds=5)


async def test_requests_that_come_together_look_a_key_up_once(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, looks = api.node.database, 0
    look_up = database.look_up

    @asynccontextmanager
    async def counted() -> AsyncIterator[Any]:
        nonlocal looks
        looks += 1
        async with look_up() as connection:
            yield connection

    monkeypatch.setattr(database, "look_up", counted)
    identities = Identities(database)
    asking = [asyncio.create_task(identities.authenticate(api.key)) for _ in range(20)]
    await asyncio.sleep(0)
    asking[0].cancel()  # its client has gone: the others still get their answer
    with suppress(asyncio.CancelledError):
        await asking[0]
    found = await asyncio.gather(*asking[1:])
    assert {each.tenant for each in found if each} == {api.tenant}
    assert (len(found), looks) == (19, 1)


async def test_a_look_up_that_fails_is_tried_again_by_the_next_request(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise ConnectionError("gone")

    identities = Identities(api.node.database)
    with monkeypatch.context() as patched:
        patched.setattr(api.node.database, "look_up", broken)
        with pytest.raises(ConnectionError):
            await identities.authenticate(api.key)
    assert await identities.authenticate(api.key)


async def test_a_rotated_key_works_beside_the_new_one_until_the_overlap_ends(
    api: Api, clock: Clock
) -> None:
    old = (await made(api, note="n", accounts=["alice"], max_amount=7)).body
    answer = await api.call("POST", f"/keys/{old['key_id']}/rotate", {"overlap_seconds": 60})
    assert answer.status == 200
    assert answer.body["previous_key_id"] == old["key_id"]
    for key in (old["key"], answer.body["key"]):
        who = (await api.call("GET", "/whoami", key=key)).body
        assert (who["accounts"], who["max_amount"]) == (["alice"], 7)
    await clock.advance(61)
    fresh = Identities(api.node.database)
    assert await fresh.authenticate(old["key"]) is None
    assert await fresh.authenticate(answer.body["key"])
    again = await api.call("POST", f"/keys/{old['key_id']}/rotate", {})
    assert (again.status, again.body["code"]) == (409, "conflict")


async def test_no_key_makes_one_that_reaches_further(api: Api) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    limits = KeyLimits(accounts=["alice", "bob"], max_amount=10, expires_at=soon)
    tenants = Tenants(api.node.database)
    maker = (await tenants.issue(api.tenant, ["admin"], limits=limits)).key
    within = {"accounts": ["bob"], "max_amount": 10, "expires_at": soon.isoformat()}
    assert (await made(api, maker, scopes=["admin"], **within)).status == 201
    later = (soon + timedelta(seconds=1)).isoformat()
    for field, value in (
        ("accounts", None),
        ("accounts", ["bob", "carol"]),
        ("max_amount", None),
        ("max_amount", 11),
        ("expires_at", None),
        ("expires_at", later),
    ):
        answer = await made(api, maker, **(within | {field: value}))
        assert (answer.status, answer.body["field"]) == (403, field)
    # Nor by giving a wider one a new secret.
    wider = (await made(api)).body["key_id"]
    answer = await api.call("POST", f"/keys/{wider}/rotate", {}, key=maker)
    assert (answer.status, answer.body["field"]) == (403, "accounts")


async def test_a_tenant_has_only_so_many_keys(api: Api) -> None:
    assert (await api.call("PUT", "/settings/key.max_count", {"value": 2})).status == 200
    await api.node.refresh_settings()
    one = await made(api)
    assert (one.status, (await made(api)).status) == (201, 409)
    await api.call("DELETE", f"/keys/{one.body['key_id']}")
    assert (await made(api)).status == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes[0]"),
        ({"max_amount": 0}, "max_amount"),
        ({"accounts": []}, "accounts"),
        ({"expires_at": "2030-01-01T00:00:00"}, "expires_at"),
        ({"key_id": "mine"}, "key_id"),
    ],
)
async def test_a_wrong_key_request_is_refused(api: Api, body: dict[str, Any], field: str) -> None:
    answer = await made(api, **body)
    assert (answer.status, answer.body["field"]) == (422, field)


async def test_wrong_keys_of_one_address_are_slowed_and_good_ones_stay_welcome(api: Api) -> None:
    throttle = LoginThrottle(free=3)
    identities = Identities(api.node.database, throttle)
    origin.arrive("r", "192.0.2.7")
    assert await identities.authenticate(api.key)
    for number in range(3):
        assert await identities.authenticate(f"wrong {number}") is None
    assert await identities.authenticate("wrong 4") is None
    with pytest.raises(RefusedError) as refused:
        await identities.authenticate("wrong 9")
    assert refused.value.refusal.code is Code.RATE_LIMITED
    assert 0 < refused.value.refusal.extra["retry_after_seconds"] <= 16
    # Also one that was never seen here: it is looked up before anything is counted.
    assert await identities.authenticate(await api.new_key())
    origin.arrive("r", "192.0.2.8")
    assert await identities.authenticate("wrong 9") is None


def test_the_wait_doubles_up_to_a_minute_and_is_forgotten() -> None:
    throttle, now = LoginThrottle(free=0), 1000.0
    for seconds in (1, 2, 4, 8, 16, 32, 60, 60):
        throttle.count_wrong_key("a", now)
        with pytest.raises(RefusedError):
            throttle.count_wrong_key("a", now + seconds - 0.01)
        assert not throttle.waits("a", now + seconds)
        now += seconds
    throttle.count_wrong_key("a", now + FORGET_SECONDS + 1)
    assert not throttle.waits("a", now + FORGET_SECONDS + 2)


def test_the_memory_of_wrong_keys_is_bounded() -> None:
    throttle = LoginThrottle()
    for number in range(MAX_REMEMBERED + 50):
        throttle.count_wrong_key(str(number), 1.0)
    assert len(throttle) == MAX_REMEMBERED


async def test_nobody_joins_a_look_up_that_may_be_out_of_date(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key could have been revoked since it was read."""
    identities, database = Identities(api.node.database), api.node.database
    look_up, goes_on, begun = database.look_up, asyncio.Event(), 0

    @asynccontextmanager
    async def hanging() -> AsyncIterator[Any]:
        nonlocal begun
        begun += 1
        async with look_up() as connection:
            yield connection
        await goes_on.wait()

    monkeypatch.setattr(database, "look_up", hanging)
    monkeypatch.setattr(identity, "REMEMBER_SECONDS", 0.2)
    first = [asyncio.create_task(identities.authenticate("pd_unknown")) for _ in range(2)]
    await wait_out(0.3)
    later = [asyncio.create_task(identities.authenticate("pd_unknown")) for _ in range(2)]
    await asyncio.sleep(0)
    goes_on.set()
    assert await asyncio.gather(*first, *later) == 4 * [None]
    assert begun == 2
