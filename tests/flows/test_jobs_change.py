"""Change, cancel, hasten and resolve jobs over HTTP."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from conftest import Api
from postdate.core.ids import bucket_of
from support.worker import told

WORKER = {"type": "worker"}


async def made(api: Api, **members: Any) -> str:
    answer = await api.call("POST", "/jobs", {"destination": WORKER, **members})
    assert answer.status == 201, answer.body
    return str(answer.body["job_id"])


async def shown(api: Api, job_id: str) -> dict[str, Any]:
    return dict((await api.call("GET", f"/jobs/{job_id}")).body)


async def put_timer(api: Api, job_id: str, due_at: str, token: int = 1) -> None:
    """Put a timer where a claim would: leased, or in doubt at infinity."""
    await api.node.database.writer.execute(
        """UPDATE timer SET due_at = $3::text::timestamptz, claimed_at = clock(), token = $4,
                  ready_at = due_at, claimed_by = $5
            WHERE bucket = $1 AND subject = $2""",
        bucket_of(UUID(job_id)),
        UUID(job_id),
        due_at,
        token,
        uuid4(),
    )


async def events(api: Api, job_id: str) -> list[str]:
    """List the types of a job's events since it was accepted."""
    return sorted(await told(api.node.database, UUID(job_id)))


LATER = "2031-01-01T00:00:00Z"


async def test_a_pending_job_is_cancelled_before_its_claim(api: Api) -> None:
    job_id = await made(api, delay_seconds=60)
    answer = await api.call("POST", f"/jobs/{job_id}/cancel")
    assert answer.body == {"status": "CANCELLED", "result": "cancelled_before_claim"}
    again = await api.call("POST", f"/jobs/{job_id}/cancel")
    assert (again.status, again.body) == (200, answer.body)
    job = await shown(api, job_id)
    assert (job["status"], job["code"]) == ("CANCELLED", "cancelled_before_claim")
    assert (await api.call("GET", f"/jobs/{job_id}/attempts")).body["attempts"] == []
    assert await events(api, job_id) == ["job.cancelled"]
    listed = (await api.call("GET", "/jobs?status=CANCELLED")).body["jobs"]
    assert [one["job_id"] for one in listed] == [job_id]


async def test_a_running_job_is_stopped_in_flight_and_its_worker_fenced(api: Api) -> None:
    job_id = await made(api)
    await put_timer(api, job_id, LATER)
    assert (await shown(api, job_id))["status"] == "RUNNING"
    listed = (await api.call("GET", "/jobs?status=RUNNING")).body["jobs"]
    assert [one["job_id"] for one in listed] == [job_id]
    answer = await api.call("POST", f"/jobs/{job_id}/cancel", {"deadline_seconds": 0})
    assert answer.body == {"status": "CANCELLED", "result": "stopped_in_flight"}
    attempts = (await api.call("GET", f"/jobs/{job_id}/attempts")).body["attempts"]
    assert [(one["attempt"], one["status"]) for one in attempts] == [(1, "CANCELLED")]


async def test_a_job_in_doubt_is_resolved_and_nothing_else(api: Api) -> None:
    for outcome, status in (("completed", "COMPLETED"), ("failed", "FAILED"), ("retry", "READY")):
        job_id = await made(api)
        await put_timer(api, job_id, "infinity")
        assert (await shown(api, job_id))["status"] == "UNKNOWN"
        for path in ("cancel", "run-now"):
            answer = await api.call("POST", f"/jobs/{job_id}/{path}")
            assert (answer.status, answer.body["current_status"]) == (409, "UNKNOWN")
        answer = await api.call("POST", f"/jobs/{job_id}/resolve", {"outcome": outcome})
        assert (answer.status, answer.body["status"]) == (200, status)
        answer = await api.call("POST", f"/jobs/{job_id}/resolve", {"outcome": outcome})
        assert (answer.status, answer.body["current_status"]) == (409, status)


async def test_too_late_is_said_with_the_status(api: Api) -> None:
    job_id = await made(api)
    await put_timer(api, job_id, "infinity")
    await api.call("POST", f"/jobs/{job_id}/resolve", {"outcome": "completed"})
    for method, path, body in (
        ("POST", "/cancel", None),
        ("POST", "/run-now", None),
        ("PATCH", "", {"delay_seconds": 5}),
    ):
        answer = await api.call(method, f"/jobs/{job_id}{path}", body)
        assert (answer.status, answer.body["code"]) == (409, "conflict")
        assert answer.body["current_status"] == "COMPLETED"


async def test_run_now_makes_a_job_ready(api: Api) -> None:
    job_id = await made(api, delay_seconds=600)
    answer = await api.call("POST", f"/jobs/{job_id}/run-now")
    assert (answer.status, answer.body["status"]) == (200, "READY")
    assert (await api.call("POST", f"/jobs/{job_id}/run-now")).status == 200
    assert await events(api, job_id) == ["job.rescheduled"]


async def test_claimers_are_told_that_something_is_due_sooner(api: Api) -> None:
    sooner: list[float] = []

    def hook(_: int, seconds: float) -> None:
        sooner.append(round(seconds))

    job_id = await made(api, delay_seconds=600)
    api.node.on_accept.append(hook)
    try:
        await api.call("PATCH", f"/jobs/{job_id}", {"delay_seconds": 5})
        await api.call("POST", f"/jobs/{job_id}/run-now")
        await put_timer(api, job_id, "infinity")
        await api.call("POST", f"/jobs/{job_id}/resolve", {"outcome": "retry"})
    finally:
        api.node.on_accept.remove(hook)
    assert sooner == [5, 0, 0]


async def test_a_change_is_a_revision_and_leaves_the_rest_alone(api: Api) -> None:
    job_id = await made(api, delay_seconds=600, payload={"n": 1}, retry={"max_attempts": 2})
    await api.call("PATCH", f"/jobs/{job_id}", {"run_at": LATER})
    job = await shown(api, job_id)
    assert (job["revision"], job["due_at"], job["next_attempt_at"]) == (1, LATER, LATER)
    assert (job["payload"], job["retry"]) == ({"n": 1}, {"max_attempts": 2})
    await api.call("PATCH", f"/jobs/{job_id}", {"payload": {"n": 2}})
    await api.call("PATCH", f"/jobs/{job_id}", {"retry": None, "timeout_seconds": 9})
    job = await shown(api, job_id)
    assert (job["revision"], job["payload"], job["due_at"]) == (3, {"n": 2}, LATER)
    assert ("retry" in job, job["timeout_seconds"]) == (False, 9.0)
    await api.call("PATCH", f"/jobs/{job_id}", {"payload_ref": "s3://x"})
    job = await shown(api, job_id)
    assert ("payload" in job, job["payload_ref"]) == (False, "s3://x")


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({}, "invalid_field"),
        ({"lane": "x"}, "unknown_field"),
        ({"run_at": "2001-01-01T00:00:00Z"}, "due_in_past"),
        ({"delay_seconds": 4e9}, "beyond_horizon"),
        ({"payload": 1, "payload_ref": "x"}, "invalid_field"),
        ({"expires_at": "2001-01-01T00:00:00Z"}, "invalid_field"),
    ],
)
async def test_a_wrong_change_is_refused_and_changes_nothing(
    api: Api, patch: dict[str, Any], code: str
) -> None:
    job_id = await made(api, delay_seconds=600)
    before = await shown(api, job_id)
    answer = await api.call("PATCH", f"/jobs/{job_id}", patch)
    assert (answer.status, answer.body["code"]) == (422, code)
    assert await shown(api, job_id) == before


async def test_a_running_job_is_not_changed(api: Api) -> None:
    job_id = await made(api)
    await put_timer(api, job_id, LATER)
    answer = await api.call("PATCH", f"/jobs/{job_id}", {"payload": 2})
    assert (answer.status, answer.body["current_status"]) == (409, "RUNNING")


@pytest.mark.parametrize("path", ["/cancel", "/run-now", "/resolve", ""])
async def test_a_job_that_is_not_there_cannot_be_changed(api: Api, path: str) -> None:
    method = "POST" if path else "PATCH"
    body = {"outcome": "retry"} if path == "/resolve" else {"delay_seconds": 1}
    url = f"/jobs/01a1e1c8-dd23-7001-bd68-723753d52271{path}"
    answer = await api.call(method, url, body if path in {"", "/resolve"} else None)
    assert (answer.status, answer.body["code"]) == (404, "not_found")


async def many(api: Api, count: int, **members: Any) -> None:
    jobs = [{"destination": WORKER, **members}] * count
    answer = await api.call("POST", "/jobs/batch", {"jobs": jobs})
    assert answer.body["accepted"] == count


async def test_bulk_cancel_counts_first_and_then_cancels_what_matches(api: Api) -> None:
    await many(api, 600, lane="a", delay_seconds=60)
    await many(api, 3, lane="a")
    await many(api, 5, lane="b", delay_seconds=60)
    body: dict[str, Any] = {"filter": {"lane": "a"}, "dry_run": True}
    answer = await api.call("POST", "/jobs/bulk/cancel", body)
    expected = {"matched": {"PENDING": 600, "READY": 3}, "more": False}
    assert answer.body == {**expected, "dry_run": True, "changed": 0}
    answer = await api.call("POST", "/jobs/bulk/cancel", {**body, "dry_run": False})
    assert answer.body == {**expected, "dry_run": False, "changed": 603}
    left = await api.call("POST", "/jobs/bulk/cancel", {"filter": {"lane": "b"}, "dry_run": True})
    assert left.body["matched"] == {"PENDING": 5}


async def test_bulk_reschedule_moves_what_matches_once(api: Api) -> None:
    await many(api, 20, lane="a", delay_seconds=60)
    job = (await api.call("GET", "/jobs?status=PENDING&limit=1")).body["jobs"][0]
    body = {
        "filter": {"lane": "a", "due_before": job["due_at"]},
        "to": {"delay_seconds": 7200, "spread_seconds": 60},
    }
    answer = await api.call("POST", "/jobs/bulk/reschedule", body)
    assert answer.body["changed"] == 20, answer.body
    again = await api.call("POST", "/jobs/bulk/reschedule", body)
    assert again.body["matched"] == {}
    listed = (await api.call("GET", "/jobs?status=PENDING")).body["jobs"]
    assert len({one["effective_at"] for one in listed}) > 10
    assert {one["revision"] for one in listed} == {1}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("cancel", {"filter": {}}, "filter"),
        ("cancel", {"filter": {"status": "COMPLETED"}}, "filter.status"),
        ("reschedule", {"filter": {"lane": "a"}, "to": {}}, "run_at"),
        ("reschedule", {"filter": {"lane": "a"}, "to": {"delay_seconds": 9}}, "filter.due_before"),
        ("reschedule", {"filter": {"status": "RUNNING"}, "to": {}}, "filter.status"),
    ],
)
async def test_bulk_changes_refuse_what_could_go_wrong(
    api: Api, path: str, body: dict[str, Any], field: str
) -> None:
    answer = await api.call("POST", f"/jobs/bulk/{path}", body)
    assert (answer.status, answer.body["field"]) == (422, field)
