"""DBOS: workflows enqueued one by one (it has no batch), run by the same process."""

import threading
import time

from dbos import DBOS

from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.peers.contract import END_SECONDS, PeerOrder, PeerRates

QUEUE = "bench"


def measure(order: PeerOrder) -> PeerRates:
    """Measure DBOS: its queue rests while the workflows are enqueued."""
    done = 0
    ended = threading.Event()
    begin = threading.Event()
    counting = threading.Lock()

    DBOS(config={"name": "bench", "system_database_url": order.dsn, "log_level": "ERROR"})

    @DBOS.workflow()
    def noop(number: int) -> int:
        nonlocal done
        begin.wait()
        with counting:
            done += 1
            if done == order.count:
                ended.set()
        return number

    DBOS.launch()
    try:
        DBOS.register_queue(QUEUE, polling_interval_sec=0.25)
        watch = Stopwatch()
        for number in range(order.count):
            DBOS.enqueue_workflow(QUEUE, noop, number)
        accepted = watch.rate(order.count)
        watch = Stopwatch()
        begin.set()
        if not ended.wait(END_SECONDS):
            raise TimeoutError(f"dbos ran {done} of {order.count}")
        executed = watch.rate(order.count)
        time.sleep(0.5)  # let its last outcomes be written before it goes
    finally:
        DBOS.destroy()
    return PeerRates(accepted=accepted, executed=executed)
