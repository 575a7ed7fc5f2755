"""Temporal's development server: one workflow a job, started one by one, run by one worker."""

import asyncio
import contextlib
import shutil
import sys
from pathlib import Path
from typing import Final

from temporalio import workflow
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from postdate_lab.bench.machine import Stopwatch, free_port
from postdate_lab.bench.peers.contract import END_SECONDS, PeerOrder, PeerRates

QUEUE: Final = "bench"
AT_ONCE: Final = 50
START_SECONDS: Final = 60


@workflow.defn
class Noop:
    """A workflow that ends at once."""

    @workflow.run
    async def run(self, order: int) -> int:
        """Return what it was given."""
        return order


async def _measure(order: PeerOrder) -> PeerRates:
    port = free_port()
    tool = shutil.which("temporal", path=str(Path(sys.executable).parent)) or "temporal"
    server = await asyncio.create_subprocess_exec(
        tool, "server", "start-dev", "--ip", "127.0.0.1", "--port", str(port), "--headless",
        "--log-level", "error", "--db-filename", str(Path(order.directory) / "temporal.db"),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        client = await _connect(f"127.0.0.1:{port}")
        return await _rates(client, order.count)
    finally:
        with contextlib.suppress(ProcessLookupError):
            server.terminate()
        await server.wait()


async def _connect(address: str) -> Client:
    """Wait until the server answers, and knows its namespace, which it makes a moment later."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            try:
                client = await Client.connect(address)
                await client.count_workflows()
            except (RuntimeError, RPCError):
                await asyncio.sleep(0.2)
            else:
                return client


async def _start(client: Client, number: int) -> None:
    """Start a workflow; parts of a busy server learn late of the namespace that others know."""
    while True:
        try:
            await client.start_workflow(Noop.run, number, id=f"job-{number}", task_queue=QUEUE)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def _rates(client: Client, count: int) -> PeerRates:
    gate = asyncio.Semaphore(AT_ONCE)

    async def start(number: int) -> None:
        async with gate:
            await _start(client, number)

    watch = Stopwatch()
    await asyncio.gather(*(start(number) for number in range(count)))
    accepted = watch.rate(count)
    watch = Stopwatch()
    # Nothing leaves the process of the workflow, so there is nothing to keep out of its sandbox.
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue=QUEUE, workflows=[Noop], workflow_runner=runner):
        async with asyncio.timeout(END_SECONDS):
            handles = [client.get_workflow_handle(f"job-{number}") for number in range(count)]
            await asyncio.gather(*(handle.result() for handle in handles))
        executed = watch.rate(count)
    return PeerRates(accepted=accepted, executed=executed)


def measure(order: PeerOrder) -> PeerRates:
    """Measure Temporal."""
    return asyncio.run(_measure(order))
