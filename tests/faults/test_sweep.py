"""Cut before and after every statement and every commit: nothing is stuck, nothing is twice."""

from collections.abc import AsyncIterator

import pytest

from conftest import app_dsn
from faults import sweep, sweep_jobs, sweep_money, sweep_stages
from faults.pg_proxy import Fault
from faults.sweep import Nodes, Operation, Sweep, summary, table
from postdate.database.embedded import Embedded
from postdate.ledger.prove import prove
from postdate.publisher.verify import verify
from postdate.worker.claimer import Claimer
from support.event import sealer

OPERATIONS: list[type[Operation]] = [
    sweep_jobs.Claim,
    sweep_jobs.Permit,
    sweep_jobs.Record,
    sweep_jobs.Retry,
    sweep_jobs.Renew,
    sweep_money.AcceptJob,
    sweep_money.AcceptPayment,
    sweep_money.CancelJob,
    sweep_money.CancelPayment,
    sweep_money.Settle,
    sweep_money.SettleTwoBatches,
    sweep_money.SettleHeld,
    sweep_money.Approve,
    sweep_money.Halt,
    sweep_money.Lift,
    sweep_stages.Expand,
    sweep_stages.ExpandPayment,
    sweep_stages.Seal,
    sweep_stages.Deliver,
]


@pytest.fixture(scope="module")
async def nodes(server: Embedded, database_name: str) -> AsyncIterator[Nodes]:
    async with sweep.nodes(server, app_dsn(server, database_name)) as opened:
        yield opened


@pytest.mark.parametrize(
    "operation",
    [
        # Its commits are many, and each waits for a lease.
        pytest.param(each, marks=pytest.mark.soak) if each is sweep_jobs.Permit else each
        for each in OPERATIONS
    ],
    ids=lambda each: each.name,
)
async def test_any_commit_or_its_answer_may_be_lost(
    nodes: Nodes, operation: type[Operation]
) -> None:
    rows = await Sweep(nodes, operation).commits([Fault.STATEMENT, Fault.ANSWER])
    assert rows
    assert [row for row in rows if row.violations] == []


@pytest.mark.parametrize("operation", [sweep_jobs.Claim, sweep_jobs.Permit], ids=lambda o: o.name)
async def test_a_commit_may_arrive_when_its_sender_has_given_it_up(
    nodes: Nodes, operation: type[Operation]
) -> None:
    rows = await Sweep(nodes, operation).at("COMMIT", Fault.LATE)
    assert [row for row in rows if row.violations] == []


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
async def test_any_statement_may_be_lost(nodes: Nodes, operation: type[Operation]) -> None:
    swept = Sweep(nodes, operation)
    rows = await swept.single(Fault)
    rows += await swept.every([Fault.STATEMENT, Fault.ANSWER], [3, 5, 7, 11])
    print("\n" + table(rows) + "\n" + summary(rows))
    assert [row for row in rows if row.violations] == []


async def test_the_sweep_finds_a_claim_that_is_not_broken_off(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Claimer, "_break_off", lambda *_: None)
    [row] = await Sweep(nodes, sweep_jobs.Claim).at("BEGIN", Fault.AWAY)
    assert row.violations


@pytest.mark.parametrize("_", [pytest.param("soak", marks=pytest.mark.soak), "short"])
async def test_the_books_and_the_chains_hold_after_all_of_it(nodes: Nodes, _: str) -> None:
    while await sealer(nodes.direct).run_once():
        pass
    assert (await prove(nodes.direct)).findings == []
    assert (await verify(nodes.direct, {})).findings == []
