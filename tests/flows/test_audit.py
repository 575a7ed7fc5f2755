"""The audit over HTTP: who, what, to which, from where, by which key."""

import asyncio
from typing import Any

import pytest

from conftest import Api
from postdate.audit.view import AuditViews
from postdate.halt.change import Halting
from postdate.halt.spec import Halts
from postdate.setting.change import SettingChanges
from postdate.tenant.change.tenant import Tenants
from support.event import seal_all
from support.job import failed
from support.plain_browser import Browser

pytestmark = pytest.mark.own_database("it seals the events of every tenant")


async def entries(api: Api, **query: Any) -> list[Any]:
    await seal_all(api.node.database)
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    answer = await api.call("GET", f"/audit?{asked}")
    assert answer.status == 200
    found: list[Any] = answer.body["entries"]
    return found


async def test_decisions_are_listed_with_key_address_and_request(api: Api) -> None:
    who = (await api.call("GET", "/whoami")).body["key_id"]
    headers = {"X-Request-Id": "req-1"}
    made = await api.call("POST", "/keys", {"scopes": ["jobs:read"]}, headers=headers)
    await api.call("PUT", "/settings/job.max_attempts", {"value": 4}, headers=headers)
    await api.call("DELETE", "/settings/job.max_attempts", headers=headers)
    await api.call("POST", "/accounts", {"account_id": "alice"}, headers=headers)
    await api.call("POST", "/accounts/alice/freeze", headers=headers)
    job = {"destination": {"type": "worker"}, "delay_seconds": 60, "lane": "x"}
    job_id = (await api.call("POST", "/jobs", job)).body["job_id"]
    await api.call("POST", f"/jobs/{job_id}/cancel", headers=headers)
    await api.call("POST", "/lanes/x/pause", {"note": "n"}, headers=headers)
    await api.call("DELETE", f"/keys/{made.body['key_id']}", headers=headers)
    seen = await entries(api)
    assert [entry["type"] for entry in seen] == [
        "tenant.created",
        "key.created",
        "key.created",
        "setting.changed",
        "setting.changed",
        "account.created",
        "account.frozen",
        "job.cancelled",
        "lane.paused",
        "key.revoked",
    ]
    assert [entry["actor"] for entry in seen[:2]] == ["cli", "cli"]
    for entry in seen[2:]:
        came = (entry["actor"], entry["address"], entry["request_id"])
        assert came == (who, "127.0.0.1", "req-1"), entry
    about = await entries(api, subject=made.body["key_id"])
    assert [entry["type"] for entry in about] == ["key.created", "key.revoked"]
    assert made.body["key"] not in str(seen)


async def test_what_is_asked_for_again_is_told_of_once(api: Api) -> None:
    made = (await api.call("POST", "/keys", {"scopes": ["jobs:read"]})).body["key_id"]
    ended = [await api.call("DELETE", f"/keys/{made}") for _ in range(2)]
    assert [each.status for each in ended] == [204, 204]
    database, name = api.node.database, f"off-{made}"
    tenant_id = await Tenants(database).create(name)
    halting = Halting(database, Halts())
    for _ in range(2):
        await halting.disable(name, "a reason", "cli")
    for _ in range(2):
        await halting.enable(name, "cli")
    told = await database.writer.fetch(
        "SELECT type, count(*) FROM event WHERE subject = $1 AND type = 'key.revoked'"
        " OR tenant_id = $2 AND type LIKE 'tenant.%abled' GROUP BY type",
        made,
        tenant_id,
    )
    kinds = ("key.revoked", "tenant.disabled", "tenant.enabled")
    assert {row[0]: row[1] for row in told} == dict.fromkeys(kinds, 1)


async def test_what_is_written_in_groups_says_where_each_came_from(api: Api) -> None:
    await api.call("POST", "/accounts", {"account_id": "alice"})

    async def adjust(number: int) -> None:
        headers = {"X-Request-Id": f"req-{number}", "Idempotency-Key": f"key-{number}"}
        body = {"amount": number, "reason": "some"}
        answer = await api.call("POST", "/accounts/alice/adjustments", body, headers=headers)
        assert answer.status == 201

    await asyncio.gather(*map(adjust, range(1, 9)))
    found = [one for one in await entries(api) if one["type"] == "account.adjusted"]
    assert len(found) == 8
    for entry in found:
        assert entry["address"] == "127.0.0.1"
        assert entry["request_id"] == f"req-{entry['data']['amount']}"


async def test_redrives_and_purges_are_for_the_auditor(api: Api) -> None:
    (one,) = await failed(api)
    headers = {"X-Request-Id": "req-7"}
    for verb in ("redrive", "purge"):
        body = {"job_ids": [one], "reason": "mended"}
        await api.call("POST", f"/dead-letters/{verb}", body, headers=headers)
    found = await entries(api, subject=one)
    assert [entry["type"] for entry in found] == ["job.redriven", "job.purged"]
    assert {entry["request_id"] for entry in found} == {"req-7"}
    assert {entry["data"]["reason"] for entry in found} == {"mended"}


async def test_addresses_are_for_the_auditor_only(api: Api) -> None:
    await api.call("POST", "/accounts", {"account_id": "alice"})
    [entry] = [one for one in await entries(api) if one["type"] == "account.created"]
    assert entry["address"] == "127.0.0.1"
    events = (await api.call("GET", "/events")).body["events"]
    assert "account.created" in {event["type"] for event in events}
    assert all("origin" not in event["data"] for event in events)


async def test_the_audit_is_read_page_by_page(api: Api) -> None:
    for number in range(5):
        await api.call("PUT", "/settings/job.max_attempts", {"value": number + 1})
    await seal_all(api.node.database)
    seen: list[int] = []
    path = "/audit?limit=2"
    while True:
        page = (await api.call("GET", path)).body
        seen += [entry["sequence"] for entry in page["entries"]]
        path = f"/audit?limit=2&cursor={page['next_cursor']}"
        if not page["more"]:
            break
    assert seen == list(range(1, 8))


@pytest.mark.parametrize("cursor", ["x", "LTE"])
async def test_a_cursor_that_is_not_ours_is_refused(api: Api, cursor: str) -> None:
    answer = await api.call("GET", f"/audit?cursor={cursor}")
    assert (answer.status, answer.body["code"]) == (422, "invalid_cursor")


async def test_what_is_set_for_all_tenants_is_in_the_operator_s_audit(api: Api) -> None:
    database = api.node.database
    await SettingChanges(database).put(0, "job.max_lanes", 77, changed_by="cli")
    await seal_all(database)
    page = await AuditViews(database).page(0, after=0, limit=100)
    assert page.entries[-1].data == {"name": "job.max_lanes", "value": 77}
    assert (page.entries[-1].actor, page.entries[-1].address) == ("cli", None)


async def test_the_console_shows_addresses_to_the_auditor_alone(api: Api) -> None:
    job = {"destination": {"type": "worker"}, "delay_seconds": 60, "lane": "x"}
    job_id = (await api.call("POST", "/jobs", job)).body["job_id"]
    await api.call("POST", f"/jobs/{job_id}/cancel")
    await seal_all(api.node.database)
    async with Browser(api) as browser:
        await browser.sign_in(await api.new_key("jobs:read"))
        for path in ("/events", f"/events?subject={job_id}", f"/jobs/{job_id}"):
            seen = (await browser.get(path)).text
            assert "job.cancelled" in seen
            assert "127.0.0.1" not in seen.partition("<main")[2].partition("</main")[0], path
        await browser.sign_in()
        assert "127.0.0.1" in (await browser.get("/audit")).text
