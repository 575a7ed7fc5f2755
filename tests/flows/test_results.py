"""Results of functions: awaited in both forms of the client, kept elsewhere, or cut off."""

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from conftest import Api, eventually
from flows.test_tasks import in_thread, working
from postdate import Postdate
from postdate.client import (
    AsyncClient,
    Client,
    JobCancelledError,
    ResultRef,
    RunningJob,
    WaitTimeoutError,
    Worker,
)

if TYPE_CHECKING:
    from postdate.client.models.shared import WorkerDestinationParams


async def test_both_forms_wait_for_a_result(api: Api) -> None:
    worker = Worker(api.url, api.key)

    @worker.handler("results")
    def give(job: RunningJob) -> Any:
        return ResultRef("s3://reports/7") if job.payload == "large" else {"got": job.payload}

    running = asyncio.create_task(worker.run())
    target: WorkerDestinationParams = {"type": "worker"}
    async with AsyncClient(api.url, api.key) as client:
        made = await client.jobs.create(destination=target, lane="results", payload=1)
        assert (await client.jobs.wait(made.job_id)).result == {"got": 1}
        made = await client.jobs.create(destination=target, lane="results", payload="large")
        large = await client.jobs.wait(made.job_id)
        assert large.result_ref == "s3://reports/7"
        assert "result" not in (await api.call("GET", f"/jobs/{made.job_id}")).body

        def plain() -> Any:
            with Client(api.url, api.key) as client:
                made = client.jobs.create(destination=target, lane="results", payload=2)
                return client.jobs.wait(made.job_id).result

        assert await in_thread(plain) == {"got": 2}
        waits = await client.jobs.create(destination=target, lane="nobody")
        with pytest.raises(WaitTimeoutError):
            await client.jobs.wait(waits.job_id, timeout=0.1)
    worker.stop()
    await running


@pytest.mark.parametrize("address", ["", "x" * 2049, "nul\0"])
async def test_a_wrong_address_is_not_kept(api: Api, address: str) -> None:
    app = Postdate(api.url, api.key)

    @app.task()
    def give() -> Any:
        return ResultRef(address)

    async with working(app):
        handle = await give.anow()
        assert "not_kept" in await handle.result()


async def test_a_task_stops_when_its_handle_is_cancelled(api: Api) -> None:
    app = Postdate(api.url, api.key)

    @app.task()
    def stops(job: RunningJob) -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until and not job.cancelled:
            job.progress(1)
        raise JobCancelledError

    async with working(app):
        handle = await stops.anow()

        async def runs() -> bool:
            return (await handle.ajob()).progress is not None

        await eventually(runs)
        assert (await handle.acancel()).result == "cancel_requested"

        async def ended() -> bool:
            return (await handle.ajob()).status == "CANCELLED"

        await eventually(ended)
