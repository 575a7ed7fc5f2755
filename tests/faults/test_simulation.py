"""Thousands of histories of the stages' own code, each from a seed that replays it."""

import json
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from postdate.database.connection.clock_belief import ClockBelief
from postdate.database.connection.error import DatabaseError
from postdate.delivery.breaker import Breaker, Health
from postdate.publisher import sealer
from postdate.runtime.loop import Loop
from postdate.runtime.low_water import LowWaterMark
from sim.breaker import BreakerHistory, simulated_calls
from sim.expand import ExpandHistory, simulated_expansion
from sim.loop import simulate
from sim.seal import SealHistory, simulated_sealing
from sim.settle import SettleHistory, simulated_settlement
from sim.table import TableDatabase
from sim.worker import History, simulated_store

MANY = int(os.environ.get("POSTDATE_TEST_HISTORIES", "100000"))
LOG = os.environ.get("POSTDATE_TEST_HISTORIES_LOG")
SLICE = 500


class Stage(NamedTuple):
    """A stage that is simulated: how a history runs, what stands for its store, how many here."""

    play: Callable[[int], Coroutine[Any, Any, Any]]
    store: Callable[[], AbstractContextManager[None]]
    few: int
    meets: frozenset[str]


async def _work(seed: int) -> History:
    return await History(seed).run()


async def _work_only(seed: int) -> History:
    return await History(seed, cancels=False).run()


async def _settle(_: int) -> SettleHistory:
    return await SettleHistory().run()


async def _seal(_: int) -> SealHistory:
    return await SealHistory().run()


async def _expand(_: int) -> ExpandHistory:
    return await ExpandHistory().run()


async def _break(_: int) -> BreakerHistory:
    return await BreakerHistory().run()


STAGES = {
    "worker": Stage(
        _work,
        simulated_store,
        60,
        frozenset({"take", "end", "permit", "heads", "cancel", "commit late"}),
    ),
    "settle": Stage(
        _settle,
        simulated_settlement,
        40,
        frozenset({"take", "pay", "lock", "transfer", "peek", "commit never"}),
    ),
    "seal": Stage(
        _seal, simulated_sealing, 40, frozenset({"take", "insert", "commit done", "copied"})
    ),
    "expand": Stage(
        _expand,
        simulated_expansion,
        20,
        frozenset({"take", "book", "commit late", "killed", "leap", "paused", "version"}),
    ),
    "breaker": Stage(
        _break, simulated_calls, 40, frozenset({"down", "busy", "silent", "probe", "given up"})
    ),
}

NO_CANCELS = STAGES["worker"]._replace(
    play=_work_only, store=partial(simulated_store, cancels=False)
)
"""Histories without cancels, as seeds that found something replay them."""


def _faults(history: Any) -> Iterable[str]:
    match history:
        case BreakerHistory():
            return history.faults
        case History():
            return history.world.faults
        case _:
            found: Iterable[str] = history.tables.faults
            return found


@contextmanager
def _surprises() -> Iterator[list[str]]:
    """Gather what a loop backs off from and no fault of the simulated database explains.

    A loop outlives every error: a stand-in without an attribute looks like a stage that stands.
    """
    found: list[str] = []
    back_off = Loop._back_off

    def gather(loop: Loop, error: Exception) -> float:
        if not isinstance(error, DatabaseError):
            found.append(f"{loop.name}: {error!r}")
        return back_off(loop, error)

    with mock.patch.object(Loop, "_back_off", gather):
        yield found


def broken(stage: Stage, first: int, count: int, met: set[str]) -> list[str]:
    """Play histories; give the seeds of those that went wrong, with why, and the faults met."""
    found = []
    with stage.store():
        for seed in range(first, first + count):
            with _surprises() as surprises:
                history: Any = simulate(seed, stage.play(seed))
            met.update(_faults(history))
            if problems := [*sorted(set(surprises)), *history.problems]:
                found.append(f"seed {seed}: {'; '.join(problems)}")
    return found


@pytest.mark.parametrize("name", STAGES)
def test_every_history_ends_well(name: str) -> None:
    """Replay one by `POSTDATE_TEST_SEED=n pytest tests/faults/test_simulation.py -k settle`."""
    seed, met, stage = os.environ.get("POSTDATE_TEST_SEED"), set[str](), STAGES[name]
    assert broken(stage, int(seed or 0), 1 if seed else stage.few, met) == []
    if not seed:
        assert stage.meets <= met


def test_a_lane_that_opens_a_rounding_from_now_is_open() -> None:
    """A lane opened 1e-13 s after a sleep had ended, and the loop stood on that spot."""
    assert broken(NO_CANCELS, 50146, 1, set()) == []


def test_a_claim_under_way_is_no_leak() -> None:
    """Each look at a node fell into the moment at which it asked for a permit, as every 0.1 s."""
    assert broken(NO_CANCELS, 2_200_041, 1, set()) == []


def test_a_node_that_slept_through_its_lease_runs_nothing_early() -> None:
    """It woke when another node had tried its job, and put it off: late, and told as early."""
    assert broken(NO_CANCELS, 94_000_598, 1, set()) == []


def test_a_killed_node_leaves_no_lock_behind() -> None:
    """It died inside a transaction: the server lets go of what that had locked."""
    assert broken(NO_CANCELS, 1_002_020, 1, set()) == []


def test_one_seed_gives_one_history() -> None:
    with simulated_store():
        first, second = (simulate(7, _work(7)) for _ in range(2))
    assert first.effects == second.effects
    assert first.world.faults == second.world.faults
    assert [row.committed for row in first.world.rows.values()] == [
        row.committed for row in second.world.rows.values()
    ]
    with simulated_settlement():
        third, fourth = (simulate(7, _settle(7)) for _ in range(2))
    assert third.tables.rows == fourth.tables.rows
    assert third.tables.faults == fourth.tables.faults


def test_it_sees_money_that_leaves_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClockBelief, "shown", lambda _, machine: machine)
    assert any("early" in each for each in broken(STAGES["settle"], 0, 30, set()))


def test_it_sees_events_that_are_never_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LowWaterMark, "_trailing", lambda mark, _: mark.lowest)
    monkeypatch.setattr(sealer, "WHOLE_SECONDS", 1e9)
    assert any("sealed" in each for each in broken(STAGES["seal"], 0, 20, set()))


def test_it_sees_a_probe_that_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    record = Breaker.record

    def keep(breaker: Breaker, admitted_at: float, now: float, health: Health, *more: Any) -> None:
        if health is not Health.SILENT:
            record(breaker, admitted_at, now, health, *more)

    monkeypatch.setattr(Breaker, "record", keep)
    assert broken(STAGES["breaker"], 0, 40, set())


def test_it_names_what_a_loop_did_not_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in without an attribute left every timer standing, and nothing said why."""
    monkeypatch.delattr(TableDatabase, "sharded")
    assert "AttributeError" in broken(STAGES["expand"], 0, 1, set())[0]


@pytest.mark.soak
@pytest.mark.parametrize("name", STAGES)
def test_a_hundred_thousand_histories_end_well(name: str) -> None:
    """`POSTDATE_TEST_HISTORIES=n` says how many of each stage, `POSTDATE_TEST_SEED` the first.

    `POSTDATE_TEST_HISTORIES_LOG` keeps a line of each slice: what is broken off loses little.
    """
    first, wrong = int(os.environ.get("POSTDATE_TEST_SEED", "1000000")), list[str]()
    for seed in range(first, first + MANY, SLICE):
        count = min(SLICE, first + MANY - seed)
        found = broken(STAGES[name], seed, count, set())
        wrong += found
        line = {"stage": name, "first": seed, "histories": count, "wrong": found}
        if LOG:
            with Path(LOG).open("a") as file:
                file.write(json.dumps(line) + "\n")
    assert wrong == []
