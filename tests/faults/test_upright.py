"""Three tenants and a stranger do their worst at once: a fourth tenant hardly notices."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest

from conftest import INTERNAL_TOKEN, eventually, scratch
from postdate.database.embedded.credentials import read
from support.serve_process import Served, postmaster_file

pytestmark = pytest.mark.soak

ATTACK_SECONDS = 20.0
LANES = 1000
NOTIFICATIONS = 300_000
STRANGERS = 60
PAYMENTS = 100
MAX_LATE_MS = 500
MAX_HOLD_CPU_SECONDS = 0.2
MAX_RSS_KB = 400 * 1024
PIPELINED = b"GET / HTTP/1.1\r\nHost:\r\n\r\n" * 10_000
NAMES = ("patient", "floods", "foresees", "drafts")


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    with scratch() as directory:
        running = Served(directory / "data", env={"POSTDATE_INTERNAL_TOKEN": INTERNAL_TOKEN})
        await running.start()
        await running.ready()
        try:
            yield running
        finally:
            await running.stop()


class Tenant:
    """A tenant that calls the server."""

    def __init__(self, session: aiohttp.ClientSession, url: str, key: str) -> None:
        self._session = session
        self._url = f"{url}/api/v1"
        self._headers = {"Authorization": f"Bearer {key}"}

    async def ask(self, method: str, path: str, body: Any = None, key: str = "") -> Any:
        headers = {**self._headers, **({"Idempotency-Key": key} if key else {})}
        async with self._session.request(
            method, self._url + path, json=body, headers=headers
        ) as answer:
            return await answer.json()


async def opened(session: aiohttp.ClientSession, url: str, name: str) -> Tenant:
    async with session.post(
        f"{url}/api/v1/internal/tenants",
        json={"name": name},
        headers={"X-Internal-Auth": INTERNAL_TOKEN},
    ) as answer:
        return Tenant(session, url, (await answer.json())["key"])


async def repeated(step: Callable[[], Awaitable[Any]]) -> None:
    """Do it again and again; a refusal or a lost connection is no reason to stop."""
    while True:
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
            await step()
        await asyncio.sleep(0)


async def wait_between(seconds: float) -> None:
    """Space out what a client does."""
    await asyncio.sleep(seconds)


async def pipeline(port: int) -> None:
    """Send 600,000 requests and read no answer."""
    writers = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(STRANGERS)]
    try:
        for writer in writers:
            writer.write(PIPELINED)
        await wait_between(1)
    finally:
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*(each.wait_closed() for each in writers), return_exceptions=True)


async def flood(directory: Path) -> None:
    """Send hints as fast as one login can, on the channel that it should not even know."""
    credentials = read(directory)
    assert credentials is not None
    connection = await asyncpg.connect(credentials.superuser_dsn("postdate"))
    try:
        await connection.execute(
            "SELECT pg_notify((SELECT name FROM postdate.wakeup_channel), 'j' || g)"
            f" FROM generate_series(1, {NOTIFICATIONS}) g"
        )
    finally:
        await connection.close()


def in_days(days: int) -> str:
    return f"{datetime.now(UTC) + timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"


async def make_lanes(tenant: Tenant) -> None:
    far = {"destination": {"type": "worker"}, "delay_seconds": 80_000}
    await tenant.ask(
        "POST", "/jobs/batch", {"jobs": [far | {"lane": f"n{n}"} for n in range(LANES)]}
    )


async def foresee(tenant: Tenant) -> None:
    await tenant.ask("GET", f"/foresight/load?by=lane&until_at={in_days(360)}")


async def draft(tenant: Tenant) -> None:
    freeze = {"type": "freeze", "from_at": in_days(30), "until_at": in_days(300)}
    await tenant.ask("POST", "/change-sets", {"changes": [freeze], "until_at": in_days(360)})


async def send_floats(tenant: Tenant) -> None:
    job = {"destination": {"type": "worker"}, "payload": [1e308] * 30_000, "delay_seconds": 9000}
    await tenant.ask("POST", "/jobs", job)


async def pay(tenant: Tenant, payer: str, payee: str) -> float:
    """Schedule payments over the attack, and return their lateness p99 in milliseconds."""
    for account in (payer, payee):
        await tenant.ask("POST", "/accounts", {"account_id": account})
    fund = {"amount": 1000, "reason": "test"}
    await tenant.ask("POST", f"/accounts/{payer}/adjustments", fund, payer)
    ids = []
    for number in range(PAYMENTS):
        order = {
            "from_account_id": payer,
            "to_account_id": payee,
            "amount": 1,
            "delay_seconds": 3,
        }
        made = await tenant.ask("POST", "/payments/schedule", order, f"{payer}{number}")
        ids.append(made["payment_id"])
        await wait_between(ATTACK_SECONDS / PAYMENTS / 2)

    async def late(payment_id: str) -> float | None:
        found = await tenant.ask("GET", f"/payments/{payment_id}")
        return found.get("lateness_ms", 0) + 0.001 if found["status"] == "COMPLETED" else None

    found = sorted([await eventually(partial(late, each), 30) for each in ids])
    return float(found[int(len(found) * 0.99) - 1])


async def attacked(served: Served, tenants: list[Tenant]) -> float:
    patient, floods, foresees, drafts = tenants
    await asyncio.gather(make_lanes(foresees), make_lanes(drafts))
    steps: list[Callable[[], Awaitable[Any]]] = [
        lambda: pipeline(served.port),
        lambda: flood(served.directory),
        lambda: send_floats(floods),
        lambda: foresee(foresees),
        lambda: draft(drafts),
    ]
    attackers = [asyncio.create_task(repeated(step)) for step in steps]
    try:
        return await pay(patient, "carol", "dave")
    finally:
        for each in attackers:
            each.cancel()
        await asyncio.gather(*attackers, return_exceptions=True)


def peak_memory(served: Served) -> int:
    """Return the most memory in KiB that the process ever had."""
    assert served.process is not None
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return int(peak)


async def test_nobody_knocks_a_node_over(served: Served) -> None:
    before = postmaster_file(served.directory).read_text()
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        tenants = [await opened(session, served.url, name) for name in NAMES]
        undisturbed = await pay(tenants[0], "alice", "bob")
        late = await attacked(served, tenants)
    peak = peak_memory(served)
    holds = [float(each) for each in re.findall(r"cpu_seconds\W+([0-9.]+)", served.log.read_text())]
    print(
        f"late p99 {undisturbed:.0f} -> {late:.0f} ms, peak {peak // 1024} MB, holds {holds[-5:]}"
    )
    assert postmaster_file(served.directory).read_text() == before, "PostgreSQL was restarted"
    assert peak < MAX_RSS_KB
    assert max(holds, default=0) <= MAX_HOLD_CPU_SECONDS
    assert late <= MAX_LATE_MS
