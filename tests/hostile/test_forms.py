"""What a person may type into a form by mistake or on purpose, and a form that is sent again."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from conftest import Api
from postdate.console.button_table import BUTTON_BY_KEY
from support.plain_browser import Browser

JOB = {"destination.type": "worker", "lane": "forms"}
PAYMENT = {
    "from_account_id": "alice",
    "to_account_id": "bob",
    "amount": "1",
    "delay_seconds": "3600",
}


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


async def begin(browser: Browser, path: str, **values: str) -> dict[str, str]:
    """Open a form and fill it in."""
    page = await browser.get(path)
    assert page.status == 200, page.text
    return page.hidden | values


@pytest.mark.parametrize(
    "wrong",
    [
        {"delay_seconds": "nan"},
        {"delay_seconds": "1e999"},
        {"timeout_seconds": "inf"},
        {"run_at": "0001-01-01T00:00+14:00"},
        {"run_at": "9999-12-31T23:59:59-14:00"},
        {"payload": "[" * 60_000},
        {"payload": "[" * 998 + "]" * 998},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
async def test_what_is_no_value_is_refused_on_the_form(
    browser: Browser, wrong: dict[str, str]
) -> None:
    for shown in ({}, {"shown": "1"}):
        form = await begin(browser, "/new/job", **JOB, **wrong, **shown)
        seen = await browser.post("/new/job", form)
        assert seen.status in ({422} if not shown else {200, 422})
    assert (await browser.api.call("GET", "/jobs?lane=forms")).body["jobs"] == []


async def open_accounts(browser: Browser) -> None:
    """Open the accounts of the payment: their currency says how an amount is written."""
    for name in ("alice", "bob"):
        await browser.api.call("POST", "/accounts", {"account_id": name})


@pytest.mark.parametrize("amount", ["1_0", "١٢", "+3", "9" * 5000, "0x10"])
async def test_an_amount_is_written_in_digits(browser: Browser, amount: str) -> None:
    await open_accounts(browser)
    form = await begin(browser, "/new/payment", **dict(PAYMENT, amount=amount))
    refused = await browser.post("/new/payment", form)
    assert refused.status == 422
    assert 'id="problem-amount"' in refused.text


async def test_a_limit_that_is_no_number_does_not_take_the_limit_away(browser: Browser) -> None:
    api = browser.api
    await api.call("POST", "/jobs", {"destination": {"type": "worker"}, "lane": "slow"})
    await api.call("PATCH", "/lanes/slow", {"rate_per_second": 5})
    values = {"weight": "1", "width": "64", "rate_per_second": "inf"}
    form = await begin(browser, "/lanes/slow/edit", **values)
    assert (await browser.post("/lanes/slow/edit", form)).status == 422
    assert (await api.call("GET", "/lanes/slow")).body["rate_per_second"] == 5


async def test_a_form_sent_twice_at_once_and_then_once_more_pays_once(browser: Browser) -> None:
    api = browser.api
    for name in ("alice", "bob"):
        await api.call("POST", "/accounts", {"account_id": name})
    seed = {"amount": 10_000, "reason": "opening"}
    headers = {"Idempotency-Key": uuid4().hex}
    await api.call("POST", "/accounts/alice/adjustments", seed, headers=headers)
    form = await begin(browser, "/new/payment", **PAYMENT)
    together = await asyncio.gather(*(browser.post("/new/payment", form) for _ in range(6)))
    assert {seen.status for seen in together} <= {303, 409}
    for seen in together:
        if seen.status == 409:
            again = await browser.post("/new/payment", form | seen.hidden)
            assert again.status == 303
    payments = (await api.call("GET", "/payments?account_id=alice")).body["payments"]
    assert len(payments) == 1


async def test_a_form_keeps_its_key_until_it_is_answered(browser: Browser) -> None:
    await open_accounts(browser)
    form = await begin(browser, "/new/payment", **PAYMENT)
    shown = await browser.post("/new/payment", form | {"shown": "1"})
    assert shown.hidden["once"] == form["once"]
    refused = await browser.post("/new/payment", form | {"amount": "x"})
    assert refused.status == 422
    assert refused.hidden["once"] != form["once"]


async def test_an_edit_shows_nothing_to_a_key_that_may_only_write(browser: Browser) -> None:
    api = browser.api
    await api.call("POST", "/accounts", {"account_id": "carol", "note": "of the board"})
    spec = {"cron": "0 9 * * *", "template": {"job": {"destination": {"type": "worker"}}}}
    schedule = (await api.call("POST", "/schedules", spec)).body["schedule_id"]
    await api.call("POST", "/jobs", {"destination": {"type": "worker"}, "lane": "slow"})
    writer = await api.new_key("payments:write", "schedules:write", "jobs:write")
    await browser.sign_in(writer)
    for path in ("/accounts/carol/edit", f"/schedules/{schedule}/edit", "/lanes/slow/edit"):
        seen = await browser.get(path)
        assert seen.status == 403, path
        assert "of the board" not in seen.text


@pytest.mark.parametrize("part", ["$(id)", "`id`", 'a"b', "a\nb", "../x"])
def test_a_shown_line_of_curl_runs_nothing_of_the_address(part: str) -> None:
    _, curl, _ = BUTTON_BY_KEY["lanes/edit"].commands({"lane": part}, {"weight": "1"})
    address = curl.partition('"$URL')[2].partition('" -H')[0]
    assert address.startswith("/api/v1/lanes/")
    assert not set(address.removeprefix("/api/v1/lanes/")) & set('$`"\n/()\\')


@pytest.mark.parametrize(("fields", "read"), [(1000, True), (1001, False), (40_000, False)])
async def test_a_form_of_a_stranger_has_few_fields(api: Api, fields: int, *, read: bool) -> None:
    """A stranger's 200 kB of `a=b&` took 23 ms of the loop."""
    body = "&".join(["key=b"] * fields)
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": api.url}
    async with api.session.post(f"{api.url}/login", data=body, headers=headers) as answer:
        text = await answer.text()
    assert (answer.status, "The form cannot be read." in text) == (422, not read)
    assert ("This key is not valid." in text) == read
