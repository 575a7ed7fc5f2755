"""A confirmation says what it is about, not only its id."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from conftest import Api
from postdate.database.connection.error import CommitUnknownError, UnavailableError
from postdate.schedule.change.run import ScheduleRuns
from postdate.schedule.view import ScheduleViews
from support.api_ledger import open_ledger
from support.plain_browser import Browser


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


async def _made(api: Api, path: str, body: Any) -> Any:
    answer = await api.call("POST", path, body, headers={"Idempotency-Key": uuid4().hex})
    assert answer.status in {201, 202}, answer.body
    return answer.body


async def _facts(browser: Browser, path: str) -> str:
    page = await browser.get(path)
    assert page.status == 200, page.text
    return page.text.partition("</h1>")[2].partition("</dl>")[0]


async def test_whoever_cancels_a_payment_sees_whose_money_it_is(browser: Browser) -> None:
    ledger = await open_ledger(browser.api)
    made = (await ledger.order(amount=1000, description="rent of <May>")).body
    for verb in ("cancel", "reschedule", "approve", "refuse"):
        shown = await _facts(browser, f"/payments/{made['payment_id']}/{verb}")
        assert "rent of &lt;May&gt;" in shown
        assert "<dd>1,000</dd>" in shown
        for account in ("alice", "bob"):
            assert f"<dd>{account}</dd>" in shown


async def test_whoever_cancels_a_job_sees_where_it_goes(browser: Browser) -> None:
    body = {"destination": {"type": "worker"}, "lane": "reports", "description": "the monthly one"}
    made = await _made(browser.api, "/jobs", body)
    shown = await _facts(browser, f"/jobs/{made['job_id']}/cancel")
    for text in ("the monthly one", "<dd>worker</dd>", "<dd>reports</dd>"):
        assert text in shown


@pytest.mark.parametrize(
    ("wanted", "created"),
    [
        ({"job": {"destination": {"type": "worker"}}}, "a job for worker, lane default"),
        (
            {"payment": {"from_account_id": "ada", "to_account_id": "bob", "amount": 9000}},
            "a payment of 9,000 from ada to bob",
        ),
    ],
)
async def test_whoever_pauses_a_schedule_sees_its_name_and_what_it_creates(
    browser: Browser, wanted: Any, created: str
) -> None:
    for name in ("ada", "bob"):
        await _made(browser.api, "/accounts", {"account_id": name})
    body = {"name": "nightly", "cron": "5 3 * * *", "timezone": "Europe/Berlin"}
    made = await _made(browser.api, "/schedules", {**body, "template": wanted})
    shown = await _facts(browser, f"/schedules/{made['schedule_id']}/pause")
    for text in ("nightly", "Europe/Berlin", created):
        assert text in shown


async def test_whoever_replays_a_subscription_sees_where_it_sends(browser: Browser) -> None:
    to = {"type": "webhook", "url": "https://shop.example/hook"}
    made = await _made(browser.api, "/subscriptions", {"destination": to, "types": ["payment.*"]})
    for verb in ("pause", "replay", "delete"):
        shown = await _facts(browser, f"/subscriptions/{made['subscription_id']}/{verb}")
        assert "<dd>webhook https://shop.example/hook</dd>" in shown
        assert "<dd>payment.*</dd>" in shown


async def test_whoever_revokes_a_key_sees_what_it_is_for(browser: Browser) -> None:
    made = await _made(browser.api, "/keys", {"scopes": ["jobs:read"], "note": "the dashboard's"})
    for verb in ("revoke", "rotate"):
        shown = await _facts(browser, f"/keys/{made['key_id']}/{verb}")
        assert "<dd>the dashboard&#39;s</dd>" in shown


async def test_the_facts_stay_when_the_form_is_refused(browser: Browser) -> None:
    made = await _made(browser.api, "/jobs", {"destination": {"type": "worker"}, "lane": "reports"})
    path = f"/jobs/{made['job_id']}/reschedule"
    answer = await browser.confirm(path, at="")
    assert answer.status == 422
    assert "<dd>reports</dd>" in answer.text


async def test_a_key_that_may_not_read_payments_is_told_nothing_of_one(api: Api) -> None:
    ledger = await open_ledger(api)
    made = (await ledger.order(amount=1000)).body
    answer = await api.call("POST", "/keys", {"scopes": ["payments:write"]})
    async with Browser(api) as browser:
        await browser.sign_in(answer.body["key"])
        shown = await browser.get(f"/payments/{made['payment_id']}/cancel")
        assert shown.status == 200
        assert "1,000" not in shown.text


async def test_a_form_whose_outcome_is_unknown_keeps_its_key_though_no_fact_can_be_read(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = {"every_seconds": 3600, "template": {"job": {"destination": {"type": "worker"}}}}
    made = await _made(browser.api, "/schedules", rule)
    path = f"/schedules/{made['schedule_id']}/trigger"
    form = await browser.get(path)

    async def unknown(*_: object, **__: object) -> None:
        raise CommitUnknownError("the connection broke")

    async def away(*_: object) -> None:
        raise UnavailableError("it does not answer")

    monkeypatch.setattr(ScheduleRuns, "trigger", unknown)
    monkeypatch.setattr(ScheduleViews, "find", away)
    again = await browser.post(path, form.hidden)
    assert again.status == 503
    assert again.hidden["once"] == form.hidden["once"]
