"""Lists of the console: text, files, empty ones, and what a list that looks again leaves alone."""

import csv
import io
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from conftest import Api
from postdate.console import export
from support.plain_browser import Browser

EMPTY = {
    "/jobs": "/new/job",
    "/payments": "/new/payment",
    "/accounts": "/new/account",
    "/schedules": "/new/schedule",
    "/destinations": "/new/destination",
    "/subscriptions": "/new/subscription",
    "/lanes": "/new/job",
    "/": "/new/job",
}


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


async def job(api: Api, **fields: Any) -> str:
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600} | fields
    return str((await api.call("POST", "/jobs", spec)).body["job_id"])


async def payment(api: Api, **fields: Any) -> str:
    for name in ("alice", "bob"):
        await api.call("POST", "/accounts", {"account_id": name, "floor": -1000})
    order = {"from_account_id": "alice", "to_account_id": "bob", "amount": 5} | fields
    headers = {"Idempotency-Key": uuid4().hex}
    made = await api.call(
        "POST", "/payments/schedule", order | {"delay_seconds": 3600}, headers=headers
    )
    return str(made.body["payment_id"])


def listed(text: str) -> list[str]:
    return [part.partition('"')[0] for part in text.split('data-row="')[1:]]


async def test_an_empty_list_offers_its_form(browser: Browser) -> None:
    for path, form in EMPTY.items():
        text = (await browser.get(path)).text.partition('class="empty"')[2]
        assert f'href="{form}"' in text, path


@pytest.mark.parametrize("status", ["", "status=PENDING&"])
async def test_jobs_are_found_by_text(browser: Browser, status: str) -> None:
    api = browser.api
    named = await job(api, description="Monthly Invoice 7")
    tagged = await job(api, metadata={"order": 41, "team": "sales"})
    await job(api, description="other")
    for text, found in {
        "invoice": [named],
        "order": [tagged],
        "order=41": [tagged],
        "order=4": [],
        "team=sales": [tagged],
        named[-12:]: [named],
        "100%": [],
    }.items():
        page = await browser.get(f"/jobs?{status}text={text.replace('%', '%25')}")
        assert listed(page.text) == found, text


async def test_failed_jobs_are_found_by_code_and_text(browser: Browser) -> None:
    api = browser.api
    made = await job(api, delay_seconds=0, retry={"max_attempts": 1}, description="report")
    claim = {"max": 1, "lease_seconds": 60, "wait_seconds": 5}
    (lease,) = (await api.call("POST", "/lanes/default/claim", claim)).body["leases"]
    failure = {"token": lease["token"], "code": "broken", "error": "it is broken"}
    await api.call("POST", f"/leases/{made}/fail", failure)
    for query in ("code=broken", "status=FAILED&text=broken", "status=FAILED&text=REPORT"):
        assert listed((await browser.get(f"/jobs?{query}")).text) == [made], query
    for query in ("code=other", "status=FAILED&text=other", "status=CANCELLED&text=report"):
        assert listed((await browser.get(f"/jobs?{query}")).text) == [], query


async def test_what_text_finds_is_never_offered_as_all_that_match(browser: Browser) -> None:
    await job(browser.api, description="invoice")
    assert "All that match" in (await browser.get("/jobs?status=PENDING")).text
    assert "All that match" not in (await browser.get("/jobs?status=PENDING&text=invoice")).text


async def test_payments_are_found_by_text(browser: Browser) -> None:
    api = browser.api
    rent, other = await payment(api, description="Rent of May"), await payment(api)
    for text, found in {"rent": [rent], other[-12:]: [other], "nothing": []}.items():
        assert listed((await browser.get(f"/payments?text={text}")).text) == found, text


async def test_a_file_holds_exactly_what_the_filter_finds(browser: Browser) -> None:
    api = browser.api
    mine = {await job(api, lane="mail", description="=1+1", metadata={"a": 1}) for _ in range(3)}
    await job(api, lane="other")
    lines = (await browser.get("/jobs.jsonl?lane=mail")).text.splitlines()
    assert {msgspec.json.decode(line)["job_id"] for line in lines} == mine
    seen = await browser.get("/jobs.csv?lane=mail")
    assert seen.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(seen.text)))
    assert {row["job_id"] for row in rows} == mine
    assert {(row["description"], row["metadata"]) for row in rows} == {("'=1+1", '{"a":1}')}
    paid = await payment(api, description="rent")
    (line,) = (await browser.get("/payments.jsonl?text=rent")).text.splitlines()
    assert msgspec.json.decode(line)["payment_id"] == paid
    assert (await browser.get("/jobs.exe")).status == 404


async def test_a_file_says_where_it_was_cut_off(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        await job(browser.api, lane="mail")
    monkeypatch.setattr(export, "PAGE_ROWS", 2)
    whole = (await browser.get("/jobs.jsonl?lane=mail")).text.splitlines()
    assert len(whole) == 5
    monkeypatch.setattr(export, "MAX_ROWS", 4)
    *rows, last = (await browser.get("/jobs.jsonl?lane=mail")).text.splitlines()
    assert len(rows) == 4
    assert "cut_off" in last
    assert "# cut off" in (await browser.get("/jobs.csv?lane=mail")).text.splitlines()[-1]


async def test_a_list_that_looks_again_takes_no_notice(browser: Browser) -> None:
    made = await job(browser.api)
    await browser.confirm(f"/jobs/{made}/run-now")
    await browser.get("/jobs", **{"x-live": "1"})
    assert "The job is due now" in (await browser.get("/jobs")).text


async def test_the_box_finds_names_texts_codes_and_ends_of_ids(browser: Browser) -> None:
    api = browser.api
    named = await job(api, description="Monthly invoice", lane="billing")
    tagged = await job(api, metadata={"order": 41})
    rent = await payment(api, description="Rent of May")
    rule = {"every_seconds": 60, "template": {"job": {"destination": {"type": "worker"}}}}
    body = rule | {"name": "Nightly Report"}
    planned = (await api.call("POST", "/schedules", body)).body["schedule_id"]
    for wanted, place in (
        ("invoice", f"/jobs/{named}"),
        (named[-12:], f"/jobs/{named}"),
        ("order=41", f"/jobs/{tagged}"),
        ("rent", f"/payments/{rent}"),
        (rent[-12:], f"/payments/{rent}"),
        ("bill", "/jobs?lane=billing"),
        ("ali", "/accounts/alice"),
        ("report", f"/schedules/{planned}"),
    ):
        found = await browser.get(f"/find?q={wanted}")
        assert found.headers.get("location") == place, wanted
    await browser.sign_in(await api.new_key("schedules:read"))
    for wanted in ("invoice", "rent", "ali"):
        assert (await browser.get(f"/find?q={wanted}")).status == 404, wanted


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n"])
async def test_no_cell_is_a_formula(api: Api, browser: Browser, begin: str) -> None:
    body = {"destination": {"type": "worker"}, "lane": "cells", "delay_seconds": 600}
    await api.call("POST", "/jobs", {**body, "description": f"{begin}=1"})
    await browser.sign_in()
    seen = await browser.get("/jobs.csv?lane=cells")
    [row] = csv.DictReader(io.StringIO(seen.text, newline=""))
    assert row["description"].startswith("'")
