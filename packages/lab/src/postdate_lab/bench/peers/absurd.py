"""Absurd: tasks spawned one by one (it has no batch), run by one worker."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from absurd_sdk import Absurd

from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.peers.contract import PeerOrder, PeerRates

QUEUE: Final = "bench"
BATCH_SIZE: Final = 50


def measure(order: PeerOrder) -> PeerRates:
    """Measure Absurd."""
    tool = Path(sys.executable).with_name("absurdctl")
    for arguments in (["init"], ["create-queue", QUEUE]):
        command = [str(tool), *arguments, "-d", order.dsn]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own command
    app = Absurd(order.dsn, queue_name=QUEUE)
    done = 0

    @app.register_task(name="noop")
    def noop(params: Any, context: Any) -> None:
        nonlocal done
        del params, context
        done += 1
        if done == order.count:
            app.stop_worker()

    watch = Stopwatch()
    for _ in range(order.count):
        app.spawn("noop", {"order": 4711})
    accepted = watch.rate(order.count)
    watch = Stopwatch()
    app.start_worker(batch_size=BATCH_SIZE, poll_interval=0.1)
    return PeerRates(accepted=accepted, executed=watch.rate(order.count))
