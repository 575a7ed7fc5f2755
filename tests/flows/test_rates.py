"""Limits on requests: told, refused in time, shared by nodes, of no concern to neighbours."""

import time
from dataclasses import replace
from uuid import uuid4

from conftest import Api, eventually
from postdate.core.identity import Identity
from postdate.key.authentication.identity import Identities
from postdate.tenant.change.rate_limit import Rates
from postdate.tenant.change.tenant import Tenants
from postdate.words.error import Code, RefusedError


async def rate(api: Api, **limits: float) -> None:
    for name, value in limits.items():
        path = f"/settings/rate.{name}_per_second"
        assert (await api.call("PUT", path, {"value": value})).status == 200
    await api.node.refresh_settings()


async def test_a_key_beyond_its_rate_is_told_when_to_come_back(api: Api) -> None:
    await rate(api, key=2)
    spare = await api.new_key("jobs:read")
    answers = [await api.call("GET", "/whoami", key=spare) for _ in range(6)]
    assert answers[0].status == 200
    assert answers[0].headers["ratelimit-policy"] == '"key";q=2;w=1'
    assert answers[0].headers["ratelimit"].startswith('"key";r=')
    [refused, *_] = [answer for answer in answers if answer.status == 429]
    assert refused.body["code"] == "rate_limited"
    assert int(refused.headers["Retry-After"]) == 1
    assert 0 < refused.body["retry_after_seconds"] <= 0.5

    async def served() -> bool:
        return (await api.call("GET", "/whoami", key=spare)).status == 200

    await eventually(served, seconds=3)


async def test_the_rate_of_a_tenant_holds_over_keys_and_nodes(api: Api) -> None:
    await rate(api, tenant=5)
    identities = Identities(api.node.database)
    callers = []
    for _ in range(2):
        who = await identities.authenticate(await api.new_key())
        assert who
        callers.append((who, Rates(api.node.database, api.node.runtime, uuid4())))
    before = time.monotonic()
    served = sum([await let_in(*caller) for _ in range(20) for caller in callers])
    # A second's worth after a rest, and what has been refilled meanwhile.
    assert 5 <= served <= 5 + 5 * (time.monotonic() - before) + 1


async def let_in(who: Identity, rates: Rates) -> bool:
    try:
        headers = await rates.admit(who)
    except RefusedError as error:
        return error.refusal.code is not Code.RATE_LIMITED
    return headers["ratelimit-policy"] == '"tenant";q=5;w=1'


async def test_another_tenant_is_not_held_up(api: Api) -> None:
    await rate(api, tenant=1, key=1)
    await api.call("GET", "/whoami")
    tenants = Tenants(api.node.database)
    await tenants.create(f"{api.tenant}-b")
    other = replace(api, key=(await tenants.issue(f"{api.tenant}-b", ["admin"])).key)
    for _ in range(5):
        answer = await other.call("GET", "/whoami")
        assert (answer.status, "ratelimit" in answer.headers) == (200, False)
