"""Many tenants over one pool, errors in between: nobody sees anything of anybody else."""

import asyncio
import random
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from conftest import Api
from postdate.tenant.change.tenant import Tenants

AT_ONCE = 32


@dataclass
class Tenant:
    """A tenant whose every name and payload holds its own mark."""

    api: Api
    mark: str
    accounts: list[str]
    jobs: list[str]


async def settle_in(api: Api, number: int) -> Tenant:
    tenants = Tenants(api.node.database)
    name, mark = f"{api.tenant}-{number}", f"mark{uuid4().hex}"
    await tenants.create(name)
    own = replace(api, tenant=name, key=(await tenants.issue(name, ["admin"])).key)
    tenant = Tenant(own, mark, [f"{mark}a", f"{mark}b"], [])
    for account in tenant.accounts:
        assert (await own.call("POST", "/accounts", {"account_id": account})).status == 201
    return tenant


async def act(chance: random.Random, tenants: list[Tenant]) -> int:
    """Send one request of one tenant; give how many marks of others came back."""
    me, other = chance.choice(tenants), chance.choice(tenants)
    method, path, body = chance.choice(requests(chance, me, other))
    key = "wrong" if chance.random() < 0.05 else None
    headers = {"Idempotency-Key": uuid4().hex}
    answer = await me.api.call(method, path, body, key=key, headers=headers)
    assert answer.status < 500, (method, path, answer.body)
    if path == "/jobs" and answer.status == 201:
        me.jobs.append(answer.body["job_id"])
    if me is not other and other.mark in path:
        assert answer.status in {401, 404}, (path, answer.body)
    sent = path + msgspec.json.encode(body).decode()
    came = msgspec.json.encode(answer.body).decode() + str(answer.headers)
    return sum(one.mark in came and one.mark not in sent for one in tenants if one is not me)


def requests(chance: random.Random, me: Tenant, other: Tenant) -> list[tuple[str, str, Any]]:
    job = {"destination": {"type": "worker"}, "lane": me.mark[:40], "payload": {"mark": me.mark}}
    order = {
        "from_account_id": me.accounts[0],
        "to_account_id": me.accounts[1],
        "amount": chance.choice([1, -1, 10**9]),
        "delay_seconds": 60,
    }
    return [
        ("POST", "/jobs", job),
        ("POST", "/jobs", {**job, "delay_seconds": 60}),
        ("POST", "/jobs", {**job, "lane": "not a lane!"}),
        ("GET", "/jobs", None),
        ("GET", "/accounts", None),
        ("GET", f"/accounts/{chance.choice(me.accounts)}", None),
        ("GET", f"/accounts/{chance.choice(other.accounts)}", None),
        ("POST", f"/accounts/{me.accounts[0]}/adjustments", {"amount": 5, "reason": me.mark}),
        ("POST", "/payments/schedule", order),
        ("GET", "/payments", None),
        ("GET", "/lanes", None),
        ("GET", "/audit", None),
        ("GET", "/settings", None),
        ("GET", f"/jobs/{chance.choice(other.jobs or [str(uuid4())])}", None),
        ("GET", "/jobs?limit=x", None),
    ]


async def interleave(api: Api, count: int, number_of_tenants: int) -> int:
    chance = random.Random(7)
    tenants = [await settle_in(api, number) for number in range(number_of_tenants)]
    left = iter(range(count))

    async def client() -> int:
        return sum([await act(chance, tenants) for _ in left])

    return sum(await asyncio.gather(*(client() for _ in range(AT_ONCE))))


async def test_tenants_over_one_pool_see_nothing_of_each_other(api: Api) -> None:
    assert await interleave(api, 1_000, 20) == 0


@pytest.mark.soak
async def test_fifty_tenants_and_ten_thousand_requests_leak_nothing(api: Api) -> None:
    assert await interleave(api, 10_000, 50) == 0
