"""The adapters of a benchmark that others wrote speak its protocol, and Postdate's runs jobs."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest

from postdate_lab.bench.machine import free_port
from postdate_lab.queue_bench import native
from postdate_lab.queue_bench.adapter import Adapter, JobRate, percentiles, until_round
from postdate_lab.queue_bench.contract import MANIFESTS, Handler, Job, Manifest, Order, read_order

REQUIRED = {
    "claim_p50_ms", "claim_p95_ms", "claim_p99_ms", "enqueue_rate", "completion_rate",
    "queue_depth",
}  # fmt: skip


class ListQueue:
    """Runs each job at once."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    async def open(self, _: Order, handler: Handler) -> None:
        """Keep the handler."""
        self._handler = handler

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Run the jobs."""
        self.jobs.extend(jobs)
        await asyncio.gather(*(self._handler(job) for job in jobs))

    async def depth(self) -> int:
        """Return a number that the samples must show."""
        return 7

    async def close(self) -> None:
        """Do nothing."""


def test_time_that_passed_counts_and_not_turns_of_the_loop() -> None:
    rate = JobRate(10.0)
    assert [rate.due(100, at) for at in (10.25, 10.255, 10.2625)] == [25, 0, 1]
    assert rate.due(100, 20.0) == 100, "a pause of ten seconds is not made up for whole"


def test_a_wait_that_ended_early_is_not_waited_for_again() -> None:
    assert [until_round(now, 5) for now in (11.0, 14.999, 15.001)] == pytest.approx(
        [4, 5.001, 4.999]
    )


def test_percentiles_of_few_values_are_among_them() -> None:
    assert percentiles([]) == (0.0, 0.0, 0.0)
    assert percentiles(range(1, 101)) == (51, 95, 99)


def test_an_order_is_read_as_the_contract_names_it() -> None:
    order = read_order({
        "DATABASE_URL": "postgres://x", "WORKER_COUNT": "8", "PRODUCER_MODE": "depth-target",
        "TARGET_DEPTH": "50", "BENCH_INSTANCE_ID": "2",
    })  # fmt: skip
    assert (order.workers, order.target_depth, order.instance) == (8, 50, 2)
    assert not order.paced_by_harness, "the harness sends no tokens for a depth"
    assert read_order({"DATABASE_URL": "x"}).paced_by_harness


async def _poll_samples(order: Order, queue: ListQueue, capsys: Any, tokens: int = 0) -> list[Any]:
    adapter = Adapter(Manifest("list", "A list", ("public.list",)), queue, order)
    running = asyncio.create_task(adapter.run())
    lines: list[Any] = []
    async with asyncio.timeout(20):
        while not any(each.get("metric") == "producer_target_rate" for each in lines):
            if tokens:
                adapter.add_token(tokens)
            await asyncio.sleep(0.1)
            lines += [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    adapter.stop()
    await running
    return lines


async def test_an_adapter_describes_itself_and_then_samples(
    capsys: pytest.CaptureFixture[str],
) -> None:
    queue = ListQueue()
    order = Order(dsn="", rate=200, sample_seconds=1, batch_max=10, payload_bytes=100)
    first, *samples = await _poll_samples(order, queue, capsys)
    assert first["kind"] == "descriptor"
    assert first["event_tables"] == ["public.list"]
    found = {each["metric"]: each["value"] for each in samples}
    assert found.keys() >= REQUIRED
    assert 50 < found["completion_rate"] < 400
    assert found["queue_depth"] == 7
    assert all(each["instance_id"] == 0 and each["system"] == "list" for each in samples)
    assert len(queue.jobs[0]["padding"]) == 36


async def test_tokens_of_the_harness_decide_how_much_is_added(
    capsys: pytest.CaptureFixture[str],
) -> None:
    queue = ListQueue()
    order = Order(dsn="", sample_seconds=1, batch_max=10, paced_by_harness=True, work_ms=0)
    await _poll_samples(order, queue, capsys, tokens=25)
    assert len(queue.jobs) % 25 == 0
    assert queue.jobs


def test_a_harness_that_has_changed_is_refused_by_name() -> None:
    changed = SimpleNamespace(start_postgres=None, stop_postgres=None)
    server = native.PlainServer(Path(), Path(), sys.executable, 1)
    with pytest.raises(SystemExit, match="no _compose_stop_postgres"):
        native.use_plain_server(changed, server)  # type: ignore[arg-type]  # a stand-in
    with pytest.raises(SystemExit, match="is no checkout"):
        native.main(Path("/nowhere"), [])


def test_all_systems_are_registered_with_their_manifests(tmp_path: Path) -> None:
    adapters: Any = SimpleNamespace(
        ADAPTERS={"awa": 1}, AdapterEntry=SimpleNamespace, LaunchSpec=SimpleNamespace,
        _base_env=lambda _, overrides: overrides,
    )  # fmt: skip
    native.register(adapters, tmp_path, "/project/python")
    assert adapters.ADAPTERS.keys() == MANIFESTS.keys()
    entry = adapters.ADAPTERS["postdate"]
    written = json.loads((entry.bench_dir / "adapter.json").read_text())
    assert written["db_name"] == "postdate_bench"
    assert entry.launcher(None, {"A": "b"}).argv[0] == "/project/python"


@pytest.mark.process
def test_postdate_runs_jobs_on_a_plain_server() -> None:
    # Not below pytest's own folder, which the user of PostgreSQL may not enter.
    with TemporaryDirectory(prefix="pdq") as directory:
        home = Path(directory)
        home.chmod(0o711)
        (home / "postgres.conf").write_text("max_connections = 60\nfsync = off\n")
        server = native.PlainServer(home, home, sys.executable, port := free_port())
        server.start()
        try:
            samples = _adapter(f"postgres://bench:bench@127.0.0.1:{port}/postgres")
        finally:
            server.remove()
        assert not (home / "postgres").exists()
    assert samples[0]["kind"] == "descriptor"
    rates = [each["value"] for each in samples if each.get("metric") == "completion_rate"]
    assert max(rates) > 20, samples


def _adapter(dsn: str) -> list[Any]:
    """Run the adapter until it has completed jobs; return what it wrote."""
    process = subprocess.Popen(
        [sys.executable, "-m", "postdate_lab.queue_bench.adapter", "postdate"],
        env=os.environ | {
            "DATABASE_URL": dsn, "PRODUCER_PACING": "adapter", "PRODUCER_RATE": "50",
            "SAMPLE_EVERY_S": "1", "WORKER_COUNT": "8",
        },
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    samples: list[Any] = []
    ends = time.monotonic() + 60
    try:
        while time.monotonic() < ends and not _completed(samples):
            samples.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    return samples


def _completed(samples: list[Any]) -> bool:
    return any(each.get("metric") == "completion_rate" and each["value"] > 20 for each in samples)
