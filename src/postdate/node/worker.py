"""The worker role: the loops that claim jobs, renew their leases, and shut down."""

from collections.abc import Awaitable, Callable
from typing import Final

from postdate.delivery.broker_connections import IDLE_SECONDS
from postdate.node import job
from postdate.node.node import Node
from postdate.runtime.loop import POLL_SECONDS, Loop
from postdate.worker.worker import JobWorker

CLAIMS: Final = 2
"""Claims under way at once: while the database takes one, another is read and started."""

CLAIM_JOBS: Final = 250
"""The most jobs of one claim: enough to share the cost of a commit, however busy the machine is.

Others wait for these rows as long as the claim takes, some milliseconds.
"""

REFRESH_SECONDS: Final = 1.0
KEEP_SECONDS: Final = 0.5


def loops(node: Node) -> list[Loop]:
    """Make the loops of the worker role."""
    worker = JobWorker(
        database=node.database,
        node_id=node.node_id,
        lanes=node.lanes,
        settings=node.runtime,
        handlers={
            "webhook": node.handler("webhook", node.outgoing.webhook.deliver),
            "queue": node.handler("queue", node.outgoing.queue.deliver),
        },
        tally=node.tallies["push"],
        window_size=node.settings.worker_window,
        limits_of=node.outgoing.directory.limits_of,
        cipher=node.outgoing.cipher,
        shared_reads=node.reads,
    )
    node.reexamine["push"].append(worker.reexamine)
    node.reexamine["lease"].append(worker.reexamine)
    care = care_loops(worker, node.settings.drain_seconds)
    close_idle = node.outgoing.connections.close_idle
    care.append(Loop("queues", close_idle, limit=1, poll_seconds=IDLE_SECONDS))
    return [*hinted_claims(node, worker, care[0]), *care, *_sweeps(node)]


def _sweeps(node: Node) -> list[Loop]:
    return [job.expiry(node), job.cancel_calls(node), job.retention(node)]


def hinted_claims(node: Node, worker: JobWorker, lanes: Loop) -> list[Loop]:
    """Make the loops that claim, woken by hints and by room in the window."""
    claims = claim_loops(worker, worker.run_once)

    def wake(lane_id: int | None) -> None:
        if worker.claimer.hint(lane_id):
            worker.room.send()
        else:
            lanes.wake()

    def accepted(lane_id: int, seconds: float) -> None:
        if seconds <= POLL_SECONDS:
            wake(lane_id)

    node.wakeup.listeners.append(wake)
    node.on_accept.append(accepted)
    return claims


def claim_loops(worker: JobWorker, step: Callable[[int], Awaitable[int]]) -> list[Loop]:
    """Make the loops that claim; all of them are woken when there is room."""
    return [
        Loop(
            f"worker-claim-{number}",
            step,
            limit=CLAIM_JOBS,
            next_due=worker.next_due,
            woken_by=worker.room,
        )
        for number in range(1, CLAIMS + 1)
    ]


def care_loops(worker: JobWorker, drain_seconds: float) -> list[Loop]:
    """Return the loops that refresh the lanes and renew leases."""

    async def refresh(limit: int) -> int:
        before = len(worker.claimer.lane_buckets)
        await worker.claimer.refresh(limit)
        if len(worker.claimer.lane_buckets) > before:
            worker.room.send()
        return 0

    async def drain() -> None:
        await worker.runner.drain(drain_seconds)

    return [
        Loop("worker-lanes", refresh, limit=1, poll_seconds=REFRESH_SECONDS),
        Loop("worker-keep", worker.renew, limit=1, poll_seconds=KEEP_SECONDS, finish=drain),
    ]
