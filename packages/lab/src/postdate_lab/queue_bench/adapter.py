"""A long-running process as the harness wants it: jobs in and out, samples as JSON lines.

python -m postdate_lab.queue_bench.adapter pgqueuer
"""

import asyncio
import collections
import contextlib
import importlib
import json
import signal
import sys
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from postdate_lab.queue_bench.contract import (
    MANIFESTS,
    Job,
    Manifest,
    Order,
    TestedQueue,
    read_order,
)

WINDOW_SECONDS: Final = 30.0
MAX_LATENCIES: Final = 65_536
DEPTH_SECONDS: Final = 0.2
RATE_FILE_SECONDS: Final = 0.25
BEHIND_SECONDS: Final = 1.0
"""The longest time that is made up for after a pause of the producer."""


def now_text() -> str:
    """Return the present as the harness writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def percentiles(values: Iterable[float]) -> tuple[float, float, float]:
    """Return the median, the 95th and the 99th percentile; zeros if there are no values."""
    ordered = sorted(values)
    if not ordered:
        return (0.0, 0.0, 0.0)
    last = len(ordered) - 1
    p50, p95, p99 = (ordered[min(last, round(last * share))] for share in (0.5, 0.95, 0.99))
    return (p50, p95, p99)


def until_round(now: float, every: int) -> float:
    """Return the seconds until a round instant; a wait that ended early counts as on time."""
    left = every - now % every
    return left if left > every / 2 else left + every


class JobRate:
    """Says how many jobs are due by a rate; time that passed counts, not turns of a loop."""

    def __init__(self, now: float) -> None:
        self._last = now
        self._credit = 0.0

    def due(self, rate: float, now: float) -> int:
        """Return how many whole jobs are due now."""
        self._credit += rate * min(now - self._last, BEHIND_SECONDS)
        self._last = now
        whole = int(self._credit)
        self._credit -= whole
        return whole


class Adapter:
    """Fills a queue, lets it run the jobs, and reports what it sees."""

    def __init__(self, manifest: Manifest, queue: TestedQueue, order: Order) -> None:
        self._manifest = manifest
        self._queue = queue
        self._order = order
        self._stopping = asyncio.Event()
        self._latencies: collections.deque[tuple[float, float]] = collections.deque(
            maxlen=MAX_LATENCIES
        )
        self._enqueued = 0
        self._completed = 0
        self._depth = 0
        self._target_rate = 0.0 if order.target_depth else order.rate
        self._tokens: asyncio.Queue[int] = asyncio.Queue()
        self._padding = "x" * max(0, order.payload_bytes - 64)

    def stop(self) -> None:
        """End soon."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until told to stop."""
        self._describe()
        await self._queue.open(self._order, self._handle)
        loops = [self._produce(), self._watch_depth(), self._sample()]
        tasks = [asyncio.ensure_future(each) for each in loops]
        try:
            await self._stopping.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._queue.close()

    def add_token(self, count: int) -> None:
        """Take a token of the harness: it asks for so many jobs."""
        self._tokens.put_nowait(count)

    async def _handle(self, job: Job) -> None:
        """Run one job: note how long it waited, and do what counts as work."""
        waited = datetime.now(UTC) - datetime.fromisoformat(job["created_at"])
        self._latencies.append((time.monotonic(), max(0.0, waited.total_seconds() * 1000)))
        if self._order.work_ms:
            await asyncio.sleep(self._order.work_ms / 1000)
        self._completed += 1

    async def _produce(self) -> None:
        rate = JobRate(time.monotonic())
        while True:
            wanted = await self._wanted(rate)
            while wanted > 0:
                count = min(wanted, self._order.batch_max)
                wanted -= count
                await self._add(count)

    async def _add(self, count: int) -> None:
        created = datetime.now(UTC).isoformat()
        try:
            await self._queue.enqueue(
                [{"created_at": created, "padding": self._padding} for _ in range(count)]
            )
            self._enqueued += count
        except Exception as error:  # noqa: BLE001 - chaos phases break connections on purpose
            print(f"[{self._manifest.system}] not enqueued: {error!r}", file=sys.stderr)
            await asyncio.sleep(0.1)

    async def _wanted(self, job_rate: JobRate) -> int:
        """Wait until jobs are wanted, and return how many."""
        if self._order.target_depth is not None:
            missing = self._order.target_depth - self._depth
            if missing <= 0:
                await asyncio.sleep(0.05)
            return min(missing, self._order.batch_max)
        if self._order.paced_by_harness:
            return await self._tokens.get()
        await asyncio.sleep(self._order.batch_ms / 1000)
        return job_rate.due(self._target_rate, time.monotonic())

    async def _watch_depth(self) -> None:
        while True:
            with contextlib.suppress(Exception):
                self._depth = await self._queue.depth()
            if self._order.rate_file is not None and not self._order.target_depth:
                with contextlib.suppress(OSError, ValueError):
                    text = await asyncio.to_thread(Path(self._order.rate_file).read_text)
                    self._target_rate = float(text)
            await asyncio.sleep(DEPTH_SECONDS)

    async def _sample(self) -> None:
        """Report on each round instant of the clock, so that systems share a time axis."""
        every = self._order.sample_seconds
        await asyncio.sleep(until_round(time.time(), every))
        before = (time.monotonic(), self._enqueued, self._completed)
        while True:
            await asyncio.sleep(until_round(time.time(), every))
            after = (time.monotonic(), self._enqueued, self._completed)
            seconds = after[0] - before[0]
            self._report((after[1] - before[1]) / seconds, (after[2] - before[2]) / seconds)
            before = after

    def _report(self, enqueue_rate: float, completion_rate: float) -> None:
        since = time.monotonic() - WINDOW_SECONDS
        p50, p95, p99 = percentiles(ms for at, ms in self._latencies if at >= since)
        every = float(self._order.sample_seconds)
        values = [
            ("claim_p50_ms", p50, WINDOW_SECONDS),
            ("claim_p95_ms", p95, WINDOW_SECONDS),
            ("claim_p99_ms", p99, WINDOW_SECONDS),
            ("enqueue_rate", enqueue_rate, every),
            ("completion_rate", completion_rate, every),
        ]
        if self._order.instance == 0:
            # What all replicas would see alike is told by the first one.
            values.append(("queue_depth", float(self._depth), 0.0))
            values.append(("producer_target_rate", self._target_rate, 0.0))
        at = now_text()
        for metric, value, window in values:
            self._emit(
                {
                    "t": at, "system": self._manifest.system, "kind": "adapter",
                    "subject_kind": "adapter", "subject": "", "metric": metric,
                    "value": round(value, 3), "window_s": window,
                }
            )  # fmt: skip

    def _describe(self) -> None:
        self._emit(
            {
                "kind": "descriptor", "system": self._manifest.system,
                "event_tables": list(self._manifest.event_tables), "extensions": [],
                "version": _version(self._manifest.system), "schema_version": "current",
                "db_name": self._manifest.db_name, "started_at": now_text(),
            }
        )  # fmt: skip

    def _emit(self, record: dict[str, Any]) -> None:
        print(json.dumps(record | {"instance_id": self._order.instance}), flush=True)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def find(name: str) -> tuple[Manifest, TestedQueue]:
    """Import the module of a queue, whose package may be installed only here."""
    module = importlib.import_module(f"postdate_lab.queue_bench.queues.{name}")
    return MANIFESTS[name], module.make()


def _read_tokens(adapter: Adapter, loop: asyncio.AbstractEventLoop) -> None:
    """Hand on the harness's lines `ENQUEUE <n>` until it closes the pipe."""
    for line in sys.stdin:
        word, _, count = line.strip().partition(" ")
        if word == "ENQUEUE" and count.isdigit():
            loop.call_soon_threadsafe(adapter.add_token, int(count))


async def serve(name: str) -> None:
    """Run the adapter of a queue until SIGTERM."""
    adapter = Adapter(*find(name), read_order())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, adapter.stop)
    threading.Thread(target=_read_tokens, args=(adapter, loop), daemon=True).start()
    await adapter.run()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
