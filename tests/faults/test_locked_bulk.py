"""A transaction from outside holds one row of many: the others are done, and it comes later."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from conftest import Api, Clock, eventually
from faults.pg_proxy import wait_a_moment
from postdate.core.setting.setting import Settings
from postdate.core.status import JobStatus
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.event.store import seal
from postdate.halt.change import Halting
from postdate.halt.spec import Halts
from postdate.job.change.bulk import ChangedCount, JobBulk
from postdate.job.spec.bulk import JobInstant
from postdate.lane.store import permit
from postdate.lane.store.permit import lane_limits
from postdate.node import schedule as wiring
from postdate.payment.change.approval import Approvals
from postdate.publisher.verify import verify
from postdate.runtime.loop import Loop
from postdate.scheduler.expander import Expander
from postdate.scheduler.recompute import HeldError, Recompute
from postdate.settlement.halt_end import HaltEnds
from postdate.tenant.store import tenant as tenant_store
from support.bank import Bank, drain, settler
from support.event import emit, new_event, sealer, subjects
from support.job import failed
from support.log import capture_logs
from support.schedule import create, labels, set_to_morning
from support.worker import Handled, add_jobs, make_lane, make_worker

JOBS = 40
TENANT = "SELECT tenant_id FROM tenant WHERE name = $1"
LATER = JobInstant(delay_seconds=3600)


class Stranger:
    """A session that is none of ours."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    @asynccontextmanager
    async def holds(self, table: str, key: str, value: object) -> AsyncIterator[None]:
        """Hold one row, as somebody's forgotten transaction would."""
        async with self._connection.transaction():
            rows = await self._connection.fetch(
                f"SELECT FROM postdate.{table} WHERE {key} = $1 FOR UPDATE", value
            )
            assert len(rows) == 1
            yield


@pytest.fixture
async def stranger(server: Embedded, database_name: str) -> AsyncIterator[Stranger]:
    connection = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    yield Stranger(connection)
    await connection.close()


class Bulk:
    """Jobs to be changed together, and the change."""

    def __init__(self, database: Database, tenant_id: int, change: str) -> None:
        self.database, self.tenant_id, self.change = database, tenant_id, change

    async def prepare(self) -> list[UUID]:
        self.lane = await make_lane(self.database, self.tenant_id, width=2)
        self.jobs = await add_jobs(self.database, self.lane, JOBS)
        return self.jobs

    async def __call__(self) -> ChangedCount:
        bulk = JobBulk(self.database, None, Settings())  # type: ignore[arg-type]
        found = dict.fromkeys(self.jobs, JobStatus.READY)
        if self.change == "cancel":
            return await bulk.cancel_these(self.tenant_id, found, "test")
        return await bulk.move_these(self.tenant_id, found, LATER, "test")


@pytest.fixture(params=["cancel", "reschedule"])
def bulk(database: Database, tenant_id: int, request: pytest.FixtureRequest) -> Bulk:
    return Bulk(database, tenant_id, request.param)


async def test_the_other_jobs_are_changed_while_a_stranger_holds_one(
    bulk: Bulk, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postdate.job.change.bulk.WAIT_SECONDS", 0.2)
    jobs = await bulk.prepare()
    async with stranger.holds("timer", "subject", jobs[JOBS // 2]):
        assert await bulk() == ChangedCount(JOBS - 1, 1)
    # Called again, it takes what is left; a move takes those that it moved as well.
    assert await bulk() == ChangedCount(1 if bulk.change == "cancel" else JOBS, 0)


async def test_a_job_that_is_free_again_is_changed_by_the_same_call(
    bulk: Bulk, stranger: Stranger
) -> None:
    jobs = await bulk.prepare()
    async with stranger.holds("timer", "subject", jobs[0]):
        changing = asyncio.create_task(bulk())

        async def all_but_one() -> bool:
            told: int = await bulk.database.writer.fetchval(
                "SELECT count(*) FROM event WHERE tenant_id = $1 AND type = ANY ($2)",
                bulk.tenant_id,
                ["job.cancelled", "job.rescheduled"],
            )
            return told == JOBS - 1

        await eventually(all_but_one)
    assert await changing == ChangedCount(JOBS, 0)


async def test_a_call_over_http_says_that_there_is_more(
    api: Api, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postdate.job.change.bulk.WAIT_SECONDS", 0.0)
    jobs = [
        (await api.call("POST", "/jobs", {"destination": {"type": "worker"}, "lane": "held"})).body
        for _ in range(2)
    ]
    asked = {"filter": {"lane": "held"}}
    async with stranger.holds("timer", "subject", UUID(jobs[0]["job_id"])):
        first = await api.call("POST", "/jobs/bulk/cancel", asked)
    assert (first.status, first.body["changed"], first.body["more"]) == (200, 1, True)
    second = await api.call("POST", "/jobs/bulk/cancel", asked)
    assert (second.body["changed"], second.body["more"]) == (1, False)


async def test_a_purge_leaves_what_a_stranger_holds(api: Api, stranger: Stranger) -> None:
    jobs = [UUID(job_id) for job_id in await failed(api, 6)]
    async with stranger.holds("outcome", "subject", jobs[2]):
        purged = await api.call("POST", "/dead-letters/purge", {"job_ids": [str(j) for j in jobs]})
        assert purged.status == 200, purged.body
    left = await api.call("GET", "/dead-letters?limit=100")
    shown = {each["job_id"] for each in left.body["jobs"]}
    assert shown & {str(job) for job in jobs} == {str(jobs[2])}


async def test_the_end_of_a_halt_passes_a_payment_that_a_stranger_holds(
    database: Database, tenant_id: int, stranger: Stranger
) -> None:
    bank = Bank(database, tenant_id)
    await bank.open({"alice": 100, "bob": 0})
    payments = [await bank.due("alice", "bob", 1) for _ in range(4)]
    halting = Halting(database, Halts())
    await halting.kill(tenant_id, "test", "cli")
    await drain(settler(database))
    await halting.lift(tenant_id, "kill", "cli")
    ends = HaltEnds(database, lambda: None)
    async with stranger.holds("timer", "subject", payments[1]):
        await ends.run_once()
        await drain(settler(database))
        settled = [bool(await bank.outcome(payment)) for payment in payments]
        assert settled == [True, False, True, True]
    await ends.run_once()
    await drain(settler(database))
    assert await bank.outcome(payments[1])
    assert not await database.writer.fetchval(
        "SELECT count(*) FROM tenant_halt WHERE tenant_id = $1", tenant_id
    )


async def test_an_approval_that_a_stranger_holds_keeps_no_other_from_expiring(
    api: Api, clock: Clock, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postdate.payment.change.approval.HELD_SECONDS", -1.0)
    bank = Bank(api.node.database, await api.node.database.writer.fetchval(TENANT, api.tenant))
    await bank.open({"anna": 1000, "ben": 1000, "carl": 0})
    await api.call("PUT", "/settings/payment.approval_above", {"value": 1})
    await api.node.refresh_settings()
    made = [UUID(await large(api, payer)) for payer in ("anna", "anna", "ben")]
    await clock.advance(86_401)
    approvals = Approvals(api.node.database)
    async with stranger.holds("account", "account_id", "anna"):
        await approvals.run_once(2)
        expired = [bool(await bank.outcome(payment)) for payment in made]
        assert expired == [False, False, True], "anna's two fill the page, and wait"
    async with stranger.holds("timer", "subject", made[0]):
        await approvals.run_once()
        monkeypatch.undo()
        await approvals.run_once()
        await approvals.run_once()
        expired = [bool(await bank.outcome(payment)) for payment in made]
        assert expired == [False, True, True], "what is held rests, and anna's other one expires"
    await Approvals(api.node.database).run_once()
    assert await bank.outcome(made[0])


async def large(api: Api, payer: str) -> str:
    """Ask for a payment that needs a second person."""
    order = {"from_account_id": payer, "to_account_id": "carl", "amount": 2, "delay_seconds": 60}
    headers = {"Idempotency-Key": uuid4().hex}
    answer = await api.call("POST", "/payments/schedule", order, headers=headers)
    return str(answer.body["payment_id"])


async def neighbours(api: Api, monkeypatch: pytest.MonkeyPatch, **rule: Any) -> list[str]:
    """Make schedules that lie in one bucket, so that one batch takes them all."""
    monkeypatch.setattr("postdate.schedule.change.schedule.random.randrange", lambda _: 9)
    return [(await create(api, **rule))["schedule_id"] for _ in range(5)]


@pytest.mark.parametrize("divide_seconds", [3.0, -1.0], ids=["divided", "no time to divide"])
async def test_a_schedule_that_a_stranger_holds_stops_no_other(
    api: Api,
    clock: Clock,
    stranger: Stranger,
    monkeypatch: pytest.MonkeyPatch,
    divide_seconds: float,
) -> None:
    monkeypatch.setattr("postdate.scheduler.expander.DIVIDE_SECONDS", divide_seconds)
    monkeypatch.setattr("postdate.scheduler.expander.HELD_SECONDS", 0.2)
    await set_to_morning(clock)
    database = api.node.database
    made = await neighbours(api, monkeypatch, every_seconds=60)
    expander = Expander(database, wiring.occurrences(api.node))
    await clock.advance(60)
    async with stranger.holds("schedule", "schedule_id", UUID(made[2])):

        async def others_fired() -> bool:
            await expander.run_once()
            seen = [bool(await labels(api, each)) for each in made]
            return seen == [True, True, False, True, True]

        await eventually(others_fired)
        assert (await expander.next_due() or 0) > 0, "it would look again without a pause"

    async def fired() -> bool:
        await expander.run_once()
        return bool(await labels(api, made[2]))

    await eventually(fired)
    for each in made:
        await api.call("DELETE", f"/schedules/{each}")


async def test_a_schedule_whose_timer_a_stranger_holds_is_not_asked_for_without_a_pause(
    api: Api, clock: Clock, stranger: Stranger
) -> None:
    """The simulation took four times as long as others: its expanders ran in circles."""
    await set_to_morning(clock)
    made = await create(api, every_seconds=60)
    expander = Expander(api.node.database, wiring.occurrences(api.node))
    steps = 0

    async def step(limit: int) -> int:
        nonlocal steps
        steps += 1
        return await expander.run_once(limit)

    await clock.advance(60)
    loop = Loop("schedules", step, limit=10, next_due=expander.next_due)
    async with stranger.holds("timer", "subject", UUID(made["schedule_id"])):
        running = asyncio.create_task(loop.run())
        await wait_a_moment(1)
        assert 1 < steps <= 12

    async def fired() -> bool:
        return bool(await labels(api, made["schedule_id"]))

    await eventually(fired)
    loop.stop()
    await running
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_new_tz_data_reaches_the_others_while_a_stranger_holds_a_schedule(
    api: Api, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = api.node.database
    made = await neighbours(api, monkeypatch, cron="0 9 * * *", timezone="Europe/Berlin")
    await Recompute(database).run_once()
    await database.writer.execute(
        "UPDATE timer SET due_at = due_at + interval '1 hour' WHERE subject = ANY ($1)", made
    )

    async def told() -> set[str]:
        rows = await database.writer.fetch(
            "SELECT subject FROM event WHERE type = 'schedule.recomputed' AND subject = ANY ($1)",
            made,
        )
        return {str(row["subject"]) for row in rows}

    newer = Recompute(database, version="2999b")
    async with stranger.holds("schedule", "schedule_id", UUID(made[1])):
        with pytest.raises(HeldError):
            await newer.run_once()
        assert await told() == {*made} - {made[1]}
    await newer.run_once()
    assert await told() == {*made}
    for each in made:
        await api.call("DELETE", f"/schedules/{each}")


async def test_other_tenants_run_while_a_stranger_holds_the_limit_of_one(
    database: Database, tenant_id: int
) -> None:
    """The limit is its tenant's, so all of its lanes wait for it: together, not in turn."""
    async with database.write() as connection:
        other_id = await tenant_store.create(connection, f"other-of-{tenant_id}")
    assert other_id is not None
    lanes = [await make_lane(database, tenant_id, f"lane-{n}", width=1) for n in range(8)]
    for lane in lanes:
        await add_jobs(database, lane, 3)
    free = await make_lane(database, other_id, "free", width=1)
    jobs = await add_jobs(database, free, 8)
    worker = await make_worker(
        database, Handled(), tenant_id, other_id, settings={"worker.max_running": 50}
    )
    [limit] = lane_limits(lanes[0], worker.settings)

    async def all_free() -> bool:
        await worker.run_once(1)
        ended: int = await database.writer.fetchval(
            "SELECT count(*) FROM outcome WHERE subject = ANY ($1)", jobs
        )
        return ended == len(jobs)

    async with database.write() as connection:
        await permit.lock(connection, limit)
        with capture_logs() as told:
            await eventually(all_free, 8)
    waits = [each for each in told if each["event"] == "limit.locked"]
    assert 1 <= len(waits) <= 2, "one wait for the lock, not one for each lane"
    # And a short one.
    assert "lock_timeout=200ms" in await database.writer.fetchval(
        "SELECT proconfig FROM pg_proc WHERE proname = 'permit_lock'"
    )


async def test_a_chain_that_a_stranger_holds_stops_the_seals_of_no_other(
    database: Database, tenant_id: int, stranger: Stranger
) -> None:
    async with database.write() as connection:
        other_id = await tenant_store.create(connection, f"sealed-beside-{tenant_id}")
    assert other_id is not None
    one = sealer(database)

    async def emit_both() -> None:
        for tenant in (tenant_id, other_id):
            await emit(database, new_event(tenant, subjects(database, 1)[0]))

    async def sealed() -> tuple[int, int]:
        async with database.connection() as connection:
            found = await seal.positions(connection, [tenant_id, other_id])
        return found[tenant_id], found[other_id]

    await emit_both()
    await one.run_once()
    first, second = await sealed()
    async with stranger.holds("chain", "tenant_id", tenant_id):
        with capture_logs() as told:
            for more in (1, 2):
                await emit_both()
                await one.run_once()
                assert await sealed() == (first, second + more)
        # Once it is known to be held, it is not waited for again.
        assert [each["event"] for each in told] == ["seal.held"]
    await one.run_once()
    assert await sealed() == (first + 2, second + 2)
    assert (await verify(database, {})).findings == []
