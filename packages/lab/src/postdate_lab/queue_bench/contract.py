"""What the harness tells an adapter by its environment, and what a queue must be able to do.

Only the standard library is imported here: a peer runs in an environment without Postdate.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

Job = dict[str, str]
"""What a queue carries: when the job was made, and padding."""

Handler = Callable[[Job], Awaitable[None]]
"""What a queue calls for each job that it runs."""


class Order(NamedTuple):
    """What the harness asks for; the defaults are those of its contract."""

    dsn: str
    workers: int = 32
    rate: float = 800.0
    target_depth: int | None = None
    batch_max: int = 128
    batch_ms: int = 25
    paced_by_harness: bool = False
    rate_file: str | None = None
    payload_bytes: int = 256
    work_ms: float = 1.0
    sample_seconds: int = 5
    instance: int = 0


def read_order(environment: Mapping[str, str] = os.environ) -> Order:
    """Read the order from the environment of the process."""
    own = Order(dsn=environment["DATABASE_URL"])
    depth = environment.get("PRODUCER_MODE") == "depth-target"
    paced = environment.get("PRODUCER_PACING", "harness") == "harness" and not depth
    return Order(
        dsn=own.dsn,
        workers=int(environment.get("WORKER_COUNT", own.workers)),
        rate=float(environment.get("PRODUCER_RATE", own.rate)),
        target_depth=int(environment.get("TARGET_DEPTH", "1000")) if depth else None,
        batch_max=max(1, int(environment.get("PRODUCER_BATCH_MAX", own.batch_max))),
        batch_ms=max(1, int(environment.get("PRODUCER_BATCH_MS", own.batch_ms))),
        paced_by_harness=paced,
        rate_file=environment.get("PRODUCER_RATE_CONTROL_FILE") or None,
        payload_bytes=int(environment.get("JOB_PAYLOAD_BYTES", own.payload_bytes)),
        work_ms=float(environment.get("JOB_WORK_MS", own.work_ms)),
        sample_seconds=int(environment.get("SAMPLE_EVERY_S", own.sample_seconds)),
        instance=int(environment.get("BENCH_INSTANCE_ID", own.instance)),
    )


class Manifest(NamedTuple):
    """What the harness wants to know of a queue before it starts: `adapter.json`."""

    system: str
    display_name: str
    event_tables: tuple[str, ...]
    """The tables whose dead rows and size the harness watches."""

    @property
    def db_name(self) -> str:
        """Return the name of the queue's own database."""
        return f"{self.system}_bench"


MANIFESTS: Final = {
    each.system: each
    for each in (
        Manifest("postdate", "Postdate (HTTP)", ("postdate.timer", "postdate.outbox")),
        Manifest("pgqueuer", "pgqueuer (Python)", ("public.pgqueuer", "public.pgqueuer_log")),
        Manifest(
            "procrastinate",
            "Procrastinate (Python)",
            ("public.procrastinate_jobs", "public.procrastinate_events"),
        ),
        Manifest("oban", "Oban (Python)", ("public.oban_jobs",)),
    )
}


class TestedQueue(Protocol):
    """A queue under test, used through its public interface only."""

    async def open(self, order: Order, handler: Handler) -> None:
        """Install the schema where it is missing, connect, and start the workers."""

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Add jobs by the way that the queue documents for many at once."""

    async def depth(self) -> int:
        """Count the jobs that wait."""

    async def close(self) -> None:
        """Stop the workers and disconnect."""
