"""Every way to cancel asks the workers of running jobs to stop, and takes what waits."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from conftest import Api, Clock
from flows.test_cancel_running import add, claim, findings, say, show
from flows.test_change_sets import _do, _draft
from postdate.core.instant import instant_text
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.node.schedule import occurrences
from postdate.scheduler.expander import Expander
from support.clock_bench import START, new_bench
from support.event import seal_all
from support.own_transaction import OwnRole, own_role
from support.schedule import drain

RUNNING = {"lane": "many", "status": "RUNNING"}


@pytest.fixture
async def role(
    api: Api, server: Embedded, database_name: str, database: Database
) -> AsyncIterator[OwnRole]:
    async with own_role(server, database_name, database, api.tenant) as role:
        yield role


async def stops(api: Api, lease: dict[str, Any], code: str = "cancelled_after_failure") -> None:
    """Expect that a worker hears of the cancel, and that its failure then ends the job."""
    assert (await show(api, lease["job_id"]))["status"] == "RUNNING"
    assert (await say(api, "renew", lease)).body["cancel_requested"] is True
    assert (await say(api, "fail", lease, error="stopped")).body["status"] == "CANCELLED"
    assert (await show(api, lease["job_id"]))["code"] == code


async def test_a_bulk_call_asks_the_workers(api: Api) -> None:
    for _ in range(3):
        await add(api, "many")
    leases = await claim(api, "many", max=2)
    body = {"filter": RUNNING, "reason": "spring cleaning"}
    done = (await api.call("POST", "/jobs/bulk/cancel", body)).body
    assert (done["matched"], done["changed"], done["asked"]) == ({"RUNNING": 2}, 2, 2)
    again = (await api.call("POST", "/jobs/bulk/cancel", body)).body
    assert (again["matched"], again["changed"], again.get("asked", 0)) == ({"RUNNING": 2}, 0, 0)
    await stops(api, leases[0])
    await seal_all(api.node.database)
    told = (await api.call("GET", f"/events?subject={leases[0]['job_id']}")).body["events"]
    [asked] = [each for each in told if each["type"] == "job.cancel_requested"]
    assert (asked["data"]["bulk"], asked["data"]["reason"]) == (True, "spring cleaning")
    now = (await api.call("POST", "/jobs/bulk/cancel", body | {"deadline_seconds": 0})).body
    assert (now["changed"], now.get("asked", 0)) == (1, 0)
    assert (await show(api, leases[1]["job_id"]))["code"] == "stopped_in_flight"
    assert (await api.call("GET", "/jobs?lane=many&status=READY")).body["jobs"]
    assert await findings(api) == []


@pytest.mark.parametrize("seconds", [-1, 86401, "soon"])
async def test_a_bulk_call_refuses_a_wrong_deadline(api: Api, seconds: Any) -> None:
    body = {"filter": RUNNING, "deadline_seconds": seconds}
    answered = await api.call("POST", "/jobs/bulk/cancel", body)
    assert (answered.status, answered.body["field"]) == (422, "deadline_seconds")


async def test_a_change_set_asks_the_workers_and_does_not_undo_that(api: Api) -> None:
    await add(api, "many")
    [lease] = await claim(api, "many")
    draft = await _draft(api, {"type": "cancel_jobs", "filter": RUNNING})
    applied = await _do(api, draft, "apply")
    assert [step["changed"] for step in applied["steps"]] == [1]
    await stops(api, lease)
    undone = await _do(api, draft, "undo")
    assert [step["left"] for step in undone["steps"]] == [
        ["the workers of running jobs were asked to stop"]
    ]
    assert len((await api.call("GET", "/jobs?lane=many")).body["jobs"]) == 1


async def test_the_next_occurrence_asks_the_worker_of_the_one_before(
    api: Api, clock: Clock
) -> None:
    template = {"job": {"destination": {"type": "worker"}, "lane": "many"}}
    rule = {"every_seconds": 3600, "template": template, "overlap": "cancel_running"}
    assert (await api.call("POST", "/schedules", rule)).status == 201
    expander = Expander(api.node.database, occurrences(api.node))
    await clock.advance(3601)
    await drain(expander)
    [lease] = await claim(api, "many", lease_seconds=3600)
    await clock.advance(3601 - 30)
    assert (await say(api, "renew", lease, lease_seconds=3600)).status == 200
    await clock.advance(30)
    await drain(expander)
    await stops(api, lease)
    statuses = [each["status"] for each in (await api.call("GET", "/jobs?lane=many")).body["jobs"]]
    assert sorted(statuses) == ["CANCELLED", "READY"]
    await clock.advance(3601)
    await drain(expander)
    jobs = (await api.call("GET", "/jobs?lane=many")).body["jobs"]
    codes = [each.get("code") for each in jobs if each["status"] == "CANCELLED"]
    assert sorted(codes) == ["cancelled_after_failure", "cancelled_before_claim"]


async def test_a_commit_of_ones_own_asks_the_worker(api: Api, role: OwnRole) -> None:
    job_id, waits = await add(api, "many"), await add(api, "later", delay_seconds=60)
    [lease] = await claim(api, "many")
    async with role.connect() as own:
        for each in (job_id, waits, job_id):
            await own.execute("SELECT postdate.cancel($1)", each)
    assert (await show(api, waits))["code"] == "cancelled_before_claim"
    await stops(api, lease)
    told = (await api.call("GET", f"/jobs/{job_id}")).body
    assert "cancel_requested_at" in told
    assert await findings(api) == []


async def test_with_no_time_to_stop_a_commit_of_ones_own_takes_the_job(
    api: Api, role: OwnRole
) -> None:
    await api.call("PUT", "/settings/job.cancel_deadline_seconds", {"value": 0})
    job_id = await add(api, "many")
    await claim(api, "many")
    async with role.connect() as own:
        await own.execute("SELECT postdate.cancel($1)", job_id)
    assert (await show(api, job_id))["code"] == "stopped_in_flight"


async def test_the_clock_of_a_tenant_in_test_mode_reaches_the_deadline(api: Api) -> None:
    bench = await new_bench(api)
    own = replace(api, key=bench.key)
    job_id = await add(own, "many", run_at=instant_text(START + timedelta(seconds=1)))
    await own.call("POST", "/test-clock/advance", {"by": "2s"})
    await claim(own, "many", lease_seconds=600)
    asked = (await own.call("POST", f"/jobs/{job_id}/cancel", {"deadline_seconds": 60})).body
    assert asked["cancel_deadline"] == instant_text(START + timedelta(seconds=62))
    await own.call("POST", "/test-clock/advance", {"by": "59s"})
    assert (await show(own, job_id))["status"] == "RUNNING"
    await own.call("POST", "/test-clock/advance", {"by": "1s"})
    shown = await show(own, job_id)
    assert (shown["status"], shown["code"]) == ("CANCELLED", "stopped_in_flight")
