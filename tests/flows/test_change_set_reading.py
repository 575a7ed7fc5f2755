"""What is shown of a change set: no money without `payments:read`, no list without a bound."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from conftest import Api, Clock
from flows.test_change_set_undo import _account, _pay
from flows.test_change_sets import _do, _draft, _jobs
from postdate.change_set.change import change_set
from postdate.change_set.change.change import MAX_CHANGES
from postdate.change_set.change.change_set import MAX_PAGE_BYTES
from postdate.change_set.change.summary import MAX_LEFT
from postdate.core.ids import bucket_of
from support.page_text import has_word
from support.plain_browser import Browser

CANCEL = {"type": "cancel_payments", "filter": {"from_account_id": "ada"}}


async def _undone(api: Api) -> dict[str, Any]:
    """Make a set that was applied and undone: one payment came back, one no longer fits."""
    await _account(api, "ada", 1000)
    await _account(api, "rent")
    await _pay(api, 700)
    await _pay(api, 200)
    draft = await _draft(api, CANCEL)
    await _do(api, draft, "apply")
    await _pay(api, 700)
    return await _do(api, draft, "undo")


async def test_without_payments_read_no_amount_payment_or_account_is_shown(api: Api) -> None:
    found = await _undone(api)
    [step] = found["steps"]
    assert (step["payments"], step["amount"], step["restored"]) == (2, 900, 1)
    assert "insufficient_funds" in step["left"][0]
    where = f"/change-sets/{found['change_set_id']}"
    items = (await api.call("GET", f"{where}/items")).body["items"]
    assert len(items) == 2
    reads, writes = await api.new_key("jobs:read"), await api.new_key("payments:write")
    for key, count, left in ((reads, None, None), (writes, 2, 1)):
        one = (await api.call("GET", where, key=key)).body
        [listed] = (await api.call("GET", "/change-sets", key=key)).body["change_sets"]
        assert one == listed
        [step] = one["steps"]
        assert (step["payments"], step["amount"], step["restored"]) == (count, None, None)
        assert (step["left"], step["left_count"]) == ([], left)
        hidden = (await api.call("GET", f"{where}/items", key=key)).body
        assert hidden == {"items": [], "next_cursor": None}
        assert not has_word(json.dumps([one, listed]), "ada")
    made = (await api.call("POST", "/change-sets", {"changes": [CANCEL]}, key=writes)).body
    assert made["steps"][0]["amount"] is None
    assert (made["effect"]["moved_amount"], made["effect"]["released_amount"]) == (None, None)


async def test_the_console_shows_no_more_than_the_key_may_read(api: Api) -> None:
    found = await _undone(api)
    where = f"/change-sets/{found['change_set_id']}"
    async with Browser(api) as browser:
        await browser.sign_in()
        seen = (await browser.get(where)).text
        assert "payments of 900" in seen
        assert "insufficient_funds" in seen
        await browser.sign_in(await api.new_key("jobs:read"))
        for path in (where, "/change-sets"):
            seen = (await browser.get(path)).text
            assert "Cancel payments" in seen
            assert "%22ada%22" not in seen
            for secret in ("900", "insufficient_funds", "ada"):
                assert not has_word(seen, secret), (path, secret)
        assert "shown to keys that may read it" in (await browser.get(where)).text


async def test_items_are_paged_and_name_what_was_made_anew(api: Api) -> None:
    found = await _undone(api)
    where = f"/change-sets/{found['change_set_id']}/items"
    first = (await api.call("GET", f"{where}?limit=1")).body
    last = (await api.call("GET", f"{where}?limit=1&cursor={first['next_cursor']}")).body
    assert last["next_cursor"] is None
    items = [*first["items"], *last["items"]]
    assert all(each["changed"] and each["change"] == 0 and each["due_before"] for each in items)
    [anew] = [each["restored_as"] for each in items if each["restored_as"]]
    assert (await api.call("GET", f"/payments/{anew}")).body["amount"] == 200
    assert (await api.call("GET", f"{where}?cursor=bad")).body["code"] == "invalid_cursor"


async def test_a_list_of_large_sets_stays_small(api: Api) -> None:
    await _jobs(api, "mail", 1)
    draft = await _draft(api, {"type": "cancel_jobs", "filter": {"lane": "mail"}})
    change_set_id = UUID(draft["change_set_id"])
    applied = await _do(api, draft, "apply")
    # As applying one to 10,000 payments and undoing it leaves it: each a sentence and a new id.
    await api.node.database.writer.execute(
        """UPDATE change_set SET steps = jsonb_set(jsonb_set(steps, '{0,left}', (
             SELECT jsonb_agg(format('payment %s: insufficient_funds', gen_random_uuid()))
               FROM generate_series(1, 10000))), '{0,restored}', (
             SELECT jsonb_object_agg(gen_random_uuid(), gen_random_uuid())
               FROM generate_series(1, 10000)))
            WHERE bucket = $1 AND change_set_id = $2""",
        bucket_of(change_set_id),
        change_set_id,
    )
    for path in ("/change-sets", f"/change-sets/{change_set_id}"):
        seen = await api.call("GET", path)
        assert len(json.dumps(seen.body)) < 10_000, path
    [listed] = (await api.call("GET", "/change-sets")).body["change_sets"]
    assert listed["steps"] == applied["steps"]
    one = (await api.call("GET", f"/change-sets/{change_set_id}")).body
    assert (one["steps"][0]["restored"], one["steps"][0]["left_count"]) == (10_000, 10_000)
    assert len(one["steps"][0]["left"]) == 20


async def test_a_key_limited_to_accounts_neither_makes_nor_uses_a_set(api: Api) -> None:
    await _account(api, "ada", 1000)
    await _account(api, "rent")
    payment = await _pay(api, 700)
    draft = await _draft(api, CANCEL)
    wish = {"scopes": ["payments:read", "payments:write", "jobs:write"], "accounts": ["rent"]}
    key = (await api.call("POST", "/keys", wish)).body["key"]
    where = f"/change-sets/{draft['change_set_id']}"
    own = {"type": "cancel_payments", "filter": {"to_account_id": "rent"}}
    lane = {"type": "reschedule_jobs", "filter": {"lane": "mail"}, "to": {"delay_seconds": 5}}
    for change in (CANCEL, own, lane):
        refused = await api.call("POST", "/change-sets", {"changes": [change]}, key=key)
        assert refused.status == 403, change
    for method, path in (
        ("GET", "/change-sets"),
        ("GET", where),
        ("GET", f"{where}/items"),
        ("POST", f"{where}/apply"),
    ):
        assert (await api.call(method, path, key=key)).status == 403, path
    await _do(api, draft, "apply")
    assert (await api.call("POST", f"{where}/undo", key=key)).status == 403
    assert (await api.call("GET", f"/payments/{payment}")).body["status"] == "CANCELLED"
    async with Browser(api) as browser:
        await browser.sign_in(key)
        assert (await browser.get(where)).status == 403
        assert (await browser.get(f"{where}/undo")).status == 403


async def _large_sets(api: Api, count: int) -> list[str]:
    """Make sets as large as they may become: each change was undone and left payments behind."""
    made: list[str] = []
    lanes = [{"type": "pause_lane", "lane": f"{number:063}"} for number in range(MAX_CHANGES)]
    left = ["payment 01a1e1c8-dd23-7001-bd68-723753d52271: " + "x" * 900] * MAX_LEFT
    step = {"state": "undone", "changed": 10_000, "left": left, "left_count": 10_000}
    for lane in lanes:
        body = {"destination": {"type": "worker"}, "lane": lane["lane"], "delay_seconds": 600}
        assert (await api.call("POST", "/jobs", body)).status == 201
    for _ in range(count):
        made.append((await _draft(api, *lanes))["change_set_id"])
        await api.node.database.writer.execute(
            "UPDATE change_set SET status = 'UNDONE', summary = $3::text::jsonb "
            "WHERE bucket = $1 AND change_set_id = $2",
            bucket_of(UUID(made[-1])),
            UUID(made[-1]),
            json.dumps([step] * MAX_CHANGES),
        )
    return made[::-1]


async def test_a_page_of_the_largest_sets_is_bounded_and_goes_on(api: Api) -> None:
    """A hundred of them would be 40 MB: a page ends before, and says where the next begins."""
    made = await _large_sets(api, 7)
    found: list[str] = []
    cursor: str | None = ""
    pages = 0
    while cursor is not None:
        page = await api.call("GET", f"/change-sets?limit=100{cursor and f'&cursor={cursor}'}")
        assert len(json.dumps(page.body)) < 1.1 * MAX_PAGE_BYTES
        found += [one["change_set_id"] for one in page.body["change_sets"]]
        cursor, pages = page.body["next_cursor"], pages + 1
        assert page.body["change_sets"], "a page that says nothing would end the walk"
    assert found == made
    assert pages > 1
    # A limit that is smaller than that counts as before, and the last page says that it is.
    short = (await api.call("GET", "/change-sets?limit=2")).body
    assert [one["change_set_id"] for one in short["change_sets"]] == made[:2]
    rest = await api.call("GET", f"/change-sets?limit=2&cursor={short['next_cursor']}")
    assert [one["change_set_id"] for one in rest.body["change_sets"]] == made[2:4]
    async with Browser(api) as browser:
        await browser.sign_in()
        listed = (await browser.get("/change-sets")).text
        assert made[0] in listed
        assert "Next page" in listed


async def test_a_set_larger_than_a_page_is_shown_alone(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_set, "MAX_PAGE_BYTES", 10)
    made = await _large_sets(api, 2)
    first = (await api.call("GET", "/change-sets")).body
    assert [one["change_set_id"] for one in first["change_sets"]] == made[:1]
    last = (await api.call("GET", f"/change-sets?cursor={first['next_cursor']}")).body
    assert [one["change_set_id"] for one in last["change_sets"]] == made[1:]
    assert last["next_cursor"] is None


async def test_a_forged_set_pays_nothing_twice(api: Api) -> None:
    """Whoever writes into the table makes an undo believe that a live payment was cancelled."""
    await _account(api, "ada", 1000)
    await _account(api, "rent")
    payment = await _pay(api, 300)
    draft = await _draft(api, CANCEL)
    change_set_id = UUID(draft["change_set_id"])
    await api.node.database.writer.execute(
        """UPDATE change_set SET status = 'APPLIED', steps = jsonb_set(
             steps #- '{0,state}', '{0}', steps -> 0 || jsonb_build_object('state', 'done',
             'due', jsonb_build_object($3::text, clock() + interval '1 hour')))
            WHERE bucket = $1 AND change_set_id = $2""",
        bucket_of(change_set_id),
        change_set_id,
        payment,
    )
    undone = await _do(api, draft, "undo")
    assert undone["steps"][0]["restored"] == 0
    assert (await api.call("GET", "/accounts/ada")).body["held"] == 300


async def test_a_repeated_request_shows_no_more_than_its_own_key_may_read(api: Api) -> None:
    await _account(api, "ada", 1000)
    await _account(api, "rent")
    await _pay(api, 700)
    body, headers = {"changes": [CANCEL]}, {"Idempotency-Key": "same"}
    made = await api.call("POST", "/change-sets", body, headers=headers)
    assert made.body["effect"]["moved_amount"] == 700
    writes, reads = await api.new_key("payments:write"), await api.new_key("jobs:read")
    again = await api.call("POST", "/change-sets", body, headers=headers, key=writes)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.body["change_set_id"] == made.body["change_set_id"]
    assert again.body["steps"][0]["amount"] is None
    assert not has_word(json.dumps([again.body["steps"], again.body["effect"]]), "700")
    assert not has_word(json.dumps(again.body), "ada")
    refused = await api.call("POST", "/change-sets", body, headers=headers, key=reads)
    assert refused.status == 403
    whole = await api.call("POST", "/change-sets", body, headers=headers)
    assert whole.body == made.body


async def test_a_repeated_request_is_answered_though_it_could_no_longer_be_made(
    api: Api, clock: Clock
) -> None:
    await _jobs(api, "mail", 1)
    at = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    move = {
        "type": "reschedule_payments",
        "filter": {"due_after": at},
        "to": {"scheduled_time": at},
    }
    body, headers = {"changes": [move]}, {"Idempotency-Key": "late"}
    made = await api.call("POST", "/change-sets", body, headers=headers)
    assert made.status == 201
    await clock.advance(3600)
    again = await api.call("POST", "/change-sets", body, headers=headers)
    assert (again.status, again.body) == (201, made.body)
