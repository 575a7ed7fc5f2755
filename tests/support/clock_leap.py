"""A whole node with all roles, and a history in which the database's clock leaps ahead."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp

from conftest import INTERNAL_TOKEN, SECRET_KEY, Api, eventually
from postdate.database.connection.database import Database
from postdate.http.listener import bind
from postdate.ledger.prove import prove
from postdate.node import process
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.tenant.change.tenant import Tenants
from support.receiver import Receiver
from support.schedule import book

ROLES = ["api", "worker", "settlement", "publisher"]
FUTURE = "SELECT count(*) FROM occurrence WHERE scheduled_for > clock() + interval '1 minute'"
Shift = Callable[[int], Awaitable[None]]
"""Set the database's clock so many seconds ahead."""


@dataclass
class Running:
    """A whole node with all roles, in this process, and a client of it."""

    api: Api
    tenant_id: int
    target: str

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self.api.call("POST", path, body, headers={"Idempotency-Key": str(uuid4())})
        assert answer.status < 300, answer.body
        return dict(answer.body)

    async def job(self, delay: float, **more: Any) -> str:
        to = {"type": "webhook", "url": self.target}
        body = {"destination": to, "delay_seconds": delay, "payload": {}, **more}
        return str((await self.post("/jobs", body))["job_id"])

    async def payment(self, delay: float, amount: int = 1) -> str:
        order = {"from_account_id": "alice", "to_account_id": "bob", "amount": amount}
        made = await self.post("/payments/schedule", {**order, "delay_seconds": delay})
        return str(made["payment_id"])

    async def status(self, noun: str, item_id: str) -> str:
        return str((await self.api.call("GET", f"/{noun}/{item_id}")).body["status"])

    async def approvals(self) -> list[str]:
        """The payments that wait for a second person."""
        rows = await self.api.node.database.writer.fetch(
            "SELECT payment_id FROM payment_approval JOIN timer ON subject = payment_id "
            "WHERE payment_approval.tenant_id = $1 AND decision IS NULL",
            self.tenant_id,
        )
        return [str(row["payment_id"]) for row in rows]

    async def ready(self) -> dict[str, Any]:
        async with self.api.session.get(f"{self.api.url}/readyz") as answer:
            assert answer.status == 200
            return dict(await answer.json())

    async def names_the_clock(self) -> bool:
        return any("clock" in str(each) for each in (await self.ready())["degraded"])


@asynccontextmanager
async def running_node(
    database: Database, receiver: Receiver, data_dir: Path
) -> AsyncIterator[Running]:
    """Run a node in this process; its tenant has two accounts, and asks for approvals."""
    settings = ProcessSettings(
        data_dir=data_dir,
        internal_token=INTERNAL_TOKEN,
        secret_key=SECRET_KEY,
        allow_private_targets="127.0.0.0/8",
    )
    node = Node(settings=settings, database=database, roles=ROLES)
    listener, stop = bind("127.0.0.1", 0), asyncio.Event()
    port = listener.getsockname()[1]
    serving = asyncio.create_task(process.run(node, [listener], stop))
    name, tenants = f"leap-{uuid4().hex[:8]}", Tenants(database)
    tenant_id = await tenants.create(name)
    key = (await tenants.issue(name, ["admin"])).key
    async with aiohttp.ClientSession() as session:
        api = Api(f"http://127.0.0.1:{port}", session, node, key, name)
        made = Running(api, tenant_id, receiver.url("/hook"))
        for account in ("alice", "bob"):
            await made.post("/accounts", {"account_id": account})
        await made.post("/accounts/alice/adjustments", {"amount": 10_000, "reason": "start"})
        await api.call("PUT", "/settings/payment.approval_above", {"value": 100})
        await node.refresh_settings()
        yield made
    stop.set()
    await serving


async def leap_changes_nothing(
    running: Running, receiver: Receiver, shift: Shift, seconds: int
) -> None:
    """Let the clock leap and return; nothing may be early, end, expire or be moved by it."""
    schedule = await running.post("/schedules", {
        "every_seconds": 1,
        "template": {"job": {"destination": {"type": "worker"}, "lane": "ticks"}},
    })  # fmt: skip
    in_an_hour, pay_in_an_hour = await running.job(3600), await running.payment(3600)
    soon = await running.job(600, retry={"max_age_seconds": 900})
    unapproved = await running.payment(1, 200)

    async def fired() -> int:
        rows = await book(running.api, str(schedule["schedule_id"]))
        return sum(1 for row in rows if row["status"] == "FIRED")

    await eventually(fired)
    await shift(seconds)
    # What is accepted meanwhile keeps to the believed time, and so does all that was there.
    now_job, now_payment, before = await running.job(1), await running.payment(1), await fired()

    async def goes_on() -> bool:
        done = await running.status("jobs", now_job), await running.status("payments", now_payment)
        return done == ("COMPLETED", "COMPLETED") and await fired() > before

    await eventually(goes_on, 30)
    await eventually(running.names_the_clock)
    assert len(receiver.arrivals) == 1, "a job was early"
    await shift(0)

    async def right_again() -> bool:
        return not await running.names_the_clock()

    await eventually(right_again)
    counted = await fired()

    async def fires() -> bool:
        return await fired() > counted

    await eventually(fires)
    for job in (in_an_hour, soon):
        assert await running.status("jobs", job) == "PENDING"
    assert await running.status("payments", pay_in_an_hour) == "PENDING"
    assert await running.approvals() == [unapproved]
    rows = await book(running.api, str(schedule["schedule_id"]))
    assert {row["status"] for row in rows} <= {"FIRED", "LATE"}
    database = running.api.node.database
    assert await database.writer.fetchval(FUTURE) == 0
    assert (await prove(database, running.tenant_id)).findings == []
    assert len(receiver.arrivals) == 1
