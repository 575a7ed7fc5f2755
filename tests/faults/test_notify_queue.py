"""The queue of NOTIFY is full: what was accepted runs all the same, by polling."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import asyncpg
import pytest

from conftest import eventually, scratch
from postdate.database.embedded import Embedded
from support.receiver import Receiver
from support.serve_process import Served

pytestmark = pytest.mark.soak

KEY = "an-admin-key-of-the-tests"
ITEMS = 100
SMALL_QUEUE = {"max_notify_queue_pages": "64"}
LATE_SECONDS = 1.0
SHOUT = "SELECT pg_notify('jam', repeat('x', 7900))"
LATENESS = """
SELECT percentile_disc(0.99) WITHIN GROUP (ORDER BY started_at - due_at)
  FROM postdate.outcome WHERE finished_at > $1
"""


@pytest.fixture
async def small() -> AsyncIterator[tuple[Embedded, Served]]:
    """A server whose queue of notifications is as small as can be, and a node on it."""
    with scratch() as directory:
        server = Embedded(directory / "database", settings=SMALL_QUEUE)
        login = await server.start()
        env = {
            "POSTDATE_DATABASE_URL": login.app_dsn(),
            "POSTDATE_OWNER_DATABASE_URL": login.owner_dsn(),
            "POSTDATE_ADMIN_KEY": KEY,
            "POSTDATE_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
        }
        served = Served(directory / "data", env=env)
        (directory / "data").mkdir()
        try:
            await served.start()
            await served.ready()
            yield server, served
            await served.stop()
        finally:
            await server.stop()


@asynccontextmanager
async def jammed(dsn: str) -> AsyncIterator[None]:
    """Fill the queue: a session that listens and never leaves its transaction holds it up."""
    deaf, loud = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    try:
        await deaf.execute("LISTEN jam")
        await deaf.execute("BEGIN; SELECT 1")
        with suppress(asyncpg.ProgramLimitExceededError):
            for _ in range(10_000):
                await loud.execute(SHOUT)
        yield
        with pytest.raises(asyncpg.ProgramLimitExceededError, match="NOTIFY queue"):
            await loud.execute(SHOUT)
    finally:
        await deaf.close()
        await loud.close()


async def post(served: Served, path: str, body: Any, key: str) -> None:
    headers = {"Authorization": f"Bearer {KEY}", "Idempotency-Key": key}
    url = f"{served.url}/api/v1{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=body, headers=headers) as response,
    ):
        assert response.status < 300, await response.text()


async def send(served: Served, receiver: Receiver, name: str) -> None:
    """Ask for jobs and payments, one by one; each must be accepted."""
    for n in range(ITEMS):
        hook = {"type": "webhook", "url": receiver.url("/hook")}
        await post(served, "/jobs", {"destination": hook, "delay_seconds": 1}, f"job-{name}-{n}")
        pay = {"from_account_id": "a", "to_account_id": "b", "amount": 1, "delay_seconds": 1}
        await post(served, "/payments/schedule", pay, f"pay-{name}-{n}")


async def run(served: Served, receiver: Receiver, dsn: str, name: str) -> float:
    """Send a round, wait for its end, and return how late it was (p99, in seconds)."""
    connection = await asyncpg.connect(dsn)
    try:
        began = await connection.fetchval("SELECT now()")
        await send(served, receiver, name)

        async def ended() -> bool:
            count = "SELECT count(*) FROM postdate.outcome WHERE finished_at > $1"
            return bool(await connection.fetchval(count, began) == 2 * ITEMS)

        await eventually(ended, 60)
        late = await connection.fetchval(LATENESS, began)
        return float(late.total_seconds())
    finally:
        await connection.close()


async def test_a_full_queue_of_notifications_costs_no_commit_and_little_time(
    small: tuple[Embedded, Served], receiver: Receiver
) -> None:
    server, served = small
    dsn = server.credentials.superuser_dsn("postdate")
    for account in ("a", "b"):
        await post(served, "/accounts", {"account_id": account}, f"account-{account}")
    credit = {"amount": 10_000, "reason": "opening"}
    await post(served, "/accounts/a/adjustments", credit, "opening")
    before = await run(served, receiver, dsn, "before")
    async with jammed(dsn):
        beside = await run(served, receiver, dsn, "jammed")
    print(f"lateness p99 {before:.2f} s, with the queue full {beside:.2f} s; every call accepted")
    assert beside <= before + LATE_SECONDS
