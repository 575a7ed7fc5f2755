"""Lines for single jobs and payments: off unless switched on, bounded, and nothing private."""

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest

from conftest import Api, Clock
from postdate.monitor.store.item_log import items
from postdate.node.settings import load, split_list
from postdate.words.error import StartError
from support.api_ledger import open_ledger
from support.bank import drain, settler
from support.log import capture_logs

WORKER = {"destination": {"type": "worker"}, "payload": {"canary": "tweety"}}


@pytest.fixture
def off() -> Iterator[None]:
    yield
    items.configure((), 1)


async def use(api: Api, clock: Clock) -> list[MutableMapping[str, Any]]:
    """Do some of everything, and give the lines that tell of single things."""
    with capture_logs() as lines:
        ledger = await open_ledger(api)
        assert (await ledger.order(description="tweety")).status == 201
        await ledger.order(amount=500, funding="at_execution")
        await ledger.order(amount=501, funding="at_execution")
        for number in range(2):
            body = WORKER | {"lane": "lines", "retry": {"max_attempts": 1 + number}}
            assert (await api.call("POST", "/jobs", body)).status == 201
        leases = (await api.call("POST", "/lanes/lines/claim", {"max": 2})).body["leases"]
        done, failed = (f"/leases/{each['job_id']}" for each in leases)
        await api.call("POST", f"{done}/complete", {"token": leases[0]["token"]})
        report = {"token": leases[1]["token"], "error": "tweety", "code": "mine"}
        await api.call("POST", f"{failed}/fail", report)
        await clock.advance(61)
        await drain(settler(api.node.database))
    names = ("job.", "payment.", "items.")
    return [line for line in lines if line["event"].startswith(names)]


@pytest.mark.usefixtures("off")
async def test_what_is_switched_on_is_told_and_nothing_private(api: Api, clock: Clock) -> None:
    items.configure(("accepted", "settled", "failed"), 1000)
    lines = await use(api, clock)
    told = [line["event"] for line in lines]
    assert told.count("payment.accepted") == 3
    assert told.count("job.accepted") == 2
    assert told.count("job.completed") == 1
    assert told.count("job.failed") + told.count("job.retried") == 1
    assert told.count("payment.completed") == 2
    assert told.count("payment.failed") == 1
    (failed,) = [line for line in lines if line["event"] == "payment.failed"]
    assert failed["code"] == "insufficient_funds"
    assert {"tenant_id", "payment_id"} <= failed.keys()
    for line in lines:
        if line["event"] in {"payment.completed", "payment.failed"}:
            path = f"/payments/{line['payment_id']}/executions"
            [shown] = (await api.call("GET", path)).body["executions"]
            assert line["execution_id"] == shown["execution_id"]
            assert line["scheduled_time"] == shown["scheduled_time"]
            assert 0 <= line["lateness_ms"] < 60_000
    for private in ("tweety", "alice", "bob", "501"):
        assert private not in repr(lines)


async def test_nothing_is_told_unless_it_is_switched_on(api: Api, clock: Clock) -> None:
    assert await use(api, clock) == []


@pytest.mark.usefixtures("off")
def test_the_rate_is_bounded_and_what_is_left_out_is_counted() -> None:
    items.configure(("accepted",), 5)
    with capture_logs() as lines:
        items.write("job.accepted", range(100), lambda number: {"number": number})
    assert [line["event"] for line in lines] == ["job.accepted"] * 5 + ["items.left_out"]
    assert lines[-1]["count"] == 95


def test_what_cannot_be_switched_on_is_refused_at_the_start() -> None:
    found = load({"log_items": "accepted, failed"}, {})
    assert split_list(found.log_items) == ["accepted", "failed"]
    with pytest.raises(StartError, match="POSTDATE_LOG_ITEMS"):
        load({"log_items": "everything"}, {})
