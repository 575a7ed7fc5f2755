"""In Chromium: every form is filled in and sent; lists, views, charts and bulk actions live.

One browser, one tab and one tenant for all of it: a form takes a fraction of a second.
"""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Page, expect

from conftest import Api
from flows.test_console_forms import CREATED
from postdate.bulk_action.change import bulk_action
from postdate.console.button_table import BUTTONS
from support.real_browser import make, needs_chromium

pytestmark = [
    needs_chromium,
    pytest.mark.own_database("foresight reads the due work of every tenant"),
]

# A busy machine must not fail a test: nothing here is about how fast it is.
expect.set_options(timeout=30_000)

FIELDS: dict[str, dict[str, str]] = {
    **CREATED,
    "/jobs/{job_id:uuid}/edit": {"payload": '{"to": "bob"}', "timeout_seconds": "7"},
    "/accounts/{account_id}/edit": {"floor": "-700", "note": "seen by hand"},
    "/destinations/{name}/edit": {"max_running": "3"},
    "/lanes/{lane}/edit": {"weight": "5"},
    "/schedules/{schedule_id:uuid}/edit": {"cron": "0 10 1 * *"},
    "/jobs/{job_id:uuid}/purge": {},
    "/destinations/{name}/rotate-secret": {"overlap_seconds": "60"},
    "/destinations/{name}/delete": {},
    "/halts/kill": {"note": "fraud"},
    "/halts/release": {},
    "/halts/freeze": {"note": "audit", "until": "2035-01-01T00:00:00"},
    "/halts/thaw": {},
    "/what-if/pause-lane": {"changes.0.lane": "default", "note": "deploy"},
    "/what-if/limit-lane": {"changes.0.lane": "default", "changes.0.rate_per_second": "5"},
    "/what-if/pause-schedule": {"changes.0.schedule_id": "<schedule_id>"},
    "/what-if/change-policy": {
        "changes.0.schedule_id": "<schedule_id>",
        "changes.0.jitter_seconds": "60",
    },
    "/what-if/freeze": {"changes.0.until_at": "2035-01-01T00:00:00"},
    "/what-if/reschedule-jobs": {
        "changes.0.filter.lane": "default",
        "changes.0.to.run_at": "2035-01-01T00:00:00",
    },
    "/what-if/cancel-jobs": {"changes.0.filter.lane": "default"},
    "/what-if/reschedule-payments": {
        "changes.0.filter.from_account_id": "alice",
        "changes.0.to.scheduled_time": "<later>",
    },
    "/what-if/cancel-payments": {"changes.0.filter.to_account_id": "bob"},
    "/what-if/put-setting": {
        "changes.0.name": "foresight.jobs_per_second",
        "changes.0.value": "12.5",
    },
    "/what-if/halt": {"note": "fraud"},
    "/what-if/several": {"changes": '[{"type": "pause_lane", "lane": "default"}]'},
}
"""What is typed into each form, by the path of the form; a name in brackets is an id."""


FILL_AND_PRESS = """async ([values, button]) => {
  const form = document.getElementById("form");
  for (const [name, text] of Object.entries(values)) {
    const field = [...form.elements].find((one) => one.name === name && !one.hidden);
    field.value = text;
    if (!field.value) throw new Error(`${name} does not take ${text}`);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  if (!form.reportValidity()) throw new Error("something required is empty");
  const pressed = [...form.elements].find((one) => one.textContent === button);
  const body = new URLSearchParams(new FormData(form, pressed));
  const answer = await fetch(form.action, { method: form.method, body });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return [answer.url, page.querySelector(".notice, .refusal")?.textContent ?? ""];
}"""
"""Fill in and send a form; a list takes only what it offers, and what is required must be there.

The page that answers is read and not drawn: drawing it takes as long as all the rest.
"""


async def failed_job(api: Api) -> str:
    spec = {"destination": {"type": "worker"}, "lane": "once", "retry": {"max_attempts": 1}}
    job_id = (await make(api, "/jobs", spec))["job_id"]
    (lease,) = (await make(api, "/lanes/once/claim", {"max": 1, "wait_seconds": 5}))["leases"]
    await make(api, f"/leases/{job_id}/fail", {"token": lease["token"], "error": "no"})
    return str(job_id)


async def prepare(api: Api) -> dict[str, str]:
    """Make what the edits begin with, and give the parts of their paths."""
    for name in ("alice", "bob"):
        await make(api, "/accounts", {"account_id": name})
    await make(api, "/accounts/alice/adjustments", {"amount": 10_000, "reason": "opening"})
    await make(api, "/destinations", {"name": "crm", "url": "https://crm.example/hook"})
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600, "payload": {"n": 2**70}}
    rule = {"cron": "0 9 1 * *", "template": {"job": {"destination": {"type": "worker"}}}}
    return {
        "job_id": (await make(api, "/jobs", spec))["job_id"],
        "failed_id": await failed_job(api),
        "schedule_id": (await make(api, "/schedules", rule))["schedule_id"],
        "account_id": "bob",
        "name": "crm",
        "lane": "default",
        "later": (datetime.now(UTC) + timedelta(days=90)).strftime("%Y-%m-%dT%H:%M:%S"),
    }


def address(path: str, made: dict[str, str]) -> str:
    if path.endswith("/purge"):
        made = {**made, "job_id": made["failed_id"]}
    return path.replace(":uuid", "").format_map(made)


async def test_every_form_is_filled_in_and_sent(page: Page, api: Api) -> None:
    by_path = {button.path: button for button in BUTTONS}
    made = await prepare(api)
    for path, fields in FIELDS.items():
        button = by_path[path]
        where = api.url + address(path, made)
        await page.goto(where, wait_until="domcontentloaded")
        values = {name: made.get(text.strip("<>"), text) for name, text in fields.items()}
        pressed = button.confirm or button.words
        landed, said = await page.evaluate(FILL_AND_PRESS, [values, pressed])
        assert said.startswith("✓"), (where, said)
        assert landed != where
        await api.node.refresh_settings()
    job = (await api.call("GET", f"/jobs/{made['job_id']}")).body
    assert (job["payload"], job["timeout_seconds"]) == ({"to": "bob"}, 7)
    lane = (await api.call("GET", "/lanes/default")).body
    assert (lane["weight"], lane["width"]) == (5, 8)


async def test_an_edit_leaves_alone_what_was_not_touched(page: Page, api: Api) -> None:
    made = await prepare(api)
    await page.goto(f"{api.url}/jobs/{made['job_id']}/edit")
    await page.locator('[name="timeout_seconds"]:visible').fill("9")
    await page.get_by_role("button", name="Show as curl, CLI and Python").click()
    shown = page.locator(".as-code pre").first
    await expect(shown).to_have_text(f"postdate job change {made['job_id']} --timeout-seconds 9")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".notice")).to_be_visible()
    text = await page.locator("pre.payload").inner_text()
    assert str(2**70) in text, "a large number was altered"


async def test_the_preview_follows_the_unsaved_rule(page: Page, api: Api) -> None:
    await page.goto(api.url + "/new/schedule")
    await expect(page.locator("#preview")).to_contain_text("No preview yet")
    await page.locator('[name="cron"]').fill("30 2 * * *")
    await page.locator('[name="timezone"]').fill("Europe/Berlin")
    await expect(page.locator("#preview table")).to_contain_text("02:30")


async def test_new_rows_wait_until_they_are_asked_for(page: Page, api: Api) -> None:
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600, "lane": "mail"}
    known = (await make(api, "/jobs", spec))["job_id"]
    await page.add_init_script(
        "const later = setTimeout; setTimeout = (f, ms) => later(f, ms / 20);"
    )
    await page.goto(api.url + "/jobs?lane=mail")
    await expect(page.locator("#list-live")).to_have_text("● live")
    await page.locator("tbody input[type=checkbox]").check()
    await expect(page.locator("#list-live")).to_have_text("paused")
    await make(api, "/jobs", spec)
    await api.call("POST", f"/jobs/{known}/cancel")
    row = page.locator(f'tr[data-row="{known}"]')
    await expect(row).to_contain_text("PENDING")
    await page.locator("tbody input[type=checkbox]").uncheck()
    await expect(page.locator("#new-rows")).to_have_text("1 new")
    await expect(row).to_contain_text("CANCELLED")
    assert await page.locator("tr[data-row]").count() == 1, "a row was put in"
    await page.locator("#new-rows").click()
    await expect(page.locator("tr[data-row]")).to_have_count(2)


async def test_a_view_is_kept_by_name_and_a_page_leads_back_to_the_list(
    page: Page, api: Api
) -> None:
    job_id = (await make(api, "/jobs", {"destination": {"type": "worker"}, "lane": "mail"}))[
        "job_id"
    ]
    await page.goto(api.url + "/jobs?lane=mail")
    await page.get_by_text("Saved views").click()
    await page.get_by_label("Name of this view").fill("<b>mail</b>")
    await page.get_by_role("button", name="Save").click()
    await page.goto(api.url + "/jobs")
    await page.get_by_text("Saved views").click()
    await page.get_by_role("link", name="<b>mail</b>").click()
    await page.wait_for_url("**/jobs?lane=mail")
    await page.locator(f'tr[data-row="{job_id}"] a').first.click()
    await page.locator(".crumb a").first.click()
    await page.wait_for_url("**/jobs?lane=mail")
    await page.get_by_text("Saved views").click()
    await page.get_by_role("button", name="Forget the view").click()
    await expect(page.locator(".views li")).to_have_count(0)


async def test_a_bulk_action_is_undone_while_it_waits(
    page: Page, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_action, "UNDO_SECONDS", 60.0)
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600, "lane": "mail"}
    job_id = (await make(api, "/jobs", spec))["job_id"]
    await page.goto(api.url + "/jobs/bulk/cancel?filter.lane=mail&dry=1")
    await page.get_by_label("Reason").fill("not needed")
    await page.get_by_role("button", name="Cancel these (1)").click()
    await expect(page.locator("[data-countdown]")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.locator(".notice")).to_contain_text("Undone: nothing was changed.")
    assert (await api.call("GET", f"/jobs/{job_id}")).body["status"] == "PENDING"


async def test_a_chart_has_its_numbers_in_a_table(page: Page, api: Api) -> None:
    await make(api, "/accounts", {"account_id": "alice"})
    for amount in (700, 1300):
        body = {"amount": amount, "reason": "opening"}
        await make(api, "/accounts/alice/adjustments", body)
    await page.goto(api.url + "/accounts/alice")
    table = page.locator('[data-table="balance"]')
    await table.get_by_text("As a table").click()
    await expect(table.locator("thead tr")).to_have_count(1)
    await expect(table.locator("tbody td.number")).to_have_text(["2,000", "700"])
