"""A key limited to accounts and amounts, on every route that deals with either."""

import re
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from conftest import Answered, Api
from postdate.api.endpoints import ENDPOINTS
from postdate.core.identity import Scope
from postdate.tenant.change.tenant import KeyLimits, Tenants
from support.full_tenant import ROWS, FullTenant, build

PAY = "/payments/schedule"
SCOPES = [scope for scope in Scope if scope is not Scope.ADMIN]
MONEY = {"account", "payee", "empty", "payment", "unapproved"}
NAMED = [
    endpoint
    for endpoint in ENDPOINTS
    if ROWS[f"{endpoint.method} {endpoint.path}"].thing in MONEY
    and endpoint.scope not in {"internal", Scope.ADMIN}
]


@dataclass
class Keyholder:
    """A tenant, the key under test, and a standing order of the tenant's own account."""

    owner: Api
    limited: Api
    full: FullTenant
    standing: str


def order(payer: str, payee: str, amount: int) -> dict[str, Any]:
    return {"from_account_id": payer, "to_account_id": payee, "amount": amount}


async def send(api: Api, method: str, path: str, body: Any = None) -> Answered:
    return await api.call(method, path, body, headers={"Idempotency-Key": str(uuid4())})


@pytest.fixture
async def keyholder(api: Api) -> Keyholder:
    full = await build(api)
    for account in ("mine", "yours"):
        await send(api, "POST", "/accounts", {"account_id": account})
    await send(api, "POST", "/accounts/mine/adjustments", {"amount": 500, "reason": "start"})
    limits = KeyLimits(accounts=["mine"], max_amount=50)
    issued = await Tenants(api.node.database).issue(api.tenant, SCOPES, limits=limits)
    rule = {
        "every_seconds": 3600,
        "template": {"payment": order(full.account, full.payee, 5)},
    }
    made = await send(api, "POST", "/schedules", rule)
    return Keyholder(api, replace(api, key=issued.key), full, made.body["schedule_id"])


async def test_what_names_another_account_is_not_there(keyholder: Keyholder) -> None:
    assert len(NAMED) > 10
    for endpoint in NAMED:
        row = ROWS[f"{endpoint.method} {endpoint.path}"]
        path = re.sub(r"\{.+?\}", getattr(keyholder.full, row.thing), endpoint.path)
        body = row.body(keyholder.full) if row.body else None
        answer = await send(keyholder.limited, endpoint.method, path, body)
        assert answer.status in {403, 404}, (endpoint.method, path, answer.body)


async def test_no_list_shows_another_account(keyholder: Keyholder) -> None:
    marks = [
        keyholder.full.account,
        keyholder.full.payee,
        keyholder.full.payment,
        keyholder.standing,
    ]
    for path in ("/accounts", "/payments?account_id=mine", "/schedules", "/events", "/approvals"):
        answer = await send(keyholder.limited, "GET", path)
        text = msgspec.json.encode(answer.body).decode()
        assert answer.status == 200, (path, answer.body)
        assert [mark for mark in marks if mark in text] == [], path
    assert (await send(keyholder.limited, "GET", "/payments")).status == 403


@pytest.mark.parametrize(
    ("payer", "amount", "status"), [("mine", 50, 201), ("mine", 51, 403), ("yours", 1, 403)]
)
async def test_payments_stay_within_its_accounts_and_amount(
    keyholder: Keyholder, payer: str, amount: int, status: int
) -> None:
    asked = {**order(payer, keyholder.full.payee, amount), "delay_seconds": 60}
    one = await send(keyholder.limited, "POST", "/payments/schedule", asked)
    assert one.status == status
    item = {**asked, "idempotency_key": str(uuid4())}
    many = await send(keyholder.limited, "POST", "/payments/batch", {"payments": [item]})
    assert many.body["outcomes"][0]["status"] == status
    rule = {"every_seconds": 60, "template": {"payment": order(payer, "yours2", amount)}}
    made = await send(keyholder.limited, "POST", "/schedules", rule)
    assert made.status == (422 if status == 201 else 403)  # there is no such payee


async def test_another_accounts_standing_order_is_not_there(keyholder: Keyholder) -> None:
    where = f"/schedules/{keyholder.standing}"
    past = {"from": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", "dry_run": True}
    for method, path, body in (
        ("GET", where, None),
        ("GET", f"{where}/preview", None),
        ("GET", f"{where}/occurrences", None),
        ("PATCH", where, {"every_seconds": 7200}),
        ("POST", f"{where}/pause", {"note": "x"}),
        ("POST", f"{where}/resume", None),
        ("POST", f"{where}/trigger", None),
        ("POST", f"{where}/backfill", past),
        ("DELETE", where, None),
    ):
        answer = await send(keyholder.limited, method, path, body)
        assert (answer.status, answer.body["code"]) == (404, "not_found"), (method, path)


async def test_a_schedule_is_run_only_by_a_key_that_could_pay_itself(keyholder: Keyholder) -> None:
    payment = order("mine", keyholder.full.payee, 60)
    rule = {"every_seconds": 3600, "template": {"payment": payment}}
    made = await send(keyholder.owner, "POST", "/schedules", rule)
    trigger = f"/schedules/{made.body['schedule_id']}/trigger"
    assert (await send(keyholder.limited, "POST", trigger)).status == 403
    only = replace(keyholder.owner, key=await keyholder.owner.new_key("schedules:write"))
    assert (await send(only, "POST", trigger)).status == 403
    assert (await send(keyholder.owner, "POST", trigger)).status == 201


async def test_a_payment_beyond_its_amount_is_not_moved(keyholder: Keyholder) -> None:
    asked = {**order("mine", keyholder.full.payee, 60), "delay_seconds": 60}
    made = (await send(keyholder.owner, "POST", "/payments/schedule", asked)).body["payment_id"]
    moved = await send(keyholder.limited, "PATCH", f"/payments/{made}", {"delay_seconds": 90})
    assert (moved.status, moved.body["code"]) == (403, "forbidden")


async def test_a_schedule_is_resumed_only_by_a_key_that_could_run_it(keyholder: Keyholder) -> None:
    owner = keyholder.owner
    payment = order("mine", keyholder.full.payee, 60)
    rule = {"every_seconds": 3600, "template": {"payment": payment}}
    made = await send(owner, "POST", "/schedules", rule)
    where = f"/schedules/{made.body['schedule_id']}"
    assert (await send(owner, "POST", f"{where}/pause", {"note": "wait"})).status == 200
    writes = replace(owner, key=await owner.new_key("schedules:write"))
    for lesser in (keyholder.limited, writes):
        refused = await send(lesser, "POST", f"{where}/resume")
        assert (refused.status, refused.body["code"]) == (403, "forbidden")
    assert (await send(owner, "GET", where)).body["status"] == "PAUSED"
    assert (await send(owner, "POST", f"{where}/resume")).status == 200


async def test_a_reused_key_tells_nothing_about_the_payment_of_others(keyholder: Keyholder) -> None:
    full, rent = keyholder.full, {"Idempotency-Key": "rent-2026-12"}
    theirs = {**order(full.account, full.payee, 7), "delay_seconds": 60}
    assert (await keyholder.owner.call("POST", PAY, theirs, headers=rent)).status == 201
    refused = {"Idempotency-Key": "too-much"}
    broke = {**theirs, "amount": 1_000_000}
    assert (await keyholder.owner.call("POST", PAY, broke, headers=refused)).status == 422
    for headers in (rent, refused):
        for guess in ({}, {"amount": 7}, {"to_account_id": full.payee}):
            asked = {**order("mine", "yours", 1), "delay_seconds": 60, **guess}
            answer = await keyholder.limited.call("POST", PAY, asked, headers=headers)
            assert (answer.status, answer.body["code"]) == (422, "idempotency_key_reused")
            assert (answer.body["differs"], answer.body.get("field")) == ([], None)
    own = {"Idempotency-Key": "own"}
    asked = {**order("mine", "yours", 1), "delay_seconds": 60}
    assert (await keyholder.limited.call("POST", PAY, asked, headers=own)).status == 201
    answer = await keyholder.limited.call("POST", PAY, {**asked, "amount": 2}, headers=own)
    assert answer.body["differs"] == ["amount"]
