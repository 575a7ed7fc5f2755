"""The five walks of ARCHITECTURE.md: each passes its stations, in their order."""

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from conftest import Api, Clock, eventually
from postdate.node import role
from postdate.node.node import Node
from support.plain_browser import Browser
from support.receiver import Receiver
from support.schedule import create
from support.walk import Walk

PAGE = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text()
STATION = re.compile(r"^\d+\. `([\w/.]+)`: \S", re.MULTILINE)
MAX_STATIONS = 15
WALKED = 3
# Maximum number of our functions that a walk passes. A figure may only fall.
MAX_FUNCTIONS = {
    "payment": 337,
    "job": 340,
    "cron tick": 172,  # one bucket is due; 170 if other tests of this worker left schedules
    "read": 79,
    "console action": 188,
    "accepted payment": 140,
    "accepted job": 140,
}


@dataclass
class Office:
    """A tenant with money, subscribed to its events, and a node with every role."""

    api: Api
    clock: Clock
    node: Node
    receiver: Receiver
    browser: Browser
    open_payment: str = ""
    to_cancel: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loops = {loop.name: loop for loop in role.loops(self.node)}

    async def step(self, *names: str) -> None:
        """Do one step of these loops, one after the other."""
        for name in names:
            await self.loops[name]._run_once(100)

    async def finish(self, name: str) -> None:
        """Wait until what a loop has begun is done."""
        finish = self.loops[name]._finish
        assert finish is not None
        await finish()

    async def post(self, path: str, body: object) -> dict[str, str]:
        headers = {"Idempotency-Key": uuid4().hex}
        answer = await self.api.call("POST", path, body, headers=headers)
        assert answer.status in {200, 201}, answer.body
        found: dict[str, str] = answer.body
        return found

    async def pay(self, seconds: int) -> str:
        order = {"from_account_id": "alice", "to_account_id": "bob", "amount": 1}
        answer = await self.post("/payments/schedule", {**order, "delay_seconds": seconds})
        return answer["payment_id"]

    async def ended(self, subject: str) -> bool:
        """Say whether nothing is left to do for a job."""
        left = "SELECT count(*) = 0 FROM timer WHERE subject = $1"
        return bool(await self.api.node.database.writer.fetchval(left, UUID(subject)))


@pytest.fixture
async def office(api: Api, clock: Clock, receiver: Receiver) -> AsyncIterator[Office]:
    node = Node(
        settings=api.node.settings,
        database=api.node.database,
        roles=["worker", "settlement", "publisher"],
    )
    made = Office(api, clock, node, receiver, Browser(api))
    for name in ("alice", "bob"):
        await made.post("/accounts", {"account_id": name})
    await made.post("/accounts/alice/adjustments", {"amount": 1000, "reason": "opening"})
    hook = {"type": "webhook", "url": receiver.url("/events")}
    await made.post("/subscriptions", {"types": ["*"], "destination": hook})
    made.open_payment, *made.to_cancel = [await made.pay(3600) for _ in range(2 + WALKED)]
    await create(api, cron="* * * * *")
    async with made.browser:
        await made.browser.sign_in()
        yield made
    await node.close()


async def payment(office: Office) -> None:
    await office.pay(5)
    await office.clock.advance(6)
    await office.step("settlement", "seal", "deliver")
    await office.finish("deliver")


async def accepted_payment(office: Office) -> None:
    await office.pay(3600)


async def accepted_job(office: Office) -> None:
    hook = {"type": "webhook", "url": office.receiver.url("/job")}
    await office.post("/jobs", {"destination": hook, "delay_seconds": 3600})


async def job(office: Office) -> None:
    hook = {"type": "webhook", "url": office.receiver.url("/job")}
    made = await office.post("/jobs", {"destination": hook, "payload": {"n": 1}})
    await office.step("worker-lanes")

    async def claimed_and_ended() -> bool:
        await office.step("worker-claim-1")
        return await office.ended(made["job_id"])

    await eventually(claimed_and_ended)


async def cron_tick(office: Office) -> None:
    await office.clock.advance(60)
    await office.step("schedules")


async def read(office: Office) -> None:
    answer = await office.api.call("GET", f"/payments/{office.open_payment}")
    assert answer.status == 200


async def console_action(office: Office) -> None:
    seen = await office.browser.confirm(f"/payments/{office.to_cancel.pop()}/cancel")
    assert seen.status == 303, seen.text


WALKS: dict[str, Callable[[Office], Awaitable[None]]] = {
    "payment": payment,
    "job": job,
    "cron tick": cron_tick,
    "read": read,
    "console action": console_action,
}
ACCEPTS: dict[str, Callable[[Office], Awaitable[None]]] = {
    "accepted payment": accepted_payment,
    "accepted job": accepted_job,
}


def stations(name: str) -> list[str]:
    """Read the stations of a walk from the page."""
    text = PAGE.partition(f"\n### A {name}\n")[2].partition("\n#")[0]
    return STATION.findall(text)


async def recorded(office: Office, name: str, walk: Callable[[Office], Awaitable[None]]) -> Walk:
    """Record a walk, once it was walked before: what is made on first use is no part of it.

    The shortest of a few counts: a timer may have fired beside the others.
    """
    await walk(office)
    walks = [Walk() for _ in range(WALKED)]
    for each in walks:
        with each.recording():
            await walk(office)
    passed = min(walks, key=lambda each: len(each.stations))
    if folder := os.environ.get("POSTDATE_TEST_WALKS"):
        passed.write(Path(folder) / f"{name}.txt")
    return passed


@pytest.mark.parametrize("name", WALKS)
async def test_a_walk_is_short_and_passes_its_stations_in_their_order(
    office: Office, name: str
) -> None:
    walk = await recorded(office, name, WALKS[name])
    passed = stations(name)
    assert 5 <= len(passed) <= MAX_STATIONS
    assert [station for station in passed if station not in walk.stations] == []
    assert sorted(passed, key=walk.stations.index) == passed
    assert 50 < len(walk.stations) <= MAX_FUNCTIONS[name]


@pytest.mark.parametrize("name", ACCEPTS)
async def test_an_accept_is_short(office: Office, name: str) -> None:
    walk = await recorded(office, name, ACCEPTS[name])
    assert 50 < len(walk.stations) <= MAX_FUNCTIONS[name]
