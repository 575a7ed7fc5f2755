"""Schedules in the console: the list with its runs, the book, and what may be done."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from conftest import Api, Clock
from postdate.bulk_action.change import bulk_action
from postdate.node.schedule import occurrences
from postdate.scheduler.expander import LIMIT, Expander
from postdate.scheduler.meter import ScheduleMeter
from support.bulk_work import work_off
from support.plain_browser import Browser
from support.schedule import set_to_morning

JOB = {"job": {"destination": {"type": "worker"}, "lane": "reports"}}


@pytest.fixture(autouse=True)
async def _morning(clock: Clock) -> None:
    await set_to_morning(clock)


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


@pytest.fixture
async def book(api: Api) -> Expander:
    return Expander(api.node.database, occurrences(api.node), ScheduleMeter())


async def schedule(api: Api, **fields: Any) -> str:
    answer = await api.call("POST", "/schedules", {"template": JOB} | fields)
    assert answer.status == 201, answer.body
    return str(answer.body["schedule_id"])


async def runs(book: Expander, clock: Clock, seconds: float, times: int) -> None:
    for _ in range(times):
        await clock.advance(seconds)
        await book.run_once(LIMIT)


async def test_the_list_says_the_rule_in_words_and_shows_the_runs(
    browser: Browser, book: Expander, clock: Clock
) -> None:
    assert "There is no schedule yet" in (await browser.get("/schedules")).text
    one = await schedule(browser.api, name="often", every_seconds=60)
    await runs(book, clock, 60, 2)
    text = (await browser.get("/schedules")).text
    assert f"/schedules/{one}" in text
    assert "Every minute" in text
    assert text.count('class="run-created"') == 2
    assert "No schedule has missed" in (await browser.get("/schedules?missed=true")).text


async def test_a_strip_says_how_runs_ended_and_no_failing_schedule_is_green(
    browser: Browser, book: Expander, clock: Clock
) -> None:
    api = browser.api
    job = {"destination": {"type": "worker"}, "lane": "erp", "retry": {"max_attempts": 1}}
    one = await schedule(api, name="ERP ping", every_seconds=60, template={"job": job})
    await runs(book, clock, 60, 3)
    claim = {"max": 3, "lease_seconds": 60, "wait_seconds": 5}
    leases = (await api.call("POST", "/lanes/erp/claim", claim)).body["leases"]
    broken = {"code": "broken", "error": "it is broken"}
    for lease in leases[:2]:
        await api.call(
            "POST", f"/leases/{lease['job_id']}/fail", {**broken, "token": lease["token"]}
        )
    for path in ("/schedules", f"/schedules/{one}"):
        text = (await browser.get(path)).text
        assert text.count('class="run-failed"') == 2
        assert text.count('class="run-created"') == 1
        assert f'class="run-failed" href="/jobs/{leases[0]["job_id"]}"' in text
        assert "FAILING" in text
        assert "ACTIVE" not in text
    done = {"token": leases[2]["token"]}
    await api.call("POST", f"/leases/{leases[2]['job_id']}/complete", done)
    text = (await browser.get(f"/schedules/{one}")).text
    assert text.count('class="run-succeeded"') == 1
    assert "ACTIVE" in text
    found = (await api.call("GET", f"/schedules/{one}/occurrences")).body["occurrences"]
    assert sorted(each["outcome"] for each in found) == ["COMPLETED", "FAILED", "FAILED"]


async def test_what_comes_marks_the_change_of_the_clock(browser: Browser) -> None:
    one = await schedule(
        browser.api,
        cron="30 2 * * *",
        timezone="Europe/Paris",
        start_at="2027-03-24T00:00:00Z",
    )
    text = (await browser.get(f"/schedules/{one}")).text
    assert "Sun 2027-03-28 03:30:00" in text
    assert "the rule says 02:30:00" in text
    assert "DST: moved forward" in text


async def test_a_pause_needs_a_reason_and_names_who_paused(
    browser: Browser, book: Expander, clock: Clock
) -> None:
    one = await schedule(browser.api, every_seconds=60)
    path = f"/schedules/{one}"
    form = await browser.get(f"{path}/pause")
    assert f"postdate schedule pause {one}" in form.text
    assert "/pause&#34; -H" in form.text
    assert (await browser.confirm(f"{path}/pause", note=" ")).status == 422
    assert (await browser.confirm(f"{path}/pause", note="moving house")).status == 303
    await runs(book, clock, 60, 1)
    text = (await browser.get(path)).text
    assert "moving house" in text
    assert "skipped by pause" in text
    assert "PAUSED" in text
    assert (await browser.confirm(f"{path}/resume")).status == 303
    assert "PAUSED" not in (await browser.get("/schedules")).text
    filtered = await browser.get(f"{path}?status=FIRED")
    assert "No occurrence has the result" in filtered.text


async def test_a_trigger_makes_a_job(browser: Browser) -> None:
    one = await schedule(browser.api, every_seconds=3600)
    assert (await browser.confirm(f"/schedules/{one}/trigger")).status == 303
    text = (await browser.get(f"/schedules/{one}")).text
    assert "It ran once, as job" in text
    jobs = (await browser.api.call("GET", f"/jobs?schedule_id={one}")).body["jobs"]
    assert len(jobs) == 1
    assert f"/jobs/{jobs[0]['job_id']}" in text


async def test_a_backfill_is_shown_before_it_is_done_and_done_once(browser: Browser) -> None:
    one = await schedule(browser.api, cron="0 * * * *", start_at="2026-01-01T00:00:00Z")
    path = f"/schedules/{one}/backfill"
    assert "Dry run" in (await browser.get(path)).text
    span = "from=2026-01-01T00:00:00&until=2026-01-01T03:00:00&dry=1"
    shown = await browser.get(f"{path}?{span}")
    assert "Will run" in shown.text
    assert "Backfill (3)" in shown.text
    assert (await browser.api.call("GET", f"/jobs?schedule_id={one}")).body["jobs"] == []
    assert (await browser.post(path, shown.hidden)).status == 303
    assert "3 past occurrences were run" in (await browser.get(f"/schedules/{one}")).text
    again = await browser.post(path, shown.hidden)
    assert again.status == 409
    assert "has expired" in again.text
    assert len((await browser.api.call("GET", f"/jobs?schedule_id={one}")).body["jobs"]) == 3
    wrong = await browser.get(f"{path}?{span.replace('until=2026', 'until=2025')}")
    assert wrong.status == 422


async def test_a_deleted_schedule_is_gone(browser: Browser) -> None:
    one = await schedule(browser.api, every_seconds=3600)
    assert (await browser.confirm(f"/schedules/{one}/delete")).status == 303
    assert (await browser.get(f"/schedules/{one}")).status == 404


async def test_a_key_that_may_only_read_sees_why_a_button_is_off(browser: Browser) -> None:
    one = await schedule(browser.api, every_seconds=3600)
    await browser.sign_in(await browser.api.new_key("schedules:read"))
    text = (await browser.get(f"/schedules/{one}")).text
    assert "needs schedules:write" in text
    assert (await browser.get(f"/schedules/{one}/pause")).status == 403


async def test_selected_schedules_are_paused_and_resumed_together(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = browser.api
    made = [await schedule(api, cron="@daily", name=f"s{n}") for n in range(4)]
    await api.call("POST", f"/schedules/{made[3]}/pause", {"note": "before"})
    query = "&".join(f"schedules={one}" for one in made[1:])
    assert 'formaction="/schedules/bulk/pause"' in (await browser.get("/schedules")).text
    page = await browser.get(f"/schedules/bulk/pause?{query}")
    assert "Pause these (2)" in page.text
    assert "1 paused" in page.text
    refused = await browser.post("/schedules/bulk/pause", page.hidden | {"note": ""})
    assert refused.status == 422
    monkeypatch.setattr(bulk_action, "UNDO_SECONDS", 0.0)
    begun = await browser.post("/schedules/bulk/pause", refused.hidden | {"note": "audit"})
    await work_off(api)
    assert "2 of 2" in (await browser.get(begun.headers["location"])).text
    notes = [(await api.call("GET", f"/schedules/{one}")).body for one in made]
    assert [one.get("paused_note") for one in notes] == [None, "audit", "audit", "before"]
    page = await browser.get(f"/schedules/bulk/resume?{query}")
    begun = await browser.post("/schedules/bulk/resume", page.hidden)
    await work_off(api)
    assert "<dt>Resumed</dt><dd>3</dd>" in (await browser.get(begun.headers["location"])).text
    assert (await browser.get("/schedules/bulk/pause")).status == 422
    assert (await browser.get("/schedules/bulk/pause?schedules=all")).status == 422


async def test_pausing_many_needs_the_scope(browser: Browser) -> None:
    made = await schedule(browser.api, cron="@daily")
    await browser.sign_in(await browser.api.new_key("schedules:read"))
    assert "Pause selected" not in (await browser.get("/schedules")).text
    path = f"/schedules/bulk/pause?schedules={made}"
    assert (await browser.get(path)).status == 403


async def test_what_was_set_aside_is_named_with_its_error_and_can_be_resumed(
    browser: Browser, book: Expander, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await schedule(browser.api, name="odd", every_seconds=60)

    def decide(*_: Any) -> Any:
        raise OverflowError("beyond <the> budget")

    with monkeypatch.context() as broken:
        broken.setattr("postdate.scheduler.expansion.decide", decide)
        await runs(book, clock, 60, 1)
    overview = (await browser.get("/")).text
    assert "1 schedule" in overview
    listed = (await browser.get("/schedules?set_aside=true")).text
    assert "OverflowError: beyond &lt;the&gt; budget" in listed
    text = (await browser.get(f"/schedules/{one}")).text
    assert "It was set aside" in text
    assert f"/schedules/{one}/resume" in text
    resumed = await browser.api.call("POST", f"/schedules/{one}/resume")
    assert resumed.body["status"] == "ACTIVE"
    assert "No schedule is set aside" in (await browser.get("/schedules?set_aside=true")).text
