"""Steps, progress and log of jobs that the SDK's worker runs; what was recorded is not repeated."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Api, eventually
from postdate import Postdate
from postdate.client import AsyncRunningJob, Lease, RunningJob, Worker

AGAIN = {"retry": {"max_attempts": 5, "initial_seconds": 0.01, "jitter": 0}}


async def add(api: Api, lane: str, **fields: Any) -> str:
    body = {"destination": {"type": "worker"}, "lane": lane, **fields}
    answered = await api.call("POST", "/jobs", body)
    assert answered.status == 201, answered.body
    return str(answered.body["job_id"])


async def status(api: Api, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await api.call("GET", f"/jobs/{job_id}")).body
    return found


async def until(api: Api, job_id: str, wanted: str, seconds: float = 10.0) -> dict[str, Any]:
    async def check() -> dict[str, Any] | None:
        found = await status(api, job_id)
        return found if found["status"] == wanted else None

    found: dict[str, Any] = await eventually(check, seconds)
    return found


async def run(worker: Worker, api: Api, job_id: str, wanted: str = "COMPLETED") -> dict[str, Any]:
    running = asyncio.create_task(worker.run())
    found = await until(api, job_id, wanted)
    worker.stop()
    await running
    return found


async def test_a_plain_function_does_each_step_once_over_its_attempts(api: Api) -> None:
    worker = Worker(api.url, api.key)
    done: list[str] = []

    def charge(amount: int) -> dict[str, Any]:
        done.append("charge")
        return {"charged": amount, "at": (1, 2)}

    @worker.handler("steps")
    def order(job: RunningJob) -> Any:
        charged = job.step("charge", charge, amount=7)
        job.progress(50, f"charged on attempt {job.attempt}")
        job.log(f"attempt {job.attempt}")
        if job.attempt < 3:
            raise ValueError("not yet")
        job.step("ship", done.append, "ship")
        return charged

    job_id = await add(api, "steps", **AGAIN)
    ended = await run(worker, api, job_id)
    assert done == ["charge", "ship"]
    assert ended["result"] == {"charged": 7, "at": [1, 2]}
    assert ended["progress"]["note"] == "charged on attempt 3"
    attempts = (await api.call("GET", f"/jobs/{job_id}/attempts")).body["attempts"]
    assert [each["log"] for each in attempts] == [["attempt 1"], ["attempt 2"], ["attempt 3"]]


async def test_an_asynchronous_function_does_each_step_once(api: Api) -> None:
    worker = Worker(api.url, api.key)
    done: list[int] = []

    async def count(number: int) -> int:
        done.append(number)
        return number

    @worker.handler("async-steps")
    async def order(job: AsyncRunningJob) -> list[int]:
        both = await asyncio.gather(*(job.step(f"n{n}", count, n) for n in range(5)))
        await job.progress(80)
        if job.attempt == 1:
            raise ValueError("not yet")
        return [*both, await job.step("plain", len, both)]

    job_id = await add(api, "async-steps", **AGAIN)
    ended = await run(worker, api, job_id)
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert ended["result"] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("result", "code"), [("x" * 17_000, "checkpoint_too_large"), (object(), "step_not_recorded")]
)
async def test_a_step_whose_result_cannot_be_kept_is_not_tried_again(
    api: Api, result: Any, code: str
) -> None:
    worker = Worker(api.url, api.key)
    done: list[int] = []

    def large() -> Any:
        done.append(1)
        return result

    @worker.handler(code)
    def order(job: RunningJob) -> None:
        job.step("large", large)

    ended = await run(worker, api, await add(api, code, **AGAIN), "FAILED")
    assert (ended["code"], done) == (code, [1])


async def test_two_steps_of_one_name_are_refused(api: Api) -> None:
    worker = Worker(api.url, api.key)

    @worker.handler("twice")
    def order(job: RunningJob) -> None:
        for number in range(2):
            job.step("same", int, number)

    job_id = await add(api, "twice", retry={"max_attempts": 1})
    ended = await run(worker, api, job_id, "FAILED")
    assert "this job has a step 'same' already" in ended["error"]


async def test_a_task_gets_the_job_it_runs(api: Api) -> None:
    app = Postdate(api.url, api.key)

    @app.task(lane="task-steps")
    async def book(name: str, job: AsyncRunningJob) -> str:
        return await job.step("book", lambda: f"booked for {name}")

    @app.task(lane="task-steps")
    def plain(name: str, job: RunningJob) -> str:
        job.log(f"for {name}")
        return job.step("book", str.upper, name)

    handles = [await book.anow("Ada"), await plain.anow("Ada")]
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    assert [await each.result(20) for each in handles] == ["booked for Ada", "ADA"]
    worker.stop()
    await running
    await app.close()


def test_a_task_with_the_wrong_type_of_job_is_refused() -> None:
    app = Postdate("http://localhost:1", "key")

    async def wrong(job: RunningJob) -> None: ...

    with pytest.raises(TypeError, match="the type of its job is AsyncRunningJob, not RunningJob"):
        app.task()(wrong)


def test_only_a_worker_makes_a_job_that_reports() -> None:
    fields = dict.fromkeys(Lease.__struct_fields__)
    job = RunningJob(**fields)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="that a worker hands to a function"):
        job.progress(1)


KILLED = """
import os, signal, sys
from pathlib import Path
from postdate.client import RunningJob, Worker

worker = Worker(sys.argv[1], sys.argv[2], lease_seconds=2)
log = Path(sys.argv[3])

def step(name):
    with log.open("a") as file:
        file.write(name + " ")
    return name

@worker.handler("killed")
def order(job: RunningJob):
    for name in "abcd":
        job.step(name, step, name)
        if job.attempt == "abcd".index(name) + 1:
            os.kill(os.getpid(), signal.SIGKILL)

worker.run_forever()
"""


@pytest.mark.process
async def test_a_kill_between_two_steps_repeats_none_that_was_recorded(
    api: Api, tmp_path: Path
) -> None:
    log = tmp_path / "steps"
    job_id = await add(api, "killed", retry={"max_attempts": 10})
    for _ in range(4):
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED, api.url, api.key, str(log)
        )
        assert await asyncio.wait_for(worker.wait(), 60) == -signal.SIGKILL
    last = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, api.url, api.key, str(log)
    )
    try:
        ended = await until(api, job_id, "COMPLETED", 60)
    finally:
        last.terminate()
        await last.wait()
    assert log.read_text().split() == ["a", "b", "c", "d"]
    assert ended["attempt"] == 5
