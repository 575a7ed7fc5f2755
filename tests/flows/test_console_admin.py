"""What an administrator sees: subscriptions, the audit, keys, and the same from a shell."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from conftest import Api, Clock
from support.event import seal_all
from support.plain_browser import Browser

HOOK = {"type": "webhook", "url": "https://example.com/hook"}


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


async def subscription(api: Api) -> str:
    answer = await api.call("POST", "/subscriptions", {"destination": HOOK, "types": ["job.*"]})
    assert answer.status == 201, answer.body
    return str(answer.body["subscription_id"])


async def test_a_subscription_is_paused_with_a_reason_resumed_and_ended(browser: Browser) -> None:
    assert "There are no subscriptions yet" in (await browser.get("/subscriptions")).text
    path = f"/subscriptions/{await subscription(browser.api)}"
    assert (await browser.confirm(f"{path}/pause", note="")).status == 422
    assert (await browser.confirm(f"{path}/pause", note="their side is down")).status == 303
    text = (await browser.get("/subscriptions")).text
    assert "PAUSED" in text
    assert "their side is down" in text
    assert (await browser.confirm(f"{path}/resume")).status == 303
    assert "ACTIVE" in (await browser.get("/subscriptions")).text
    assert (await browser.confirm(f"{path}/delete")).status == 303
    assert "There are no subscriptions" in (await browser.get("/subscriptions")).text


async def test_a_replay_says_first_how_much_it_sends_again(browser: Browser) -> None:
    api = browser.api
    for _ in range(3):
        await api.call("POST", "/jobs", {"destination": {"type": "worker"}, "delay_seconds": 60})
    await seal_all(api.node.database)
    one = await subscription(api)
    path = f"/subscriptions/{one}/replay"
    shown = await browser.get(f"{path}?dry=1&from=beginning")
    assert "Sent again" in shown.text
    assert (await browser.post(path, shown.hidden)).status == 303
    assert (await api.call("GET", f"/subscriptions/{one}")).body["lag_events"] > 0
    assert (await browser.get(f"{path}?dry=1&from=yesterday")).status == 422
    assert (await browser.post(path, shown.hidden)).status == 409


async def test_the_audit_names_who_did_what_the_newest_first(browser: Browser) -> None:
    api = browser.api
    await api.call("POST", "/jobs", {"destination": {"type": "worker"}, "lane": "mail"})
    await browser.confirm("/lanes/mail/pause", note="deploying")
    await browser.confirm("/lanes/mail/resume")
    await seal_all(api.node.database)
    text = (await browser.get("/audit")).text
    assert 0 < text.index("lane.resumed") < text.index("lane.paused")
    assert "127.0.0.1" in text
    assert "job.accepted" not in text
    only = (await browser.get("/audit?type=lane.paused")).text
    assert "deploying" in only
    assert "<strong>lane.resumed" not in only
    mine = (await api.call("GET", "/whoami")).body["key_id"]
    assert "lane.paused" in (await browser.get(f"/audit?actor={mine}")).text
    assert "No entry matches" in (await browser.get("/audit?actor=somebody")).text
    assert (await browser.get("/audit?type=nonsense!")).status == 422


async def test_who_paused_a_schedule_stands_in_the_audit(browser: Browser) -> None:
    api = browser.api
    body = {"every_seconds": 60, "template": {"job": {"destination": {"type": "worker"}}}}
    one = (await api.call("POST", "/schedules", body)).body["schedule_id"]
    await browser.confirm(f"/schedules/{one}/pause", note="moving")
    await seal_all(api.node.database)
    text = (await browser.get(f"/audit?subject={one}")).text
    assert "schedule.paused" in text
    assert "moving" in text


async def test_a_form_that_rotates_a_key_makes_one_though_it_is_sent_twice(
    browser: Browser,
) -> None:
    api = browser.api
    made = (await api.call("POST", "/keys", {"scopes": ["jobs:read"]})).body
    path = f"/keys/{made['key_id']}/rotate"
    form = (await browser.get(path)).hidden | {"overlap_seconds": "3600"}
    before = len((await api.call("GET", "/keys")).body["keys"])
    for said in ("shown only now", "This form was already submitted"):
        assert (await browser.post(path, form)).status == 303
        assert said in (await browser.get("/settings")).text
    keys = (await api.call("GET", "/keys")).body["keys"]
    assert len(keys) == before + 1
    assert all(key["persons"] for key in keys if key["key_id"] == made["key_id"])


async def test_keys_that_end_soon_are_named_and_rotated(browser: Browser, clock: Clock) -> None:
    api = browser.api
    soon = (datetime.now(UTC) + timedelta(days=3)).isoformat()
    body = {"scopes": ["jobs:read"], "note": "reporting", "expires_at": soon}
    made = (await api.call("POST", "/keys", body)).body
    text = (await browser.get("/settings")).text
    assert "1 key ends within two weeks" in text
    assert "ENDING" in text
    rotate = f"/keys/{made['key_id']}/rotate"
    assert (await browser.confirm(rotate, overlap_seconds="x")).status == 422
    assert (await browser.confirm(rotate, overlap_seconds="3600")).status == 303
    shown = (await browser.get("/settings")).text
    fresh = shown.partition("shown only now: ")[2].partition(" ")[0]
    assert (await api.call("GET", "/whoami", key=fresh)).status == 200
    assert fresh not in (await browser.get("/settings")).text
    assert (await browser.confirm(f"/keys/{made['key_id']}/revoke")).status == 303
    await clock.advance(1)
    assert "REVOKED" in (await browser.get("/settings")).text


async def test_a_halted_tenant_revokes_keys_but_pauses_nothing(browser: Browser) -> None:
    """The console refuses while a tenant is halted what the API refuses, and nothing else."""
    api = browser.api
    made = (await api.call("POST", "/keys", {"scopes": ["jobs:read"]})).body
    path = f"/subscriptions/{await subscription(api)}/pause"
    assert (await browser.confirm("/halts/kill", note="stolen key")).status == 303
    await api.node.refresh_settings()
    refused = await browser.confirm(path, note="not now")
    assert "#tenant_halted" in refused.text
    assert (await browser.confirm(f"/keys/{made['key_id']}/revoke")).status == 303
    assert (await browser.confirm("/halts/release")).status == 303
    await api.node.refresh_settings()
    assert (await browser.confirm(path, note="now")).status == 303
