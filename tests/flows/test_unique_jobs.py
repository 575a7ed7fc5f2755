"""One waiting job per unique key: keep, replace, debounce."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from conftest import Answered, Api

WORKER = {"type": "worker"}
HOOK = {"type": "webhook", "url": "https://example.com/hook"}


def rule(on_conflict: str = "keep", key: str = "reindex-7", **more: Any) -> dict[str, Any]:
    return {"key": key, "on_conflict": on_conflict, **more}


DEBOUNCE = rule("debounce", max_delay_seconds=100)


async def post(
    api: Api, unique: dict[str, Any], key: str | None = None, **members: Any
) -> Answered:
    body = {"destination": WORKER, "delay_seconds": 50, "unique": unique, **members}
    return await api.call("POST", "/jobs", body, headers={"Idempotency-Key": key} if key else {})


async def shown(api: Api, job_id: str) -> dict[str, Any]:
    return dict((await api.call("GET", f"/jobs/{job_id}")).body)


async def told(api: Api, job_id: str) -> list[str]:
    database, query = api.node.database, "SELECT type FROM event WHERE subject = $1 ORDER BY time"
    return [row[0] for row in await database.writer.fetch(query, job_id)]


async def claimed(api: Api) -> dict[str, Any]:
    body = {"max": 1, "lease_seconds": 60, "wait_seconds": 0}
    leases = (await api.call("POST", "/lanes/default/claim", body)).body["leases"]
    assert len(leases) == 1
    return dict(leases[0])


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def test_keep_answers_the_waiting_job(api: Api) -> None:
    first = await post(api, rule(), payload=1)
    second = await post(api, rule(), payload=2, delay_seconds=90)
    assert (first.status, second.status) == (201, 200)
    assert "deduplicated" not in first.body
    assert second.body == {**first.body, "deduplicated": True}
    seen = await shown(api, first.body["job_id"])
    assert (seen["payload"], seen["unique"]) == (1, {"key": "reindex-7"})
    assert "deduplicated" not in seen
    assert await told(api, first.body["job_id"]) == []


async def test_keep_is_the_default(api: Api) -> None:
    first = await post(api, {"key": "x"})
    assert (await post(api, {"key": "x"})).body["job_id"] == first.body["job_id"]


async def test_replace_gives_the_waiting_job_the_new_payload_due_time_and_policies(
    api: Api,
) -> None:
    first = await post(api, rule("replace"), payload=1, retry={"max_attempts": 9})
    second = await post(
        api, rule("replace"), payload=[2], delay_seconds=90, retry={"max_attempts": 2}
    )
    assert (second.status, second.body["deduplicated"]) == (200, True)
    assert second.body["job_id"] == first.body["job_id"]
    seen = await shown(api, first.body["job_id"])
    assert (seen["payload"], seen["revision"], seen["retry"]) == ([2], 1, {"max_attempts": 2})
    without = {name: value for name, value in seen.items() if name != "payload"}
    assert {**without, "deduplicated": True} == second.body
    moved = instant(seen["due_at"]) - instant(first.body["due_at"])
    assert timedelta(seconds=39) < moved < timedelta(seconds=60)
    assert await told(api, first.body["job_id"]) == ["job.replaced"]


async def test_a_replaced_job_runs_with_what_it_was_replaced_by(api: Api) -> None:
    await post(api, rule("replace"), payload={"old": True})
    second = await post(api, rule("replace"), delay_seconds=0)
    assert second.body["status"] == "READY"
    lease = await claimed(api)
    assert (lease["job_id"], lease.get("payload")) == (second.body["job_id"], None)


@pytest.mark.parametrize(
    ("field", "members"), [("lane", {"lane": "other"}), ("destination", {"destination": HOOK})]
)
async def test_replace_does_not_move_a_job_elsewhere(
    api: Api, field: str, members: dict[str, Any]
) -> None:
    first = await post(api, rule("replace"))
    refused = await post(api, rule("replace"), **members)
    assert (refused.status, refused.body["code"], refused.body["field"]) == (409, "conflict", field)
    assert refused.body["job_id"] == first.body["job_id"]
    assert (await post(api, rule("keep"), **members)).status == 200


async def test_debounce_moves_the_due_time_up_to_the_longest_delay(api: Api) -> None:
    first = await post(api, DEBOUNCE, payload=1)
    second = await post(api, DEBOUNCE, payload=2, delay_seconds=70)
    last = await post(api, rule("debounce", max_delay_seconds=90), delay_seconds=89.99)
    assert [second.status, last.status] == [200, 200]
    assert (
        timedelta(seconds=15)
        < (instant(second.body["due_at"]) - instant(first.body["due_at"]))
        < timedelta(seconds=40)
    )
    created = instant(first.body["created_at"])
    assert instant(last.body["effective_at"]) <= created + timedelta(seconds=90)
    seen = await shown(api, first.body["job_id"])
    assert (seen["payload"], seen["due_at"]) == (1, last.body["due_at"])
    assert await told(api, first.body["job_id"]) == ["job.debounced"] * 2


async def test_debounce_leaves_a_job_that_is_due_and_would_be_so(api: Api) -> None:
    first = await post(api, DEBOUNCE, delay_seconds=0)
    again = await post(api, DEBOUNCE, delay_seconds=0)
    assert again.body == {**first.body, "deduplicated": True}


async def test_a_running_job_is_not_touched(api: Api) -> None:
    first = await post(api, rule("replace"), delay_seconds=0)
    lease = await claimed(api)
    assert lease["job_id"] == first.body["job_id"]
    behind = await post(api, rule("replace"))
    assert (behind.status, behind.body["job_id"] != first.body["job_id"]) == (201, True)
    again = await post(api, rule("replace"))
    assert (again.status, again.body["job_id"]) == (200, behind.body["job_id"])
    assert (await shown(api, first.body["job_id"]))["status"] == "RUNNING"


async def retried(api: Api, lease: dict[str, Any]) -> None:
    body = {"token": lease["token"], "error": "no"}
    answer = await api.call("POST", f"/leases/{lease['job_id']}/fail", body)
    assert answer.status == 200, answer.body
    assert (await shown(api, lease["job_id"]))["status"] in {"PENDING", "READY"}


async def test_a_job_that_retries_holds_its_key_again(api: Api) -> None:
    first = await post(api, rule(), delay_seconds=0)
    await retried(api, await claimed(api))
    again = await post(api, rule())
    assert (again.status, again.body["job_id"]) == (200, first.body["job_id"])


async def test_a_job_that_retries_leaves_the_key_to_the_job_behind_it(api: Api) -> None:
    first = await post(api, rule(), delay_seconds=0)
    lease = await claimed(api)
    behind = await post(api, rule())
    await retried(api, lease)
    again = await post(api, rule())
    assert (again.status, again.body["job_id"]) == (200, behind.body["job_id"])
    assert first.body["job_id"] != behind.body["job_id"]


async def test_an_ended_job_leaves_its_key(api: Api) -> None:
    first = await post(api, rule())
    await api.call("POST", f"/jobs/{first.body['job_id']}/cancel")
    assert (await post(api, rule())).status == 201


async def test_keys_of_tenants_and_case_are_apart(api: Api) -> None:
    made = [await post(api, rule(key=key)) for key in ("a", "A", "a ", "ä", "\U0001f600" * 255)]
    assert [each.status for each in made] == [201] * 5


async def test_a_batch_has_one_waiting_job_per_key(api: Api) -> None:
    jobs = [
        {"destination": WORKER, "unique": rule(way), "delay_seconds": 50, "payload": number}
        for number, way in enumerate(["keep", "keep", "replace", "replace", "keep"])
    ]
    answer = (await api.call("POST", "/jobs/batch", {"jobs": jobs})).body
    assert [each["status"] for each in answer["outcomes"]] == [201, 200, 200, 200, 200]
    assert len({each["job"]["job_id"] for each in answer["outcomes"]}) == 1
    seen = await shown(api, answer["outcomes"][0]["job"]["job_id"])
    assert (seen["payload"], seen["revision"]) == (3, 2)
    assert (answer["accepted"], answer["refused"]) == (5, 0)


async def test_the_same_key_and_body_get_the_stored_answer(api: Api) -> None:
    first = await post(api, rule("replace"), payload=1)
    second = await post(api, rule("replace"), key="k", payload=2)
    await post(api, rule("replace"), payload=3)
    again = await post(api, rule("replace"), key="k", payload=2)
    assert (again.status, again.body) == (200, second.body)
    assert again.headers["idempotency-replayed"] == "true"
    assert (await shown(api, first.body["job_id"]))["payload"] == 3
    other = await post(api, rule("replace"), key="k", payload=4)
    assert (other.status, other.body["differs"]) == (422, ["payload"])


async def test_a_job_made_under_both_keys_is_answered_again(api: Api) -> None:
    first = await post(api, rule(), key="k")
    again = await post(api, rule(), key="k")
    assert (again.status, again.body) == (201, first.body)
    other = await post(api, rule(key="other"), key="k")
    assert (other.status, other.body["differs"]) == (422, ["unique"])


@pytest.mark.parametrize(
    ("unique", "field"),
    [
        ({}, "unique.key"),
        ({"key": ""}, "unique.key"),
        ({"key": "x" * 256}, "unique.key"),
        ({"key": "a\nb"}, "unique.key"),
        ({"key": "a\n"}, "unique.key"),
        ({"key": "\x7f"}, "unique.key"),
        ({"key": "\x85"}, "unique.key"),
        ({"key": 7}, "unique.key"),
        ({"key": "a", "on_conflict": "drop"}, "unique.on_conflict"),
        ({"key": "a", "on_conflict": "debounce"}, "unique.max_delay_seconds"),
        ({"key": "a", "max_delay_seconds": 60}, "unique.max_delay_seconds"),
        (rule("replace", max_delay_seconds=60), "unique.max_delay_seconds"),
        (rule("debounce", max_delay_seconds=0), "unique.max_delay_seconds"),
        (rule("debounce", max_delay_seconds=1e9), "unique.max_delay_seconds"),
        (rule("debounce", max_delay_seconds=49), "unique.max_delay_seconds"),
        ({"key": "a", "ttl": 1}, "unique.ttl"),
        ("a", "unique"),
    ],
)
async def test_a_bad_rule_is_refused_by_name(api: Api, unique: Any, field: str) -> None:
    answer = await post(api, unique)
    assert (answer.status, answer.body["field"]) == (422, field), answer.body


async def test_many_calls_at_once_make_one_waiting_job(api: Api) -> None:
    answers = await asyncio.gather(*(post(api, rule(), payload=n) for n in range(200)))
    assert sorted(each.status for each in answers) == [200] * 199 + [201]
    assert len({each.body["job_id"] for each in answers}) == 1


async def test_jobs_are_listed_by_unique_key_and_by_destination(api: Api) -> None:
    made = await api.call(
        "POST", "/destinations", {"name": "shop", "type": "webhook", "url": "https://example.com/"}
    )
    assert made.status == 201, made.body
    to = {"type": "webhook", "name": "shop"}
    named = (await post(api, rule(key="a"), destination=to)).body["job_id"]
    other = (await post(api, rule(key="b"))).body["job_id"]
    for query, wanted in (
        ("unique=a", [named]),
        ("unique=b&status=PENDING", [other]),
        ("unique=b&status=FAILED", []),
        ("unique=c", []),
        ("destination=shop", [named]),
        ("destination=shop&status=PENDING", [named]),
        ("destination=shop&status=CANCELLED", []),
        ("destination=nowhere", []),
    ):
        listed = (await api.call("GET", f"/jobs?{query}")).body["jobs"]
        assert [each["job_id"] for each in listed] == wanted, query
    filtered = {"filter": {"unique": "b"}, "dry_run": True}
    assert (await api.call("POST", "/jobs/bulk/cancel", filtered)).body["matched"] == {"PENDING": 1}
    shown = (await api.call("GET", "/dead-letters?unique=b")).body
    assert shown["jobs"] == []
    redriven = {"filter": {"unique": "b", "destination": "shop"}}
    assert (await api.call("POST", "/dead-letters/redrive", redriven)).status == 200
