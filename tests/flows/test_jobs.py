"""Register, show and list jobs over HTTP."""

from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest

from conftest import Api

WORKER = {"type": "worker"}
HOOK = {"type": "webhook", "url": "https://example.com/hook"}
KEY = {"Idempotency-Key": "one"}


async def made(api: Api, **members: Any) -> dict[str, Any]:
    answer = await api.call("POST", "/jobs", {"destination": WORKER, **members})
    assert answer.status == 201, answer.body
    return dict(answer.body)


async def counts(api: Api) -> int:
    """How much there is of anything a job writes, for every tenant."""
    return int(
        await api.node.database.writer.fetchval(
            """SELECT (SELECT count(*) FROM job) + (SELECT count(*) FROM timer)
                    + (SELECT count(*) FROM event) + (SELECT count(*) FROM idempotency)
                    + (SELECT count(*) FROM lane)"""
        )
    )


async def test_bytes_that_say_they_are_json_are_shown_as_json(api: Api) -> None:
    job = await made(api, payload_base64="eyJhIjogMX0=", content_type="application/json")
    shown = (await api.call("GET", f"/jobs/{job['job_id']}")).body
    assert (shown["payload"], shown["content_type"]) == ({"a": 1}, "application/json")


async def test_a_job_is_shown_as_it_was_asked_for(api: Api) -> None:
    asked = {
        "destination": HOOK,
        "run_at": "2030-01-01T00:00:00Z",
        "payload": {"hello": ["world", None, 1.5]},
        "retry": {"max_attempts": 3, "backoff": "linear"},
        "timeout_seconds": 5,
        "expires_at": "2030-01-02T00:00:00Z",
        "spread_seconds": 600,
        "lane": "mail",
        "key": "customer \u2603 17",
        "priority": 2,
        "metadata": {"order": 17},
        "description": "greets",
    }
    answer = await api.call("POST", "/jobs", asked)
    assert answer.status == 201
    shown = (await api.call("GET", f"/jobs/{answer.body['job_id']}")).body
    assert {**shown, **asked, "due_at": "2030-01-01T00:00:00Z", "timeout_seconds": 5.0} == shown | {
        "run_at": "2030-01-01T00:00:00Z"
    }
    assert shown["status"] == "PENDING"
    assert "2030-01-01T00:00:00Z" <= shown["effective_at"] < "2030-01-01T00:10:00Z"
    assert shown["payload"] == asked["payload"]
    without = {name: value for name, value in shown.items() if name != "payload"}
    assert without == answer.body


async def test_without_a_time_a_job_is_due_now(api: Api) -> None:
    assert (await made(api))["status"] == "READY"
    assert (await made(api, delay_seconds=0))["status"] == "READY"
    assert (await made(api, delay_seconds=60))["status"] == "PENDING"


async def test_a_time_a_little_past_runs_now(api: Api, clock: Any) -> None:
    run_at = (await made(api))["created_at"]
    await clock.advance(1800)
    job = await made(api, run_at=run_at)
    assert job["due_at"] == run_at
    assert job["effective_at"] == job["created_at"] > run_at
    await clock.advance(3600)
    answer = await api.call("POST", "/jobs", {"destination": WORKER, "run_at": run_at})
    assert (answer.status, answer.body["code"]) == (422, "due_in_past")


async def test_an_opaque_payload_comes_back_byte_for_byte(api: Api) -> None:
    data = b64encode(bytes(range(256))).decode()
    job = await made(api, payload_base64=data, content_type="image/png")
    shown = (await api.call("GET", f"/jobs/{job['job_id']}")).body
    assert (shown["payload_base64"], shown["content_type"]) == (data, "image/png")


async def test_a_payload_of_null_is_a_payload(api: Api) -> None:
    job = await made(api, payload=None)
    shown = (await api.call("GET", f"/jobs/{job['job_id']}")).body
    assert "payload" in shown
    assert shown["payload"] is None
    job = await made(api, payload_ref="s3://bucket/key")
    shown = (await api.call("GET", f"/jobs/{job['job_id']}")).body
    assert "payload" not in shown
    assert shown["payload_ref"] == "s3://bucket/key"


BAD: list[tuple[dict[str, Any], int, str, str | None]] = [
    ({"destination": None}, 422, "invalid_field", "destination"),
    ({"destination": {"type": "fax"}}, 422, "invalid_field", "destination.type"),
    ({"destination": {"type": "webhook"}}, 422, "invalid_field", "destination"),
    ({"destination": {**HOOK, "name": "x"}}, 422, "invalid_field", "destination"),
    ({"destination": {**WORKER, "url": "x"}}, 422, "unknown_field", "destination.url"),
    ({"destination": {**HOOK, "url": "nope"}}, 422, "invalid_field", "destination.url"),
    ({"destination": {**HOOK, "url": "ftp://a.example/"}}, 422, "invalid_field", "destination.url"),
    (
        {"destination": {**HOOK, "url": "http://10.0.0.1/"}},
        422,
        "target_not_allowed",
        "destination.url",
    ),
    (
        {"destination": {"type": "webhook", "name": "nobody"}},
        422,
        "unknown_destination",
        "destination.name",
    ),
    (
        {"destination": {"type": "queue", "name": "nobody"}},
        422,
        "unknown_destination",
        "destination.name",
    ),
    ({"run_at": "2001-01-01T00:00:00Z"}, 422, "due_in_past", "run_at"),
    ({"run_at": "2099-01-01T00:00:00Z"}, 422, "beyond_horizon", "run_at"),
    ({"run_at": "2030-01-01T00:00:00"}, 422, "invalid_field", "run_at"),
    ({"run_at": "2030-01-01T00:00:00Z", "delay_seconds": 1}, 422, "invalid_field", "delay_seconds"),
    ({"delay_seconds": -1}, 422, "invalid_field", "delay_seconds"),
    ({"delay_seconds": 4_000_000_000}, 422, "beyond_horizon", "delay_seconds"),
    ({"payload": "x" * (256 * 1024)}, 413, "payload_too_large", "payload"),
    ({"payload": 1, "payload_ref": "x"}, 422, "invalid_field", "payload"),
    ({"payload": 1, "payload_base64": "eA=="}, 422, "invalid_field", "payload"),
    (
        {"payload_base64": "", "content_type": "application/json"},
        422,
        "invalid_field",
        "payload_base64",
    ),
    (
        {"payload_base64": "eyI=", "content_type": "application/json"},
        422,
        "invalid_field",
        "payload_base64",
    ),
    ({"payload_base64": "eA"}, 422, "invalid_field", "payload_base64"),
    ({"content_type": "text/plain"}, 422, "invalid_field", "content_type"),
    ({"payload": 1, "content_type": "a\r\nb: c"}, 422, "invalid_field", "content_type"),
    ({"lane": "no spaces"}, 422, "invalid_field", "lane"),
    ({"lane": ""}, 422, "invalid_field", "lane"),
    ({"lane": "x" * 64}, 422, "invalid_field", "lane"),
    ({"retry": {"max_attempts": 0}}, 422, "invalid_field", "retry.max_attempts"),
    ({"retry": {"backoff": "never"}}, 422, "invalid_field", "retry.backoff"),
    ({"retry": {"tries": 3}}, 422, "unknown_field", "retry.tries"),
    ({"timeout_seconds": 0}, 422, "invalid_field", "timeout_seconds"),
    ({"expires_at": "2001-01-01T00:00:00Z"}, 422, "invalid_field", "expires_at"),
    ({"expires_at": "9999-12-31T23:59:59-14:00"}, 422, "beyond_horizon", "expires_at"),
    ({"run_at": "9999-12-31T23:59:59-14:00"}, 422, "beyond_horizon", "run_at"),
    ({"run_at": "0001-01-01T00:00:00+14:00"}, 422, "due_in_past", "run_at"),
    ({"spread_seconds": -1}, 422, "invalid_field", "spread_seconds"),
    ({"key": ""}, 422, "invalid_field", "key"),
    ({"key": "k" * 256}, 422, "invalid_field", "key"),
    ({"key": "a\nb"}, 422, "invalid_field", "key"),
    ({"key": "a\n"}, 422, "invalid_field", "key"),
    ({"key": "a\u0000"}, 422, "invalid_field", None),
    ({"key": "\u0085"}, 422, "invalid_field", "key"),
    ({"key": 7}, 422, "invalid_field", "key"),
    ({"priority": -1}, 422, "invalid_field", "priority"),
    ({"priority": 10}, 422, "invalid_field", "priority"),
    ({"priority": None}, 422, "invalid_field", "priority"),
    ({"priority": 1.5}, 422, "invalid_field", "priority"),
    ({"metadata": {"x": "y" * 5000}}, 422, "invalid_field", "metadata"),
    ({"status": "COMPLETED"}, 422, "unknown_field", "status"),
    ({"job_id": "x"}, 422, "unknown_field", "job_id"),
]


@pytest.mark.parametrize(("members", "status", "code", "field"), BAD)
async def test_bad_input_is_refused_by_name_and_writes_nothing(
    api: Api, members: dict[str, Any], status: int, code: str, field: str | None
) -> None:
    before = await counts(api)
    answer = await api.call("POST", "/jobs", {"destination": WORKER, **members}, headers=KEY)
    assert (answer.status, answer.body["code"], answer.body.get("field")) == (status, code, field)
    assert await counts(api) == before


async def test_a_payload_that_is_not_utf8_is_refused(api: Api) -> None:
    headers = {"Authorization": f"Bearer {api.key}", "Content-Type": "application/json"}
    body = b'{"destination":{"type":"worker"},"payload":"\xff"}'
    url = f"{api.url}/api/v1/jobs"
    async with api.session.post(url, data=body, headers=headers) as answer:
        told = await answer.json(content_type=None)
        assert (answer.status, told["detail"]) == (400, "The body is not valid UTF-8.")


async def test_another_tenants_job_looks_missing(api: Api, edge_server: Api) -> None:
    job = await made(api)
    other = f"other-{job['job_id'][:8]}"
    from postdate.tenant.change.tenant import Tenants

    await Tenants(api.node.database).create(other)
    key = await edge_server.new_key("admin", tenant=other)
    for path in (f"/jobs/{job['job_id']}", f"/jobs/{job['job_id']}/attempts"):
        answer = await api.call("GET", path, key=key)
        absent = await api.call("GET", path.replace(job["job_id"][-4:], "0000"), key=key)
        assert (answer.status, answer.body["code"]) == (404, "not_found")
        assert absent.status == 404
    assert (await api.call("GET", "/jobs", key=key)).body == {"jobs": [], "next_cursor": None}


async def test_the_same_key_gives_the_same_job(api: Api) -> None:
    body = {"destination": WORKER, "payload": {"b": 1, "a": 2}, "delay_seconds": 60}
    first = await api.call("POST", "/jobs", body, headers=KEY)
    again = await api.call(
        "POST", "/jobs", {**body, "payload": {"a": 2, "b": 1}, "lane": "default"}, headers=KEY
    )
    assert (again.status, again.body) == (201, first.body)
    assert again.headers["idempotency-replayed"] == "true"
    other = await api.call("POST", "/jobs", {**body, "delay_seconds": 61}, headers=KEY)
    assert (other.status, other.body["code"]) == (422, "idempotency_key_reused")
    assert other.body["differs"] == ["delay_seconds"]
    assert len((await api.call("GET", "/jobs")).body["jobs"]) == 1


async def test_a_batch_has_one_outcome_for_each_item(api: Api) -> None:
    item = {"destination": WORKER, "idempotency_key": "k1"}
    body = {
        "jobs": [
            item,
            {"destination": WORKER, "run_at": "2001-01-01T00:00:00Z"},
            item,
            {**item, "lane": "other"},
            {"destination": WORKER, "lane": "other"},
        ]
    }
    answer = await api.call("POST", "/jobs/batch", body)
    assert (answer.status, answer.body["accepted"], answer.body["refused"]) == (200, 3, 2)
    outcomes = answer.body["outcomes"]
    assert [outcome["status"] for outcome in outcomes] == [201, 422, 201, 422, 201]
    assert outcomes[2]["replayed"]
    assert outcomes[2]["job"] == outcomes[0]["job"]
    assert outcomes[1]["problem"]["code"] == "due_in_past"
    assert outcomes[3]["problem"]["code"] == "idempotency_key_reused"
    assert len((await api.call("GET", "/jobs")).body["jobs"]) == 2


async def test_a_refused_item_is_decided_anew_and_never_replayed(api: Api) -> None:
    """The refusal of a job is not kept under its key: whoever repeats it may be right by then."""
    # With its lane there, a job is refused where its key is looked at.
    assert (await api.call("POST", "/jobs", {"destination": WORKER})).status == 201
    item = {"destination": WORKER, "idempotency_key": "late", "run_at": "2001-01-01T00:00:00Z"}
    for _ in range(2):
        answer = await api.call("POST", "/jobs/batch", {"jobs": [item, item, {}]})
        assert answer.body["refused"] == 3
        assert [outcome.get("replayed") for outcome in answer.body["outcomes"]] == [None] * 3
    right = {"destination": WORKER, "idempotency_key": "late", "delay_seconds": 60}
    answer = await api.call("POST", "/jobs/batch", {"jobs": [right]})
    assert [outcome["status"] for outcome in answer.body["outcomes"]] == [201]


async def test_a_malformed_item_does_not_spoil_its_batch(api: Api) -> None:
    good = {"destination": WORKER}
    bad = [{"destination": WORKER, "lane": 7}, {}, 5, {**good, "nonsense": 1}]
    answer = await api.call("POST", "/jobs/batch", {"jobs": [good, *bad, good]})
    assert (answer.status, answer.body["accepted"], answer.body["refused"]) == (200, 2, 4)
    outcomes = answer.body["outcomes"]
    assert [outcome["status"] for outcome in outcomes] == [201, 422, 422, 422, 422, 201]
    codes = [outcome["problem"]["code"] for outcome in outcomes[1:5]]
    assert codes == ["invalid_field"] * 3 + ["unknown_field"]
    assert outcomes[1]["problem"]["field"] == "lane"
    answer = await api.call("POST", "/jobs/batch", {"jobs": bad})
    assert (answer.status, answer.body["accepted"]) == (200, 0)


async def test_a_batch_of_too_many_is_refused(api: Api) -> None:
    answer = await api.call("POST", "/jobs/batch", {"jobs": [{"destination": WORKER}] * 1001})
    assert (answer.status, answer.body["code"]) == (422, "batch_too_large")


async def test_lists_follow_their_filters(api: Api) -> None:
    later = [await made(api, delay_seconds=600 - n, lane="a") for n in range(3)]
    ready = await made(api, lane="b")

    async def listed(query: str) -> list[str]:
        answer = await api.call("GET", f"/jobs?{query}")
        assert answer.status == 200, answer.body
        return [job["job_id"] for job in answer.body["jobs"]]

    ids = [job["job_id"] for job in later]
    assert await listed("status=PENDING") == ids[::-1]
    assert await listed("status=READY") == [ready["job_id"]]
    assert set(await listed("")) == {*ids, ready["job_id"]}
    assert set(await listed("lane=a")) == set(ids)
    assert await listed("lane=a&status=READY") == []
    assert await listed("lane=nowhere") == []
    for status in ("RUNNING", "UNKNOWN", "COMPLETED", "FAILED", "CANCELLED"):
        assert await listed(f"status={status}") == []
    due = later[1]["due_at"]
    assert await listed(f"status=PENDING&due_after={due}") == [ids[1], ids[0]]
    assert set(await listed(f"lane=a&due_before={due}")) == {ids[1], ids[2]}
    assert await listed("schedule_id=01a1e1c8-dd23-7001-bd68-723753d52271") == []


@pytest.mark.parametrize("query", ["", "status=PENDING", "lane=default", "status=PENDING&lane=x"])
async def test_pages_join_without_gap_or_repetition(api: Api, query: str) -> None:
    lane = "x" if "lane=x" in query else "default"
    jobs = [{"destination": WORKER, "delay_seconds": 60, "lane": lane}] * 25
    outcomes = (await api.call("POST", "/jobs/batch", {"jobs": jobs})).body["outcomes"]
    seen: list[str] = []
    cursor = ""
    while True:
        answer = await api.call("GET", f"/jobs?{query}&limit=7{cursor}")
        assert answer.status == 200, answer.body
        seen += [job["job_id"] for job in answer.body["jobs"]]
        if answer.body["next_cursor"] is None:
            break
        cursor = f"&cursor={answer.body['next_cursor']}"
    assert sorted(seen) == sorted(outcome["job"]["job_id"] for outcome in outcomes)
    assert len(seen) == len(set(seen)) == 25


@pytest.mark.parametrize(
    "position",
    [b"abc", b'{"job_id":"x"}', b'{"job_id":"01a1e1c8-dd23-7001-bd68-723753d52271","due_at":"9"}'],
)
async def test_a_cursor_that_is_not_ours_is_refused(api: Api, position: bytes) -> None:
    cursor = urlsafe_b64encode(position).decode().rstrip("=")
    answer = await api.call("GET", f"/jobs?status=PENDING&cursor={cursor}")
    assert (answer.status, answer.body["code"]) == (422, "invalid_cursor")


async def test_an_attempt_beyond_all_numbers_is_refused(api: Api) -> None:
    job_id = (await made(api))["job_id"]
    cursor = urlsafe_b64encode(b'{"after":99999999999}').decode().rstrip("=")
    answer = await api.call("GET", f"/jobs/{job_id}/attempts?cursor={cursor}")
    assert (answer.status, answer.body["code"]) == (422, "invalid_cursor")


async def test_instants_at_the_edge_of_time_are_just_filters(api: Api) -> None:
    await made(api, delay_seconds=60)
    wide = "due_after=0001-01-01T00:00:00%2B14:00&due_before=9999-12-31T23:59:59-14:00"
    for status in ("", "status=PENDING&", "status=FAILED&"):
        answer = await api.call("GET", f"/jobs?{status}{wide}")
        assert answer.status == 200, answer.body
