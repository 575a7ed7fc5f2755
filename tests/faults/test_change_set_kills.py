"""The postmaster is killed while a large change set is applied and undone: it is made once."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg
import pytest

from conftest import eventually, scratch
from postdate.database.embedded import credentials
from support.serve_process import COMMAND, Served, postmaster_file

pytestmark = pytest.mark.soak

JOBS = 3000
PAYMENTS = 200
AGAIN_SECONDS = 180
"""A set whose node cannot let it go is held for 90 seconds."""


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    with scratch() as directory:
        one = Served(directory / "data")
        await one.start()
        await one.ready()
        yield one
        await one.stop()


class Caller:
    """A client that asks again until it has an answer."""

    def __init__(self, served: Served, session: aiohttp.ClientSession) -> None:
        self._served = served
        self._session = session

    async def once(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        key = sha256(f"{path} {json.dumps(body)}".encode()).hexdigest()
        headers = {"Authorization": f"Bearer {self._served.key}", "Idempotency-Key": key}
        url = f"{self._served.url}/api/v1{path}"
        try:
            async with self._session.request(method, url, json=body, headers=headers) as response:
                return response.status, await response.json()
        except (aiohttp.ClientError, ValueError):
            return 0, None

    async def call(self, method: str, path: str, body: object = None) -> Any:
        async def answered() -> Any:
            status, found = await self.once(method, path, body)
            assert status < 300 or status in {0, 409, 429, 500, 503}, found
            return found if 200 <= status < 300 else None

        return await eventually(answered, AGAIN_SECONDS, 0.5)


async def fill(caller: Caller) -> None:
    for name in ("ada", "rent"):
        await caller.call("POST", "/accounts", {"account_id": name})
    credit = {"amount": 100_000, "reason": "start"}
    await caller.call("POST", "/accounts/ada/adjustments", credit)
    for begin in range(0, JOBS, 500):
        jobs = [
            {"destination": {"type": "worker"}, "lane": "mail", "delay_seconds": 86_400 + n,
             "idempotency_key": f"job-{n}"}
            for n in range(begin, begin + 500)
        ]  # fmt: skip
        await caller.call("POST", f"/jobs/batch?{begin}", {"jobs": jobs})
    payments = [
        {"from_account_id": "ada", "to_account_id": "rent", "amount": 1 + n,
         "delay_seconds": 86_400 + n, "idempotency_key": f"payment-{n}"}
        for n in range(PAYMENTS)
    ]  # fmt: skip
    await caller.call("POST", "/payments/batch", {"payments": payments})


async def due(served: Served) -> tuple[list[Any], int]:
    """Read when each job and payment is due, whatever its id, and what is held."""
    known = credentials.read(served.directory)
    assert known is not None
    connection = await asyncpg.connect(known.superuser_dsn("postdate"))
    try:
        rows = await connection.fetch(
            "SELECT t.lane_id < 16 AS payment, t.due_at FROM postdate.timer t "
            "WHERE t.due_at > now() + interval '1 hour' ORDER BY 1, 2"
        )
        held = await connection.fetchval("SELECT sum(held) FROM postdate.account")
        return [tuple(row) for row in rows], int(held)
    finally:
        await connection.close()


async def kill_amid(served: Served, caller: Caller, set_id: UUID, verb: str) -> list[str]:
    """Begin, kill the postmaster once something is changed, and ask until it is done."""
    asking = asyncio.create_task(caller.once("POST", f"/change-sets/{set_id}/{verb}"))

    async def begun() -> bool:
        _, page = await caller.once("GET", f"/change-sets/{set_id}/items?limit=1")
        changed = bool(page) and page["items"][0]["changed"]
        return asking.done() or (changed if verb == "apply" else not changed)

    await eventually(begun, 60, 0.01)
    os.kill(int(postmaster_file(served.directory).read_text().split()[0]), signal.SIGKILL)
    status, _ = await asking
    found = await caller.call("GET", f"/change-sets/{set_id}")
    states = [found["status"], *(step["state"] for step in found["steps"])]
    print(f"{verb}: answered {status} after the kill, the set is {states}")
    assert (await caller.call("POST", f"/change-sets/{set_id}/{verb}"))["status"] in {
        "APPLIED", "UNDONE"
    }  # fmt: skip
    return states


async def test_a_killed_postmaster_leaves_no_set_half_made_for_good(served: Served) -> None:
    async with aiohttp.ClientSession() as session:
        caller = Caller(served, session)
        await fill(caller)
        before = await due(served)
        assert (len(before[0]), before[1]) == (JOBS + PAYMENTS, PAYMENTS * (PAYMENTS + 1) // 2)
        later = {"to": {"delay_seconds": 200_000}, "filter": {"lane": "mail"}}
        changes = [
            {"type": "reschedule_jobs", **later},
            {"type": "cancel_payments", "filter": {"from_account_id": "ada"}},
        ]
        made = await caller.call("POST", "/change-sets", {"changes": changes})
        states = await kill_amid(served, caller, made["change_set_id"], "apply")
        assert states[0] in {"APPLYING", "APPLIED"}
        jobs, held = await due(served)
        assert (len(jobs), held) == (JOBS, 0)
        assert len({at for _, at in jobs}) == 1, "each was moved to the one instant"
        states = await kill_amid(served, caller, made["change_set_id"], "undo")
        assert states[0] in {"UNDOING", "UNDONE"}
        assert await due(served) == before
    proving = await asyncio.create_subprocess_exec(
        COMMAND,
        "prove",
        env={**os.environ, "POSTDATE_DATA_DIR": str(served.directory)},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await proving.communicate()
    assert proving.returncode == 0, said.decode()
