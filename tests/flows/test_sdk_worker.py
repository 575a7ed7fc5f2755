"""The SDK's worker: runs plain and asynchronous functions, keeps leases, says how they ended."""

import asyncio
from typing import Any

import pytest

from conftest import Api, eventually
from postdate.client import GiveUpError, InDoubtError, Lease, RetryLaterError, Worker


async def add(api: Api, lane: str, **fields: Any) -> str:
    body = {"destination": {"type": "worker"}, "lane": lane, "payload": {"n": 1}, **fields}
    answered = await api.call("POST", "/jobs", body)
    assert answered.status == 201, answered.body
    return str(answered.body["job_id"])


async def status(api: Api, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await api.call("GET", f"/jobs/{job_id}")).body
    return found


async def until(api: Api, job_id: str, wanted: str) -> dict[str, Any]:
    async def check() -> dict[str, Any] | None:
        found = await status(api, job_id)
        return found if found["status"] == wanted else None

    found: dict[str, Any] = await eventually(check)
    return found


async def test_plain_and_asynchronous_functions_run_and_their_result_is_kept(api: Api) -> None:
    worker = Worker(api.url, api.key)
    seen: list[Lease] = []

    @worker.handler("plain")
    def plain(lease: Lease) -> dict[str, int]:
        seen.append(lease)
        return {"doubled": lease.payload["n"] * 2}

    @worker.handler("async")
    async def asynchronous(lease: Lease) -> None:
        await asyncio.sleep(0)
        seen.append(lease)

    ids = [await add(api, "plain"), await add(api, "async")]
    running = asyncio.create_task(worker.run())
    for job_id in ids:
        await until(api, job_id, "COMPLETED")
    worker.stop()
    await running
    assert {lease.job_id for lease in seen} == set(ids)
    assert {lease.attempt for lease in seen} == {1}


@pytest.mark.parametrize(
    ("raised", "wanted", "code"),
    [
        (GiveUpError("never", code="no_such_street"), "FAILED", "no_such_street"),
        (InDoubtError("who knows"), "UNKNOWN", "in_doubt"),
        (RetryLaterError("later", seconds=600), "PENDING", None),
        (ValueError("oops"), "PENDING", None),
        (SystemExit("it ends a program, but no worker"), "PENDING", None),
    ],
    ids=["give-up", "in-doubt", "later", "any-other", "exit"],
)
async def test_an_exception_says_what_follows(
    api: Api, raised: BaseException, wanted: str, code: str | None
) -> None:
    worker = Worker(api.url, api.key)
    ended = asyncio.Event()

    @worker.handler("raising")
    async def broken(_: Lease) -> None:
        ended.set()
        raise raised

    job_id = await add(api, "raising", retry={"on_unknown": "hold", "initial_seconds": 600})
    running = asyncio.create_task(worker.run())
    await ended.wait()
    worker.stop()
    await running
    found = await status(api, job_id)
    assert found["status"] == wanted
    if code is not None and wanted == "FAILED":
        assert found["code"] == code


async def test_a_lease_is_renewed_while_the_function_works(api: Api) -> None:
    worker = Worker(api.url, api.key, lease_seconds=1.0)
    go = asyncio.Event()
    ends: list[str] = []

    @worker.handler("slow")
    async def slow(_: Lease) -> None:
        await go.wait()

    job_id = await add(api, "slow")
    running = asyncio.create_task(worker.run())

    async def renewed() -> bool:
        row = await api.node.database.writer.fetchval(
            "SELECT due_at::text FROM timer WHERE subject = $1::text::uuid", job_id
        )
        if row not in ends:
            ends.append(row)
        # Pending, claimed, and renewed twice.
        return len(ends) >= 4

    await eventually(renewed)
    go.set()
    await until(api, job_id, "COMPLETED")
    worker.stop()
    await running


async def test_a_lost_lease_stops_the_function_and_changes_nothing(api: Api) -> None:
    worker = Worker(api.url, api.key, lease_seconds=1.0)
    started, stopped = asyncio.Event(), asyncio.Event()

    @worker.handler("lost")
    async def hangs(_: Lease) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    job_id = await add(api, "lost")
    running = asyncio.create_task(worker.run())
    await started.wait()
    await api.call("POST", f"/jobs/{job_id}/cancel", {})
    async with asyncio.timeout(10):
        await stopped.wait()
    worker.stop()
    await running
    assert (await status(api, job_id))["status"] == "CANCELLED"


async def test_it_waits_for_a_server_that_is_not_there() -> None:
    worker = Worker("http://127.0.0.1:1", "pdk_none")

    @worker.handler("any")
    def never(_: Lease) -> None:
        raise AssertionError

    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0)
    worker.stop()
    async with asyncio.timeout(10):
        await running
