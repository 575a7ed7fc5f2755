"""Six hours of outage: stopped, the clock of node and database moved on, started again."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from conftest import eventually, scratch
from support.pause import wait_out
from support.receiver import Receiver
from support.serve_process import Served

KEY = "an-admin-key-of-the-tests"
OUTAGE_HOURS = 6
PAYMENTS = 60
JOBS = 120
MAX_RUNNING = 4
END_SECONDS = 120.0
LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not here (Debian: faketime)"),
]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    with scratch() as directory:
        env = {"POSTDATE_ADMIN_KEY": KEY, "POSTDATE_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8"}
        one = Served(directory / "data", env=env)
        await one.start()
        await one.ready()
        yield one
        await one.stop()


class Busy:
    """Counts how many calls a receiver has under way."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    async def answer(self, _: web.Request) -> web.Response:
        self.now += 1
        self.most = max(self.most, self.now)
        await wait_out(0.02)
        self.now -= 1
        return web.Response(text="ok")


async def call(served: Served, method: str, path: str, body: Any = None, key: str = "") -> Any:
    headers = {"Authorization": f"Bearer {KEY}"} | ({"Idempotency-Key": key} if key else {})
    url = f"{served.url}/api/v1{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, json=body, headers=headers) as response,
    ):
        assert response.status < 300, await response.text()
        return await response.json()


async def prepared(served: Served, hook: str, begin: datetime) -> dict[str, str]:
    """Ask for what will be due during the outage; return the schedules by their policy."""
    for account in ("a", "b"):
        await call(served, "POST", "/accounts", {"account_id": account}, f"account-{account}")
    credit = {"amount": 10_000, "reason": "opening"}
    await call(served, "POST", "/accounts/a/adjustments", credit, "opening")
    payments = [
        {"from_account_id": "a", "to_account_id": "b", "amount": 1, "idempotency_key": f"p-{n}",
         "scheduled_time": (begin + timedelta(minutes=1 + 5 * n)).isoformat()}
        for n in range(PAYMENTS)
    ]  # fmt: skip
    await call(served, "POST", "/payments/batch", {"payments": payments})
    webhook = {"type": "webhook", "url": hook}
    far = {"destination": webhook, "lane": "narrow", "delay_seconds": 86400}
    made = await call(served, "POST", "/jobs", far, "first")
    await call(served, "POST", f"/jobs/{made['job_id']}/cancel", {})
    await call(served, "PATCH", "/lanes/narrow", {"max_running": MAX_RUNNING})
    jobs = [
        {"destination": webhook, "lane": "narrow", "delay_seconds": 3600, "payload": {"n": n}}
        for n in range(JOBS)
    ]
    await call(served, "POST", "/jobs/batch", {"jobs": jobs})
    schedules = {}
    for policy in ("fire_all", "fire_once", "skip"):
        body = {
            "every_seconds": 3600,
            "start_at": (begin + timedelta(minutes=30)).isoformat(),
            "template": {"job": {"destination": {"type": "worker"}, "lane": policy}},
            "misfire": {"policy": policy, "late_after_seconds": 60},
        }
        made = await call(served, "POST", "/schedules", body, f"schedule-{policy}")
        schedules[policy] = made["schedule_id"]
    return schedules


async def outage(served: Served) -> None:
    """Stop node and database, and start them six hours later by every clock of the machine."""
    await served.stop()
    served.env |= {
        "LD_PRELOAD": str(LIBRARY), "FAKETIME": f"+{OUTAGE_HOURS}h", "DONT_FAKE_MONOTONIC": "1"
    }  # fmt: skip
    await served.start()
    await served.ready()


async def books(served: Served, schedules: dict[str, str]) -> dict[str, Counter[str]]:
    found = {}
    for policy, schedule_id in schedules.items():
        page = await call(served, "GET", f"/schedules/{schedule_id}/occurrences?limit=100")
        found[policy] = Counter(each["status"] for each in page["occurrences"])
    return found


async def test_six_hours_later_payments_are_paid_once_and_schedules_follow_their_policy(
    served: Served, receiver: Receiver
) -> None:
    busy = Busy()
    receiver.script("/hook", busy.answer)
    schedules = await prepared(served, receiver.url("/hook"), datetime.now(UTC))
    await outage(served)

    async def paid() -> bool:
        account = await call(served, "GET", "/accounts/b")
        return bool(account["balance"] == PAYMENTS)

    await eventually(paid, END_SECONDS)
    await receiver.wait_for(JOBS, END_SECONDS)

    async def decided() -> bool:
        found = await books(served, schedules)
        return all(sum(each.values()) >= OUTAGE_HOURS for each in found.values())

    await eventually(decided, END_SECONDS)
    found = await books(served, schedules)
    print(f"{PAYMENTS} payments, {JOBS} jobs with at most {busy.most} at once; {found}")
    arrived = Counter(each.headers["webhook-id"] for each in receiver.arrivals)
    assert set(arrived.values()) == {1}
    assert busy.most <= MAX_RUNNING
    assert found["fire_all"] == {"LATE": OUTAGE_HOURS}
    assert found["fire_once"] == {"LATE": 1, "MISSED": OUTAGE_HOURS - 1}
    assert found["skip"] == {"MISSED": OUTAGE_HOURS}
    account = await call(served, "GET", "/accounts/b")
    assert (account["balance"], account["version"]) == (PAYMENTS, PAYMENTS)
