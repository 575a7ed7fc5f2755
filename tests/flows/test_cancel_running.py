"""Cancel a job that runs: its worker is asked to stop, and loses the job at a deadline."""

import asyncio
import time
from typing import Any
from uuid import uuid4

import pytest

from conftest import Answered, Api, Clock, eventually
from postdate.client import AsyncRunningJob, JobCancelledError, RunningJob, Worker
from postdate.job.spec.tally import Tally
from postdate.ledger.prove import prove
from postdate.worker.expirer import Expirer
from support.event import seal_all

QUICK = {"backoff": "fixed", "initial_seconds": 60, "jitter": 0, "max_attempts": 3}


async def add(api: Api, lane: str, **fields: Any) -> str:
    body = {"destination": {"type": "worker"}, "lane": lane, "retry": QUICK, **fields}
    answered = await api.call("POST", "/jobs", body)
    assert answered.status == 201, answered.body
    return str(answered.body["job_id"])


async def claim(api: Api, lane: str, **fields: Any) -> list[dict[str, Any]]:
    answered = await api.call("POST", f"/lanes/{lane}/claim", fields)
    assert answered.status == 200, answered.body
    leases: list[dict[str, Any]] = answered.body["leases"]
    return leases


async def say(api: Api, verb: str, lease: dict[str, Any], **fields: Any) -> Answered:
    body = {"token": lease["token"], **fields}
    return await api.call("POST", f"/leases/{lease['job_id']}/{verb}", body)


async def show(api: Api, job_id: str) -> dict[str, Any]:
    body: dict[str, Any] = (await api.call("GET", f"/jobs/{job_id}")).body
    return body


async def cancel(api: Api, job_id: str, **fields: Any) -> dict[str, Any]:
    answered = await api.call("POST", f"/jobs/{job_id}/cancel", fields)
    assert answered.status == 200, answered.body
    body: dict[str, Any] = answered.body
    return body


async def findings(api: Api) -> list[Any]:
    """Return what the prover has to say of the tenant."""
    database = api.node.database
    await seal_all(database)
    named = "SELECT tenant_id FROM tenant WHERE name = $1"
    found = await prove(database, await database.writer.fetchval(named, api.tenant))
    return list(found.findings)


async def sweep(api: Api) -> None:
    """Do what any node does every other second."""
    node = api.node
    tallies = {"push": Tally(), "pull": Tally()}
    await Expirer(node.database, node.lanes, node.runtime, tallies, uuid4()).run_once(100)


async def test_a_worker_hears_of_a_cancel_at_its_next_renewal(api: Api) -> None:
    job_id = await add(api, "heard")
    [lease] = await claim(api, "heard")
    asked = await cancel(api, job_id)
    assert (asked["status"], asked["result"]) == ("RUNNING", "cancel_requested")
    shown = await show(api, job_id)
    assert shown["status"] == "RUNNING"
    assert shown["cancel_requested_at"] < shown["cancel_deadline"] == asked["cancel_deadline"]
    for verb in ("renew", "progress"):
        heard = await say(api, verb, lease)
        assert (heard.status, heard.body["cancel_requested"]) == (200, True)
        assert heard.body["cancel_deadline"] == asked["cancel_deadline"]
    later = await cancel(api, job_id, deadline_seconds=3600)
    assert later["cancel_deadline"] == asked["cancel_deadline"]
    sooner = await cancel(api, job_id, deadline_seconds=1)
    assert sooner["cancel_deadline"] < asked["cancel_deadline"]


async def test_a_job_that_completes_before_the_deadline_is_completed(
    api: Api, clock: Clock
) -> None:
    job_id = await add(api, "completes")
    [lease] = await claim(api, "completes")
    await cancel(api, job_id)
    done = await say(api, "complete", lease, result=1)
    assert done.body["status"] == "COMPLETED"
    await clock.advance(31)
    await sweep(api)
    shown = await show(api, job_id)
    assert (shown["status"], shown["result"]) == ("COMPLETED", 1)
    assert "cancel_requested_at" in shown
    assert "cancel_deadline" not in shown


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"error": "stopped"}, "cancelled_after_failure"),
        ({"error": "stopped", "retryable": False}, "cancelled_after_failure"),
        ({"error": "who knows", "unknown": True}, "cancelled_in_doubt"),
    ],
)
async def test_a_failure_after_a_cancel_ends_the_job_as_cancelled(
    api: Api, fields: dict[str, Any], code: str
) -> None:
    job_id = await add(api, code)
    [lease] = await claim(api, code)
    await cancel(api, job_id)
    assert (await say(api, "fail", lease, **fields)).body["status"] == "CANCELLED"
    shown = await show(api, job_id)
    assert (shown["status"], shown["code"]) == ("CANCELLED", code)
    assert shown.get("in_doubt", False) is (code == "cancelled_in_doubt")
    [attempt] = (await api.call("GET", f"/jobs/{job_id}/attempts")).body["attempts"]
    assert attempt["error"] == fields["error"]
    assert await findings(api) == []


async def test_at_the_deadline_the_lease_is_taken_away(api: Api, clock: Clock) -> None:
    job_id = await add(api, "deadline")
    [lease] = await claim(api, "deadline", lease_seconds=600)
    await cancel(api, job_id, deadline_seconds=10)
    await sweep(api)
    assert (await show(api, job_id))["status"] == "RUNNING"
    await clock.advance(11)
    await sweep(api)
    shown = await show(api, job_id)
    assert (shown["status"], shown["code"]) == ("CANCELLED", "stopped_in_flight")
    assert shown["in_doubt"] is True
    for verb, fields in (("complete", {}), ("renew", {}), ("progress", {"percent": 1})):
        stale = await say(api, verb, lease, **fields)
        assert (stale.status, stale.body["code"]) == (409, "lease_lost")
    await seal_all(api.node.database)
    told = (await api.call("GET", f"/events?subject={job_id}")).body["events"]
    assert [each["type"] for each in told][-2:] == ["job.cancel_requested", "job.cancelled"]
    assert await findings(api) == []


async def test_a_lost_worker_does_not_make_a_cancelled_job_run_again(
    api: Api, clock: Clock
) -> None:
    job_id = await add(api, "lost")
    await claim(api, "lost", lease_seconds=5)
    await cancel(api, job_id, deadline_seconds=600)
    await clock.advance(6)
    assert await claim(api, "lost") == []
    shown = await show(api, job_id)
    assert (shown["status"], shown["code"]) == ("CANCELLED", "cancelled_in_doubt")
    [attempt] = (await api.call("GET", f"/jobs/{job_id}/attempts")).body["attempts"]
    assert attempt["status"] == "LOST"


@pytest.mark.parametrize("seconds", [-1, 86401, "soon"])
async def test_a_wrong_deadline_is_refused(api: Api, seconds: Any) -> None:
    path = "/jobs/01890000-0000-7000-8000-000000000000/cancel"
    answered = await api.call("POST", path, {"deadline_seconds": seconds})
    assert (answered.status, answered.body["field"]) == (422, "deadline_seconds")


async def test_plain_and_asynchronous_functions_stop(api: Api) -> None:
    worker = Worker(api.url, api.key, lease_seconds=1)

    @worker.handler("stops")
    def plain(job: RunningJob) -> None:
        until = time.monotonic() + 20
        while time.monotonic() < until and not job.cancelled:
            job.progress(1)
        raise JobCancelledError

    @worker.handler("stops-async")
    async def asynchronous(job: AsyncRunningJob) -> None:
        await job.progress(1)
        await asyncio.Event().wait()

    ids = [await add(api, lane) for lane in ("stops", "stops-async")]
    running = asyncio.create_task(worker.run())

    async def all_are(status: str) -> bool:
        return all([(await show(api, each))["status"] == status for each in ids])

    await eventually(lambda: all_are("RUNNING"))
    for job_id in ids:
        assert (await cancel(api, job_id))["result"] == "cancel_requested"
    await eventually(lambda: all_are("CANCELLED"))
    for job_id in ids:
        assert (await show(api, job_id))["code"] == "cancelled_after_failure"
    worker.stop()
    await running
