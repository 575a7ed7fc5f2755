"""Many at once: a dry run first, exactly what it showed, once, with a reason."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from conftest import Api
from postdate.bulk_action.change import bulk_action
from postdate.bulk_action.change import work_off as working
from postdate.console import dry_run
from postdate.node import bulk_action as node_bulk_action
from support.bulk_work import work_off
from support.event import seal_all
from support.plain_browser import Browser

pytestmark = pytest.mark.own_database("it seals the events of every tenant")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without the seconds in which it can be undone."""
    monkeypatch.setattr(bulk_action, "UNDO_SECONDS", 0.0)


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


async def jobs(api: Api, many: int, **fields: Any) -> list[str]:
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600} | fields
    answer = await api.call("POST", "/jobs/batch", {"jobs": [spec] * many})
    return [outcome["job"]["job_id"] for outcome in answer.body["outcomes"]]


async def statuses(api: Api, ids: Sequence[str]) -> list[str]:
    return [(await api.call("GET", f"/jobs/{one}")).body["status"] for one in ids]


async def failed(api: Api, many: int, lane: str) -> list[str]:
    made = await jobs(api, many, lane=lane, delay_seconds=0, retry={"max_attempts": 1})
    claimed = await api.call(
        "POST", f"/lanes/{lane}/claim", {"max": many, "lease_seconds": 60, "wait_seconds": 5}
    )
    for lease in claimed.body["leases"]:
        body = {"token": lease["token"], "code": "broken", "error": "it is broken"}
        await api.call("POST", f"/leases/{lease['job_id']}/fail", body)
    assert set(await statuses(api, made)) == {"FAILED"}
    return made


async def test_a_filter_is_shown_first_and_touches_only_what_was_shown(browser: Browser) -> None:
    api = browser.api
    shown = await jobs(api, 7, lane="mail", description="newsletter")
    other = await jobs(api, 1, lane="reports")
    listed = (await browser.get("/jobs?lane=mail")).text
    assert "/jobs/bulk/cancel?filter.lane=mail&amp;dry=1" in listed
    page = await browser.get("/jobs/bulk/cancel?filter.lane=mail&dry=1")
    assert "Cancel these (7)" in page.text
    assert page.text.count("newsletter") == 5
    assert set(await statuses(api, shown)) == {"PENDING"}
    later = await jobs(api, 1, lane="mail")
    path = "/jobs/bulk/cancel"
    refused = await browser.post(path, page.hidden | {"reason": " "})
    assert refused.status == 422
    done = await browser.post(path, refused.hidden | {"reason": "sent by mistake"})
    path = done.headers["location"]
    assert "Cancelling jobs: 0 of 7" in (await browser.get("/jobs?lane=mail")).text
    await work_off(api)
    page = await browser.get(path)
    assert "<strong>7 of 7</strong> processed." in page.text
    assert "<dt>Cancelled</dt><dd>7</dd>" in page.text
    assert "sent by mistake" in page.text
    assert set(await statuses(api, shown)) == {"CANCELLED"}
    assert await statuses(api, [*other, *later]) == ["PENDING", "PENDING"]
    await seal_all(api.node.database)
    assert "sent by mistake" in (await browser.get("/audit?type=job.cancelled")).text


async def test_what_has_begun_meanwhile_is_left_alone(browser: Browser) -> None:
    api = browser.api
    one, two = await jobs(api, 2, lane="mail")
    page = await browser.get(f"/jobs/bulk/cancel?dry=1&jobs={one}&jobs={two}")
    assert (await api.call("POST", f"/jobs/{one}/cancel")).status == 200
    begun = await browser.post("/jobs/bulk/cancel", page.hidden | {"reason": "x"})
    await work_off(api)
    text = (await browser.get(begun.headers["location"])).text
    assert "<dt>Cancelled</dt><dd>1</dd>" in text
    assert "<dt>Skipped</dt><dd>1 CANCELLED by now</dd>" in text
    assert "skipped: CANCELLED by now" in text


async def test_selected_jobs_get_another_instant(browser: Browser) -> None:
    api = browser.api
    one, two, three = await jobs(api, 3, lane="mail")
    asked = await browser.get(f"/jobs/bulk/reschedule?dry=1&jobs={one}&jobs={two}")
    assert "2 selected" in asked.text
    query = f"dry=1&jobs={one}&jobs={two}&to.run_at=2035-01-01T00:00:00"
    page = await browser.get(f"/jobs/bulk/reschedule?{query}")
    assert "Reschedule these (2)" in page.text
    done = await browser.post("/jobs/bulk/reschedule", page.hidden | {"reason": "later"})
    assert done.status == 303, done.text
    await work_off(api)
    due = [(await api.call("GET", f"/jobs/{each}")).body["due_at"] for each in (one, two, three)]
    assert [each.startswith("2035-01-01") for each in due] == [True, True, False]
    past = await browser.get(f"/jobs/bulk/reschedule?{query.replace('2035', '2005')}")
    assert past.status == 422


async def test_a_filter_must_name_something(browser: Browser) -> None:
    await jobs(browser.api, 1)
    page = await browser.get("/jobs/bulk/cancel?dry=1")
    assert page.status == 422
    assert "The filter needs at least one field" in page.text
    assert (await browser.get("/jobs/bulk/cancel?dry=1&filter.status=NONSENSE")).status == 422
    assert (await browser.get("/jobs/bulk/cancel?dry=1&jobs=all")).status == 422


async def test_the_count_of_a_large_bulk_action_must_be_typed(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_run, "TYPE_COUNT_ABOVE", 2)
    made = await jobs(browser.api, 3, lane="mail")
    page = await browser.get("/jobs/bulk/cancel?filter.lane=mail&dry=1")
    assert "Type 3 to confirm" in page.text
    path = "/jobs/bulk/cancel"
    refused = await browser.post(path, page.hidden | {"reason": "x", "typed": "4"})
    assert refused.status == 422
    assert set(await statuses(browser.api, made)) == {"PENDING"}
    done = await browser.post(path, refused.hidden | {"reason": "x", "typed": "3"})
    assert done.status == 303


async def test_dead_letters_are_grouped_and_redriven_at_a_pace(browser: Browser) -> None:
    api = browser.api
    mine, other = await failed(api, 3, "mail"), await failed(api, 1, "reports")
    text = (await browser.get("/dead-letters")).text
    assert "<code>broken</code>" in text
    assert "/dead-letters/redrive-all?dry=1&amp;filter.code=broken" in text
    page = await browser.get("/dead-letters/redrive-all?filter.lane=mail&dry=1")
    assert "Redrive these (3)" in page.text
    path = "/dead-letters/redrive-all"
    wrong = await browser.post(path, page.hidden | {"reason": "fixed", "per_second": "0"})
    assert wrong.status == 422
    fields = {"reason": "fixed", "per_second": "0.1"}
    begun = await browser.post(path, wrong.hidden | fields)
    await work_off(api)
    shown = (await browser.get(begun.headers["location"])).text
    assert "<dt>Redriven as new jobs</dt><dd>3</dd>" in shown
    found = (await api.call("GET", "/jobs?lane=mail&limit=100")).body["jobs"]
    new = [one for one in found if one["job_id"] not in mine]
    assert {one["origin_id"] for one in new} == set(mine)
    assert len({one["due_at"] for one in new}) == 3
    assert all(f"/jobs/{one['job_id']}" in shown for one in new)
    assert not {one["origin_id"] for one in new} & set(other)
    again = await browser.get("/dead-letters/redrive-all?filter.lane=mail&dry=1")
    begun = await browser.post(path, again.hidden | {"reason": "again"})
    await work_off(api)
    shown = (await browser.get(begun.headers["location"])).text
    assert "<dt>Skipped</dt><dd>3 already_redriven</dd>" in shown


async def test_a_bulk_action_is_not_open_to_readers(browser: Browser) -> None:
    await jobs(browser.api, 1, lane="mail")
    await browser.sign_in(await browser.api.new_key("jobs:read"))
    assert "Cancel selected" not in (await browser.get("/jobs")).text
    assert (await browser.get("/jobs/bulk/cancel?filter.lane=mail&dry=1")).status == 403


async def begun(browser: Browser, many: int, **fields: str) -> tuple[str, Any]:
    """Confirm a cancellation; give the address of its progress, and the jobs."""
    made = await jobs(browser.api, many, lane="mail")
    page = await browser.get("/jobs/bulk/cancel?filter.lane=mail&dry=1")
    answer = await browser.post("/jobs/bulk/cancel", page.hidden | {"reason": "too many"} | fields)
    assert answer.status == 303, answer.text
    return answer.headers["location"], made


async def cancelled(api: Api, ids: Sequence[str]) -> int:
    return (await statuses(api, ids)).count("CANCELLED")


async def test_it_goes_on_without_a_page_and_everybody_with_the_right_sees_it(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "PIECE", 2)
    path, made = await begun(browser, 5)
    worker = node_bulk_action.worker(browser.api.node)
    assert await worker.run_once(1) == 1
    assert await cancelled(browser.api, made) == 2
    async with Browser(browser.api) as other:
        await other.sign_in(await browser.api.new_key("jobs:read"))
        page = await other.get(path)
        assert "<strong>2 of 5</strong> processed" in page.text
        assert f"{path}/stop" not in page.text
        assert "2 of 5" in (await other.get("/bulk-actions")).text
        assert "Cancelling jobs: 2 of 5" in (await other.get("/jobs")).text
        refused = await other.post(f"{path}/stop", {"csrf": page.token, "once": "a"})
        assert refused.status == 403
        await other.sign_in(await browser.api.new_key("payments:read"))
        assert (await other.get(path)).status == 404
    part = await browser.get(f"{path}/progress")
    assert "2 of 5" in part.text
    assert "<html" not in part.text
    await work_off(browser.api)
    ended = await browser.get(path)
    assert "every 1s" not in ended.text
    assert await cancelled(browser.api, made) == 5
    assert "Cancelling jobs" not in (await browser.get("/payments")).text


async def test_it_stops_where_it_is_told_and_counts_what_was_left(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "PIECE", 2)
    path, made = await begun(browser, 5)
    worker = node_bulk_action.worker(browser.api.node)
    await worker.run_once(1)
    page = await browser.get(path)
    stopped = await browser.post(f"{path}/stop", {"csrf": page.token, "once": "a"})
    assert stopped.headers["location"] == path
    text = (await browser.get(path)).text
    assert "Stopped: 2 of 5 were changed." in text
    assert "<dt>Not processed</dt><dd>3</dd>" in text
    assert await work_off(browser.api) == 0
    assert await cancelled(browser.api, made) == 2


async def test_it_can_be_undone_before_its_first_item(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_action, "UNDO_SECONDS", 60.0)
    path, made = await begun(browser, 2)
    page = await browser.get(path)
    assert "Nothing has been changed yet." in page.text
    assert ">Undo</button>" in page.text
    assert await work_off(browser.api) == 0, "it did not wait"
    await browser.post(f"{path}/stop", {"csrf": page.token, "once": "a"})
    assert "Undone: nothing was changed." in (await browser.get(path)).text
    await browser.post(f"{path}/start", {"csrf": page.token, "once": "b"})
    assert await work_off(browser.api) == 0
    assert set(await statuses(browser.api, made)) == {"PENDING"}, "it was begun after all"


async def test_it_begins_at_once_where_somebody_says_so(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_action, "UNDO_SECONDS", 60.0)
    path, made = await begun(browser, 2)
    page = await browser.get(path)
    await browser.post(f"{path}/start", {"csrf": page.token, "once": "a"})
    await work_off(browser.api)
    assert await cancelled(browser.api, made) == 2


async def test_a_confirmation_counts_once(browser: Browser) -> None:
    await jobs(browser.api, 2, lane="mail")
    page = await browser.get("/jobs/bulk/cancel?filter.lane=mail&dry=1")
    form = page.hidden | {"reason": "x"}
    assert (await browser.post("/jobs/bulk/cancel", form)).status == 303
    again = await browser.post("/jobs/bulk/cancel", form)
    assert again.status == 409
    assert "This dry run has expired." in again.text
    assert len((await browser.api.call("GET", "/bulk-actions")).body["bulk_actions"]) == 1


async def test_a_pace_is_kept_and_a_wrong_one_refused(browser: Browser) -> None:
    await work_off(browser.api)
    await jobs(browser.api, 3, lane="mail")
    page = await browser.get("/jobs/bulk/cancel?filter.lane=mail&dry=1")
    wrong = page.hidden | {"reason": "x", "pace": "fast"}
    refused = await browser.post("/jobs/bulk/cancel", wrong)
    assert refused.status == 422
    assert "Give a number above 0" in refused.text
    done = await browser.post("/jobs/bulk/cancel", refused.hidden | {"reason": "x", "pace": "1"})
    path = done.headers["location"]
    worker = node_bulk_action.worker(browser.api.node)
    assert await worker.run_once(1) == 1
    assert await worker.run_once(1) == 0, "the second waits for a second"
    assert "<strong>1 of 3</strong>" in (await browser.get(path)).text
