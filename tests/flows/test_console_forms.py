"""Forms that create and edit: each does what its operation of the API does, and says the same."""

import re
from collections.abc import AsyncIterator
from importlib.resources import files
from string import Formatter
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from conftest import Api, eventually
from postdate.console.button import Button
from postdate.console.button_table import BUTTON_BY_KEY, BUTTONS
from support.plain_browser import Browser, Seen

CREATED = {
    "/new/job": {
        "destination.type": "worker",
        "delay_seconds": "3600",
        "lane": "mail",
        "payload": '{"to": "ann"}',
        "description": "<i>hello</i>",
    },
    "/new/account": {"account_id": "carol", "floor": "-500", "note": "savings"},
    "/new/payment": {
        "from_account_id": "alice",
        "to_account_id": "bob",
        "amount": "70",
        "delay_seconds": "3600",
    },
    "/new/destination": {"name": "shop", "type": "webhook", "url": "https://shop.example/hook"},
    "/new/subscription": {
        "destination.type": "webhook",
        "destination.url": "https://shop.example/events",
        "types": "payment.*\njob.failed",
    },
    "/new/schedule": {
        "name": "rent",
        "cron": "0 9 1 * *",
        "timezone": "Europe/Berlin",
        "template.payment.from_account_id": "alice",
        "template.payment.to_account_id": "bob",
        "template.payment.amount": "900",
        "misfire.policy": "fire_all",
    },
    "/new/key": {"scopes": "jobs:read\npayments:read", "note": "reporting"},
}
SHOWN = {
    "/new/job": ("/jobs/", "Job ", "&lt;i&gt;hello"),
    "/new/account": ("/accounts/carol", "Account carol was created", "-500"),
    "/new/payment": ("/payments/", "Payment ", "70"),
    "/new/destination": ("/destinations", "whsec_", "shop.example/hook"),
    "/new/subscription": ("/subscriptions", "Subscription ", "shop.example/events"),
    "/new/schedule": ("/schedules/", "Schedule ", "rent"),
    "/new/key": ("/settings", "shown only now: ", "reporting"),
}


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        await opened.sign_in()
        for name in ("alice", "bob"):
            answer = await api.call("POST", "/accounts", {"account_id": name})
            assert answer.status in {201, 409}
        headers = {"Idempotency-Key": uuid4().hex}
        body = {"amount": 10_000, "reason": "opening"}
        await api.call("POST", "/accounts/alice/adjustments", body, headers=headers)
        yield opened


async def fill(browser: Browser, path: str, **values: str) -> Seen:
    """Open a form, fill it in, send it."""
    page = await browser.get(path)
    assert page.status == 200, page.text
    once = page.text.partition('name="once" value="')[2].partition('"')[0]
    return await browser.post(path, {"csrf": page.token, "once": once, **values})


@pytest.mark.parametrize("path", CREATED)
async def test_a_form_creates_and_leads_to_what_was_created(browser: Browser, path: str) -> None:
    done = await fill(browser, path, **CREATED[path])
    assert done.status == 303, done.text
    where, notice, content = SHOWN[path]
    assert done.headers["location"].startswith(where)
    page = (await browser.get(done.headers["location"])).text
    assert notice in page
    assert content in page


async def test_a_form_that_is_sent_twice_creates_once(browser: Browser) -> None:
    page = await browser.get("/new/payment")
    once = page.text.partition('name="once" value="')[2].partition('"')[0]
    form = {"csrf": page.token, "once": once, **CREATED["/new/payment"]}
    first, second = [(await browser.post("/new/payment", form)).headers["location"] for _ in "ab"]
    assert first == second


async def test_a_refused_form_names_every_problem_and_keeps_what_was_typed(
    browser: Browser,
) -> None:
    refused = await fill(
        browser, "/new/payment", from_account_id="alice", to_account_id="b b", amount="1.5"
    )
    assert refused.status == 422
    assert "names no currency: write a whole number" in refused.text
    assert "<code>to_account_id</code>" in refused.text
    assert 'value="b b"' in refused.text
    broken = await fill(browser, "/new/job", **{"destination.type": "worker", "payload": "{"})
    assert "This is not JSON" in broken.text
    poor = dict(CREATED["/new/payment"], amount="20000")
    refused = await fill(browser, "/new/payment", **poor)
    assert "#insufficient_funds" in refused.text


async def test_a_form_shows_its_request_before_anything_is_done(browser: Browser) -> None:
    values = dict(CREATED["/new/job"], shown="1")
    shown = await fill(browser, "/new/job", **values)
    assert shown.status == 200
    assert "postdate job create --delay-seconds 3600 --lane mail" in shown.text
    assert "Client().jobs.create(" in shown.text
    assert "&#34;delay_seconds&#34;: 3600" in shown.text
    assert (await browser.api.call("GET", "/jobs?lane=mail")).body["jobs"] == []


async def test_edits_begin_with_what_is_stored_and_take_limits_away(browser: Browser) -> None:
    api = browser.api
    await api.call("POST", "/jobs", {"destination": {"type": "worker"}, "lane": "slow"})
    await api.call("PATCH", "/lanes/slow", {"max_running": 7, "weight": 3})
    assert 'value="7"' in (page := (await browser.get("/lanes/slow/edit")).text)
    assert 'value="3"' in page
    done = await fill(browser, "/lanes/slow/edit", weight="4", width="8", rate_per_second="2.5")
    assert done.status == 303, done.text
    lane = (await api.call("GET", "/lanes/slow")).body
    assert (lane["weight"], lane["max_running"], lane["rate_per_second"]) == (4, None, 2.5)
    done = await fill(browser, "/accounts/bob/edit", floor="-20", note="neighbour")
    account = (await api.call("GET", "/accounts/bob")).body
    assert (done.status, account["floor"], account["note"]) == (303, -20, "neighbour")
    await fill(browser, "/new/destination", **CREATED["/new/destination"])
    url = "https://shop.example/other"
    assert (await fill(browser, "/destinations/shop/edit", url=url)).status == 303
    assert (await api.call("GET", "/destinations/shop")).body["url"] == url


async def test_a_schedule_is_previewed_before_it_is_saved_and_edited_after(
    browser: Browser,
) -> None:
    token = (await browser.get("/new/schedule")).token
    rule = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "start_at": "2027-03-26T00:00"}
    shown = await browser.post("/new/schedule/preview", {"csrf": token, **rule})
    assert shown.status == 200
    assert "2027-03-28 03:" in shown.text
    assert 'class="mark"' in shown.text
    bad = await browser.post("/new/schedule/preview", {"csrf": token, "cron": "nonsense"})
    assert "No preview yet" in bad.text
    made = await fill(browser, "/new/schedule", **CREATED["/new/schedule"])
    where = made.headers["location"]
    assert 'value="0 9 1 * *"' in (await browser.get(f"{where}/edit")).text
    done = await fill(browser, f"{where}/edit", rrule="FREQ=MONTHLY;BYMONTHDAY=-1", name="rent")
    assert done.status == 303, done.text
    schedule = (await browser.api.call("GET", where)).body
    assert (schedule["cron"], schedule["rrule"]) == (None, "FREQ=MONTHLY;BYMONTHDAY=-1")
    assert schedule["version"] == 2


async def test_a_failed_job_is_purged(browser: Browser) -> None:
    spec = {"destination": {"type": "worker"}, "lane": "once", "retry": {"max_attempts": 1}}
    job_id = (await browser.api.call("POST", "/jobs", spec)).body["job_id"]

    async def claimed() -> Any:
        return (await browser.api.call("POST", "/lanes/once/claim", {"max": 1})).body["leases"]

    [lease] = await eventually(claimed)
    failed = {"token": lease["token"], "error": "no", "retryable": False}
    assert (await browser.api.call("POST", f"/leases/{job_id}/fail", failed)).status == 200
    assert (await fill(browser, f"/jobs/{job_id}/purge")).status == 303
    assert (await browser.api.call("GET", f"/jobs/{job_id}")).status == 404


async def test_a_key_without_the_scope_gets_no_form(browser: Browser) -> None:
    await browser.sign_in(await browser.api.new_key("jobs:read"))
    for path in CREATED:
        assert (await browser.get(path)).status == 403
    token = (await browser.get("/jobs")).token
    form = {"csrf": token, "once": "x", **CREATED["/new/job"]}
    assert (await browser.post("/new/job", form)).status == 403


async def test_a_secret_is_not_readable_over_a_shoulder(browser: Browser) -> None:
    page = (await browser.get("/new/destination")).text
    assert '<input name="secret" type="password"' in page
    assert '<input name="url" type="text"' in page


@pytest.mark.parametrize("button", BUTTONS, ids=lambda button: button.key)
def test_every_field_of_a_form_is_one_of_the_operation(button: Button) -> None:
    """A name that the body does not have is refused when the field is made."""
    shape = button.endpoint.body
    known = {field.encode_name for field in msgspec.structs.fields(shape)} if shape else set()
    assert {field.name.partition(".")[0] for field in button.form_fields} <= known
    assert {name.partition(".")[0] for name in button.fixed} <= known
    assert all(field.label for field in button.form_fields)


@pytest.mark.parametrize("button", BUTTONS, ids=lambda button: button.key)
def test_what_a_button_says_afterwards_names_only_what_it_knows(button: Button) -> None:
    """A name that neither the address, the body nor the answer has would be an error after it."""
    shapes = (button.endpoint.body, button.endpoint.returns)
    known = {part for _, part, _, _ in Formatter().parse(button.path.replace(":uuid", "")) if part}
    known |= {
        each.encode_name for shape in shapes if shape for each in msgspec.structs.fields(shape)
    }
    said = [text for text in (button.done, button.then, button.back) if isinstance(text, str)]
    named = {part for text in said for _, part, _, _ in Formatter().parse(text) if part}
    assert {part.partition("[")[0] for part in named} <= known
    assert button.done or button.bulk


def test_every_button_is_on_a_page_and_pages_offer_no_other() -> None:
    folder = files("postdate.console").joinpath("templates")
    pages = "".join(each.read_text() for each in folder.iterdir())
    offered = set(re.findall(r"(?:offer|press)\('([^']+)'", pages))
    assert offered <= BUTTON_BY_KEY.keys()
    linked = {key for key in BUTTON_BY_KEY if f'"/{key}' in pages or key.startswith("what-if/")}
    assert BUTTON_BY_KEY.keys() - offered - linked == set()
