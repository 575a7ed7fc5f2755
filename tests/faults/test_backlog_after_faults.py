"""A worker that has lived through faults works off a backlog as one does that was just started."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import nats
import pytest

from conftest import eventually, scratch
from postdate.database.connection.database import Database
from postdate.lane.store.lane import Lane
from postdate.node import worker as worker_role
from postdate.worker.worker import JobWorker
from support.local_broker import Server, nats_cluster
from support.local_queue import queue_to
from support.worker import add_jobs, make_lane, make_tenant, make_worker

QUEUE = {"type": "queue", "name": "q", "subject": "orders"}
UNDER_WAY = 50
BACKLOG = 600


@pytest.fixture
def directory() -> Any:
    with scratch() as path:
        yield path


@asynccontextmanager
async def working(database: Database, port: int, tenant_id: int) -> AsyncIterator[JobWorker]:
    """Run a worker of its own connections, memory and breakers, as in a process."""
    queue = queue_to("nats", {"servers": [f"nats://127.0.0.1:{port}"]})
    patient = {"job.timeout_seconds": 300}
    worker = await make_worker(database, queue.deliver, tenant_id, kind="queue", settings=patient)
    loops = [
        *worker_role.claim_loops(worker, worker.run_once),
        *worker_role.care_loops(worker, 5),
    ]
    running = [asyncio.create_task(loop.run()) for loop in loops]
    try:
        yield worker
    finally:
        for loop in loops:
            loop.stop()
        await asyncio.gather(*running)
        await queue._connections.close()


async def kill_under_way(database: Database, lane: Lane, server: Server, worker: JobWorker) -> None:
    """Kill the broker while it owes an answer to many messages, and start it again."""
    server.stop()
    await add_jobs(database, lane, UNDER_WAY, to=QUEUE)
    await eventually(partial(_is_busy, worker))
    await server.kill()
    await server.start()


async def drain_seconds(database: Database, lane: Lane) -> float:
    """Leave a backlog that is due, and see how long it takes until nothing is open."""
    await add_jobs(database, lane, BACKLOG, to=QUEUE)
    began = time.monotonic()
    await eventually(partial(_is_empty, database, lane), seconds=60)
    return time.monotonic() - began


async def test_a_worker_whose_broker_was_killed_again_and_again_is_as_fast_as_a_new_one(
    database: Database, directory: Path
) -> None:
    tenant_id = await make_tenant(database, "after-faults")
    lane = await make_lane(database, tenant_id)
    async with nats_cluster(directory) as (server,):
        client = await nats.connect(f"nats://127.0.0.1:{server.port}")
        await client.jetstream().add_stream(name="orders", subjects=["orders"])
        await client.close()
        async with working(database, server.port, tenant_id) as worker:
            for _ in range(3):
                await kill_under_way(database, lane, server, worker)
            old = await drain_seconds(database, lane)
        async with working(database, server.port, tenant_id):
            fresh = await drain_seconds(database, lane)
    # The breaker may leave the broker alone for some seconds, and no longer.
    assert old < 3 * fresh + 6


async def _is_busy(worker: JobWorker) -> bool:
    return len(worker.runner) >= UNDER_WAY


async def _is_empty(database: Database, lane: Lane) -> bool:
    left = await database.writer.fetchval(
        "SELECT count(*) FROM timer WHERE lane_id = $1", lane.lane_id
    )
    return bool(left == 0)
