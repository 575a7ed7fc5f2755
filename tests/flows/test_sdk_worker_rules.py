"""What the SDK's worker promises about kinds, deadlines, results, keys and stopping."""

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import asyncpg
import msgspec
import pytest

from conftest import Api, eventually
from postdate.client import (
    AsyncClient,
    AsyncRunningJob,
    KeyRefusedError,
    Lease,
    ProblemError,
    Worker,
    once,
    once_sync,
)
from postdate.client.models import JobStatus, LeaseList
from postdate.client.once import TABLE


@pytest.fixture
async def client(api: Api) -> Any:
    async with AsyncClient(api.url, api.key) as made:
        yield made


async def add(client: AsyncClient, lane: str, **fields: Any) -> str:
    fields = {"payload": {"n": 1}, **fields}
    return (await client.jobs.create(destination={"type": "worker"}, lane=lane, **fields)).job_id


async def worked(client: AsyncClient, worker: Worker, *job_ids: str) -> list[Any]:
    """Work until the jobs have been tried, and give them."""
    running = asyncio.create_task(worker.run())

    async def tried() -> list[Any] | None:
        found = [await client.jobs.get(job_id) for job_id in job_ids]
        over = all(job.code or job.status == "COMPLETED" for job in found)
        return found if over else None

    found: list[Any] = await eventually(tried)
    worker.stop()
    await running
    return found


async def test_jobs_go_to_the_function_of_their_kind(api: Api, client: AsyncClient) -> None:
    worker, seen = Worker(api.url, api.key), []

    @worker.handler("kinds", kind="send-mail")
    def mail(lease: Lease) -> None:
        seen.append(("mail", lease.job_id))

    @worker.handler("kinds")
    async def others(lease: Lease) -> None:
        await asyncio.sleep(0)
        seen.append(("others", lease.job_id))

    ids = [
        await add(client, "kinds", metadata={"kind": "send-mail"}),
        await add(client, "kinds", metadata={"kind": "print"}),
        await add(client, "kinds"),
    ]
    await worked(client, worker, *ids)
    assert sorted(seen) == sorted([("mail", ids[0]), ("others", ids[1]), ("others", ids[2])])


async def test_a_kind_without_a_function_fails_the_attempt_and_says_so(
    api: Api, client: AsyncClient
) -> None:
    worker = Worker(api.url, api.key)
    worker.handler("strict", kind="a")(print)
    [job] = await worked(client, worker, await add(client, "strict", metadata={"kind": "b"}))
    assert (job.code, job.error) == ("no_handler", "no handler for the kind 'b' in lane 'strict'")
    assert job.status == JobStatus.PENDING


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
async def test_a_deadline_ends_the_attempt(api: Api, client: AsyncClient, *, plain: bool) -> None:
    worker, go = Worker(api.url, api.key), threading.Event()
    lane = f"late-{plain}"

    async def hangs(_: Lease) -> None:
        await asyncio.Event().wait()

    worker.handler(lane)((lambda _: go.wait(30)) if plain else hangs)
    job_id = await add(
        client, lane, timeout_seconds=0.2, retry={"on_unknown": "hold", "initial_seconds": 600}
    )
    running = asyncio.create_task(worker.run())

    async def held() -> Any:
        job = await client.jobs.get(job_id)
        return job if job.status == "UNKNOWN" else None

    job = await eventually(held)
    assert (job.code, job.error) == ("deadline_exceeded", "it was not done within its 0.2 s")
    go.set()
    worker.stop()
    await running


class Opaque:
    """Nothing that JSON knows."""


@pytest.mark.parametrize("value", [Opaque(), "x" * 70_000], ids=["no-json", "too-large"])
async def test_a_result_that_cannot_be_kept_is_said_and_the_work_is_not_done_again(
    api: Api, client: AsyncClient, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    worker, runs = Worker(api.url, api.key), []

    @worker.handler("opaque")
    def work(lease: Lease) -> Any:
        runs.append(lease.attempt)
        return value

    [job] = await worked(client, worker, await add(client, "opaque"))
    assert job.status == "COMPLETED"
    assert runs == [1]
    assert "done, but the result" in caplog.text


async def test_the_traceback_goes_to_the_attempt(
    api: Api, client: AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(api.url, api.key)

    @worker.handler("traced")
    def divide(_: Lease) -> float:
        return 1 / 0

    with caplog.at_level(logging.WARNING, "postdate.worker"):
        [job] = await worked(client, worker, await add(client, "traced"))
    [attempt] = [each async for each in client.jobs.list_attempts(job.job_id)]
    assert attempt.error is not None
    assert attempt.error.startswith("ZeroDivisionError: division by zero\n")
    assert "return 1 / 0" in attempt.error
    assert "attempt 1: ZeroDivisionError" in caplog.text


async def test_a_refused_key_stops_it_with_one_sentence(api: Api) -> None:
    worker = Worker(api.url, "pdk_wrong")
    worker.handler("any")(print)
    async with asyncio.timeout(20):
        with pytest.raises(KeyRefusedError, match=r"the key may not work for lane 'any': .*"):
            await worker.run()


async def test_what_was_claimed_while_stopping_is_given_back(
    api: Api, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(api.url, api.key)
    ran: list[Lease] = []
    worker.handler("back")(ran.append)
    job_id = await add(client, "back", retry={"max_attempts": 1})
    claim = worker._client.leases.claim

    async def stopped_meanwhile(*given: Any, **more: Any) -> LeaseList:
        found = await claim(*given, **more)
        worker.stop()
        return found

    monkeypatch.setattr(worker._client.leases, "claim", stopped_meanwhile)
    await worker.run()
    assert ran == []
    [lease] = (await client.leases.claim("back", wait_seconds=10)).leases
    assert (lease.job_id, lease.attempt) == (job_id, 1)


PROGRAM = """
import logging, sys, threading
from postdate.client import Worker
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
worker = Worker(lease_seconds=5)
@worker.handler("signals")
def hang(lease):
    print("begun", flush=True)
    threading.Event().wait({seconds})
worker.run_forever()
"""


@pytest.mark.parametrize(("seconds", "signals", "code"), [(0.5, 1, 0), (60, 2, 143)])
async def test_one_signal_finishes_what_runs_and_a_second_stops_at_once(
    api: Api, client: AsyncClient, seconds: float, signals: int, code: int
) -> None:
    job_id = await add(client, "signals")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM.format(seconds=seconds),
        env={"POSTDATE_URL": api.url, "POSTDATE_API_KEY": api.key},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(30):
        async for line in process.stdout:
            if line == b"begun\n":
                process.send_signal(signal.SIGTERM)
            if line.startswith(b"stopping: 1 under way") and signals > 1:
                process.send_signal(signal.SIGTERM)
        assert await process.wait() == code
    status = (await client.jobs.get(job_id)).status
    assert status == ("COMPLETED" if signals == 1 else "RUNNING")


async def test_once_tells_the_second_time_from_the_first(api: Api, client: AsyncClient) -> None:
    worker, seen = Worker(api.url, api.key), []
    dsn = api.node.database.writer

    @worker.handler("once")
    async def work(lease: Lease) -> None:
        async with dsn.acquire() as connection, connection.transaction():
            await connection.execute("CREATE TEMP TABLE IF NOT EXISTS " + TABLE.split(" ", 5)[-1])
            seen.append(await once(connection))
            seen.append(await once(connection, lease.job_id))

    await worked(client, worker, await add(client, "once"))
    assert seen == [True, False]


JOB = "0190f0c0-0000-7000-8000-000000000000"
MISTAKES: list[tuple[Any, type[Exception], str]] = [
    (lambda w: w.handler("a")(len), ValueError, "lane 'a' has a handler already: print"),
    (
        lambda w: w.handler("a", kind="k")(len),
        ValueError,
        "the kind 'k' in lane 'a' has a handler already: print",
    ),
    (lambda w: w.handler("a", kind="z")(5), TypeError, "a handler is a function, not 5"),
    (lambda _: Worker("http://x", "k", concurrency=0), ValueError, "at least 1, not 0"),
    (lambda _: Worker("x", "k"), Exception, "begins with http://"),
    (lambda _: Worker("http://x", ""), Exception, "there is no API key"),
    (lambda _: asyncio.run(Worker("http://x", "k").run()), ValueError, "register a handler first"),
    (lambda w: w.handle("a"), AttributeError, "handle"),
    (lambda _: asyncio.run(once(object())), RuntimeError, "only inside a worker's function"),
    (lambda _: once_sync(Autocommitting(), JOB), RuntimeError, "inside the transaction"),
    (lambda _: once_sync(Beginning(), "x"), ValueError, "'x' is no id of a job"),
]


class Info(msgspec.Struct):
    transaction_status: int


class Autocommitting:
    """A connection of psycopg's without a transaction."""

    autocommit, info = True, Info(0)


class Beginning:
    """A connection of psycopg's that begins one by itself."""

    autocommit, info = False, Info(0)


@pytest.mark.parametrize(("make", "kind", "says"), MISTAKES)
async def test_mistakes_are_told_in_a_sentence(make: Any, kind: type[Exception], says: str) -> None:
    worker = Worker("http://127.0.0.1:1", "k")
    worker.handler("a")(print)
    worker.handler("a", kind="k")(print)
    with pytest.raises(kind, match=says):
        await asyncio.to_thread(make, worker)


async def test_once_outside_of_a_transaction_is_a_mistake(api: Api) -> None:
    async with api.node.database.writer.acquire() as connection:
        assert isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy)
        with pytest.raises(RuntimeError, match="inside the transaction of the work"):
            await once(connection, JOB)


@asynccontextmanager
async def locked_timer(api: Api, job_id: str) -> AsyncIterator[None]:
    """Hold the timer of a job, as another transaction may for a moment."""
    async with api.node.database.connection() as connection, connection.transaction():
        await connection.execute("SELECT FROM timer WHERE subject = $1 FOR UPDATE", job_id)
        yield


async def test_an_end_that_the_server_could_not_record_is_reported_again(
    api: Api, client: AsyncClient
) -> None:
    """A server that is busy, or without its database for a while, must not run the job twice."""
    worker, runs = Worker(api.url, api.key, lease_seconds=10), []
    refused = asyncio.Event()
    holding = AsyncExitStack()

    @worker.handler("busy")
    async def hold(lease: Lease) -> None:
        runs.append(lease.attempt)
        await holding.enter_async_context(locked_timer(api, lease.job_id))

    complete = worker._client.leases.complete

    async def watched(*args: Any, **fields: Any) -> Any:
        try:
            return await complete(*args, **fields)
        except ProblemError:
            refused.set()
            raise

    worker._client.leases.complete = watched
    job_id = await add(client, "busy")
    running = asyncio.create_task(worker.run())
    async with holding, asyncio.timeout(30):
        await refused.wait()
    await eventually(partial(has_status, client, job_id, "COMPLETED"))
    worker.stop()
    await running
    assert runs == [1]


async def has_status(client: AsyncClient, job_id: str, status: str) -> bool:
    return (await client.jobs.get(job_id)).status == status


async def test_a_report_of_progress_that_is_refused_for_now_fails_no_attempt(
    api: Api, client: AsyncClient
) -> None:
    worker, refusals = Worker(api.url, api.key), []

    async def overloaded(*_: Any, **__: Any) -> Any:
        refusals.append(1)
        raise ProblemError(503, {"code": "overloaded"})

    worker._client.leases.progress = overloaded

    @worker.handler("told")
    async def work(job: AsyncRunningJob) -> int:
        await job.progress(40, "almost")
        return 7

    [job] = await worked(client, worker, await add(client, "told"))
    assert refusals
    assert (job.status, job.result) == ("COMPLETED", 7)
