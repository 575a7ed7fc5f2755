"""The page of a job: live while it can change; who decided what and why; its attempts."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from conftest import Api
from support.event import seal_all
from support.plain_browser import Browser

pytestmark = pytest.mark.own_database("it seals the events of every tenant")


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


async def job(api: Api, **fields: Any) -> str:
    spec = {"destination": {"type": "worker"}, "lane": "mail"} | fields
    return str((await api.call("POST", "/jobs", spec)).body["job_id"])


async def claimed(api: Api) -> Any:
    claim = {"max": 1, "lease_seconds": 60, "wait_seconds": 5}
    return (await api.call("POST", "/lanes/mail/claim", claim)).body["leases"][0]


async def test_who_cancelled_and_why_is_on_the_first_screen(browser: Browser) -> None:
    api = browser.api
    made = await job(api, delay_seconds=3600, description="newsletter of May")
    before = (await browser.get(f"/jobs/{made}")).text
    assert 'data-page-live="2"' in before
    body = {"filter": {"lane": "mail"}, "reason": "sent by mistake"}
    await api.call("POST", "/jobs/bulk/cancel", body)
    await seal_all(api.node.database)
    text = (await browser.get(f"/jobs/{made}")).text
    first = text.partition('class="why"')[2].partition("</p>")[0]
    assert "Cancelled" in first
    assert "by <strong" in first
    assert "“sent by mistake”" in first
    assert "<h1>newsletter of May</h1>" in text
    assert "data-page-live" not in text, "a job that has ended changes no more"


async def test_attempts_are_bars_and_what_the_last_one_said_is_open(browser: Browser) -> None:
    api = browser.api
    made = await job(api, retry={"max_attempts": 2})
    for number in range(2):
        if number:
            await api.call("POST", f"/jobs/{made}/run-now")
        lease = await claimed(api)
        report = {
            "token": lease["token"],
            "percent": 40,
            "note": "page 2 of 5",
            "log": ["step one"],
        }
        assert (await api.call("POST", f"/leases/{made}/progress", report)).status == 200
        running = (await browser.get(f"/jobs/{made}")).text
        assert '<progress max="100" value="40.0"' in running
        assert "page 2 of 5" in running
        assert 'class="bar-running"' in running
        body = {"token": lease["token"], "code": "broken", "error": "no paper", "retryable": True}
        await api.call("POST", f"/leases/{made}/fail", body)
    text = (await browser.get(f"/jobs/{made}")).text
    waterfall = text.partition('class="rows waterfall"')[2].partition("</table>")[0]
    assert waterfall.count('class="bar-failed"') == 2
    assert waterfall.count("no paper") == 2
    bars = [
        tuple(map(int, each)) for each in re.findall(r'x="(\d+)" y="1" width="(\d+)"', waterfall)
    ]
    assert all(x >= 0 and x + width <= 1000 + 4 for x, width in bars)
    assert bars == sorted(bars), "the second attempt begins after the first"


async def test_the_result_of_a_task_is_shown(browser: Browser) -> None:
    api = browser.api
    made = await job(api)
    lease = await claimed(api)
    body = {"token": lease["token"], "result": {"pages": 12}}
    assert (await api.call("POST", f"/leases/{made}/complete", body)).status == 200
    text = (await browser.get(f"/jobs/{made}")).text
    assert "<h2>Result</h2>" in text
    assert "&#34;pages&#34;: 12" in text


async def test_a_result_that_nests_deeply_is_no_longer_on_the_page_than_it_is(
    browser: Browser,
) -> None:
    """Each line of an indented text begins with its depth: 60 KB would take 1 MB."""
    made = await job(browser.api)
    lease = await claimed(browser.api)
    result: list[Any] = [1] * 20_000
    for _ in range(24):
        result = [result]
    report = {"token": lease["token"], "result": result}
    assert (await browser.api.call("POST", f"/leases/{made}/complete", report)).status == 200
    text = (await browser.get(f"/jobs/{made}")).text
    assert "<h2>Result</h2>" in text
    assert len(text) < 200_000
