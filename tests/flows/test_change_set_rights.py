"""Every kind of change with every scope: a key sees of a set what it may read elsewhere."""

import json
import re
from typing import Any, Final

import pytest

from conftest import Api
from flows.test_change_set_undo import _account, _pay
from flows.test_change_sets import _draft, _jobs
from postdate.api.endpoints import ENDPOINTS
from postdate.change_set.api import change_set_view
from postdate.change_set.change.change import SCOPES
from postdate.core.identity import Scope
from postdate.foresight.view.effect import ChangeEffect
from support.plain_browser import Browser

pytestmark = pytest.mark.own_database("foresight reads the due work of every tenant")

ELSEWHERE: Final = {
    "pause_lane": "list_lanes",
    "limit_lane": "list_lanes",
    "pause_schedule": "list_schedules",
    "change_policy": "list_schedules",
    "freeze": "list_halts",
    "halt": "list_halts",
    "put_setting": "list_settings",
    "reschedule_jobs": "list_jobs",
    "cancel_jobs": "list_jobs",
    "reschedule_payments": "list_payments",
    "cancel_payments": "list_payments",
}
"""The operation that shows what a change of each kind is about."""

KINDS: Final = {str(kind.__struct_config__.tag): kind for kind in SCOPES}
COUNTS: Final = ("jobs", "payments", "more", "changed", "left_count")
DETAILS: Final = ("amount", "restored")


def reads(scope: Scope, kind: str) -> bool:
    """Return whether a key of one scope may see elsewhere what the change is about."""
    needed = {each.handler.__name__: each.scope for each in ENDPOINTS}[ELSEWHERE[kind]]
    return needed == "any" or scope in {needed, Scope.ADMIN}


def may_make(scope: Scope, kind: str) -> bool:
    return scope in {SCOPES[KINDS[kind]], Scope.ADMIN}


async def _schedule(api: Api) -> str:
    template = {"job": {"destination": {"type": "worker"}}}
    made = await api.call("POST", "/schedules", {"every_seconds": 3600, "template": template})
    return str(made.body["schedule_id"])


async def _changes(api: Api) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Return a change of each kind, and the words that tell what it is about."""
    for lane in ("moved-lane", "ended-lane", "paused-lane", "limited-lane"):
        await _jobs(api, lane, 2)
    for name in ("ada", "eve"):
        await _account(api, name, 10_000)
    await _account(api, "rent")
    await _pay(api, 7919)
    paused, other = await _schedule(api), await _schedule(api)
    later = {"delay_seconds": 7200}
    until = "2035-01-01T00:00:00Z"
    return {
        "pause_lane": ({"lane": "paused-lane"}, ["paused-lane"]),
        "limit_lane": ({"lane": "limited-lane", "rate_per_second": 123.0}, ["limited-lane"]),
        "pause_schedule": ({"schedule_id": paused}, [paused]),
        "change_policy": ({"schedule_id": other, "jitter_seconds": 17}, [other]),
        "freeze": ({"until_at": until}, [until]),
        "put_setting": ({"name": "job.max_attempts", "value": 7}, ["job.max_attempts"]),
        "reschedule_jobs": ({"filter": {"lane": "moved-lane"}, "to": later}, ["moved-lane"]),
        "cancel_jobs": ({"filter": {"lane": "ended-lane"}}, ["ended-lane"]),
        "reschedule_payments": ({"filter": {"from_account_id": "eve"}, "to": later}, ["eve"]),
        "cancel_payments": ({"filter": {"from_account_id": "ada"}}, ["ada", "7919"]),
        "halt": ({}, []),
    }


def _check(scope: Scope, shown: dict[str, Any], words: dict[str, list[str]]) -> None:
    for change, step in zip(shown["changes"], shown["steps"], strict=True):
        kind, text = step["type"], json.dumps([change, step])
        sees, counts = reads(scope, kind), reads(scope, kind) or may_make(scope, kind)
        assert step["state"] == "planned"
        assert (change is not None) == sees, (scope, kind)
        assert all((word in text) == sees for word in words[kind]), (scope, kind)
        assert all((step[name] is not None) == sees for name in DETAILS), (scope, kind)
        assert all((step[name] is not None) == counts for name in COUNTS), (scope, kind)


async def test_every_kind_of_change_with_every_scope(api: Api) -> None:
    known = await _changes(api)
    assert known.keys() == KINDS.keys()
    draft = await _draft(api, *({"type": kind, **given} for kind, (given, _) in known.items()))
    words = {kind: told for kind, (_, told) in known.items()}
    where = f"/change-sets/{draft['change_set_id']}"
    for scope in Scope:
        key = await api.new_key(scope)
        one = (await api.call("GET", where, key=key)).body
        [listed] = (await api.call("GET", "/change-sets", key=key)).body["change_sets"]
        assert one == listed
        _check(scope, one, words)
        async with Browser(api) as browser:
            await browser.sign_in(key)
            for path in ("/change-sets", where):
                page = (await browser.get(path)).text
                page = page[page.index("<main") : page.index("</main>")]
                hidden = [
                    word for kind, told in words.items() if not reads(scope, kind) for word in told
                ]
                found = [word for word in hidden if re.search(rf"\b{re.escape(word)}\b", page)]
                assert found == [], (scope, path)


@pytest.mark.parametrize("scope", [each for each in Scope if str(each).endswith(":write")])
async def test_who_makes_a_draft_sees_of_its_effect_what_the_key_may_read(
    api: Api, scope: Scope
) -> None:
    known = await _changes(api)
    own = [{"type": kind, **given} for kind, (given, _) in known.items() if may_make(scope, kind)]
    body = {"changes": own, "note": "x"}
    headers = {"Idempotency-Key": "kept"}
    whole = await api.call("POST", "/change-sets", body, headers=headers)
    assert None not in whole.body["changes"]
    key = await api.new_key(scope)
    kept = await api.call("POST", "/change-sets", body, headers=headers, key=key)
    made = await api.call("POST", "/change-sets", body, key=key)
    both = await api.new_key(scope, str(scope).replace("write", "read"))
    fuller = await api.call("POST", "/change-sets", body, headers=headers, key=both)
    assert fuller.body["changes"] == whole.body["changes"]
    for answer in (kept, made):
        assert (answer.status, set(answer.body["changes"])) == (201, {None})
        effect = answer.body["effect"]
        assert effect["moved"] == whole.body["effect"]["moved"]
        hidden = ("moved_amount", "released_amount", "failing_before", "failing_after")
        assert [effect[name] for name in hidden] == [None] * 4
        assert (effect["failing"], effect["queues_before"], effect["queues_after"]) == ([], [], [])
    seen = fuller.body["effect"]
    assert (seen["failing_before"] is not None) == (scope is Scope.PAYMENTS_WRITE)
    assert bool(seen["queues_before"]) == (scope is Scope.JOBS_WRITE)


async def test_a_refusal_that_is_repeated_stays_a_refusal(api: Api) -> None:
    body = {"changes": [{"type": "pause_lane", "lane": "nowhere"}]}
    key = await api.new_key("jobs:write")
    for _ in range(2):
        told = await api.call(
            "POST", "/change-sets", body, key=key, headers={"Idempotency-Key": "no"}
        )
        assert (told.status, told.body["code"]) == (404, "not_found")


def test_every_field_is_covered() -> None:
    step, effect = change_set_view.STEP_COVER, change_set_view.EFFECT_COVER
    assert set(change_set_view.StepView.__struct_fields__) == set(step)
    assert set(ChangeEffect.__struct_fields__) == set(effect)
    assert change_set_view.READ_SCOPES.keys() == SCOPES.keys()


@pytest.mark.parametrize("kind", ["cancel_payments", "reschedule_payments"])
async def test_a_lesser_key_does_not_end_the_set_of_an_admin(api: Api, kind: str) -> None:
    for name in ("ada", "rent"):
        await _account(api, name, 1000)
    await _pay(api, 700)
    change = {"type": kind, "filter": {"from_account_id": "ada"}}
    if kind == "reschedule_payments":
        change["to"] = {"delay_seconds": 7200}
    draft = await _draft(api, change)
    where = f"/change-sets/{draft['change_set_id']}"
    assert (await api.call("POST", f"{where}/apply")).status == 200
    wish = {"scopes": ["payments:write", "payments:read"], "max_amount": 100}
    key = (await api.call("POST", "/keys", wish)).body["key"]
    refused = await api.call("POST", f"{where}/undo", key=key)
    assert (refused.status, refused.body["code"]) == (403, "forbidden")
    shown = (await api.call("GET", where)).body
    assert (shown["status"], shown["steps"][0]["left"]) == ("APPLIED", [])
    undone = (await api.call("POST", f"{where}/undo")).body
    assert (undone["status"], undone["steps"][0]["left"]) == ("UNDONE", [])
    pending = (await api.call("GET", "/payments?account_id=ada&status=PENDING")).body["payments"]
    assert [each["amount"] for each in pending] == [700]


async def test_a_pause_is_undone_only_by_a_key_that_could_run_the_schedule(api: Api) -> None:
    schedule_id = await _schedule(api)
    draft = await _draft(api, {"type": "pause_schedule", "schedule_id": schedule_id})
    where = f"/change-sets/{draft['change_set_id']}"
    assert (await api.call("POST", f"{where}/apply")).status == 200
    key = await api.new_key("schedules:write")
    assert (await api.call("POST", f"{where}/undo", key=key)).status == 403
    assert (await api.call("GET", where)).body["status"] == "APPLIED"
    assert (await api.call("POST", f"{where}/undo")).body["status"] == "UNDONE"
