"""Advances of test clocks: who may, one at a time, broken off and continued, proved afterwards."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from aiohttp import web

from conftest import INTERNAL_TOKEN, Api
from postdate.database.connection.error import DatabaseError
from postdate.job.spec.outcome import Delivery, JobHandler, Outcome
from postdate.node import job as job_wiring
from postdate.node.node import Node
from postdate.node.test_clock import TenantStages
from postdate.prover.checker import prove
from postdate.prover.prover import Prover
from postdate.test_clock.change.test_clock import AdvanceOrder, TestClocks
from support.clock_bench import START, Bench, instant, new_bench, told
from support.receiver import Receiver

pytestmark = pytest.mark.own_database("it proves the whole database")


class KilledError(BaseException):
    """The process is gone, as far as this advance is concerned."""


class Dying(TenantStages):
    """Stages that die between the claim of the second job and its delivery."""

    def __init__(self, node: Node, tenant_id: int) -> None:
        super().__init__(node, job_wiring.intake(node), tenant_id)
        self._runs = 0
        self._jobs.handlers = {"webhook": self._die_or(self._jobs.handlers["webhook"])}

    def _die_or(self, deliver: JobHandler) -> JobHandler:
        async def delivered(delivery: Delivery) -> Outcome:
            self._runs += 1
            if self._runs == 2:
                raise KilledError
            return await deliver(delivery)

        return delivered


@pytest.fixture
async def bench(api: Api) -> Bench:
    return await new_bench(api)


async def test_a_live_tenant_has_no_test_clock(api: Api) -> None:
    for method, path, body in (
        ("GET", "/test-clock", None),
        ("POST", "/test-clock/advance", {"by": "1d"}),
        ("POST", "/test-clock/advance", {"to": START.isoformat()}),
    ):
        answer = await api.call(method, path, body)
        assert (answer.status, answer.body["code"]) == (409, "not_in_test_mode")
    operator = {"X-Internal-Auth": INTERNAL_TOKEN}
    answer = await api.call(
        "POST",
        "/internal/tenants",
        {"name": f"live-{uuid4().hex[:8]}", "clock_at": START.isoformat()},
        headers=operator,
    )
    assert (answer.status, answer.body["field"]) == (422, "clock_at")


async def test_nobody_switches_a_tenant_between_the_modes(api: Api, bench: Bench) -> None:
    async with api.node.database.write() as connection:
        with pytest.raises(DatabaseError, match="keeps its mode"):
            await connection.execute("UPDATE tenant SET test = true WHERE name = $1", api.tenant)
    async with api.node.database.write() as connection:
        with pytest.raises(DatabaseError, match="does not go back"):
            await connection.execute(
                "UPDATE test_clock SET at = $2 WHERE tenant_id = "
                "(SELECT tenant_id FROM tenant WHERE name = $1)",
                bench.tenant,
                await bench.now() - timedelta(seconds=1),
            )


@pytest.mark.parametrize(
    "body",
    [
        {"by": "30x"},
        {"by": "-1d"},
        {"by": "1.5d"},
        {"by": ""},
        {"by": "3661d"},
        {"by": "999999999999w"},
        {"by": "1d", "to": "2027-02-01T00:00:00Z"},
        {"to": "2026-12-31T23:59:59Z"},
        {"to": "2037-12-31T00:00:00Z"},
        {"to": "2027-02-01T00:00:00"},
        {},
    ],
)
async def test_bad_advances_are_refused(bench: Bench, body: dict[str, str]) -> None:
    answer = await bench.call("POST", "/test-clock/advance", body)
    assert (answer.status, answer.body["code"]) == (422, "invalid_field"), answer.body
    assert await bench.now() == START


async def test_an_advance_to_an_instant(bench: Bench) -> None:
    to = "2027-03-01T12:00:00Z"
    answer = await bench.call("POST", "/test-clock/advance", {"to": to})
    assert instant(answer.body["at"]) == instant(to) == await bench.now()
    again = await bench.call("POST", "/test-clock/advance", {"to": to})
    assert (again.status, again.body["entries"]) == (200, [])


async def test_two_advances_at_once_are_one_and_a_refusal(bench: Bench, receiver: Receiver) -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        entered.set()
        await release.wait()
        return web.Response()

    receiver.script("/a", answer)
    destination = {"type": "webhook", "url": receiver.url("/a")}
    await bench.make("/jobs", {"delay_seconds": 60, "destination": destination})
    first = asyncio.create_task(bench.advance("1h"))
    await asyncio.wait_for(entered.wait(), 10)
    second = await bench.call("POST", "/test-clock/advance", {"by": "1h"})
    assert (second.status, second.body["code"]) == (409, "clock_advancing")
    assert instant((await bench.call("GET", "/test-clock")).body["target"]) == START + timedelta(
        hours=1
    )
    release.set()
    assert told(await first) == [("0:01:00", "job.completed")]
    assert await bench.now() == START + timedelta(hours=1)


async def test_the_same_key_never_advances_twice(bench: Bench, receiver: Receiver) -> None:
    destination = {"type": "webhook", "url": receiver.url("/a")}
    await bench.make("/jobs", {"delay_seconds": 60, "destination": destination})
    headers = {"Idempotency-Key": "once"}
    first = await bench.call("POST", "/test-clock/advance", {"by": "1h"}, headers=headers)
    again = await bench.call("POST", "/test-clock/advance", {"by": "1h"}, headers=headers)
    assert first.body["entries"] == again.body["entries"] != []
    assert first.body["at"] == again.body["at"]
    assert await bench.now() == START + timedelta(hours=1)


async def test_a_broken_advance_is_continued(bench: Bench, receiver: Receiver) -> None:
    """Break off in the middle, as a crash would: with a job leased."""
    for hour in (1, 2, 3):
        destination = {"type": "webhook", "url": receiver.url(f"/{hour}")}
        await bench.make("/jobs", {"delay_seconds": hour * 3600, "destination": destination})
    database = bench.api.node.database
    tenant_id = await database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", bench.tenant
    )
    service = TestClocks(database, lambda one: Dying(bench.api.node, one))
    with pytest.raises(KilledError):
        await service.advance(tenant_id, AdvanceOrder(by=timedelta(hours=5)))
    assert await bench.now() == START + timedelta(hours=2)
    refused = await bench.call("POST", "/test-clock/advance", {"by": "1h"})
    assert (refused.status, refused.body["code"]) == (409, "advance_unfinished")
    assert instant(refused.body["target"]) == START + timedelta(hours=5)
    answer = await bench.call("POST", "/test-clock/advance", {})
    assert answer.status == 200, answer.body
    assert answer.body["finished"]
    assert await bench.now() == START + timedelta(hours=5)
    page = (await bench.call("GET", "/test-clock/entries?advance=1&limit=100")).body["entries"]
    done = [(str(instant(e["at"]) - START), e["type"]) for e in page]
    # The second was claimed when the clock stopped: its lease had to end first.
    assert [kind for _, kind in done] == ["job.completed"] * 3
    assert done[0][0] == "1:00:00"
    assert done[1][0] > "2:00:00"
    assert done[2][0] == "3:00:00"
    assert [arrival.path for arrival in receiver.arrivals] == ["/1", "/2", "/3"]


@pytest.mark.parametrize(
    "start",
    [pytest.param("2020-03-01T00:00:00Z", marks=pytest.mark.soak), "2027-01-01T00:00:00Z"],
)
async def test_proofs_find_nothing_whatever_the_clock_shows(
    api: Api, receiver: Receiver, start: str
) -> None:
    bench = await new_bench(api, clock_at=start)
    await bench.accounts(payer=10_000, payee=0)
    webhook = {"destination": {"type": "webhook", "url": receiver.url("/a")}}
    await bench.make("/schedules", {"cron": "0 9 1 * *", "template": {"job": webhook}})
    payment = {"from_account_id": "payer", "to_account_id": "payee", "amount": 7}
    await bench.make("/schedules", {"cron": "0 8 1 * *", "template": {"payment": payment}})
    await bench.make("/payments/schedule", payment | {"delay_seconds": 30_000_000})
    await bench.make("/jobs", {"delay_seconds": 40_000_000, "lane": "slow", **webhook})
    await bench.make(
        "/jobs",
        {"delay_seconds": 199 * 86_400 + 43_200, "lane": "w", "destination": {"type": "worker"}},
    )
    await bench.advance("200d")
    claim = {"max": 1, "lease_seconds": 300, "wait_seconds": 0}
    assert (await bench.call("POST", "/lanes/w/claim", claim)).body["leases"]
    assert await bench.balance("payee") == 7 * 7
    database = bench.api.node.database
    tenant_id = await database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", bench.tenant
    )
    proof = await prove(database, tenant_id)
    assert proof.findings == []
    prover = Prover(database, bench.api.node.runtime)
    for bucket in range(64):
        found = await prover.prove_bucket(bucket)
        assert [each for each in found if each.tenant_id] == []


async def test_a_year_of_rent_takes_a_second(bench: Bench, receiver: Receiver) -> None:
    await bench.accounts(tenant=120_000, landlord=0)
    rent = {"from_account_id": "tenant", "to_account_id": "landlord", "amount": 10_000}
    await bench.make("/schedules", {"cron": "0 8 1 * *", "template": {"payment": rent}})
    reminder = {"destination": {"type": "webhook", "url": receiver.url("/remind")}}
    await bench.make("/schedules", {"cron": "0 8 28 * *", "template": {"job": reminder}})
    entries = await bench.advance("365d")
    assert await bench.balance("landlord") == 120_000
    assert len(receiver.arrivals) == 12
    assert len([e for e in entries if e["type"] == "payment.completed"]) == 12


async def test_an_advance_broken_off_at_its_target_is_continued(
    bench: Bench, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock shows the target, and there is more to do at that instant."""
    for each in range(3):
        destination = {"type": "webhook", "url": receiver.url(f"/{each}")}
        await bench.make("/jobs", {"destination": destination})
    monkeypatch.setattr("postdate.test_clock.change.test_clock.WORK_SECONDS", 0.0)
    answer = await bench.call("POST", "/test-clock/advance", {"by": "0s"})
    assert (answer.status, answer.body["finished"]) == (200, False)
    monkeypatch.undo()
    answer = await bench.call("POST", "/test-clock/advance", {})
    assert (answer.status, answer.body.get("finished")) == (200, True), answer.body
    assert len(receiver.arrivals) == 3


async def test_every_job_of_a_worker_that_came_due_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postdate.test_clock.change.advance.MAX_BATCH", 2)
    ready = (await bench.now() + timedelta(hours=1)).isoformat()
    for lane in ("a", "a", "a", "b", "b"):
        await bench.make(
            "/jobs", {"run_at": ready, "lane": lane, "destination": {"type": "worker"}}
        )
    assert [entry["type"] for entry in await bench.advance("2h")] == ["job.ready"] * 5
