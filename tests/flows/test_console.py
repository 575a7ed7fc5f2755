"""The console over HTTP: who gets in, what a form must carry, what the pages say."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from conftest import Api, eventually
from postdate.console.session import COOKIE
from postdate.tenant.change.tenant import Tenants
from support.plain_browser import Browser

pytestmark = pytest.mark.own_database("foresight reads the due work of every tenant")

PAGES = (
    "/",
    "/jobs",
    "/payments",
    "/schedules",
    "/accounts",
    "/dead-letters",
    "/subscriptions",
    "/audit",
    "/events",
    "/destinations",
    "/lanes",
    "/foresight",
    "/foresight?window=year",
    "/settings",
    "/find?q=nothing",
)


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        yield opened


async def job(api: Api, **fields: Any) -> str:
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600} | fields
    answer = await api.call("POST", "/jobs", spec)
    assert answer.status == 201, answer.body
    return str(answer.body["job_id"])


async def account(api: Api, name: str, amount: int = 1000) -> None:
    assert (await api.call("POST", "/accounts", {"account_id": name})).status == 201
    body = {"amount": amount, "reason": "opening"}
    key = {"Idempotency-Key": uuid4().hex}
    assert (
        await api.call("POST", f"/accounts/{name}/adjustments", body, headers=key)
    ).status == 201


async def payment(api: Api, **fields: Any) -> str:
    due = datetime.now(UTC) + timedelta(hours=1)
    order = {
        "from_account_id": "alice",
        "to_account_id": "bob",
        "amount": 70,
        "scheduled_time": due.isoformat(),
    } | fields
    key = {"Idempotency-Key": uuid4().hex}
    answer = await api.call("POST", "/payments/schedule", order, headers=key)
    assert answer.status == 201, answer.body
    return str(answer.body["payment_id"])


async def test_a_stranger_is_sent_to_the_login_and_then_to_where_they_wanted(
    browser: Browser,
) -> None:
    seen = await browser.get("/jobs?status=READY")
    assert seen.status == 303
    assert seen.headers["location"] == "/login?next=%2Fjobs%3Fstatus%3DREADY"
    form = await browser.get(seen.headers["location"])
    entered = await browser.post("/login", form.hidden | {"key": browser.api.key})
    assert entered.headers["location"] == "/jobs?status=READY"
    assert (await browser.get("/jobs?status=READY")).status == 200


@pytest.mark.parametrize("elsewhere", ["//evil.test", "https://evil.test", "/\\evil.test", "evil"])
async def test_a_login_never_leads_to_another_site(browser: Browser, elsewhere: str) -> None:
    entered = await browser.post("/login", {"key": browser.api.key, "next": elsewhere})
    assert entered.headers["location"] == "/"


async def test_the_cookie_is_closed_to_scripts_and_other_sites_and_does_not_hold_the_key(
    browser: Browser,
) -> None:
    cookie = (await browser.sign_in()).cookies[COOKIE]
    assert cookie["httponly"]
    assert cookie["samesite"].lower() == "strict"
    assert browser.api.key not in cookie.value


async def test_a_wrong_key_is_refused_in_words(browser: Browser) -> None:
    seen = await browser.post("/login", {"key": "pdk_wrong", "next": "/"})
    assert seen.status == 422
    assert "This key is not valid" in seen.text
    assert COOKIE not in seen.cookies


async def test_every_page_opens_and_carries_the_strict_policy(browser: Browser) -> None:
    await browser.sign_in()
    for path in PAGES:
        seen = await browser.get(path)
        assert seen.status == (404 if "find" in path else 200), path
        policy = seen.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'")
        assert "unsafe" not in policy
        assert seen.headers["cache-control"] == "no-store"
        assert " style=" not in seen.text
        assert " onclick=" not in seen.text


async def test_a_form_needs_our_origin_and_the_token_of_its_session(browser: Browser) -> None:
    await browser.sign_in()
    await job(browser.api, lane="mail")
    path = "/lanes/mail/pause"
    form = (await browser.get(path)).hidden | {"note": "x"}
    assert (await browser.post(path, form, origin="https://evil.test")).status == 403
    assert (await browser.post(path, form, origin="null")).status == 403
    assert (await browser.post(path, form | {"csrf": "guessed"})).status == 403
    lane = (await browser.api.call("GET", "/lanes/mail")).body
    assert lane["paused"] is False
    assert (await browser.post(path, form)).status == 303
    lane = (await browser.api.call("GET", "/lanes/mail")).body
    assert lane["paused"] is True


async def test_signing_out_ends_the_session_for_whoever_has_the_cookie(browser: Browser) -> None:
    await browser.sign_in()
    cookie = next(iter(browser.session.cookie_jar))
    page = await browser.get("/")
    assert (await browser.post("/logout", {"csrf": page.token})).status == 303
    seen = await browser.get("/", cookie=f"{cookie.key}={cookie.value}")
    assert seen.headers["location"] == "/login"


async def test_what_an_action_did_is_told_once(browser: Browser) -> None:
    await browser.sign_in()
    await job(browser.api, lane="mail")
    done = await browser.confirm("/lanes/mail/pause", note="<b>deploying</b>")
    assert done.headers["location"] == "/lanes"
    first = await browser.get("/lanes")
    assert "Lane mail is paused" in first.text
    assert "&lt;b&gt;deploying&lt;/b&gt;" in first.text
    assert "Lane mail is paused: none of its jobs" not in (await browser.get("/lanes")).text
    told = (await browser.get("/")).text
    assert '<li class="note"><strong>Note</strong> Lane mail is paused.' in told
    assert "&lt;b&gt;deploying&lt;/b&gt;." in told


async def test_a_key_without_the_scope_is_told_which_one_it_lacks(browser: Browser) -> None:
    await browser.sign_in(await browser.api.new_key("jobs:read"))
    await job(browser.api, lane="mail")
    assert (await browser.get("/jobs")).status == 200
    lanes = await browser.get("/lanes")
    assert "needs jobs:write" in lanes.text
    refused = await browser.post("/lanes/mail/pause", {"csrf": lanes.token, "note": "x"})
    assert refused.status == 403
    assert "jobs:write" in refused.text
    assert (await browser.get("/lanes/mail/pause")).status == 403
    payments = await browser.get("/payments")
    assert payments.status == 403
    assert "payments:read" in payments.text
    assert "payments:read" in (await browser.get("/")).text


async def test_empty_filters_leave_the_address(browser: Browser) -> None:
    await browser.sign_in()
    seen = await browser.get("/jobs?status=FAILED&lane=")
    assert seen.headers["location"] == "/jobs?status=FAILED"
    bad = await browser.get("/jobs?status=NONSENSE")
    assert bad.status == 422
    assert "invalid_field" in bad.text


async def test_a_list_of_jobs_goes_on_where_it_ended(browser: Browser) -> None:
    await browser.sign_in()
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600}
    batch = await browser.api.call("POST", "/jobs/batch", {"jobs": [spec] * 60})
    wanted = {outcome["job"]["job_id"] for outcome in batch.body["outcomes"]}
    found: set[str] = set()
    path = "/jobs?status=PENDING"
    while path:
        text = (await browser.get(path)).text
        found |= {part.partition('"')[0] for part in text.split('data-row="')[1:]}
        path = text.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert found == wanted


async def test_an_account_shows_its_money_and_an_adjustment_counts_once(browser: Browser) -> None:
    api = browser.api
    await account(api, "alice")
    await account(api, "bob")
    await payment(api)
    await browser.sign_in()
    page = (await browser.get("/accounts/alice")).text
    assert "<strong>930</strong> <span>available" in page
    form = (await browser.get("/accounts/alice/adjust")).hidden | {"amount": "50", "reason": "gift"}
    for _ in range(2):
        assert (await browser.post("/accounts/alice/adjust", form)).status == 303
    assert (await api.call("GET", "/accounts/alice")).body["balance"] == 1050
    refused = await browser.confirm("/accounts/alice/adjust", amount="-5000", reason="too much")
    assert refused.status == 422
    assert 'value="-5000"' in refused.text


async def test_a_setting_is_set_and_cleared(browser: Browser) -> None:
    await browser.sign_in()
    await browser.confirm("/settings/job.max_attempts/set", value="7")
    assert "by " in (await browser.get("/settings")).text
    refused = await browser.confirm("/settings/job.max_attempts/set", value="7000")
    assert refused.status == 422
    assert (await browser.confirm("/settings/job.max_attempts/clear")).status == 303


async def test_pasted_ids_lead_to_their_pages(browser: Browser) -> None:
    await browser.sign_in()
    await account(browser.api, "alice")
    await account(browser.api, "bob")
    paid, done = await payment(browser.api), await job(browser.api)
    for wanted, place in (
        (paid, f"/payments/{paid}"),
        (f" {done} ", f"/jobs/{done}"),
        ("alice", "/accounts/alice"),
    ):
        assert (await browser.get(f"/find?q={wanted}")).headers["location"] == place


async def test_the_box_takes_keys_lanes_schedules_and_amounts(browser: Browser) -> None:
    api = browser.api
    await browser.sign_in()
    await account(api, "alice")
    await account(api, "bob")
    order = {"from_account_id": "alice", "to_account_id": "bob", "amount": 70, "delay_seconds": 60}
    headers = {"Idempotency-Key": "invoice-17"}
    paid = (await api.call("POST", "/payments/schedule", order, headers=headers)).body["payment_id"]
    await job(api, lane="mail")
    rule = {"every_seconds": 60, "template": {"job": {"destination": {"type": "worker"}}}}
    planned = (await api.call("POST", "/schedules", rule)).body["schedule_id"]
    for wanted, place in (
        ("invoice-17", f"/payments/{paid}"),
        ("mail", "/jobs?lane=mail"),
        (planned, f"/schedules/{planned}"),
        ("1,070", "/payments?least=1070&most=1070"),
    ):
        assert (await browser.get(f"/find?q={wanted}")).headers["location"] == place
    peek = await browser.get("/find/peek?q=invoice-17")
    assert f'href="/payments/{paid}"' in peek.text
    assert "<html" not in peek.text
    assert "No match for" in (await browser.get("/find/peek?q=nothing")).text
    await browser.sign_in(await api.new_key("jobs:read"))
    assert (await browser.get("/find?q=invoice-17")).status == 404


async def test_another_tenant_sees_nothing(browser: Browser, edge_server: Api) -> None:
    mine = await job(browser.api)
    async with Browser(edge_server) as other:
        name = f"{browser.api.tenant}-other"
        tenants = Tenants(edge_server.node.database)
        await tenants.create(name)
        await other.sign_in((await tenants.issue(name, ["admin"])).key)
        assert (await other.get(f"/jobs/{mine}")).status == 404
        assert mine not in (await other.get("/jobs")).text


async def test_a_revoked_key_ends_its_session(browser: Browser) -> None:
    tenants = Tenants(browser.api.node.database)
    issued = await tenants.issue(browser.api.tenant, ["admin"])
    await browser.sign_in(issued.key)
    await tenants.revoke(browser.api.tenant, UUID(str(issued.key_id)))

    async def ended() -> bool:
        return (await browser.get("/")).status == 303

    assert await eventually(ended, step=0.2)


async def test_assets_come_with_a_tag_and_are_not_sent_twice(browser: Browser) -> None:
    for name in ("console.css", "console.js", "htmx.js", "uplot.js", "uplot.css", "icon.svg"):
        seen = await browser.get(f"/assets/{name}")
        assert seen.status == 200
        again = await browser.get(f"/assets/{name}", **{"if-none-match": seen.headers["etag"]})
        assert again.status == 304


async def test_a_payment_is_moved_and_cancelled(browser: Browser) -> None:
    api = browser.api
    await account(api, "alice")
    await account(api, "bob")
    paid = await payment(api)
    await browser.sign_in()
    later = f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%dT%H:%M:%S}"
    moved = await browser.confirm(f"/payments/{paid}/reschedule", scheduled_time=later)
    assert moved.headers["location"] == f"/payments/{paid}"
    assert (await api.call("GET", f"/payments/{paid}")).body["scheduled_time"].startswith(later)
    past = "2000-01-01T00:00:00"
    refused = await browser.confirm(f"/payments/{paid}/reschedule", scheduled_time=past)
    assert refused.status == 422
    assert "time_out_of_range" in refused.text
    assert (await browser.confirm(f"/payments/{paid}/cancel")).status == 303
    page = (await browser.get(f"/payments/{paid}")).text
    assert "No money moved. It was cancelled" in page
    assert "payment.cancelled" in page
    assert (await api.call("GET", "/accounts/alice")).body["held"] == 0
    assert (await browser.confirm(f"/payments/{paid}/cancel")).status == 303


async def test_destinations_are_switched_off_with_a_reason_and_on_again(browser: Browser) -> None:
    await browser.sign_in()
    spec = {"name": "shop", "url": "https://example.com/hook"}
    assert (await browser.api.call("POST", "/destinations", spec)).status == 201
    assert (await browser.confirm("/destinations/shop/disable", reason=" ")).status == 422
    assert (await browser.confirm("/destinations/shop/disable", reason="moving")).status == 303
    assert "moving" in (await browser.get("/destinations")).text
    assert (await browser.confirm("/destinations/shop/enable")).status == 303
    assert "moving" not in (await browser.get("/destinations")).text


async def test_a_redrive_takes_only_ids_it_was_given(browser: Browser) -> None:
    await browser.sign_in()
    open_job = await job(browser.api)
    told = await browser.confirm("/dead-letters/redrive", job_ids=open_job, per_second="5")
    assert told.status == 303
    text = (await browser.get("/dead-letters")).text
    assert "0 of 1 jobs redriven as new jobs. Skipped: 1 conflict." in text
    assert (await browser.confirm("/dead-letters/redrive", job_ids="all")).status == 422
    assert (await browser.confirm("/dead-letters/redrive", job_ids="")).status == 422


async def test_the_overview_counts_what_comes(browser: Browser) -> None:
    await account(browser.api, "alice")
    await account(browser.api, "bob")
    due = datetime.now(UTC) + timedelta(minutes=30)
    await payment(browser.api, scheduled_time=due.isoformat())
    await job(browser.api, delay_seconds=1800)
    await job(browser.api, delay_seconds=7200)
    await browser.sign_in()
    page = (await browser.get("/")).text
    data = page.partition('id="data-day">')[2].partition("</script>")[0]
    day = msgspec.json.decode(data)
    assert (sum(day["jobs"]), sum(day["payments"])) == (2, 1)


async def test_the_overview_streams_its_cells_until_the_session_ends(browser: Browser) -> None:
    await browser.sign_in()
    page = await browser.get("/")
    async with browser.session.get(browser.api.url + "/overview/stream") as stream:
        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-store"
        heard = await stream.content.readuntil(b"</table>\n\n")
        assert b"event: cells" in heard
        assert b'id="tile-executed"' in heard
        assert (await browser.post("/logout", {"csrf": page.token})).status == 303
        assert b"event: gone" in await stream.content.read()
    assert (await browser.get("/overview/stream")).status == 303


async def test_a_key_that_sees_only_a_part_gets_no_stream(browser: Browser) -> None:
    await browser.sign_in(await browser.api.new_key("jobs:read"))
    assert (await browser.get("/overview/stream")).status == 403


async def test_a_due_job_says_what_keeps_it(browser: Browser) -> None:
    await browser.sign_in()
    pulled = await job(browser.api, lane="mail", delay_seconds=0)

    async def told() -> str:
        return (await browser.get(f"/jobs/{pulled}")).text

    async def status() -> bool:
        found = await browser.api.call("GET", f"/jobs/{pulled}")
        return bool(found.body["status"] == "READY")

    await eventually(status)
    assert "No worker has claimed a job of lane mail for " in await told()
    await job(browser.api, lane="mail", delay_seconds=0)
    assert (await browser.api.call("PATCH", "/lanes/mail", {"max_running": 1})).status == 200
    claimed = await browser.api.call("POST", "/lanes/mail/claim", {"max": 1})
    assert claimed.status == 200, claimed.body
    pulled = next(
        one["job_id"]
        for one in (await browser.api.call("GET", "/jobs?lane=mail")).body["jobs"]
        if one["status"] == "READY"
    )
    assert "Lane mail is at its limit: 1 of 1 run, and 1 are due." in await told()
    await browser.confirm("/lanes/mail/pause", note="deploying")
    assert ": deploying" in (page := await told())
    assert "Lane mail was paused " in page
