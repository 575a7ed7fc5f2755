"""Jobs for tests: an intake without HTTP, and jobs that have failed."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from conftest import Api
from postdate.core.ids import bucket_of
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.job.accept.intake import JobIntake, Named
from postdate.job.accept.request import JobRequest
from postdate.job.spec.job import JobSpec
from postdate.lane.change import Lanes
from postdate.lane.store.lane import LaneDirectory
from postdate.words.error import Refusal


async def any_name(_: object) -> dict[Named, Refusal]:
    """Let every named destination pass."""
    return {}


def make_intake(database: Database, lanes: LaneDirectory | None = None, **parts: Any) -> JobIntake:
    settings = parts.pop("settings", Settings())
    directory = lanes or LaneDirectory(database)
    parts = {"allowed": (), "check_names": any_name, **parts}
    return JobIntake(database, Lanes(database, directory, settings), settings, **parts)


def ask(tenant_id: int, key: str | None = None, **members: Any) -> JobRequest:
    body = msgspec.json.encode({"destination": {"type": "worker"}, **members})
    spec = msgspec.json.decode(body, type=JobSpec)
    return JobRequest(tenant_id=tenant_id, spec=spec, actor="test", key=key)


async def failed(api: Api, count: int = 1, *, code: str = "http_500", **members: Any) -> list[str]:
    """Make jobs that have failed, as a worker would leave them."""
    jobs = [{"destination": {"type": "worker"}, **members}] * count
    outcomes = (await api.call("POST", "/jobs/batch", {"jobs": jobs})).body["outcomes"]
    ids = [outcome["job"]["job_id"] for outcome in outcomes]
    await end_as_failed(api.node.database, [UUID(job_id) for job_id in ids], code)
    return ids


async def end_as_failed(database: Database, ids: Sequence[UUID], code: str = "http_500") -> None:
    """End jobs as failed, after an attempt that failed before."""
    for job_id in ids:
        await database.writer.execute(
            """WITH gone AS (DELETE FROM timer WHERE bucket = $1 AND subject = $2 RETURNING *),
                    first AS (
                    INSERT INTO attempt (bucket, tenant_id, subject, attempt, status, due_at,
                                         started_at, finished_at, retry_at, code, error)
                    SELECT bucket, tenant_id, subject, 1, 'FAILED', due_at, clock(), clock(),
                           clock(), 'http_500', 'no' FROM gone)
               INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, started_at,
                                    finished_at, code, error, http_status)
               SELECT bucket, tenant_id, subject, 2, 'FAILED', due_at, clock(), clock(), $3,
                      'still no', 500 FROM gone""",
            bucket_of(job_id),
            job_id,
            code,
        )
