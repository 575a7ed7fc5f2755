"""Receipts: issued by the API, checked without it, and what each forged byte is called."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conftest import INTERNAL_TOKEN, SECRET_KEY, Api, Clock
from postdate.cli.commands import receipt as command
from postdate.prover.receipt import check_receipt
from postdate.receipt.spec import key_id_of
from postdate.secret import secret_rotation
from postdate.secret.receipt_key import ReceiptKeys
from postdate.secret.secret import Keyring, parse_key
from postdate.tenant.change.tenant import Tenants
from support.event import seal_all


async def _accounts(api: Api) -> None:
    for name in ("payer", "payee"):
        await api.call("POST", "/accounts", {"account_id": name})
    await api.call(
        "POST",
        "/accounts/payer/adjustments",
        {"amount": 1000, "reason": "start"},
        headers={"Idempotency-Key": uuid4().hex},
    )


async def _pay(api: Api) -> str:
    order = {"from_account_id": "payer", "to_account_id": "payee", "amount": 7, "delay_seconds": 5}
    headers = {"Idempotency-Key": uuid4().hex}
    made = await api.call("POST", "/payments/schedule", order, headers=headers)
    return str(made.body["payment_id"])


async def _executed(api: Api, clock: Clock, others: int = 40) -> str:
    """Pay something among others, so that the seals have several blocks."""
    await _accounts(api)
    paid = [await _pay(api) for _ in range(others)][others // 2]
    await clock.advance(6)
    headers = {"X-Internal-Auth": INTERNAL_TOKEN}
    path = f"/internal/payments/{paid}/execute"
    done = await api.call("POST", path, {"execution_id": "by-hand"}, headers=headers)
    assert done.status == 200, done.body
    await seal_all(api.node.database)
    return paid


async def test_a_payment_is_proved_without_the_server(api: Api, clock: Clock) -> None:
    paid = await _executed(api, clock)
    answer = await api.call("GET", f"/payments/{paid}/receipt")
    assert answer.status == 200, answer.body
    [key, *_] = (await api.call("GET", "/receipt-keys", key="")).body["keys"]
    checked = check_receipt(json.dumps(answer.body).encode(), {key["key_id"]})
    assert (checked.findings, checked.ok, checked.key_known) == ([], True, True)
    asked, done = checked.facts["payment.scheduled"], checked.facts["payment.completed"]
    assert (asked["from_account"], asked["to_account"], asked["amount"]) == ("payer", "payee", 7)
    assert (done["status"], done["execution_id"]) == ("COMPLETED", "by-hand")
    assert (done["from_account"], done["to_account"], done["amount"]) == ("payer", "payee", 7)
    assert (done["from_balance"], done["to_balance"]) == (993, 7)
    shown = (await api.call("GET", f"/payments/{paid}")).body
    assert (checked.status, done["finished_at"]) == ("COMPLETED", shown["executed_at"])
    assert asked["due_at"] == shown["scheduled_time"]
    assert max(len(fact["seal"]["blocks"]) for fact in answer.body["receipt"]["facts"]) > 1
    other = check_receipt(json.dumps(answer.body).encode(), {"0" * 32})
    assert [each.field for each in other.findings] == ["receipt.key_id"]


def _leaves(value: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Return where every leaf of a document is: its path, what holds it, and under which name."""
    if isinstance(value, dict):
        pairs: Any = value.items()
    else:
        pairs = enumerate(value) if isinstance(value, list) else ()
    found = []
    for name, inner in pairs:
        where = f"{path}[{name}]" if isinstance(value, list) else f"{path}.{name}".lstrip(".")
        found += _leaves(inner, where) or [(where, value, name)]
    return found


def _forged(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            last = {"0": "1", "Z": "z"}.get(value[-1:], "0")
            return value[:-1] + last
        case _:
            return "x"


async def test_whatever_is_forged_is_named(api: Api, clock: Clock) -> None:
    paid = await _executed(api, clock, others=2)
    document = (await api.call("GET", f"/payments/{paid}/receipt")).body
    leaves = _leaves(document)
    assert len(leaves) > 100
    for path, holder, name in leaves:
        true = holder[name]
        holder[name] = _forged(true)
        found = check_receipt(json.dumps(document).encode())
        holder[name] = true
        assert not found.ok, path
        named = {each.field for each in found.findings}
        assert _expected(path) & named, (path, named)
    true_text = json.dumps(document)
    assert check_receipt(true_text.encode()).ok
    twice = true_text.replace('"amount": 7', '"amount": 9999, "amount": 7')
    found = check_receipt(twice.encode())
    assert [each.field for each in found.findings] == ["document"], "some read the first"


def _expected(path: str) -> set[str]:
    """Return how a finding may be called about a place in the document."""
    if ".facts[" not in path:
        field = path.partition("[")[0]
        return {field, "document", "signature", "receipt.key_id"}
    fact, _, rest = path.partition("].")
    field = rest.partition(".")[0].partition("[")[0]
    parts = {
        "position": ("position", "type", "event_id"),
        "seal": ("seal.hash", "seal.block", "record", "position", "type", "event_id"),
    }.get(field, (field,))
    return {f"{fact}].{part}" for part in parts} | {"document"}


async def test_a_job_has_a_receipt_when_it_has_ended(api: Api) -> None:
    body = {"destination": {"type": "worker"}, "lane": "mail", "payload": {"n": 1}}
    job_id = (await api.call("POST", "/jobs", body)).body["job_id"]
    early = await api.call("GET", f"/jobs/{job_id}/receipt")
    assert (early.status, early.body["code"]) == (409, "conflict")
    [lease] = (await api.call("POST", "/lanes/mail/claim", {"max": 1})).body["leases"]
    await api.call("POST", f"/leases/{job_id}/complete", {"token": lease["token"]})
    unsealed = await api.call("GET", f"/jobs/{job_id}/receipt")
    assert (unsealed.status, "not sealed" in unsealed.body["detail"]) == (409, True)
    await seal_all(api.node.database)
    found = check_receipt(
        json.dumps((await api.call("GET", f"/jobs/{job_id}/receipt")).body).encode()
    )
    assert (found.ok, found.status, list(found.facts)) == (
        True,
        "COMPLETED",
        ["job.accepted", "job.completed"],
    )
    assert str(found.facts["job.accepted"]["payload"]).startswith("8 bytes, sha256 ")
    assert (await api.call("GET", f"/payments/{job_id}/receipt")).status == 404


async def test_a_cancelled_job_has_one_and_another_tenant_has_none(api: Api) -> None:
    body = {"destination": {"type": "worker"}, "delay_seconds": 60}
    job_id = (await api.call("POST", "/jobs", body)).body["job_id"]
    await api.call("POST", f"/jobs/{job_id}/cancel")
    await seal_all(api.node.database)
    found = check_receipt(
        json.dumps((await api.call("GET", f"/jobs/{job_id}/receipt")).body).encode()
    )
    assert (found.ok, found.status) == (True, "CANCELLED")
    stranger = await api.new_key("jobs:read", tenant=await _other_tenant(api))
    assert (await api.call("GET", f"/jobs/{job_id}/receipt", key=stranger)).status == 404


async def _other_tenant(api: Api) -> str:
    name = f"other-{uuid4().hex[:8]}"
    await Tenants(api.node.database).create(name)
    return name


async def test_keys_change_and_old_receipts_stay_valid(
    api: Api, clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paid, database = await _executed(api, clock, others=2), api.node.database
    before = (await api.call("GET", f"/payments/{paid}/receipt")).body
    keyring = api.node.outgoing.keyring
    new = await ReceiptKeys(database, keyring).rotate()
    after = (await api.call("GET", f"/payments/{paid}/receipt")).body
    published = (await api.call("GET", "/receipt-keys", key="")).body
    assert after["receipt"]["key_id"] == new.key_id == published["keys"][0]["key_id"]
    assert before["receipt"]["key_id"] == published["keys"][1]["key_id"]
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(published))
    for number, document in enumerate((before, after)):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(document))
        command.verify(file, keys=keys)
        assert "COMPLETED" in capsys.readouterr().out
    file.write_text(json.dumps(after).replace("payee", "thief"))
    with pytest.raises(SystemExit) as left:
        command.verify(file, keys=keys)
    assert left.value.code == 7
    # The private half is an envelope of the server's key, and moves on with that.
    fresh = Keyring([bytes(range(32)), parse_key(SECRET_KEY)])
    assert await secret_rotation.rotate(database, fresh) > 0
    [first, *_] = await ReceiptKeys(database, fresh).published()
    assert first.key_id == key_id_of(first.public_key) == new.key_id
    _, private = await ReceiptKeys(database, Keyring([bytes(range(32))])).signer()
    assert private.public_key().public_bytes_raw() == first.public_key
    await secret_rotation.rotate(database, Keyring([parse_key(SECRET_KEY), bytes(range(32))]))
