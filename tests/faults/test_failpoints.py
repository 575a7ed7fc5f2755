"""A process is killed at each failpoint, and nothing is lost, stuck or done twice."""

import json
import os
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import app_dsn
from faults import (
    kill_change_sets,
    kill_jobs,
    kill_money,
    kill_office,
    kill_put_back,
    kill_schedules,
    kill_stages,
    sweep,
)
from faults.kill import Killed, KillOperation, kill, named, nameless, start_forking
from faults.sweep import Nodes
from postdate.core import failpoint
from postdate.database.embedded import Embedded
from postdate.ledger.prove import prove
from postdate.publisher.verify import verify
from support.event import sealer

OPERATIONS = [
    *kill_money.OPERATIONS,
    *kill_jobs.OPERATIONS,
    *kill_stages.OPERATIONS,
    *kill_change_sets.OPERATIONS,
    *kill_office.OPERATIONS,
    *kill_put_back.OPERATIONS,
    *kill_schedules.OPERATIONS,
]
MANY = int(os.environ.get("POSTDATE_TEST_KILLS", "200"))
FIRST = int(os.environ.get("POSTDATE_TEST_KILLS_FIRST", "0"))
"""The number of the first round: later rounds choose other occasions."""

LOG = os.environ.get("POSTDATE_TEST_KILLS_LOG")
ONLY = tuple(filter(None, os.environ.get("POSTDATE_TEST_KILLS_POINTS", "").split(",")))
"""How the names of the points begin that are meant; all of them without."""

NAMELESS = {
    "cli/commands/history.py": "the operator's, one transaction each, asked for again",
    "cli/commands/prove.py": "notes when everything was looked at last",
    "account/change/repair.py": "only looks",
    "resource/resource.py": "the name follows from the noun and its event",
    "intake/create_once.py": "makes a key when it is first needed, as whoever comes next",
    "change_set/change/schedule_operation.py": "only looks",
    "destination/change/destination.py": "makes a secret when it is first asked for",
    "job/accept/payload_encryption.py": "makes a key when it is first needed",
    "lease/change/report.py": "only reads",
    "test_clock/change/advance.py": "enters how far subscriptions came; deliveries stay",
    "tenant/change/client_role.py": "the operator's, one transaction each, asked for again",
    "tenant/change/rate_limit.py": "takes requests of one second, which pass unused",
    "setting/change.py": "the operator's way to do what tenants do under a name",
    "tenant/change/tenant.py": "the operator's way to do what keys do under a name",
    "test_clock/change/test_clock.py": "holds a clock a little longer",
    "node/history.py": "detaches one week; the next round goes on",
    "prover/prover.py": "marks of a round, which the next one makes again",
    "destination/store/directory.py": "makes a secret when it is first needed",
    "secret/receipt_key.py": "makes the first key; the others have a name",
    "key/authentication/identity.py": "notes when keys were used last",
    "worker/expirer.py": "removes the rates of keys that have recovered, which mean nothing",
    "worker/permit.py": "gives starts back that nobody has used",
    "worker/single_run.py": "the claim of a test clock's job: `test_advance.py` dies after it",
}
"""Who writes without a failpoint, and why a kill there is no other than one before or after."""

UNREACHED = {
    f"bulk_action.{step}.{moment}"
    for step in ("begin", "hold", "key_ended", "progress", "put_off", "refused", "start", "stop")
    for moment in ("before_commit", "after_commit")
}
"""No process is killed there yet: in `test_bulk_actions.py` a worker dies after such a commit."""

MAX_TIMES = 3
CHECKED_ROUNDS = 5
"""After so many rounds the checkers look at everything, and after the last."""


@pytest.fixture(scope="module")
async def dsn(server: Embedded, database_name: str) -> str:
    return app_dsn(server, database_name)


@pytest.fixture(scope="module")
async def nodes(server: Embedded, dsn: str) -> AsyncIterator[Nodes]:
    start_forking()
    async with sweep.nodes(server, dsn) as opened:
        yield opened


class Occasion(NamedTuple):
    """Where a process is killed: in which operation, and the how manieth time it gets there."""

    length: int
    make: type[KillOperation]
    time: int


@pytest.fixture(scope="module")
async def reached(nodes: Nodes, dsn: str) -> dict[str, list[Occasion]]:
    """Let each operation live once: which of them reaches which point, the shortest first."""
    found: dict[str, list[Occasion]] = defaultdict(list)
    wrong: list[Killed] = []
    for make in OPERATIONS:
        lived = await kill(nodes, dsn, make, "")
        if lived.code or lived.error or lived.violations:
            wrong.append(lived)
        for name, count in Counter(lived.reached).items():
            times = range(1, min(count, MAX_TIMES) + 1)
            found[name] += [Occasion(len(lived.reached), make, time) for time in times]
    assert wrong == []
    return {name: sorted(made, key=lambda each: each.length) for name, made in found.items()}


async def test_no_failpoint_is_dead(reached: dict[str, list[Occasion]]) -> None:
    assert named() - UNREACHED == reached.keys()
    assert named() >= UNREACHED


def test_whoever_writes_has_a_name_or_a_reason() -> None:
    assert nameless() == NAMELESS.keys()


class Unprintable(str):
    """A name that nobody may build upon."""

    __slots__ = ()

    def __format__(self, _: str) -> str:
        raise AssertionError("a name was put together for nobody")


def test_a_failpoint_does_nothing_when_off() -> None:
    failpoint.reach(Unprintable("settle"), "before_commit")
    failpoint.arm(print)
    try:
        with pytest.raises(AssertionError, match="for nobody"):
            failpoint.reach(Unprintable("settle"), "before_commit")
    finally:
        failpoint.arm(None)


async def _kill_once(nodes: Nodes, dsn: str, point: str, occasions: Sequence[Occasion]) -> Killed:
    """Kill at the first occasion; one that did not come again this time gives way to the next."""
    for occasion in occasions:
        killed = await kill(nodes, dsn, occasion.make, point, occasion.time)
        if killed.died or killed.violations or occasion.time == 1:
            break
    if killed.violations or not killed.died:
        print(killed)
    return killed


async def _findings(nodes: Nodes) -> list[Any]:
    """Seal what is left, and let both checkers look at everything."""
    while await sealer(nodes.direct).run_once():
        pass
    return [*(await prove(nodes.direct)).findings, *(await verify(nodes.direct, {})).findings]


def _bad(killed: Iterable[Killed]) -> list[Killed]:
    return [each for each in killed if each.violations or not each.died]


async def test_a_process_may_be_killed_in_each_operation(
    nodes: Nodes, dsn: str, reached: dict[str, list[Occasion]]
) -> None:
    """One point of each here, all of them in the soak."""
    one_of_each = {made[0].make: (point, made[:1]) for point, made in sorted(reached.items())}
    killed = [await _kill_once(nodes, dsn, *each) for each in one_of_each.values()]
    assert _bad(killed) == []
    assert await _findings(nodes) == []


@pytest.mark.parametrize(
    ("make", "point"),
    [
        (kill_change_sets.ChangePayments, "payment.cancel_these.after_commit"),
        (kill_change_sets.ChangePayments, "accept.statement.after_commit"),
        (kill_change_sets.ChangeJobs, "job.change_these.after_commit"),
    ],
)
async def test_what_is_killed_between_two_commits_goes_on(
    nodes: Nodes, dsn: str, make: type[KillOperation], point: str
) -> None:
    assert _bad([await kill(nodes, dsn, make, point)]) == []


@pytest.mark.soak
async def test_a_process_may_be_killed_again_and_again_at_each_failpoint(
    nodes: Nodes, dsn: str, reached: dict[str, list[Occasion]]
) -> None:
    """`POSTDATE_TEST_KILLS=n` says how often, `POSTDATE_TEST_KILLS_LOG` keeps each round.

    `POSTDATE_TEST_KILLS_POINTS=change_set,key.` chooses points by how their names begin.
    """
    wrong: list[Any] = []
    for number in range(MANY):
        killed = []
        for point, made in sorted(reached.items()):
            if not point.startswith(ONLY or ""):
                continue
            first = (FIRST + number) % len(made)
            occasions = [*made[first:], *made[:first]]
            killed.append(await _kill_once(nodes, dsn, point, occasions))
        findings = await _findings(nodes) if number % CHECKED_ROUNDS == 0 else []
        findings += await _findings(nodes) if number == MANY - 1 else []
        _keep(number, killed, findings)
        wrong += [*_bad(killed), *findings]
    assert wrong == []


def _keep(number: int, killed: list[Killed], findings: list[Any]) -> None:
    """Add a line to the log: a run that is broken off loses nothing of what it has done."""
    died = sum(each.died for each in killed)
    points = len({each.point for each in killed if each.died})
    wrong = [repr(each) for each in (*_bad(killed), *findings)]
    line = {"round": FIRST + number, "kills": died, "points": points, "wrong": wrong}
    print(line, flush=True)
    if LOG:
        with Path(LOG).open("a") as file:
            file.write(json.dumps(line) + "\n")
