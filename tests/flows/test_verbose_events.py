"""With `event.verbose` on, the beginning of every execution is an event too."""

from typing import Any

import pytest

from conftest import Api, Clock
from postdate.ledger.prove import prove
from support.api_ledger import Ledger, open_ledger
from support.bank import drain, settler
from support.event import seal_all


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


async def switch(ledger: Ledger, value: str) -> None:
    answer = await ledger.api.call("PUT", "/settings/event.verbose", {"value": value})
    assert answer.status == 200, answer
    await ledger.api.node.refresh_settings()


async def types(ledger: Ledger, path: str, field: str = "type") -> list[str]:
    body: dict[str, Any] = (await ledger.api.call("GET", f"{path}/events")).body
    return [event[field] for event in body["events"]]


async def settle(ledger: Ledger, clock: Clock, verbose: str) -> None:
    await clock.advance(2)
    await drain(settler(ledger.api.node.database, **{"event.verbose": verbose}))


@pytest.mark.parametrize("funding", ["hold", "at_execution"])
async def test_a_payment_tells_that_it_is_executed_before_it_is_completed(
    ledger: Ledger, clock: Clock, funding: str
) -> None:
    before = (await ledger.order(amount=5, delay_seconds=1, funding=funding)).body["payment_id"]
    await settle(ledger, clock, "off")
    told = (await ledger.order(amount=5, delay_seconds=1, funding=funding)).body["payment_id"]
    await settle(ledger, clock, "on")
    assert await types(ledger, f"/payments/{before}") == ["payment.scheduled", "payment.completed"]
    whole = ["payment.scheduled", "payment.executing", "payment.completed"]
    assert await types(ledger, f"/payments/{told}") == whole
    await seal_all(ledger.api.node.database)
    sealed = await ledger.api.call("GET", f"/events?subject={told}")
    assert [event["type"] for event in sealed.body["events"]] == whole
    assert sealed.body["events"][1]["data"] == {"execution_id": f"{told}.1"}
    assert (await prove(ledger.api.node.database, ledger.tenant_id)).findings == []


async def test_a_payment_that_fails_was_executed_too(ledger: Ledger, clock: Clock) -> None:
    order = {"from_account_id": "bob", "to_account_id": "alice", "funding": "at_execution"}
    made = (await ledger.order(**order, delay_seconds=1)).body["payment_id"]
    await settle(ledger, clock, "on")
    told = ["payment.scheduled", "payment.executing", "payment.failed"]
    assert await types(ledger, f"/payments/{made}") == told


async def test_a_claimed_job_tells_each_attempt_and_its_progress(ledger: Ledger) -> None:
    api = ledger.api
    await switch(ledger, "on")
    body = {"destination": {"type": "worker"}, "payload": 1, "delay_seconds": 0, "lane": "told"}
    made = await api.call("POST", "/jobs", body)
    assert made.status == 201, made
    claimed = await api.call("POST", "/lanes/told/claim", {"max": 1, "wait_seconds": 10})
    assert [each["job_id"] for each in claimed.body["leases"]] == [made.body["job_id"]], claimed
    [lease] = claimed.body["leases"]
    report = {"token": lease["token"], "percent": 40, "note": "half", "log": ["a line"]}
    progress = f"/leases/{lease['job_id']}/progress"
    assert (await api.call("POST", progress, report)).status == 200
    await switch(ledger, "off")
    assert (await api.call("POST", progress, report)).status == 200
    await seal_all(api.node.database)
    found = await api.call("GET", f"/events?subject={made.body['job_id']}")
    events = [(event["type"], event["data"].get("attempt")) for event in found.body["events"]]
    assert events == [("job.accepted", None), ("job.claimed", 1), ("job.progressed", 1)]
    told = found.body["events"][2]["data"]
    assert (told["percent"], told["note"], "log" in told) == (40, "half", False)
