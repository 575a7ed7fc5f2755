"""Lanes, jobs and workers for the tests, made straight in the store."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of, new_id
from postdate.core.setting.setting import Settings, Stored
from postdate.database.connection import clock
from postdate.database.connection.database import Database
from postdate.job.spec.outcome import Completed, Delivery, JobHandler, Outcome
from postdate.job.spec.tally import Tally
from postdate.job.store import job as job_store
from postdate.job.store.job import NewJob
from postdate.lane.spec import LaneKind, key_id
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import Lane, LaneDirectory, LaneKey
from postdate.tenant.store import tenant as tenant_store
from postdate.worker.worker import JobWorker

WEBHOOK = {"type": "webhook", "url": "https://example.com/hook"}
WORKER = {"type": "worker"}
_MADE: list[JobWorker] = []
"""Kept to the end: what a worker that "died" was doing would be destroyed while it waits."""


async def make_tenant(database: Database, name: str) -> int:
    """Create a tenant."""
    async with database.write() as connection:
        created = await tenant_store.create(connection, name)
    assert created is not None
    return created


async def make_lane(
    database: Database,
    tenant_id: int,
    name: str = "default",
    kind: LaneKind = "push",
    *,
    keyed: bool = False,
    **changes: Any,
) -> Lane:
    """Create a lane, with limits or weight if given; the row of jobs with a key, if asked."""
    wanted = LaneKey(tenant_id, name, kind, keyed=keyed)
    async with database.write() as connection:
        found = await lane_store.ensure(connection, [wanted])
        if changes:
            found = await lane_store.change(
                connection, msgspec.structs.replace(found[0], **changes)
            )
    return next(each for each in found if each.key == wanted)


async def add_jobs(
    database: Database,
    lane: Lane,
    count: int = 1,
    *,
    in_seconds: Sequence[float] = (0,),
    retry: Mapping[str, Any] | None = None,
    expires_in: float | None = None,
    to: Mapping[str, Any] | None = None,
    payload: bytes = b'{"n":1}',
    **fields: Any,
) -> list[UUID]:
    """Insert jobs with their timers, spread over the lane's buckets and the given instants."""
    key = fields.get("key")
    buckets = lane.buckets_of(key)
    if key is not None:
        fields["key_id"] = key_id(lane.tenant_id, lane.name, key)
    ids = [new_id(buckets[n % len(buckets)], database.unix_ms()) for n in range(count)]
    destination = to or (WORKER if lane.kind == "pull" else WEBHOOK)
    policy = msgspec.json.encode({"retry": retry}).decode() if retry else None
    async with database.write() as connection:
        now = await clock.now(connection)
        due = [now + timedelta(seconds=in_seconds[n % len(in_seconds)]) for n in range(count)]
        jobs = [
            NewJob(
                tenant_id=lane.tenant_id,
                job_id=job_id,
                lane_id=lane.lane_id,
                due_at=due[n],
                effective_at=due[n],
                expires_at=None if expires_in is None else now + timedelta(seconds=expires_in),
                destination=msgspec.json.encode(destination).decode(),
                policy=policy,
                payload=payload,
                content_type="application/json",
                payload_ref=None,
                actor="test",
                **fields,
            )
            for n, job_id in enumerate(ids)
        ]
        await job_store.accept(connection, jobs, now)
    return ids


class Handled:
    """A handler that notes what it gets and answers as told."""

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self.deliveries: list[Delivery] = []
        self.running = 0
        self.most_running = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self._outcomes = list(outcomes)

    async def __call__(self, delivery: Delivery) -> Outcome:
        self.deliveries.append(delivery)
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        outcome = self._outcomes.pop(0) if self._outcomes else Completed()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class OwnLanes(LaneDirectory):
    """The lanes of one tenant: tests share a database, and must not run each other's jobs."""

    def __init__(self, database: Database, tenant_ids: Sequence[int]) -> None:
        super().__init__(database)
        self._own = tenant_ids

    def remember(self, lanes: Sequence[Lane]) -> None:
        super().remember([lane for lane in lanes if lane.tenant_id in self._own])


async def make_worker(
    database: Database,
    handler: JobHandler,
    *tenant_ids: int,
    settings: Mapping[str, Any] | None = None,
    kind: str = "webhook",
    **more: Any,
) -> JobWorker:
    """Make a worker that serves one type of destination, for some tenants."""
    stored = {(0, name): Stored(0, name, value) for name, value in (settings or {}).items()}
    worker = JobWorker(
        database=database,
        node_id=new_id(0, database.unix_ms()),
        lanes=OwnLanes(database, tenant_ids),
        settings=Settings(stored),
        handlers={kind: handler},
        tally=Tally(),
        **more,
    )
    _MADE.append(worker)
    await refresh(worker)
    return worker


async def refresh(worker: JobWorker) -> None:
    """Let a worker know of every lane."""
    await worker.lanes.refresh()
    await worker.claimer.refresh()


def look(worker: JobWorker) -> None:
    """Let a worker look everywhere anew: the settable clock moves without its knowing."""
    worker.claimer.lane_buckets.hint_all(0.0)


async def step(worker: JobWorker, limit: int = 1000) -> int:
    """Claim, run and record until nothing due is left."""
    look(worker)
    total = 0
    while count := await worker.run_once(limit):
        total += count
    await worker.runner.wait_idle()
    return total


async def one(database: Database, table: str, job_id: UUID) -> Any:
    """Read the row of a job from a table."""
    return await database.writer.fetchrow(
        f"SELECT * FROM {table} WHERE bucket = $1 AND subject = $2",
        (job_id.int >> 64) & 63,
        job_id,
    )


async def rows(database: Database, table: str, job_id: UUID, order: str) -> list[Any]:
    """Read the rows of a job from a table."""
    return await database.writer.fetch(
        f"SELECT * FROM {table} WHERE bucket = $1 AND subject = $2 ORDER BY {order}",
        (job_id.int >> 64) & 63,
        job_id,
    )


async def told(database: Database, job_id: UUID) -> list[str]:
    """List the types of a job's events since it was accepted, in order."""
    tenant_id = await database.writer.fetchval(
        "SELECT tenant_id FROM job WHERE bucket = $1 AND job_id = $2", bucket_of(job_id), job_id
    )
    events = await database.writer.fetch(
        "SELECT type FROM fact_of_subject($1, $2) ORDER BY event_id", tenant_id, job_id
    )
    return [event["type"] for event in events if event["type"] != "job.accepted"]
