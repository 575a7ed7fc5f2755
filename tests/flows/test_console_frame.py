"""The frame of every page: the state bar, the four areas, counts that equal what they open."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from conftest import Api
from postdate.console.frame import AREAS, MORE
from postdate.monitor.view.counted import MarkedCount
from support.plain_browser import Browser

TABS = [tab.path for area in AREAS for tab in area.tabs] + [tab.path for tab in MORE]


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


async def failed(api: Api, many: int, code: str) -> None:
    spec = {"destination": {"type": "worker"}, "lane": code, "retry": {"max_attempts": 1}}
    await api.call("POST", "/jobs/batch", {"jobs": [spec] * many})
    body = {"max": many, "lease_seconds": 60, "wait_seconds": 5}
    for lease in (await api.call("POST", f"/lanes/{code}/claim", body)).body["leases"]:
        end = {"token": lease["token"], "code": code, "error": "no"}
        await api.call("POST", f"/leases/{lease['job_id']}/fail", end)


def bar(page: str) -> str:
    """Return the words of the state bar."""
    return " ".join(re.sub(r"<[^>]*>", " ", page.partition('id="state"')[2]).split())


@pytest.mark.parametrize(
    ("path", "body", "name", "button"),
    [
        ("/kill-switch", {"note": "fraud"}, "■ Stopped", "/halts/release"),
        ("/freeze", {"note": "audit", "until": "2035-01-01T00:00:00Z"}, "❄ Frozen", "/halts/thaw"),
    ],
)
async def test_every_page_says_who_stopped_the_work_and_offers_to_release_it(
    browser: Browser, path: str, body: Any, name: str, button: str
) -> None:
    spec = {"destination": {"type": "worker"}, "lane": "mail"}
    await browser.api.call("POST", "/jobs/batch", {"jobs": [spec] * 3})
    assert "● Running" in bar((await browser.get("/settings")).text)
    await browser.api.call("PUT", path, body)
    for page in TABS:
        text = (await browser.get(page)).text
        said = bar(text)
        assert name in said, page
        assert body["note"] in said
        assert "3 items due and waiting" in said
        assert f'href="{button}"' in text
        assert "● Running" not in said


async def test_a_page_that_stays_open_asks_for_the_state_again(browser: Browser) -> None:
    await browser.api.call("PUT", "/kill-switch", {"note": "fraud"})
    part = await browser.get("/state", **{"hx-request": "true"})
    assert "<html" not in part.text
    assert "■ Stopped" in part.text


async def test_what_cannot_be_written_and_what_a_restore_holds_back_is_said(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = browser.api
    monkeypatch.setattr(type(api.node.heartbeat), "fault", Fault())
    assert "▲ Read-only The database takes no writes" in bar((await browser.get("/jobs")).text)


class Fault:
    """A fault of the database, as the heartbeat reports it."""

    name = "database"
    reason = "it is read-only"


async def test_a_key_that_sees_a_part_is_told_the_state_and_no_count(browser: Browser) -> None:
    await failed(browser.api, 2, "broken")
    await browser.api.call("PUT", "/kill-switch", {"note": "fraud"})
    await browser.sign_in(await browser.api.new_key("jobs:read"))
    text = (await browser.get("/jobs")).text
    assert "■ Stopped" in bar(text)
    assert "items due and waiting" not in bar(text)
    assert 'class="count"' not in text


async def test_counts_of_failures_equal_the_lists_that_they_open(browser: Browser) -> None:
    """The review saw 141 on the tile and 184 in the list."""
    await failed(browser.api, 30, "broken")
    await failed(browser.api, 3, "refused")
    listed = await browser.api.call("GET", "/jobs?status=FAILED&limit=100")
    many = len(listed.body["jobs"])
    assert many == 33
    now = (await browser.get("/")).text
    assert f'id="tile-jobs-failed"><strong>{many}</strong>' in now
    letters = (await browser.get("/dead-letters")).text
    assert f"<strong>{many}</strong> jobs accepted" in letters
    groups = re.findall(r'data-label="24 h" class="number">(\d+)<', letters)
    assert sorted(map(int, groups)) == [3, 30]
    assert f'title="{many} jobs of 24 h that failed"' in letters


async def test_approvals_and_unknown_outcomes_are_counted_as_decisions(browser: Browser) -> None:
    api = browser.api
    for name in ("alice", "bob"):
        await api.call("POST", "/accounts", {"account_id": name})
    opening = {"amount": 1000, "reason": "opening"}
    await api.call("POST", "/accounts/alice/adjustments", opening, headers={"Idempotency-Key": "a"})
    await api.call("PUT", "/settings/payment.approval_above", {"value": 90})
    await api.node.refresh_settings()
    asks = {"from_account_id": "alice", "to_account_id": "bob", "amount": 91, "delay_seconds": 3600}
    made = await api.call("POST", "/payments/schedule", asks, headers={"Idempotency-Key": "b"})
    assert made.status == 201, made.body
    waiting = (await api.call("GET", "/approvals")).body["payments"]
    page = (await browser.get("/")).text
    assert len(waiting) == 1
    assert "<strong>1</strong> payments to approve or refuse" in page
    assert 'title="1 approvals, unknown outcomes and broken payments"' in page
    assert made.body["payment_id"] in (await browser.get("/decisions")).text


async def test_a_filter_that_a_page_lacks_is_refused(browser: Browser) -> None:
    seen = await browser.get("/jobs?nonsense=1", accept="text/html")
    assert seen.status == 422
    assert "no such filter" in seen.text


async def test_jobs_are_filtered_by_destination(browser: Browser) -> None:
    api = browser.api
    for name in ("shop", "crm"):
        await api.call("POST", "/destinations", {"name": name, "url": "https://example.com/"})
        spec = {"destination": {"type": "webhook", "name": name}, "delay_seconds": 3600}
        await api.call("POST", "/jobs", spec | {"description": f"for {name}"})
    text = (await browser.get("/jobs?status=PENDING&destination=shop")).text
    assert ("for shop" in text, "for crm" in text) == (True, False)
    page = (await browser.get("/destinations/shop")).text
    assert "<strong>1 job waits</strong>" in page
    assert "/jobs?status=PENDING&amp;destination=shop" in page


async def test_a_page_marks_its_area_and_its_tab(browser: Browser) -> None:
    for path, area, tab in (
        ("/foresight/money", '"/foresight" aria-current="true">Ahead', "/foresight/money"),
        ("/foresight", '"/foresight" aria-current="true">Ahead', "/foresight"),
        ("/jobs/bulk/cancel?filter.lane=x", '"/jobs" aria-current="true">Work', "/jobs"),
    ):
        text = (await browser.get(path)).text
        assert area in text
        assert f'href="{tab}" aria-current="page"' in text
        assert text.count('aria-current="page"') == 1


def test_a_lower_bound_is_marked() -> None:
    assert str(MarkedCount(1400, capped=True) + MarkedCount(1)) == "≥ 1,401"
    assert MarkedCount(1).of("job") == "1 job"
