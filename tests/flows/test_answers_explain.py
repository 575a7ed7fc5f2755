"""Answers explain themselves: why a job waits, what became of a dead letter, in one form."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from conftest import Api
from postdate.api.endpoints import ENDPOINTS
from support.api_ledger import open_ledger
from support.event import seal_all
from support.job import failed

pytestmark = pytest.mark.own_database("it seals the events of every tenant")

RETRY = {"backoff": "fixed", "initial_seconds": 60, "jitter": 0, "max_attempts": 3}
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d")
_UTC = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")


async def try_once(api: Api, retry: dict[str, Any], **report: Any) -> str:
    """Make a job, claim it, and report that it failed."""
    body = {"destination": {"type": "worker"}, "lane": "mail", "retry": retry}
    job_id = (await api.call("POST", "/jobs", body)).body["job_id"]
    [lease] = (await api.call("POST", "/lanes/mail/claim", {"max": 1})).body["leases"]
    report = {"token": lease["token"], "code": "smtp_down", "error": "no relay", **report}
    assert (await api.call("POST", f"/leases/{job_id}/fail", report)).status == 200
    return str(job_id)


@pytest.mark.parametrize(
    ("retry", "report", "status", "waiting_for"),
    [
        (RETRY, {}, "PENDING", "retry"),
        ({"on_unknown": "hold"}, {"unknown": True}, "UNKNOWN", "person"),
    ],
)
async def test_a_job_that_waits_after_an_attempt_tells_why(
    api: Api, retry: dict[str, Any], report: dict[str, Any], status: str, waiting_for: str
) -> None:
    job_id = await try_once(api, retry, **report)
    shown = (await api.call("GET", f"/jobs/{job_id}")).body
    [listed] = (await api.call("GET", f"/jobs?status={status}")).body["jobs"]
    [attempt] = (await api.call("GET", f"/jobs/{job_id}/attempts")).body["attempts"]
    for job in (shown, listed):
        assert (job["status"], job["waiting_for"]) == (status, waiting_for)
        assert (job["code"], job["error"]) == ("smtp_down", "no relay")
        assert job["worker_id"] == attempt["worker_id"]
        assert ("next_attempt_at" in job) == (waiting_for == "retry")


async def test_a_job_that_was_never_tried_waits_for_nothing_but_its_instant(api: Api) -> None:
    body = {"destination": {"type": "worker"}, "delay_seconds": 60}
    job = (await api.call("POST", "/jobs", body)).body
    shown = (await api.call("GET", f"/jobs/{job['job_id']}")).body
    assert {"waiting_for", "code", "error", "worker_id"}.isdisjoint(shown)


async def test_a_redriven_dead_letter_names_the_job_that_came_of_it(api: Api) -> None:
    redriven, left = await failed(api, 2)
    outcome = await api.call("POST", "/dead-letters/redrive", {"job_ids": [redriven]})
    new = outcome.body["outcomes"][0]["job_id"]
    listed = (await api.call("GET", "/dead-letters")).body["jobs"]
    assert {job["job_id"]: job.get("redriven_as") for job in listed} == {redriven: new, left: None}
    letter = (await api.call("GET", f"/dead-letters/{redriven}")).body
    assert letter["job"]["redriven_as"] == new


def lists_that_vanish(kind: Any) -> Iterator[str]:
    """Name the fields of an answer that are left out when they are empty lists."""
    info = inspect.type_info(kind)
    if not isinstance(info, inspect.StructType) or not info.cls.__struct_config__.omit_defaults:
        return
    for field in info.fields:
        if isinstance(field.type, inspect.ListType) and not field.required:
            yield f"{info.cls.__name__}.{field.name}"


def test_a_list_that_vanishes_is_found() -> None:
    vanishing = msgspec.defstruct("Page", [("jobs", list[int], [])], omit_defaults=True)
    assert list(lists_that_vanish(vanishing)) == ["Page.jobs"]


def test_no_answer_leaves_an_empty_list_out() -> None:
    assert [name for one in ENDPOINTS for name in lists_that_vanish(one.returns)] == []


@pytest.mark.parametrize(
    "path", [one.path for one in ENDPOINTS if one.method == "GET" and "{" not in one.path]
)
async def test_an_empty_list_has_its_key(api: Api, path: str) -> None:
    [endpoint] = [one for one in ENDPOINTS if (one.method, one.path) == ("GET", path)]
    info = inspect.type_info(endpoint.returns)
    answer = await api.call("GET", path)
    if not isinstance(info, inspect.StructType) or answer.status != 200:
        return
    for field in info.fields:
        if isinstance(field.type, inspect.ListType):
            assert isinstance(answer.body[field.encode_name], list), field.name


def times(value: Any) -> Iterator[str]:
    """Give every text of an answer that looks like an instant."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from times(each)
    if isinstance(value, str) and _TIME.match(value):
        yield value


async def test_every_instant_is_written_in_utc_with_a_z(api: Api) -> None:
    ledger = await open_ledger(api)
    payment = (await ledger.order(amount=5)).body["payment_id"]
    odd_zone = timezone(timedelta(hours=5, minutes=30))
    later = datetime.now(odd_zone) + timedelta(hours=1)
    moved = await api.call("PATCH", f"/payments/{payment}", {"scheduled_time": later.isoformat()})
    assert moved.status == 200
    job_id = await try_once(api, RETRY)
    refused = await ledger.order(amount=5, delay_seconds=10**9)
    await seal_all(api.node.database)
    paths = (
        f"/payments/{payment}",
        f"/payments/{payment}/events",
        f"/jobs/{job_id}",
        f"/jobs/{job_id}/attempts",
        "/accounts",
        "/events",
        "/audit",
    )
    answers = [(await api.call("GET", path)).body for path in paths]
    found = list(times([refused.body, answers]))
    assert len(found) > 15
    assert [each for each in found if not _UTC.match(each)] == []
