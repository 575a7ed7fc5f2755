"""`postdate bench` measures what it says: its small forms run to their end, on one server."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from postdate.database.connection.database import Connection, Database
from postdate.foresight.spec.spike import Fleet, Spike, simulate_spike
from postdate.words.error import StartError
from postdate_lab.bench import (
    arm,
    event,
    everything,
    job,
    limit,
    payment,
    payment_plan,
    pending,
    schedule,
    testbed,
)
from postdate_lab.bench.bank import pairs
from postdate_lab.bench.loader import LoadOrder, requests
from postdate_lab.bench.payment_plan import PaymentPlan
from postdate_lab.bench.testbed import Measure, percentile
from postdate_lab.bench.transfer import pgledger_scripts

FEW = 1280
TINY = replace(payment_plan.QUICK, settled=400, naive=40, bulk=400)
# The other arms start servers of their own, or wait for nothing to happen.
SMALL_PAYMENTS = ["settle", "payer", "life", "bulk"]
SMALL_EVENTS = ["seal", "deliver", "lag", "queue"]


def unmeasured(found: Sequence[Measure]) -> list[str]:
    """Name the figures that are nothing; so little processor time may be less than a tick."""
    return [each.what for each in found if each.value <= 0 and each.unit != "us"]


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[testbed.Testbed]:
    async with testbed.testbed() as at:
        await at.settle()
        yield at


@pytest.fixture
def small(shared: testbed.Testbed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each bench use one server, with few rows, and tidy nothing up between its arms.

    Making a server and vacuuming five hundred tables is most of what a small run takes.
    """

    @asynccontextmanager
    async def already() -> AsyncIterator[testbed.Testbed]:
        yield shared

    async def leave(*_: object) -> None:
        pass

    for module in (arm, pending):
        monkeypatch.setattr(module, "testbed", already)
    monkeypatch.setattr(type(shared), "settle", leave)
    monkeypatch.setattr(pending, "FEW", FEW)


@pytest.mark.usefixtures("small")
async def test_payments_give_their_figures() -> None:
    found = await payment.SUITE.run(TINY, SMALL_PAYMENTS)
    figures = {(each.arm, each.what): each for each in found}
    assert set(SMALL_PAYMENTS) <= set(payment.SUITE.arms)
    for name in ("postdate", payment.LIMIT, payment.OWN_ROWS, "naive, 16 clients"):
        assert figures["settle", name].value > 0
        assert figures["settle, hot", name].value > 0
    for shape in ("zipf", "chain", "short"):
        assert figures[f"settle, {shape}", "postdate"].value > 0
    assert figures["payer", "one payer : spread"].target == ">= 0.8"
    assert figures["bulk", "POST /payments/batch"].value > 0
    assert figures["settle", "a payment, processor of Python"].target == "<= 30"
    assert figures["life", "write-ahead log with seals"].target == "<= 2800"


@pytest.mark.usefixtures("small")
async def test_jobs_without_peers_give_their_figures() -> None:
    found = await job.SUITE.run(job.JobPlan(count=200, rounds=1), ["life", "webhooks"])
    figures = {(each.arm, each.what): each.value for each in found}
    parts = [value for (_, what), value in figures.items() if what.startswith("write-ahead log,")]
    # A job of nothing would be a life of nothing: each of the four parts writes at least its row.
    assert len(parts) == 4
    assert min(parts) > 54
    assert figures["life", "write-ahead log with seals"] == pytest.approx(sum(parts), abs=0.1)
    assert figures["webhooks", "to a local receiver"] > 0
    assert {each.held for each in found if each.target} <= {True, False}


@pytest.mark.usefixtures("small")
async def test_everything_is_done_beside_few_and_beside_many_timers() -> None:
    found = await pending.SUITE.run(replace(pending.QUICK, timers=2 * FEW, count=200))
    figures = {each.what: each for each in found}
    assert unmeasured(found) == []
    for what in ("claim + delete", "settle a batch", "a page of pending jobs", "vacuum of timers"):
        assert {f"{what} beside {FEW}", f"{what} beside {2 * FEW}"} <= set(figures)
    assert figures["settle a batch, ratio"].target == "<= 1.3"


@pytest.mark.usefixtures("small")
async def test_schedules_give_their_figures() -> None:
    found = await schedule.SUITE.run(schedule.SUITE.quick, ["expand"])
    assert {each.arm for each in found} == {"expand"}
    assert unmeasured(found) == []


@pytest.mark.usefixtures("small")
async def test_few_schedules_over_all_buckets_take_few_transactions(
    shared: testbed.Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    hourly = await schedule.Hourly.begin(shared)
    await hourly.copy(128, due=True)
    database, begun = type(shared.node.database), []
    write = database.write

    def counted(self: Database, name: str = "write") -> AbstractAsyncContextManager[Connection]:
        begun.append(name)
        return write(self, name)

    monkeypatch.setattr(database, "write", counted)
    await hourly.expand(128)
    assert 0 < begun.count("expand") <= 4
    await hourly.check(128)


@pytest.mark.usefixtures("small")
async def test_events_give_their_figures() -> None:
    found = await event.SUITE.run(event.QUICK, SMALL_EVENTS)
    assert {each.arm for each in found} == set(SMALL_EVENTS)
    assert unmeasured(found) == []


@pytest.mark.usefixtures("small")
async def test_the_limits_claim_and_move_everything(shared: testbed.Testbed) -> None:
    assert await limit.claim_and_delete(shared, 1500) > 0
    wanted = [(n % 10, (n + 1) % 10) for n in range(1500)]
    assert await limit.move_money(shared, wanted, 10) > 0


@pytest.mark.soak
async def test_all_arms_of_schedules_give_their_figures() -> None:
    found = await schedule.SUITE.run(schedule.SUITE.quick)
    assert {each.arm for each in found} == set(schedule.SUITE.arms)
    assert unmeasured(found) == []


@pytest.mark.soak
async def test_a_spike_is_neither_early_nor_lost() -> None:
    figures = {
        (each.arm, each.what): each
        for each in await payment.SUITE.run(payment_plan.QUICK, ["spike"])
    }
    # What is a matter of right and wrong holds on any machine.
    for name in ("early", "lost", "deadlocks"):
        assert figures["spike", name].held


@pytest.mark.usefixtures("small")
async def test_an_arm_that_fails_is_a_missed_goal_and_the_others_go_on() -> None:
    async def broken(*_: object) -> list[testbed.Measure]:
        raise RuntimeError("of 3 payments 2 are stored")

    async def fine(*_: object) -> list[testbed.Measure]:
        return [testbed.plain("fine", "rate", 1.0, "1/s")]

    failed, figure = await arm.Suite({"broken": broken, "fine": fine}, None, None).run(None)
    assert (failed.arm, failed.held) == ("broken", False)
    assert "of 3 payments 2 are stored" in failed.what
    assert figure.arm == "fine"


def test_a_scaled_run_measures_fewer_items_in_as_many_rounds() -> None:
    plan = everything.WholePlan(scale=0.2, pending=5000)
    suites = everything.plan_suites(plan)
    assert (suites["jobs"].count, suites["jobs"].rounds) == (8000, 3)
    assert suites["jobs"].slow_calls >= 10 * job.WINDOW, "two processes would need one wave"
    assert (suites["payments"].settled, suites["payments"].rate) == (8000, 1000)
    assert suites["payments"].accounts == PaymentPlan().accounts
    assert suites["pending"].timers == 5000
    assert plan.command == "postdate bench --all --scale 0.2 --pending 5000"


async def test_an_unknown_arm_is_named() -> None:
    with pytest.raises(StartError, match="there is no arm nonsense"):
        await payment.SUITE.run(payment_plan.QUICK, ["nonsense"])


def test_a_place_without_pgledger_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="no checkout of pgledger"):
        pgledger_scripts(tmp_path)


def test_the_accounts_of_a_pair_differ() -> None:
    names = ["hot", "a", "b", "c"]
    thrown = pairs(names, 1000, hot=False)
    assert thrown
    assert all(a != b and "hot" not in (a, b) for a, b in thrown)
    assert {b for _, b in pairs(names, 10, hot=True)} == {"hot"}


@pytest.mark.parametrize(("kind", "count"), [("schedule", 1500), ("batch", 2), ("status", 1500)])
def test_a_load_sends_what_was_ordered(kind: Any, count: int) -> None:
    names = ["hot", "a", "b"]
    order = LoadOrder(url="", key="", kind=kind, count=1500, accounts=names, payment_ids=["x"])
    assert len(list(requests(order))) == count


def test_percentiles_are_values_that_occurred() -> None:
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.99) == 4.0
    assert percentile([7.0], 0.01) == 7.0


@pytest.mark.soak
async def test_a_spike_is_as_late_as_was_simulated(shared: testbed.Testbed) -> None:
    """A spike tells the rate of this machine; a larger one is as late as that rate says."""

    async def measured(items: int) -> dict[str, float]:
        found = await payment.spike(shared, replace(payment_plan.QUICK, spike=items))
        return {each.what: each.value for each in found}

    small = await measured(20_000)
    # Only a spike that was late tells a rate: one that was not may have left it unused.
    assert small["lateness p50"] > 100
    rate = next(value for metric, value in small.items() if "in one second" in metric)
    large = await measured(60_000)
    fleet = Fleet(processes=1, process_per_second=rate, database_per_second=rate)
    told = simulate_spike(fleet, Spike(items=60_000, spread_seconds=1.0))
    print(
        f"rate {rate:.0f}/s, told {told.p50_seconds:.2f} s, was {large['lateness p50'] / 1000:.2f}"
    )
    assert large["lateness p50"] / 1000 == pytest.approx(told.p50_seconds, rel=0.4)
