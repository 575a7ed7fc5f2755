"""Ten kills of the postmaster under 5,000 jobs and payments: everything acknowledged ends."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg
import pytest

from conftest import eventually, scratch
from postdate.database.embedded import credentials
from support.receiver import Receiver
from support.serve_process import Served, postmaster_file

pytestmark = pytest.mark.soak

KEY = "an-admin-key-of-the-tests"
KILLS = 10
BATCH = 50
BATCHES = 10
"""Batches between two kills, each sent until it is acknowledged: 5,000 in all."""

END_SECONDS = 60
AGAIN = {409, 429, 503}
LIMITS = {"narrow": 4, "wider": 16}


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    with scratch() as directory:
        env = {"POSTDATE_ADMIN_KEY": KEY, "POSTDATE_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8"}
        one = Served(directory / "data", env=env)
        await one.start()
        await one.ready()
        yield one
        await one.stop()


class Client:
    """A caller that asks again with the same keys until it has an answer."""

    def __init__(self, served: Served, session: aiohttp.ClientSession, url: str) -> None:
        self._served = served
        self._session = session
        self._url = url
        self.jobs: set[UUID] = set()
        self.payments: set[UUID] = set()

    async def call(self, method: str, path: str, body: object, key: str = "") -> Any:
        headers = {"Authorization": f"Bearer {KEY}", "Idempotency-Key": key or path}
        url = f"http://127.0.0.1:{self._served.port}/api/v1{path}"

        async def answered() -> Any:
            try:
                async with self._session.request(
                    method, url, json=body, headers=headers
                ) as response:
                    assert response.status < 300 or response.status in AGAIN, await response.text()
                    return await response.json() if response.status < 300 else None
            except aiohttp.ClientError:
                return None

        return await eventually(answered, 30)

    async def send_jobs(self, number: int) -> None:
        lanes = ["narrow", "wider", "free"]
        jobs = [
            {
                "destination": {"type": "webhook", "url": self._url},
                "lane": lanes[n % 3],
                "retry": {"initial_seconds": 0.2, "max_seconds": 1, "max_attempts": 50},
                "idempotency_key": f"job-{number}-{n}",
            }
            for n in range(BATCH)
        ]
        answer = await self.call("POST", "/jobs/batch", {"jobs": jobs}, f"jobs-{number}")
        self.jobs |= {UUID(each["job"]["job_id"]) for each in answer["outcomes"]}

    async def send_payments(self, number: int) -> None:
        payments = [
            {
                "from_account_id": f"a{n % 8}",
                "to_account_id": f"a{(n + 1) % 8}",
                "amount": 1,
                "delay_seconds": 1,
                "idempotency_key": f"payment-{number}-{n}",
            }
            for n in range(BATCH)
        ]
        answer = await self.call("POST", "/payments/batch", {"payments": payments}, f"p-{number}")
        self.payments |= {UUID(each["payment"]["payment_id"]) for each in answer["outcomes"]}


async def prepared(client: Client) -> None:
    for name, most in LIMITS.items():
        # A lane is made by its first job.
        job = {"destination": {"type": "worker"}, "lane": name, "delay_seconds": 86400}
        await client.call("POST", "/jobs", job, f"lane-{name}")
        await client.call("PATCH", f"/lanes/{name}", {"max_running": most})
    for n in range(8):
        await client.call("POST", "/accounts", {"account_id": f"a{n}"}, f"account-{n}")
        credit = {"amount": 100_000, "reason": "start"}
        await client.call("POST", f"/accounts/a{n}/adjustments", credit)


async def still_open(served: Served, subjects: set[UUID]) -> int:
    known = credentials.read(served.directory)
    assert known is not None
    connection = await asyncpg.connect(known.superuser_dsn("postdate"))
    try:
        ended = await connection.fetchval(
            "SELECT count(*) FROM postdate.outcome WHERE subject = ANY ($1) "
            "AND status = 'COMPLETED'",
            list(subjects),
        )
    finally:
        await connection.close()
    return len(subjects) - int(ended)


async def test_everything_acknowledged_ends_within_a_minute_of_the_last_kill(
    served: Served, receiver: Receiver
) -> None:
    async with aiohttp.ClientSession() as session:
        client = Client(served, session, receiver.url("/hook"))
        await prepared(client)
        for kill in range(KILLS):
            first = kill * BATCHES
            sending = [
                asyncio.create_task(client.send_payments(n) if n % 3 == 0 else client.send_jobs(n))
                for n in range(first, first + BATCHES)
            ]
            await asyncio.wait(sending, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
            os.kill(int(postmaster_file(served.directory).read_text().split()[0]), signal.SIGKILL)
            last = time.monotonic()
            await asyncio.gather(*sending)
        everything = client.jobs | client.payments
        left = len(everything)

        async def ended() -> bool:
            nonlocal left
            left = await still_open(served, everything)
            return not left

        try:
            await eventually(ended, END_SECONDS, 0.5)
        except TimeoutError:
            pytest.fail(f"{left} of {len(everything)} have not ended after {END_SECONDS} s")
    arrived = Counter(each.headers["webhook-id"] for each in receiver.arrivals)
    print(
        f"{KILLS} kills, {len(client.jobs)} jobs and {len(client.payments)} payments: all ended "
        f"{time.monotonic() - last:.1f} s after the last kill; "
        f"{sum(count > 1 for count in arrived.values())} jobs arrived more than once"
    )
    assert len(everything) == KILLS * BATCHES * BATCH
    assert set(map(str, client.jobs)) <= arrived.keys()
