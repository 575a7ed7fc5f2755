"""The watch: what nobody touches is found in the database, and looked at anew."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from prometheus_client import CollectorRegistry

from conftest import eventually
from postdate.core.setting.setting import Settings, Stored
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import UnavailableError
from postdate.database.connection.query import query
from postdate.monitor.store import vital
from postdate.monitor.store.vital import Untouched
from postdate.monitor.view.overdue import HeadWatch, OverdueWatch, Reexamine
from postdate.runtime import node as node_store
from postdate.runtime.low_water import WIDE_MARGIN, LowWaterMark
from postdate.scheduler.expander import Expander
from postdate.timer.timer import LONG_AGO
from postdate.worker.claimer import Claimer
from postdate.worker.permit import HeldPermits
from postdate.worker.runner import Runner
from postdate.worker.worker import JobWorker
from support.bank import Bank, settler
from support.event import emit, new_event, sealer, subjects
from support.transaction_faults import FaultyDatabase
from support.worker import Handled, OwnLanes, add_jobs, make_lane, make_worker, one

SOON = 0.05
NODE = UUID(int=7)


@pytest.fixture(autouse=True)
async def every_role_lives(database: Database) -> None:
    async with database.write() as connection:
        roles = ["worker", "settlement", "publisher"]
        await node_store.beat(connection, NODE, "test", roles, "0")


async def make_watch(
    database: Database,
    tenant_id: int,
    node_id: UUID = NODE,
    reexamine: Mapping[str, Sequence[Reexamine]] | None = None,
    **settings: Any,
) -> OverdueWatch:
    stored = {(0, name): Stored(0, name, value) for name, value in settings.items()}
    lanes = OwnLanes(database, [tenant_id])
    await lanes.refresh()
    return OverdueWatch(
        CollectorRegistry(),
        database,
        lanes,
        Settings(stored),
        node_id,
        reexamine=reexamine or {},
        untouched_seconds=SOON,
        outlived_seconds=SOON,
    )


async def watch_of(worker: JobWorker, tenant_id: int, **settings: Any) -> OverdueWatch:
    reexamine = {"push": [worker.reexamine], "lease": [worker.reexamine]}
    return await make_watch(worker.database, tenant_id, worker.node_id, reexamine, **settings)


def found(watch: OverdueWatch) -> dict[str, float]:
    return {kind: count for kind, count in watch._meter._found.items() if count}


async def work(worker: JobWorker) -> None:
    """One turn of the worker's loops, without the helper that looks everywhere."""
    with suppress(UnavailableError):
        await worker.run_once(100)
    await worker.renew()


async def ends(
    worker: JobWorker, jobs: list[UUID], *others: Callable[[], Awaitable[Any]], seconds: float = 5.0
) -> bool:
    """Say whether all jobs end while the worker and the others take turns."""

    async def ended() -> bool:
        await work(worker)
        for other in others:
            await other()
        outcomes = [await one(worker.database, "outcome", job) for job in jobs]
        return None not in outcomes

    try:
        await eventually(ended, seconds)
    except TimeoutError:
        return False
    return True


def head(subject: int, token: int = 0) -> Untouched:
    return Untouched(1, 5, 0, UUID(int=subject), token, 9.0, LONG_AGO)


async def test_a_place_is_stuck_when_its_first_due_thing_stays_the_same() -> None:
    watch = HeadWatch(10)
    place = (1, 5)
    assert watch.observe([place], [head(1)], 100) == []
    assert watch.observe([place], [head(1)], 109) == []
    assert watch.observe([place], [head(1)], 110) == [head(1)]
    assert watch.observe([place], [head(2)], 111) == []
    assert watch.observe([place], [head(2)], 120) == []
    assert watch.observe([place], [head(2, token=1)], 121) == []
    assert watch.suspects == [place]
    assert watch.observe([place], [], 140) == []
    assert watch.suspects == []


async def test_the_watch_frees_a_place_that_stays_busy(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 1: the transaction cannot begin, and nobody undoes that the place is taken."""
    monkeypatch.setattr(Claimer, "_break_off", lambda *_: None)
    jobs = await add_jobs(database, await make_lane(database, tenant_id), 8)

    async def away(_: Connection, number: int) -> None:
        if number == 0:
            raise ConnectionRefusedError

    worker = await make_worker(FaultyDatabase(database, away), Handled(), tenant_id)
    assert not await ends(worker, jobs, seconds=1.0)
    watch = await watch_of(worker, tenant_id)
    assert await ends(worker, jobs, watch.run_once)
    assert found(watch)["push"] >= 1


async def test_a_worker_takes_back_permits_that_nobody_owns(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 2: a permit is never ended."""
    monkeypatch.setattr(HeldPermits, "end", lambda *_: None)
    lane = await make_lane(database, tenant_id, max_running=2)
    jobs = await add_jobs(database, lane, 4)
    worker = await make_worker(database, Handled(), tenant_id)
    assert await ends(worker, jobs)


async def test_the_watch_takes_back_room_that_nobody_owns(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 2 again: the window of the tenant fills with what has long ended."""
    monkeypatch.setattr(Runner, "_release_room", lambda *_: None)
    jobs = await add_jobs(database, await make_lane(database, tenant_id), 8)
    worker = await make_worker(database, Handled(), tenant_id, window_size=4)
    assert not await ends(worker, jobs, seconds=1.0)
    watch = await watch_of(worker, tenant_id)
    assert await ends(worker, jobs, watch.run_once)


async def test_the_watch_ends_leases_without_a_handler(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 3: flights are registered, nobody runs them, and their leases are renewed."""

    async def lose_once(runner: Runner) -> None:
        runner._arrived.clear()
        monkeypatch.undo()

    monkeypatch.setattr(Runner, "admit", lose_once)
    jobs = await add_jobs(database, await make_lane(database, tenant_id), 4)
    worker = await make_worker(
        database, Handled(), tenant_id, settings={"worker.lease_seconds": 0.3}
    )
    assert not await ends(worker, jobs, seconds=1.0)
    watch = await watch_of(worker, tenant_id, **{"job.timeout_seconds": 0.1})
    assert await ends(worker, jobs, watch.run_once)
    assert found(watch)["lease"] >= 1


async def observed(watch: OverdueWatch, kind: str) -> float:
    """Look until something is found, however busy the machine is; return how much."""

    async def seen() -> bool:
        await watch.run_once()
        return kind in found(watch)

    await eventually(seen)
    return found(watch)[kind]


async def unobserved(watch: OverdueWatch, kind: str) -> bool:
    """Look for as long as something would have been found; say whether nothing was."""
    until = time.monotonic() + 10 * SOON

    async def over() -> bool:
        await watch.run_once()
        return time.monotonic() > until or kind in found(watch)

    await eventually(over)
    return kind not in found(watch)


async def test_a_due_job_of_nobody_is_overdue(database: Database, tenant_id: int) -> None:
    await add_jobs(database, await make_lane(database, tenant_id), in_seconds=[-1])
    watch = await make_watch(database, tenant_id)
    assert await observed(watch, "push") == 1
    assert any(
        "due jobs: 1 of them were not touched" in said for said in watch.sentences(tenant_id)
    )


async def test_what_must_wait_is_not_overdue(database: Database, tenant_id: int) -> None:
    limited = await make_lane(database, tenant_id, "limited", max_running=1)
    running, _ = await add_jobs(database, limited, 2, in_seconds=[-1])
    await database.writer.execute(
        "UPDATE timer SET claimed_at = clock(), claimed_by = $2, ready_at = due_at, token = 1, "
        "due_at = clock() + interval '30 s' WHERE subject = $1",
        running,
        NODE,
    )
    pull = await make_lane(database, tenant_id, "pull", kind="pull")
    await add_jobs(database, pull, in_seconds=[-1])
    assert await unobserved(await make_watch(database, tenant_id), "push")


async def test_what_was_halted_is_not_overdue(database: Database, tenant_id: int) -> None:
    await add_jobs(database, await make_lane(database, tenant_id), in_seconds=[-1])
    await database.writer.execute(
        "INSERT INTO tenant_halt (tenant_id, kind, mode, from_at, note, set_by) "
        "VALUES ($1, 'kill', 'hold', clock(), 'x', 'x')",
        tenant_id,
    )
    assert await unobserved(await make_watch(database, tenant_id), "push")


async def test_a_payment_behind_a_mark_is_found(database: Database, tenant_id: int) -> None:
    bank = Bank(database, tenant_id)
    await bank.open({"a": 10, "b": 0})
    settling = settler(database)
    await settling.run_once()
    for mark in settling._marks._marks:
        hide(mark, await bank.now() + timedelta(hours=1))
    payment = await bank.due("a", "b", 1)
    assert await settling.run_once() == 0
    reexamine = {"payment": [lambda *_: settling.look_everywhere()]}
    watch = await make_watch(database, tenant_id, reexamine=reexamine)
    assert await observed(watch, "payment") == 1
    assert await settling.run_once() == 1
    assert await bank.outcome(payment)


async def test_an_unsealed_event_is_found(database: Database, tenant_id: int) -> None:
    [subject] = subjects(database, 1)
    await emit(database, new_event(tenant_id, subject))
    sealing = sealer(database)
    hide(sealing._mark, await now(database) + timedelta(hours=1))
    assert await sealing.run_once() == 0
    hide(sealing._mark, await now(database) + timedelta(hours=1))
    reexamine = {"event": [lambda *_: sealing.look_everywhere()]}
    watch = await make_watch(database, tenant_id, reexamine=reexamine)
    assert await observed(watch, "event") == 1
    assert await sealing.run_once() >= 1


async def test_the_expander_forgets_its_marks(database: Database) -> None:
    expander = Expander(database, firer=None)  # type: ignore[arg-type] # nothing is due
    await expander.run_once()
    for mark in expander._marks:
        hide(mark, await now(database) + timedelta(hours=1))
    assert LONG_AGO not in {expander._low(bucket) for bucket in range(64)}
    expander.look_everywhere()
    assert {expander._low(bucket) for bucket in range(64)} == {LONG_AGO}


def hide(mark: LowWaterMark, at: datetime) -> None:
    """Move a mark beyond what is due, as no look would; even a wide look begins there."""
    mark.learn_empty_below(at + WIDE_MARGIN, at + WIDE_MARGIN)
    mark.full_at = time.monotonic() + 3600


async def now(database: Database) -> Any:
    return await database.writer.fetchval("SELECT clock()")


@pytest.mark.parametrize("name", ["vital_overdue_heads", "vital_leased", "vital_overlong_leases"])
async def test_each_look_walks_an_index(database: Database, tenant_id: int, name: str) -> None:
    lane = await make_lane(database, tenant_id)
    places = [(bucket, lane.lane_id) for bucket in lane.buckets]
    buckets, lanes = zip(*places, strict=True)
    arguments: dict[str, list[Any]] = {
        "vital_overdue_heads": [[LONG_AGO] * len(places), 1.0],
        "vital_leased": [10],
        "vital_overlong_leases": [[1.0] * len(places), uuid4(), 1.0, 10],
    }
    rows = await database.writer.fetch(f"EXPLAIN {query(name)}", buckets, lanes, *arguments[name])
    plan = "\n".join(row[0] for row in rows)
    assert "Index" in plan
    assert "Seq Scan on timer" not in plan


async def test_old_events_are_not_overdue_before_a_node_could_seal_them(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an outage the oldest event is minutes old: only one that stays the oldest is stuck."""
    watch = await make_watch(database, tenant_id)
    age = 345.0

    async def event_seconds(_: object) -> float:
        return age

    monkeypatch.setattr(vital, "event_seconds", event_seconds)
    for _ in range(4):
        await watch.run_once()
        assert "event" not in found(watch)
        age -= 60  # events are being sealed

    async def told() -> bool:
        await watch.run_once()
        return found(watch).get("event") == 1

    await eventually(told)
    database.writable = False
    try:
        await watch.run_once()
        assert watch.sentences() == []
    finally:
        database.writable = True
