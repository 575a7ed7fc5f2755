"""Progress of jobs: percent, note, checkpoint and log of a worker, which renew its lease."""

from typing import Any

import pytest

from conftest import Answered, Api, Clock
from postdate.lease.change.renewal import LOG_BYTES, LOG_LINES

RETRIED = {"backoff": "fixed", "initial_seconds": 60, "jitter": 0, "max_attempts": 5}


async def add(api: Api, lane: str, **fields: Any) -> str:
    body = {"destination": {"type": "worker"}, "lane": lane, "retry": RETRIED, **fields}
    answered = await api.call("POST", "/jobs", body)
    assert answered.status == 201, answered.body
    return str(answered.body["job_id"])


async def claim(api: Api, lane: str, **fields: Any) -> dict[str, Any]:
    answered = await api.call("POST", f"/lanes/{lane}/claim", {"wait_seconds": 10, **fields})
    assert answered.status == 200, answered.body
    [lease] = answered.body["leases"]
    found: dict[str, Any] = lease
    return found


async def say(api: Api, verb: str, lease: dict[str, Any], **fields: Any) -> Answered:
    body = {"token": lease["token"], **fields}
    return await api.call("POST", f"/leases/{lease['job_id']}/{verb}", body)


async def show(api: Api, job_id: str) -> dict[str, Any]:
    body: dict[str, Any] = (await api.call("GET", f"/jobs/{job_id}")).body
    return body


async def attempts(api: Api, job_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.call("GET", f"/jobs/{job_id}/attempts")).body[
        "attempts"
    ]
    return found


async def test_progress_is_shown_and_renews_the_lease(api: Api, clock: Clock) -> None:
    job_id = await add(api, "shown")
    lease = await claim(api, "shown", lease_seconds=5)
    assert "checkpoint" not in lease
    assert "progress" not in await show(api, job_id)
    said = await say(
        api, "progress", lease, percent=33.3, note="half", log=["one"], lease_seconds=100
    )
    assert said.status == 200, said.body
    assert said.body["lease_until"] > lease["lease_until"]
    assert said.body["cancel_requested"] is False
    await clock.advance(50)
    again = await say(api, "progress", lease, log=["two"], lease_seconds=100)
    assert again.status == 200
    shown = await show(api, job_id)
    assert shown["status"] == "RUNNING"
    progress = shown["progress"]
    assert (progress["percent"], progress["note"]) == (33.3, "half")
    assert progress["log"] == ["one", "two"]
    assert progress["updated_at"]
    listed = (await api.call("GET", "/jobs?lane=shown")).body["jobs"]
    assert "progress" not in listed[0]


async def test_the_next_attempt_gets_the_last_checkpoint(api: Api, clock: Clock) -> None:
    job_id = await add(api, "next")
    given_back = await claim(api, "next")
    await say(api, "progress", given_back, checkpoint={"row": 1})
    await say(api, "release", given_back)
    first = await claim(api, "next")
    assert (first["attempt"], first["checkpoint"]) == (1, {"row": 1})
    await say(api, "progress", first, log=["first"])
    await say(api, "progress", first, checkpoint={"row": 2})
    await say(api, "progress", first, percent=50)
    await say(api, "fail", first, error="no")
    await clock.advance(61)
    second = await claim(api, "next", lease_seconds=5)
    assert (second["attempt"], second["checkpoint"]) == (2, {"row": 2})
    await say(api, "progress", second, log=["second"], lease_seconds=5)
    await clock.advance(6)
    third = await claim(api, "next")
    assert (third["attempt"], third["checkpoint"]) == (3, {"row": 2})
    await say(api, "progress", third, checkpoint=None)
    await say(api, "release", third)
    again = await claim(api, "next")
    assert (again["attempt"], again["checkpoint"]) == (3, None)
    await say(api, "complete", again)
    assert [each.get("log") for each in await attempts(api, job_id)] == [
        ["first"],
        ["second"],
        None,
    ]


async def test_a_stale_token_reports_nothing(api: Api, clock: Clock) -> None:
    job_id = await add(api, "stale")
    old = await claim(api, "stale", lease_seconds=5)
    await say(api, "progress", old, percent=10, checkpoint="mine", lease_seconds=5)
    await clock.advance(6)
    new = await claim(api, "stale")
    stale = await say(api, "progress", old, percent=99, checkpoint="late", log=["late"])
    assert (stale.status, stale.body["code"], stale.body["field"]) == (409, "lease_lost", "token")
    shown = await show(api, job_id)
    assert shown["progress"]["percent"] == 10
    assert "log" not in shown["progress"]
    await say(api, "fail", new, error="no")
    late = await say(api, "progress", new, percent=100)
    assert (late.status, late.body["code"]) == (409, "lease_lost")
    await clock.advance(61)
    third = await claim(api, "stale")
    assert third["checkpoint"] == "mine"
    assert (await say(api, "complete", third)).status == 200
    after = await say(api, "progress", third, percent=100)
    assert (after.status, after.body["code"]) == (409, "lease_lost")


async def test_the_log_of_an_attempt_drops_its_oldest_lines(api: Api) -> None:
    job_id = await add(api, "log")
    lease = await claim(api, "log")
    sent = [f"line {number}" for number in range(LOG_LINES + 100)]
    for start in range(0, len(sent), 100):
        await say(api, "progress", lease, log=sent[start : start + 100])
    progress = (await show(api, job_id))["progress"]
    assert (progress["log"], progress["log_dropped"]) == (sent[100:], 100)
    long = ["x" * 1000] * 100
    await say(api, "progress", lease, log=long)
    await say(api, "complete", lease)
    [attempt] = await attempts(api, job_id)
    kept = attempt["log"]
    assert kept == long[: len(kept)]
    assert LOG_BYTES - 1100 < sum(len(line) + 3 for line in kept) <= LOG_BYTES
    assert attempt["log_dropped"] + len(kept) == len(sent) + len(long)


@pytest.mark.parametrize(
    ("fields", "status", "field"),
    [
        ({"percent": 100.1}, 422, "percent"),
        ({"percent": -1}, 422, "percent"),
        ({"percent": "half"}, 422, "percent"),
        ({"note": "x" * 501}, 422, "note"),
        ({"note": "\0"}, 422, None),
        ({"checkpoint": "x" * (16 * 1024)}, 413, "checkpoint"),
        ({"log": "line"}, 422, "log"),
        ({"log": ["x"] * 101}, 422, "log"),
        ({"log": ["x" * 1001]}, 422, "log[0]"),
        ({"log": [1]}, 422, "log[0]"),
        ({"lease_seconds": 0}, 422, "lease_seconds"),
        ({"lease_seconds": 3601}, 422, "lease_seconds"),
        ({"token": 0}, 422, "token"),
        ({"token": None}, 422, "token"),
        ({"percents": 1}, 422, "percents"),
    ],
)
async def test_bad_progress_is_refused_by_its_field(
    api: Api, fields: dict[str, Any], status: int, field: str | None
) -> None:
    job_id = "01890000-0000-7000-8000-000000000000"
    answered = await api.call("POST", f"/leases/{job_id}/progress", {"token": 1, **fields})
    assert answered.status == status, answered.body
    assert answered.body.get("field") == field, answered.body


async def test_the_largest_checkpoint_is_kept(api: Api, clock: Clock) -> None:
    largest = "x" * (16 * 1024 - 2)
    await add(api, "largest")
    lease = await claim(api, "largest")
    assert (await say(api, "progress", lease, checkpoint=largest)).status == 200
    await say(api, "fail", lease, error="no")
    await clock.advance(61)
    assert (await claim(api, "largest"))["checkpoint"] == largest
