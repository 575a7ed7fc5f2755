from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conftest import Api
from postdate.core.setting.setting import Stored
from postdate.tenant.change.tenant import KeyLimits, Tenants
from support.api_ledger import Ledger, key, open_ledger

PAST = (datetime.now(UTC) - timedelta(days=1)).isoformat()
FAR = (datetime.now(UTC) + timedelta(days=366)).isoformat()
SOON = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
LONG = "a" * 65


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


# What is wrong with the request itself: nothing is written, not even under the key.
MALFORMED: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "amount 0": ({"amount": 0}, "invalid_field", "amount"),
    "amount negative": ({"amount": -5}, "invalid_field", "amount"),
    "amount fractional": ({"amount": 1.5}, "invalid_field", "amount"),
    "amount 2^63": ({"amount": 2**63}, "invalid_field", "amount"),
    "amount 2^80": ({"amount": 2**80}, "invalid_field", "amount"),
    "amount text": ({"amount": "100"}, "invalid_field", "amount"),
    "amount true": ({"amount": True}, "invalid_field", "amount"),
    "amount missing": ({"amount": None}, "invalid_field", "amount"),
    "payer missing": ({"from_account_id": None}, "invalid_field", "from_account_id"),
    "payer too long": ({"from_account_id": LONG}, "invalid_field", "from_account_id"),
    "payer empty": ({"from_account_id": ""}, "invalid_field", "from_account_id"),
    "payee with a line": ({"to_account_id": "bob\n"}, "invalid_field", "to_account_id"),
    "payee a number": ({"to_account_id": 7}, "invalid_field", "to_account_id"),
    "self": ({"to_account_id": "alice"}, "self_payment", "to_account_id"),
    "delay 0": ({"delay_seconds": 0}, "invalid_field", "delay_seconds"),
    "delay negative": ({"delay_seconds": -1}, "invalid_field", "delay_seconds"),
    "delay fractional": ({"delay_seconds": 1.5}, "invalid_field", "delay_seconds"),
    "delay text": ({"delay_seconds": "60"}, "invalid_field", "delay_seconds"),
    "no time": ({"delay_seconds": None}, "invalid_field", "delay_seconds"),
    "two times": (
        {"delay_seconds": 60, "scheduled_time": SOON},
        "invalid_field",
        "delay_seconds",
    ),
    "time without zone": (
        {"scheduled_time": "2030-01-01T00:00:00"},
        "invalid_field",
        "scheduled_time",
    ),
    "time in words": ({"scheduled_time": "tomorrow"}, "invalid_field", "scheduled_time"),
    "funding": ({"funding": "credit"}, "invalid_field", "funding"),
    "on_insufficient": ({"on_insufficient": "beg"}, "invalid_field", "on_insufficient"),
    "retry with a hold": (
        {"on_insufficient": {"retry_until": SOON}},
        "invalid_field",
        "on_insufficient",
    ),
    "description too long": ({"description": "x" * 501}, "invalid_field", "description"),
    "description with NUL": ({"description": "a\x00b"}, "invalid_field", None),
    "unknown field": ({"amonut": 100}, "unknown_field", "amonut"),
    "server's field": ({"status": "COMPLETED"}, "unknown_field", "status"),
}

# What the accounts, the limits or the time forbid: only the answer is kept, under its key.
REFUSED: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "unknown payer": ({"from_account_id": "nobody"}, 422, "unknown_account", "from_account_id"),
    "unknown payee": ({"to_account_id": "nobody"}, 422, "unknown_account", "to_account_id"),
    "issuer pays": ({"from_account_id": "issuer"}, 422, "account_reserved", "from_account_id"),
    "issuer is paid": ({"to_account_id": "issuer"}, 422, "account_reserved", "to_account_id"),
    "frozen payer": ({"from_account_id": "frozen"}, 409, "account_frozen", "from_account_id"),
    "frozen payee": ({"to_account_id": "frozen"}, 409, "account_frozen", "to_account_id"),
    "closed payee": ({"to_account_id": "closed"}, 409, "account_closed", "to_account_id"),
    "too much": ({"amount": 1001}, 422, "insufficient_funds", "amount"),
    "above the limit": ({"amount": 1_000_001}, 422, "amount_above_limit", "amount"),
    "above the account's": (
        {"from_account_id": "limited", "amount": 51},
        422,
        "amount_above_limit",
        "amount",
    ),
    "a year and a second": (
        {"delay_seconds": 365 * 86400 + 1},
        422,
        "time_out_of_range",
        "delay_seconds",
    ),
    "beyond the calendar": ({"delay_seconds": 2**53}, 422, "time_out_of_range", "delay_seconds"),
    "the past": ({"scheduled_time": PAST}, 422, "time_out_of_range", "scheduled_time"),
    "too far": ({"scheduled_time": FAR}, 422, "time_out_of_range", "scheduled_time"),
    "gives up before": (
        {
            "scheduled_time": SOON,
            "funding": "at_execution",
            "on_insufficient": {"retry_until": SOON},
        },
        422,
        "time_out_of_range",
        "on_insufficient",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_payment_writes_nothing(ledger: Ledger, name: str) -> None:
    changes, code, field = MALFORMED[name]
    before = await ledger.rows()
    answer = await ledger.order(**changes)
    assert (answer.status, answer.body["code"], answer.body.get("field")) == (422, code, field)
    assert await ledger.rows() == before
    assert await ledger.held() == 0


async def _more_accounts(ledger: Ledger) -> None:
    call = ledger.api.call
    for body in (
        {"account_id": "frozen"},
        {"account_id": "closed"},
        {"account_id": "limited", "max_amount": 50},
    ):
        await call("POST", "/accounts", body)
    assert (await call("POST", "/accounts/frozen/freeze")).status == 200
    assert (await call("DELETE", "/accounts/closed")).status == 200


async def test_a_refused_payment_leaves_only_its_answer(ledger: Ledger) -> None:
    await _more_accounts(ledger)
    for name, (changes, status, code, field) in REFUSED.items():
        before = await ledger.rows()
        for _ in range(2):
            answer = await ledger.order(name, **changes)
            found = (answer.status, answer.body["code"], answer.body.get("field"))
            assert found == (status, code, field), name
        assert answer.headers["idempotency-replayed"] == "true", name
        after = await ledger.rows()
        assert after == before | {"idempotency": before["idempotency"] + 1}, name
    assert await ledger.held() == 0


async def test_a_foreign_account_is_unknown(ledger: Ledger, api: Api) -> None:
    await api.call("POST", "/accounts", {"account_id": "ours"})
    tenants, name = Tenants(api.node.database), f"{api.tenant}-foreign"
    await tenants.create(name)
    foreign = (await tenants.issue(name, ["admin"])).key
    await api.call("POST", "/accounts", {"account_id": "theirs"}, key=foreign)
    answer = await ledger.order(to_account_id="theirs")
    assert (answer.status, answer.body["code"]) == (422, "unknown_account")


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 400, "idempotency_key_missing"),
        ({"Idempotency-Key": "k" * 256}, 422, "idempotency_key_invalid"),
        ({"Idempotency-Key": "ключ"}, 422, "idempotency_key_invalid"),
    ],
)
async def test_a_key_is_required(
    ledger: Ledger, headers: dict[str, str], status: int, code: str
) -> None:
    before = await ledger.rows()
    body = {"from_account_id": "alice", "to_account_id": "bob", "amount": 1, "delay_seconds": 9}
    answer = await ledger.api.call("POST", "/payments/schedule", body, headers=headers)
    assert (answer.status, answer.body["code"]) == (status, code)
    assert await ledger.rows() == before


async def test_the_limit_of_a_tenant_can_be_changed_at_run_time(ledger: Ledger) -> None:
    stored = Stored(ledger.tenant_id, "payment.max_amount", 99)
    ledger.api.node.runtime.replace({(ledger.tenant_id, stored.name): stored})
    try:
        answer = await ledger.order()
        assert (answer.body["code"], answer.body["limit"]) == ("amount_above_limit", 99)
        assert (await ledger.order(amount=99)).status == 201
    finally:
        ledger.api.node.runtime.replace({})


async def test_an_account_pays_more_than_its_tenant_where_the_operator_allows_it(
    ledger: Ledger,
) -> None:
    await ledger.api.call("PATCH", "/accounts/alice", {"max_amount": 300})
    names = {"payment.max_amount": 99, "payment.account_max_amount": 200}
    stored = {(0, name): Stored(0, name, value) for name, value in names.items()}
    ledger.api.node.runtime.replace(stored)
    try:
        answer = await ledger.order(amount=201)
        assert (answer.body["code"], answer.body["limit"]) == ("amount_above_limit", 200)
        assert (await ledger.order(amount=200)).status == 201
    finally:
        ledger.api.node.runtime.replace({})


async def _limited(ledger: Ledger, *scopes: str, **limits: Any) -> str:
    tenants = Tenants(ledger.api.node.database)
    return (
        await tenants.issue(ledger.api.tenant, scopes or ["admin"], limits=KeyLimits(**limits))
    ).key


async def test_a_limited_key_is_held_to_its_accounts_and_amount(ledger: Ledger) -> None:
    limited = await _limited(ledger, accounts=["bob", "carol"], max_amount=50)
    body = {"from_account_id": "alice", "to_account_id": "bob", "amount": 10, "delay_seconds": 60}

    async def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        answer = await ledger.api.call(method, path, body, key=limited, headers=key())
        return answer.status, answer.body

    assert (await ask("POST", "/payments/schedule", body))[0] == 403
    other = body | {"from_account_id": "bob", "to_account_id": "carol"}
    assert (await ask("POST", "/payments/schedule", other | {"amount": 51}))[0] == 403
    assert (await ask("POST", "/payments/schedule", other))[1]["code"] == "insufficient_funds"
    credit = {"amount": 60, "reason": "more than it may"}
    assert (await ask("POST", "/accounts/bob/adjustments", credit))[0] == 403
    assert (await ask("POST", "/accounts/alice/adjustments", credit | {"amount": 1}))[0] == 404
    assert (await ask("GET", "/accounts/alice"))[0] == 404
    assert (await ask("GET", "/accounts/alice/entries"))[0] == 404
    assert (await ask("POST", "/accounts/alice/freeze"))[0] == 404
    seen = (await ask("GET", "/accounts"))[1]["accounts"]
    assert [account["account_id"] for account in seen] == ["bob", "carol"]
    assert (await ask("GET", "/payments"))[0] == 403
    assert (await ask("GET", "/payments?account_id=alice"))[0] == 403
    assert (await ask("GET", "/payments?account_id=bob"))[1]["payments"] == []
    foreign = (await ledger.order(from_account_id="alice", to_account_id="bob")).body["payment_id"]
    assert (await ask("GET", f"/payments/{foreign}"))[0] == 200  # bob is its payee
    await ledger.api.call("POST", "/accounts", {"account_id": "dave"})
    hidden = (await ledger.order(to_account_id="dave")).body["payment_id"]
    assert (await ask("GET", f"/payments/{hidden}"))[0] == 404


async def test_scopes_guard_every_route(ledger: Ledger) -> None:
    payment_id = (await ledger.order()).body["payment_id"]
    nothing = await ledger.api.new_key("jobs:read")
    reads = await ledger.api.new_key("payments:read")
    for method, path, body in (
        ("POST", "/payments/schedule", {}),
        ("POST", "/payments/batch", {}),
        ("POST", "/accounts", {}),
        ("PATCH", "/accounts/alice", {}),
        ("DELETE", "/accounts/alice", None),
        ("POST", "/accounts/alice/freeze", None),
        ("POST", "/accounts/alice/unfreeze", None),
        ("POST", "/accounts/alice/adjustments", {}),
    ):
        for each in (nothing, reads):
            answer = await ledger.api.call(method, path, body, key=each, headers=key())
            assert (answer.status, answer.body["code"]) == (403, "forbidden"), path
    for path in (
        "/payments",
        f"/payments/{payment_id}",
        f"/payments/{payment_id}/events",
        f"/payments/{payment_id}/executions",
        "/accounts",
        "/accounts/alice",
        "/accounts/alice/entries",
    ):
        assert (await ledger.api.call("GET", path, key=nothing)).status == 403, path
        assert (await ledger.api.call("GET", path, key=reads)).status == 200, path
