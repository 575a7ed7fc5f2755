"""Authority: one person stays one person, and who is bound does not lift what binds him."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from conftest import Answered, Api, Clock
from postdate.core.identity import Identity, Scope
from postdate.core.setting.setting import Stored
from postdate.database.connection.error import CheckViolationError, PermissionDeniedError
from postdate.node import schedule as wiring
from postdate.payment.change.approval import Approvals
from postdate.scheduler.expander import Expander
from postdate.setting.change import SettingChanges
from postdate.tenant.change.tenant import KeyLimits, Tenants
from postdate.words.error import Code, RefusedError
from support.schedule import book
from support.schedule import drain as expand_all

ORDER = {"from_account_id": "alice", "to_account_id": "bob"}
BOTH = ["payments:read", "payments:write", "payments:approve", "schedules:write", "schedules:read"]


@pytest.fixture
async def bank(api: Api) -> Api:
    """The first admin of a tenant with money, whose payments above 100 need a second person."""
    for account in ("alice", "bob"):
        await api.call("POST", "/accounts", {"account_id": account})
    credit = {"amount": 100_000, "reason": "start"}
    headers = {"Idempotency-Key": str(uuid4())}
    await api.call("POST", "/accounts/alice/adjustments", credit, headers=headers)
    await api.call("PUT", "/settings/payment.approval_above", {"value": 100})
    await api.node.refresh_settings()
    return api


async def another(api: Api, *scopes: str) -> Api:
    """Somebody else, with a key from the operator."""
    return replace(api, key=await api.new_key(*(scopes or BOTH)))


async def minted(api: Api, *scopes: str) -> Api:
    """A key that the caller makes for somebody, or for himself."""
    made = await api.call("POST", "/keys", {"scopes": list(scopes or BOTH)})
    assert made.status == 201, made.body
    return replace(api, key=made.body["key"])


async def rotated(api: Api, whose: Api) -> Api:
    """The key that takes the place of one, rotated by the caller."""
    listed = (await api.call("GET", "/keys?limit=100")).body["keys"]
    [key_id] = [one["key_id"] for one in listed if one["hint"] == whose.key[:8]]
    made = await api.call("POST", f"/keys/{key_id}/rotate", {})
    assert made.status == 200, made.body
    return replace(api, key=made.body["key"])


async def pay(api: Api, amount: int = 500) -> str:
    headers = {"Idempotency-Key": str(uuid4())}
    body = {**ORDER, "amount": amount, "delay_seconds": 60}
    made = await api.call("POST", "/payments/schedule", body, headers=headers)
    assert made.body["approval"] == {"required": True}
    return str(made.body["payment_id"])


async def approve(api: Api, payment_id: str) -> Answered:
    return await api.call("POST", f"/payments/{payment_id}/approve", {})


async def assert_refused(api: Api, payment_id: str) -> None:
    answer = await approve(api, payment_id)
    assert (answer.status, answer.body["code"]) == (403, "approval_by_requester"), answer.body


async def test_a_rotated_key_does_not_approve_what_its_predecessor_asked_for(bank: Api) -> None:
    clerk = await another(bank)
    payment_id = await pay(clerk)
    successor = await rotated(bank, clerk)
    await assert_refused(successor, payment_id)
    await assert_refused(await rotated(bank, successor), payment_id)
    assert (await approve(await another(bank), payment_id)).status == 200


async def test_no_key_approves_what_another_key_of_its_maker_asked_for(bank: Api) -> None:
    own = await pay(bank)
    approver = await minted(bank)
    await assert_refused(approver, own)
    second_admin = await minted(bank, "admin")
    await assert_refused(await minted(second_admin), own)
    by_sibling = await pay(await minted(bank))
    await assert_refused(approver, by_sibling)
    await assert_refused(bank, by_sibling)
    other = await another(bank, "admin")
    assert (await approve(await minted(other), own)).status == 200
    assert (await approve(other, by_sibling)).status == 200


async def test_whoever_rotates_the_key_of_another_has_seen_it(bank: Api) -> None:
    controller = await another(bank, "payments:approve")
    own = await pay(bank)
    stolen = await rotated(bank, controller)
    await assert_refused(stolen, own)
    assert (await approve(controller, own)).status == 200
    await assert_refused(stolen, await pay(await minted(bank)))


async def test_a_rotation_by_the_operator_leaves_the_person(bank: Api) -> None:
    issued = await Tenants(bank.node.database).issue(bank.tenant, BOTH)
    payment_id = await pay(replace(bank, key=issued.key))
    again = await Tenants(bank.node.database).rotate(bank.tenant, issued.key_id, 60)
    await assert_refused(replace(bank, key=again.key), payment_id)


def token(tenant_id: int, subject: str) -> Identity:
    scopes = frozenset({Scope.PAYMENTS_WRITE, Scope.PAYMENTS_APPROVE, Scope.ADMIN})
    return Identity(tenant_id=tenant_id, tenant="t", key_id=f"jwt:{subject}", scopes=scopes)


async def test_a_key_minted_with_a_token_is_its_subjects(bank: Api) -> None:
    database = bank.node.database
    tenant_id = await database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", bank.tenant
    )
    payment_id = await pay(bank)
    await database.writer.execute(
        "UPDATE payment_approval SET requested_by = 'k', requested_persons = '{jwt:eve}'"
        " WHERE payment_id = $1",
        UUID(payment_id),
    )
    for subject, code in (("eve", Code.APPROVAL_BY_REQUESTER), ("eve\nbob", None)):
        deciding = Approvals(database).approve(token(tenant_id, subject), UUID(payment_id), None)
        if code is None:
            assert (await deciding).decision == "approved"
            continue
        with pytest.raises(RefusedError) as refused:
            await deciding
        assert refused.value.refusal.code == code


async def standing_order(api: Api, amount: int = 500) -> str:
    rule = {"every_seconds": 60, "template": {"payment": {**ORDER, "amount": amount}}}
    made = await api.call("POST", "/schedules", rule)
    assert made.status == 201, made.body
    return str(made.body["schedule_id"])


async def fired(api: Api, clock: Clock, schedule_id: str) -> str:
    """The payment of its next occurrence."""
    await clock.advance(61)
    await expand_all(Expander(api.node.database, wiring.occurrences(api.node)))
    rows: list[Any] = await book(api, schedule_id)
    newest = max(rows, key=lambda row: str(row["scheduled_for"]))
    return str(newest["payment_id"])


async def change(api: Api, schedule_id: str, **fields: Any) -> None:
    answer = await api.call("PATCH", f"/schedules/{schedule_id}", fields)
    assert answer.status == 200, answer.body


async def test_the_author_of_a_template_does_not_approve_after_others_changed_the_rest(
    bank: Api, clock: Clock
) -> None:
    author, renamer, third = [await another(bank) for _ in range(3)]
    schedule_id = await standing_order(author)
    await change(renamer, schedule_id, name="renamed")
    payment_id = await fired(bank, clock, schedule_id)
    await assert_refused(author, payment_id)
    assert (await approve(renamer, payment_id)).status == 200
    await change(third, schedule_id, every_seconds=61)
    payment_id = await fired(bank, clock, schedule_id)
    await assert_refused(author, payment_id)
    await assert_refused(third, payment_id)
    assert (await approve(renamer, payment_id)).status == 200


async def test_whoever_sets_the_template_anew_is_who_asked(bank: Api, clock: Clock) -> None:
    author, editor = [await another(bank) for _ in range(2)]
    schedule_id = await standing_order(author, amount=5)
    await change(editor, schedule_id, template={"payment": {**ORDER, "amount": 900}})
    payment_id = await fired(bank, clock, schedule_id)
    await assert_refused(editor, payment_id)
    assert (await approve(author, payment_id)).status == 200


async def test_whoever_runs_a_standing_order_by_hand_does_not_approve_it(bank: Api) -> None:
    author, hand, third = [await another(bank) for _ in range(3)]
    schedule_id = await standing_order(author)
    made = await hand.call("POST", f"/schedules/{schedule_id}/trigger")
    payment_id = made.body["payment_id"]
    await assert_refused(author, payment_id)
    await assert_refused(hand, payment_id)
    assert (await approve(third, payment_id)).status == 200


async def test_the_table_itself_refuses_persons_on_both_sides(bank: Api) -> None:
    payment_id = UUID(await pay(bank))
    statement = (
        "UPDATE payment_approval SET decision = 'approved', decided_at = clock(),"
        " decided_by = 'another key', decided_persons = $2 WHERE payment_id = $1"
    )
    asked = await bank.node.database.writer.fetchval(
        "SELECT requested_persons FROM payment_approval WHERE payment_id = $1", payment_id
    )
    for persons in ([*asked, "somebody"], [], None):
        with pytest.raises(CheckViolationError):
            await bank.node.database.writer.execute(statement, payment_id, persons)


async def limited(api: Api, *scopes: str) -> Api:
    limits = KeyLimits(accounts=["alice"])
    issued = await Tenants(api.node.database).issue(api.tenant, scopes, limits=limits)
    return replace(api, key=issued.key)


async def test_a_limited_key_binds_its_accounts_but_does_not_lift_what_binds_them(
    bank: Api,
) -> None:
    clerk = await limited(bank, "payments:write", "ledger:adjust")
    await bank.call("PATCH", "/accounts/alice", {"max_amount": 50, "floor": 10})
    await bank.call("POST", "/accounts/alice/freeze")
    refused = [
        await clerk.call("POST", "/accounts/alice/unfreeze"),
        await clerk.call("PATCH", "/accounts/alice", {"max_amount": 51}),
        await clerk.call("PATCH", "/accounts/alice", {"max_amount": None}),
        await clerk.call("PATCH", "/accounts/alice", {"floor": 9}),
    ]
    told = [(answer.status, answer.body["field"]) for answer in refused]
    assert told == [(403, "frozen_at"), (403, "max_amount"), (403, "max_amount"), (403, "floor")]
    tighter = await clerk.call("PATCH", "/accounts/alice", {"max_amount": 49, "floor": 11})
    assert (tighter.status, tighter.body["max_amount"], tighter.body["floor"]) == (200, 49, 11)
    assert (await bank.call("POST", "/accounts/alice/unfreeze")).status == 200
    assert (await clerk.call("POST", "/accounts/alice/unfreeze")).status == 200
    assert (await clerk.call("POST", "/accounts/alice/freeze")).status == 200


async def test_a_limited_key_takes_no_account_above_the_limit_of_the_tenant(bank: Api) -> None:
    # The operator lets accounts of all tenants go above it: it is for an admin to decide which.
    name = "payment.account_max_amount"
    bank.node.runtime.replace({(0, name): Stored(0, name, 2_000_000)})
    try:
        await _take_above_the_limit(bank)
    finally:
        bank.node.runtime.replace({})


async def _take_above_the_limit(bank: Api) -> None:
    clerk = await limited(bank, "payments:write", "admin")
    above = {"max_amount": 1_000_001}
    refused = await clerk.call("PATCH", "/accounts/alice", above)
    assert (refused.status, refused.body["field"]) == (403, "max_amount")
    assert (await bank.call("PATCH", "/accounts/alice", above)).status == 200
    issued = await Tenants(bank.node.database).issue(
        bank.tenant, ["admin"], limits=KeyLimits(accounts=["to-come"])
    )
    maker = replace(bank, key=issued.key)
    made = await maker.call("POST", "/accounts", {"account_id": "to-come", **above})
    assert (made.status, made.body["field"]) == (403, "max_amount")
    fine = {"account_id": "to-come", "max_amount": 1_000_000}
    assert (await maker.call("POST", "/accounts", fine)).status == 201


async def test_a_limited_admin_decides_nothing_for_the_whole_tenant(bank: Api) -> None:
    narrow = await limited(bank, "admin")
    window = {"until": "2999-01-01T00:00:00Z", "note": "why"}
    for method, path, body in (
        ("PUT", "/kill-switch", {"note": "help"}),
        ("DELETE", "/kill-switch", None),
        ("PUT", "/freeze", window),
        ("DELETE", "/freeze", None),
        ("PUT", "/settings/job.max_attempts", {"value": 3}),
        ("DELETE", "/settings/job.max_attempts", None),
    ):
        answer = await narrow.call(method, path, body)
        assert (answer.status, answer.body["code"]) == (403, "forbidden"), path


async def test_a_limited_admin_does_not_end_a_key_that_reaches_further(bank: Api) -> None:
    narrow = await limited(bank, "admin")
    made = await bank.call("POST", "/keys", {"scopes": ["jobs:read"]})
    answer = await narrow.call("DELETE", f"/keys/{made.body['key_id']}")
    assert (answer.status, answer.body["field"]) == (403, "accounts")
    assert (await bank.call("DELETE", f"/keys/{made.body['key_id']}")).status == 204


async def shown(api: Api, name: str) -> Any:
    listed = (await api.call("GET", "/settings")).body["settings"]
    return next((one for one in listed if one["name"] == name), None)


LIFTS = [
    ("rate.key_per_second", 5.0, 0.0),
    ("rate.tenant_per_second", 5.0, 6.0),
    ("quota.pending_jobs", 10, 0),
    ("quota.accounts", 10, 11),
    ("schedule.min_interval_seconds", 60, 1),
    ("key.max_count", 20, 21),
    ("worker.max_running", 2, 0),
    ("payment.max_amount", 50, 1_000_000),
    ("payment.approval_above", 100, 0),
    ("job.encryption", "on", "off"),
]


@pytest.mark.parametrize(("name", "value", "lifted"), LIFTS)
@pytest.mark.parametrize("for_all", [False, True])
async def test_what_the_operator_sets_the_operator_lifts(
    api: Api, name: str, value: Any, lifted: Any, *, for_all: bool
) -> None:
    tenant_id = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    changes, where = SettingChanges(api.node.database), 0 if for_all else tenant_id
    await changes.put(where, name, value)
    try:
        answer = await api.call("PUT", f"/settings/{name}", {"value": lifted})
        assert (answer.status, answer.body["field"]) == (403, "value"), answer.body
        cleared = await api.call("DELETE", f"/settings/{name}")
        assert (cleared.status, cleared.body["code"]) == (404, "not_found")
        one = await shown(api, name)
        assert (one["value"], one["set_by"], one["changed_by"]) == (value, "operator", "cli")
        assert (await api.call("PUT", f"/settings/{name}", {"value": value})).status == 200
        assert (await shown(api, name))["set_by"] == "tenant"
        assert (await api.call("DELETE", f"/settings/{name}")).status == 204
        assert (await shown(api, name))["value"] == value
    finally:
        await changes.clear(where, name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("settlement.stopped", "no"),
        ("clock.step_seconds", 1e6),
        ("restore.quarantine", "2999-01-01T00:00:00Z"),
        ("history.retention_days", 1),
        ("worker.lease_seconds", 1.0),
        ("job.idempotency_days", 3650),
    ],
)
async def test_a_tenant_stores_no_setting_of_the_operator(api: Api, name: str, value: Any) -> None:
    answer = await api.call("PUT", f"/settings/{name}", {"value": value})
    assert (answer.status, answer.body["code"]) == (403, "forbidden")
    count = "SELECT count(*) FROM setting WHERE name = $1"
    assert await api.node.database.writer.fetchval(count, name) == 0


async def test_a_tighter_limit_of_the_operator_beats_a_looser_one_set_before(api: Api) -> None:
    tenant_id = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    await api.call("PUT", "/settings/quota.pending_jobs", {"value": 500})
    await SettingChanges(api.node.database).put(tenant_id, "quota.pending_jobs", 7)
    await api.node.refresh_settings()
    assert api.node.runtime.integer("quota.pending_jobs", tenant_id) == 7
    one = await shown(api, "quota.pending_jobs")
    assert (one["value"], one["own"], one["set_by"]) == (7, 500, "operator")


async def test_a_tenant_s_admin_sees_no_nodes(api: Api) -> None:
    await api.node.heartbeat.run_once()
    for path in ("/nodes", "/api/v1/nodes"):
        headers = {"Authorization": f"Bearer {api.key}"}
        async with api.session.get(api.url + path, headers=headers) as response:
            assert response.status in {401, 404} or response.url.path == "/login"
            assert api.node.name not in await response.text()
    with pytest.raises(PermissionDeniedError):
        async with api.node.database.read(1) as connection:
            await connection.fetch("SELECT * FROM node")
