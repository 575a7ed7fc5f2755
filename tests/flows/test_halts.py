"""The kill switch and the freeze window over HTTP: who may, what is refused, what is told."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from conftest import INTERNAL_TOKEN, Answered, Api
from postdate.halt.change import Halting
from postdate.halt.spec import Halts
from support.full_tenant import FullTenant, build

NOTE = {"note": "stolen key"}
JOB = {"destination": {"type": "worker"}}
PAST = {"from": "2024-12-31T00:00:00Z", "until": "2025-01-01T08:00:00Z", "dry_run": False}


def window(**fields: Any) -> dict[str, Any]:
    until = datetime.now(UTC) + timedelta(hours=1)
    return {"until": until.isoformat(), "note": "maintenance", **fields}


async def pay(api: Api, full: FullTenant) -> Answered:
    order = {
        "from_account_id": full.account,
        "to_account_id": full.payee,
        "amount": 1,
        "delay_seconds": 60,
    }
    headers = {"Idempotency-Key": str(uuid4())}
    return await api.call("POST", "/payments/schedule", order, headers=headers)


async def test_a_killed_tenant_is_refused_every_change_and_may_read(api: Api) -> None:
    full = await build(api)
    answer = await api.call("PUT", "/kill-switch", NOTE)
    assert answer.status == 200
    (halt,) = answer.body["halts"]
    who = (await api.call("GET", "/whoami")).body["key_id"]
    assert (halt["kind"], halt["note"], halt["set_by"], halt["until"]) == (
        *("kill", "stolen key", who),
        None,
    )
    refused = [
        await pay(api, full),
        await api.call("POST", "/jobs", JOB),
        await api.call("POST", f"/lanes/{full.lane}/claim", {"max": 1}),
        await api.call("DELETE", f"/payments/{full.payment}/cancel"),
        await api.call("POST", "/keys", {"scopes": ["jobs:read"]}),
    ]
    for each in refused:
        assert (each.status, each.body["code"]) == (409, "tenant_halted")
        assert (each.body["halt"], each.body["note"]) == ("kill", "stolen key")
    assert (await api.call("GET", f"/payments/{full.payment}")).body["status"] == "PENDING"
    executed = await api.call(
        "POST",
        f"/internal/payments/{full.due}/execute",
        {"execution_id": "x"},
        headers={"X-Internal-Auth": INTERNAL_TOKEN},
    )
    assert (executed.status, executed.body["code"]) == (409, "tenant_halted")
    # What already runs may report, and a key may still be revoked.
    report = {"token": full.token}
    assert (await api.call("POST", f"/leases/{full.leased}/complete", report)).status == 200
    assert (await api.call("DELETE", f"/keys/{full.key}")).status == 204
    assert (await api.call("DELETE", "/kill-switch")).body == {"halts": []}
    assert (await pay(api, full)).status == 201


async def test_every_turn_of_the_switch_is_audited(api: Api) -> None:
    await api.call("PUT", "/kill-switch", NOTE)
    await api.call("DELETE", "/kill-switch")
    await api.call("PUT", "/freeze", window(mode="drain"))
    await api.call("DELETE", "/freeze")
    rows = await api.node.database.writer.fetch(
        "SELECT e.type, e.actor, e.data FROM event e JOIN tenant t USING (tenant_id)"
        " WHERE t.name = $1 AND e.type IN ('tenant.killed', 'tenant.released', 'tenant.frozen',"
        " 'tenant.thawed') ORDER BY e.time, e.event_id",
        api.tenant,
    )
    assert [row["type"] for row in rows] == [
        *("tenant.killed", "tenant.released", "tenant.frozen", "tenant.thawed"),
    ]
    who = (await api.call("GET", "/whoami")).body["key_id"]
    assert {row["actor"] for row in rows} == {who}
    assert rows[0]["data"]["note"] == "stolen key"
    assert rows[0]["data"]["origin"]["address"] == "127.0.0.1"


@pytest.mark.parametrize(("mode", "status"), [("drain", 409), ("hold", 201)])
async def test_a_window_refuses_new_work_only_when_it_drains(
    api: Api, mode: str, status: int
) -> None:
    full = await build(api)
    assert (await api.call("PUT", "/freeze", window(mode=mode))).status == 200
    assert (await pay(api, full)).status == status
    assert (await api.call("POST", "/jobs", JOB)).status == status
    batch = await api.call("POST", "/jobs/batch", {"jobs": [JOB, JOB]})
    assert batch.status == (409 if status == 409 else 200)
    assert (await api.call("DELETE", f"/payments/{full.payment}/cancel")).status == 200


async def test_the_transaction_refuses_what_a_node_has_not_heard_of(api: Api) -> None:
    full = await build(api)
    tenant_id = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    await Halting(api.node.database, Halts()).kill(tenant_id, "elsewhere", "cli")
    adjust = {"amount": 5, "reason": "r"}
    path = f"/accounts/{full.account}/adjustments"
    for answer in (
        await pay(api, full),
        await api.call("POST", "/jobs", JOB),
        await api.call("POST", path, adjust, headers={"Idempotency-Key": str(uuid4())}),
        await api.call("POST", f"/schedules/{full.schedule}/trigger"),
        await api.call("POST", f"/schedules/{full.schedule}/backfill", PAST),
        await api.call("PATCH", f"/payments/{full.payment}", {"delay_seconds": 600}),
        await api.call("DELETE", f"/payments/{full.payment}/cancel"),
    ):
        assert (answer.status, answer.body["code"]) == (409, "tenant_halted")
    await api.node.refresh_settings()
    assert (await api.call("POST", "/accounts", {"account_id": "new"})).status == 409
    # What the operator has stopped, the tenant does not start again.
    assert (await api.call("DELETE", "/kill-switch")).status == 403
    assert (await api.call("PUT", "/kill-switch", NOTE)).status == 403
    await Halting(api.node.database, api.node.halts).lift(tenant_id, "kill", "cli")


async def test_a_window_that_is_over_or_turned_round_is_refused(api: Api) -> None:
    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    later = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    for body in (window(until=past), window(**{"from": later})):
        answer = await api.call("PUT", "/freeze", body)
        assert (answer.status, answer.body["field"]) == (422, "until")
    assert (await api.call("GET", "/halts")).body == {"halts": []}
