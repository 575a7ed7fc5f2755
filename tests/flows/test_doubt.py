"""Doubt is never forgotten: attempts, ends and cancels say what is known of the work."""

import asyncio
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from conftest import Answered, Api, Clock, eventually
from postdate.audit.spec import SYSTEM
from postdate.core import any_json
from postdate.core.ids import bucket_of
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.job.spec.verdict import Move
from postdate.job.store import execution
from postdate.job.store.execution import HeldLease
from support.own_transaction import own_role

STEPS = {"fail": "FAILED", "unknown": "UNKNOWN", "lose": "LOST"}

HISTORIES = [
    (["fail"], False),
    (["unknown"], True),
    (["fail", "fail"], False),
    (["unknown", "fail"], True),
    (["fail", "unknown"], True),
    (["lose", "fail"], True),
    (["fail", "lose"], True),
]


async def add(api: Api, **fields: Any) -> str:
    body = {"destination": {"type": "worker"}, "lane": "mail", **fields}
    return str((await api.call("POST", "/jobs", body)).body["job_id"])


async def claim(api: Api, **fields: Any) -> list[dict[str, Any]]:
    answer = await api.call("POST", "/lanes/mail/claim", {"max": 10, **fields})
    return list(answer.body["leases"])


async def say(api: Api, verb: str, lease: dict[str, Any], **fields: Any) -> Answered:
    body = {"token": lease["token"], **fields}
    return await api.call("POST", f"/leases/{lease['job_id']}/{verb}", body)


async def told(api: Api, job_id: str) -> tuple[str, dict[str, Any]]:
    """Return the type and the data of a job's last event."""
    row = await api.node.database.writer.fetchrow(
        """SELECT type, data::text FROM fact_of_subject(
               (SELECT tenant_id FROM job WHERE bucket = $1 AND job_id = $2), $2)
            ORDER BY event_id DESC LIMIT 1""",
        bucket_of(UUID(job_id)),
        UUID(job_id),
    )
    assert row is not None
    return row["type"], any_json.decode(row["data"] or "{}")


async def live(api: Api, clock: Clock, steps: list[str], left: int) -> str:
    """Let a job live through attempts, and leave it so many more."""
    retry = {"backoff": "fixed", "initial_seconds": 60, "jitter": 0}
    job_id = await add(api, retry={**retry, "max_attempts": len(steps) + left})
    for step in steps:
        [lease] = await claim(api, lease_seconds=5)
        if step != "lose":
            fields: dict[str, Any] = {"code": "no_answer", "unknown": step == "unknown"}
            assert (await say(api, "fail", lease, error="-", **fields)).status == 200
        await clock.advance(61)
    return job_id


async def tried(api: Api, job_id: str) -> list[str]:
    answer = await api.call("GET", f"/jobs/{job_id}/attempts")
    return [each["status"] for each in answer.body["attempts"]]


@pytest.mark.parametrize(("steps", "in_doubt"), HISTORIES)
async def test_a_job_that_is_given_up_says_whether_it_may_have_been_done(
    api: Api, clock: Clock, steps: list[str], *, in_doubt: bool
) -> None:
    job_id = await live(api, clock, steps, 0)
    assert await claim(api) == []
    job = (await api.call("GET", f"/jobs/{job_id}")).body
    assert (job["status"], job.get("in_doubt", False)) == ("FAILED", in_doubt)
    assert await tried(api, job_id) == [STEPS[step] for step in steps]
    [dead] = (await api.call("GET", "/dead-letters")).body["jobs"]
    assert dead.get("in_doubt", False) == in_doubt
    name, data = await told(api, job_id)
    assert (name, data.get("in_doubt", False)) == ("job.failed", in_doubt)


async def test_a_job_that_expires_after_doubt_stays_in_doubt(api: Api, clock: Clock) -> None:
    job_id = await add(api, retry={"backoff": "fixed", "max_age_seconds": 30, "jitter": 0})
    [lease] = await claim(api)
    await say(api, "fail", lease, error="-", unknown=True)
    await clock.advance(120)
    assert await claim(api) == []
    job = (await api.call("GET", f"/jobs/{job_id}")).body
    assert (job["status"], job["code"], job["in_doubt"]) == ("FAILED", "too_old", True)


async def test_a_job_that_completes_after_doubt_is_in_none(api: Api, clock: Clock) -> None:
    job_id = await live(api, clock, ["unknown"], 1)
    [lease] = await claim(api)
    await say(api, "complete", lease)
    job = (await api.call("GET", f"/jobs/{job_id}")).body
    assert (job["status"], "in_doubt" in job) == ("COMPLETED", False)


@pytest.mark.parametrize(
    ("steps", "result"),
    [
        ([], "cancelled_before_claim"),
        (["fail"], "cancelled_after_failure"),
        (["unknown"], "cancelled_in_doubt"),
        (["unknown", "fail"], "cancelled_in_doubt"),
        (["lose", "fail"], "cancelled_in_doubt"),
        (["lose"], "stopped_in_flight"),
    ],
)
async def test_a_cancel_says_what_is_known(
    api: Api, clock: Clock, server: Embedded, database_name: str, steps: list[str], result: str
) -> None:
    one = await live(api, clock, steps, 1)
    answer = await api.call("POST", f"/jobs/{one}/cancel")
    again = await api.call("POST", f"/jobs/{one}/cancel")
    assert answer.body == again.body == {"status": "CANCELLED", "result": result}
    many = await live(api, clock, steps, 1)
    wanted = {"filter": {"lane": "mail"}}
    assert (await api.call("POST", "/jobs/bulk/cancel", wanted)).body["changed"] == 1
    own = await live(api, clock, steps, 1)
    async with (
        own_role(server, database_name, api.node.database, api.tenant) as role,
        role.connect() as connection,
    ):
        await connection.execute("SELECT postdate.cancel($1)", UUID(own))
    for job_id in (one, many, own):
        await shows(api, job_id, result)


async def shows(api: Api, job_id: str, result: str) -> None:
    """Check that a cancelled job and its event say how it ended."""
    job = (await api.call("GET", f"/jobs/{job_id}")).body
    doubt = result in {"cancelled_in_doubt", "stopped_in_flight"}
    assert (job["status"], job["code"], job.get("in_doubt", False)) == ("CANCELLED", result, doubt)
    name, data = await told(api, job_id)
    assert (name, data["result"]) == ("job.cancelled", result)


async def test_a_cancel_that_waits_for_a_record_sees_its_doubt(api: Api) -> None:
    """The attempt that the lock was waited for counts."""
    job_id = await add(api)
    [lease] = await claim(api)
    database = api.node.database
    async with asyncio.TaskGroup() as group:
        async with database.write() as connection:
            held = HeldLease(UUID(job_id), lease["token"], 1)
            verdict = Move(seconds=60, tried="UNKNOWN", code="no_answer")
            assert await execution.move(connection, [(held, verdict)], SYSTEM)
            cancel = group.create_task(api.call("POST", f"/jobs/{job_id}/cancel"))
            await eventually(partial(waits, database))
    assert cancel.result().body["result"] == "cancelled_in_doubt"


async def waits(database: Database) -> bool:
    """Return whether somebody waits for a lock in this database."""
    return bool(
        await database.writer.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database()"
        )
    )
