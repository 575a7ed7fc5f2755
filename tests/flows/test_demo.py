"""`postdate demo` gives every page of the console something to show, in an empty tenant only."""

from typing import Any

from conftest import Api
from support.command import run_command


async def listed(api: Api, path: str, noun: str) -> list[Any]:
    found: list[Any] = (await api.call("GET", path)).body[noun]
    return found


async def test_a_tenant_is_filled_once_and_again_only_when_told_so(api: Api) -> None:
    made = await run_command(api, "demo", "--json")
    assert (made.code, made.out["accounts"], made.out["schedules"]) == (0, 7, 4)
    refused = await run_command(api, "demo")
    assert refused.code == 2
    assert f"the tenant {api.tenant} already has accounts" in refused.err
    again = await run_command(api, "demo", "--again", "--json")
    assert (again.code, again.out) == (0, made.out)

    accounts = {each["account_id"]: each for each in await listed(api, "/accounts", "accounts")}
    assert accounts["demo-dave"]["frozen_at"]
    assert sum(each["held"] for each in accounts.values()) > 0
    payments = await listed(api, "/payments?limit=100", "payments")
    assert {each["status"] for each in payments} == {"PENDING", "CANCELLED"}
    assert {each["funding"] for each in payments} == {"hold", "at_execution"}
    statuses = {each["status"] for each in await listed(api, "/schedules", "schedules")}
    assert statuses == {"ACTIVE", "PAUSED"}
    lanes = {each["lane"]: each for each in await listed(api, "/lanes", "lanes")}
    assert lanes["exports"]["paused"]
    for status in ("COMPLETED", "FAILED", "PENDING", "UNKNOWN"):
        assert await listed(api, f"/jobs?status={status}", "jobs"), status
    assert await listed(api, "/dead-letters", "jobs")
    subscriptions = await listed(api, "/subscriptions", "subscriptions")
    assert {each["status"] for each in subscriptions} == {"PAUSED", "ACTIVE"}
