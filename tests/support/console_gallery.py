"""Pictures of every page of the console, of a tenant that is full of life.

By itself: `PYTHONPATH=tests .venv/bin/python -m support.console_gallery URL KEY [page|look ...]`.
"""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Page, async_playwright

from postdate.change_set.page.what_if_buttons import BUTTONS
from postdate.cli.demo_life import DemoLife
from postdate.client import Client
from support.accessibility import violations
from support.plain_browser import PROGRAM
from support.real_browser import WATCH

BUILD: Final = Path(__file__).parents[2] / "build" / "console"
LOOKS: Final[dict[str, Any]] = {
    "1440-light": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    "1440-dark": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"},
    "390-light": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
    "390-dark": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
}


def fill(client: Client, receiver_url: str) -> None:
    """Fill a tenant: what `postdate demo` makes, and what takes more than one step."""
    client.settings.set("payment.approval_above", value=20_000)
    DemoLife(client).fill()
    _destinations(client, receiver_url)
    shop = client.keys.create(scopes=["payments:write"], note="web shop")
    with Client(client.url, shop.key) as asks:
        asks.payments.schedule(
            from_account_id="demo-alice",
            to_account_id="demo-shop",
            amount=24_900,
            delay_seconds=7200,
            description="a new bicycle",
        )
    soon = datetime.now(UTC) + timedelta(days=5)
    client.keys.create(scopes=["jobs:read"], note="dashboard", expires_at=soon)
    client.schedules.create(
        name="poll the bank",
        every_seconds=30,
        start_at=datetime.now(UTC) - timedelta(minutes=12),
        misfire={"policy": "fire_all", "max_lateness_seconds": 3600},
        template={"job": {"destination": {"type": "worker"}, "lane": "bank"}},
    )
    client.lanes.change("thumbnails", rate_per_second=0.02)
    _change_sets(client)


def _destinations(client: Client, receiver_url: str) -> None:
    client.destinations.create(
        name="crm", type="webhook", url=f"{receiver_url}/hook", max_running=5, rate_per_second=20
    )
    client.destinations.create(name="billing", type="webhook", url=f"{receiver_url}/broken")
    client.destinations.create(name="old-shop", type="webhook", url="https://old.example/hook")
    client.destinations.disable("old-shop", reason="replaced by demo-orders")
    for name in ("crm", "billing"):
        for number in range(8):
            client.jobs.create(
                destination={"type": "webhook", "name": name},
                description=f"tell {name} of order {number}",
                payload={"order": number, "lines": [{"sku": "A-17", "count": 2}]},
                metadata={"order": number},
                retry={"max_attempts": 6, "initial_seconds": 2},
            )


def _change_sets(client: Client) -> None:
    made = client.change_sets.create(
        changes=[{"type": "limit_lane", "lane": "mail", "rate_per_second": 2.0}],
        note="the mail server is slow",
    )
    client.change_sets.apply(made.change_set_id)
    schedules = {each.name: each for each in client.schedules.list()}
    rent = schedules["rent"].schedule_id
    undone = client.change_sets.create(
        changes=[{"type": "pause_schedule", "schedule_id": rent}], note="rent is paid by hand"
    )
    client.change_sets.apply(undone.change_set_id)
    client.change_sets.undo(undone.change_set_id)
    client.change_sets.create(
        changes=[
            {"type": "pause_lane", "lane": "invoices"},
            {"type": "cancel_jobs", "filter": {"lane": "thumbnails"}},
        ],
        note="before the migration on Saturday",
    )


def pages(client: Client) -> dict[str, str]:
    """Return a name and the address of every page."""
    jobs = {str(each.status): each for each in client.jobs.list(page_size=100)}
    payments = {str(each.status): each for each in client.payments.list(page_size=100)}
    schedules = {each.name: each.schedule_id for each in client.schedules.list()}
    approval = next(iter(client.payments.list_approvals())).payment_id
    sets = {each.status.lower(): each.change_set_id for each in client.change_sets.list()}
    return {
        "login": "/login",
        "overview": "/",
        "jobs": "/jobs",
        "jobs-filtered": "/jobs?status=PENDING&lane=mail",
        "jobs-none": "/jobs?lane=nosuch",
        **{f"job-{status.lower()}": f"/jobs/{each.job_id}" for status, each in jobs.items()},
        "payments": "/payments",
        **{
            f"payment-{status.lower()}": f"/payments/{each.payment_id}"
            for status, each in payments.items()
        },
        "payment-approval": f"/payments/{approval}",
        "schedules": "/schedules",
        "schedule-rent": f"/schedules/{schedules['rent']}",
        "schedule-poll": f"/schedules/{schedules['poll the bank']}",
        "schedule-paused": f"/schedules/{schedules['nightly export']}",
        "accounts": "/accounts",
        "account": "/accounts/demo-alice",
        "approvals": "/approvals",
        "decisions": "/decisions",
        "statements": "/statements",
        "statement": "/accounts/demo-alice/statement",
        "docs-guide": "/docs/guide",
        "docs-payments": "/docs/guide/guides/payments",
        "docs-errors": "/docs/errors",
        "account-frozen": "/accounts/demo-dave",
        "dead-letters": "/dead-letters",
        "events": "/events",
        "lanes": "/lanes",
        "foresight": "/foresight",
        "foresight-lanes": "/foresight?by=lane",
        "foresight-destinations": "/foresight?by=destination&window=week",
        "foresight-tenants": "/foresight?by=tenant",
        "foresight-money": "/foresight/money",
        "foresight-money-hour": "/foresight/money?window=hour",
        "foresight-money-account": "/foresight/money?account=demo-carol&window=year",
        "what-if": "/what-if",
        **{f"what-if-{form.path.rpartition('/')[2]}": form.path for form in BUTTONS},
        "foresight-month": "/foresight?window=month",
        "destinations": "/destinations",
        "destination-good": "/destinations/crm",
        "destination-bad": "/destinations/billing",
        "destination-disabled": "/destinations/old-shop",
        "subscriptions": "/subscriptions",
        "audit": "/audit",
        "settings": "/settings",
        "nodes": "/nodes",
        "find": "/find?q=demo",
        "find-none": "/find?q=zzzz",
        "missing": "/no-such-page",
        "change-sets": "/change-sets",
        **{f"change-set-{status}": f"/change-sets/{each}" for status, each in sets.items()},
        **_forms(client, jobs["PENDING"].job_id, schedules["rent"]),
    }


def _forms(client: Client, job: object, rent: object) -> dict[str, str]:
    """Return the forms and the confirmations."""
    subscription = next(iter(client.subscriptions.list())).subscription_id
    key = next(iter(client.keys.list())).key_id
    return {
        **{f"new-{noun}": f"/new/{noun}" for noun in NEW},
        "edit-job": f"/jobs/{job}/edit",
        "edit-account": "/accounts/demo-alice/edit",
        "edit-destination": "/destinations/crm/edit",
        "edit-lane": "/lanes/mail/edit",
        "edit-schedule": f"/schedules/{rent}/edit",
        "do-job-cancel": f"/jobs/{job}/cancel",
        "do-job-reschedule": f"/jobs/{job}/reschedule",
        "do-bulk-cancel": "/jobs/bulk/cancel?filter.lane=mail&dry=1",
        "do-bulk-reschedule": "/jobs/bulk/reschedule?filter.lane=mail",
        "do-redrive-all": "/dead-letters/redrive-all?dry=1",
        "do-schedule-pause": f"/schedules/{rent}/pause",
        "do-schedule-backfill": f"/schedules/{rent}/backfill",
        "do-account-adjust": "/accounts/demo-alice/adjust",
        "do-lane-pause": "/lanes/mail/pause",
        "do-destination-test": "/destinations/crm/test",
        "do-subscription-replay": f"/subscriptions/{subscription}/replay",
        "do-key-rotate": f"/keys/{key}/rotate",
        "do-kill": "/halts/kill",
        "do-freeze": "/halts/freeze",
        "do-setting": "/settings/job.max_attempts/set?value=5",
    }


NEW: Final = ("job", "payment", "account", "destination", "subscription", "schedule", "key")


async def photograph(
    url: str, key: str, wanted: dict[str, str], looks: tuple[str, ...] = tuple(LOOKS)
) -> list[str]:
    """Take a picture of each page in each look, and return what is wrong with a page."""
    BUILD.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=PROGRAM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        for look in looks:
            context = await browser.new_context(locale="en-US", **LOOKS[look])
            page = await context.new_page()
            await page.add_init_script(WATCH)
            await page.request.post(
                f"{url}/login", form={"key": key, "next": "/jobs"}, headers={"origin": url}
            )
            for name, where in wanted.items():
                wrong += [f"{look} {name} {each}" for each in await _shoot(page, url + where)]
                await page.screenshot(path=BUILD / f"{name}-{look}.png", full_page=True)
            await context.close()
        await browser.close()
    return wrong


async def _shoot(page: Page, address: str) -> list[str]:
    answer = await page.goto(address)
    await page.wait_for_timeout(100)  # charts and previews are drawn after the page
    wrong = [f"answers {answer.status}"] if answer and answer.status >= 500 else []
    wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    if wide > 0:
        wrong.append(f"is {wide} px too wide")
    wrong += await page.evaluate("window.violations")
    return wrong + await violations(page)


if __name__ == "__main__":
    server, admin, *only = sys.argv[1:]
    with Client(server, admin) as asked:
        every = pages(asked)
    chosen = {name: where for name, where in every.items() if name in only} or every
    looks = tuple(look for look in LOOKS if look in only) or tuple(LOOKS)
    sys.stdout.write("\n".join(asyncio.run(photograph(server, admin, chosen, looks))) + "\n")
