"""A live node whose database is away for a moment, again and again: every accepted job runs."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import asyncpg
import pytest

from conftest import app_dsn, eventually, owner_dsn, scratch
from faults.pg_proxy import Proxy, proxied, through, wait_a_moment
from postdate.database.embedded import Embedded
from support.receiver import Receiver
from support.serve_process import Served

pytestmark = pytest.mark.soak

KEY = "an-admin-key-of-the-tests"
LANES = 23
LIMITED = 3
JOBS = 6 * LANES
AWAY_SECONDS = 0.8
TIMES = 5
END_SECONDS = 30
"""A lease that nobody gives back takes longer."""


@pytest.fixture
async def proxy(server: Embedded) -> AsyncIterator[tuple[Proxy, Path]]:
    with scratch() as directory:
        async with proxied(directory, server.credentials.login) as opened:
            yield opened, directory


@pytest.fixture
async def served(
    server: Embedded, database_name: str, proxy: tuple[Proxy, Path]
) -> AsyncIterator[Served]:
    host = server.credentials.login.host
    with scratch() as directory:
        one = Served(
            directory / "data",
            env={
                "POSTDATE_ADMIN_KEY": KEY,
                "POSTDATE_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
                "POSTDATE_DATABASE_URL": through(app_dsn(server, database_name), host, proxy[1]),
                "POSTDATE_OWNER_DATABASE_URL": owner_dsn(server, database_name),
            },
        )
        one.directory.mkdir()
        await one.start()
        await one.ready()
        yield one
        await one.stop()


async def accept(served: Served, url: str) -> None:
    """Send the jobs, due over the time of the faults; each must not run twice by itself."""
    api = f"http://127.0.0.1:{served.port}/api/v1"
    jobs = [
        {
            "destination": {"type": "webhook", "url": url},
            "lane": f"lane-{n % LANES}",
            "delay_seconds": 2 + 6 * n / JOBS,
            "retry": {"on_unknown": "hold"},
        }
        for n in range(JOBS)
    ]
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
        async with session.post(f"{api}/jobs/batch", json={"jobs": jobs}) as answer:
            assert answer.status < 300, await answer.text()
        for number in range(LIMITED):
            limit = {"max_running": 1}
            async with session.patch(f"{api}/lanes/lane-{number}", json=limit) as answer:
                assert answer.status < 300, await answer.text()


async def test_every_accepted_job_runs_once_though_the_database_was_away_five_times(
    server: Embedded,
    database_name: str,
    proxy: tuple[Proxy, Path],
    served: Served,
    receiver: Receiver,
) -> None:
    await accept(served, receiver.url("/hook"))
    for _ in range(TIMES):
        await wait_a_moment(AWAY_SECONDS)
        proxy[0].go_away(seconds=AWAY_SECONDS)
        await wait_a_moment(AWAY_SECONDS)
    connection = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    statuses: Counter[str] = Counter()

    async def ended() -> bool:
        rows = await connection.fetch("SELECT status FROM postdate.outcome")
        statuses.clear()
        statuses.update(row["status"] for row in rows)
        return statuses["COMPLETED"] == JOBS

    try:
        await eventually(ended, END_SECONDS, 0.2)
    except TimeoutError:
        pytest.fail(f"of {JOBS} jobs: {dict(statuses)}\n{served.log.read_text()[-3000:]}")
    finally:
        await connection.close()
    arrived = Counter(each.headers["webhook-id"] for each in receiver.arrivals)
    assert set(arrived.values()) == {1}
    assert len(arrived) == JOBS
