"""Amounts have one currency: named or not, payer and payee have the same."""

from typing import Any

import pytest

from conftest import Api
from postdate.ledger.prove import prove
from support.api_ledger import Ledger, key, open_ledger

pytestmark = pytest.mark.own_database("it proves the whole database")


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    ledger = await open_ledger(api)
    for account_id, currency in (("eva", "EUR"), ("emil", "EUR"), ("uma", "USD")):
        body = {"account_id": account_id, "currency": currency}
        assert (await api.call("POST", "/accounts", body)).status == 201
    adjustment = {"amount": 500, "reason": "opening"}
    await api.call("POST", "/accounts/eva/adjustments", adjustment, headers=key())
    return ledger


async def test_a_currency_is_shown_and_told(ledger: Ledger) -> None:
    assert (await ledger.account("eva"))["currency"] == "EUR"
    assert "currency" not in await ledger.account("alice")
    query = """SELECT data ->> 'currency' FROM event
                WHERE tenant_id = $1 AND type = 'account.created' AND data ->> 'account_id' = $2"""
    fetch = ledger.api.node.database.writer.fetchval
    assert await fetch(query, ledger.tenant_id, "eva") == "EUR"


@pytest.mark.parametrize("currency", ["eur", "EURO", "E1R", "", "EUR\n", 978])
async def test_a_currency_is_three_capital_letters(ledger: Ledger, currency: Any) -> None:
    answer = await ledger.api.call("POST", "/accounts", {"currency": currency})
    assert (answer.status, answer.body["code"], answer.body["field"]) == (
        422,
        "invalid_field",
        "currency",
    )


async def test_a_currency_never_changes(ledger: Ledger) -> None:
    answer = await ledger.api.call("PATCH", "/accounts/eva", {"currency": "USD"})
    assert (answer.status, answer.body["code"]) == (422, "unknown_field")


@pytest.mark.parametrize(
    ("payer", "payee", "currencies"),
    [
        ("eva", "uma", ["EUR", "USD"]),
        ("eva", "bob", ["EUR", None]),
        ("alice", "eva", [None, "EUR"]),
    ],
)
@pytest.mark.parametrize("funding", ["hold", "at_execution"])
async def test_payer_and_payee_have_the_same(
    ledger: Ledger, payer: str, payee: str, currencies: list[str | None], funding: str
) -> None:
    answer = await ledger.order(from_account_id=payer, to_account_id=payee, funding=funding)
    assert (answer.status, answer.body["code"]) == (422, "currency_mismatch"), answer
    assert answer.body["field"] == "to_account_id"
    assert answer.body["currencies"] == currencies
    assert await ledger.held(payer) == 0


async def test_within_a_currency_money_moves_and_is_proved(ledger: Ledger) -> None:
    answer = await ledger.order(from_account_id="eva", to_account_id="emil")
    assert answer.status == 201, answer
    assert await ledger.held("eva") == 100
    proof = await prove(ledger.api.node.database, ledger.tenant_id)
    assert proof.findings == []
    assert "payment_keeps_currency" in proof.proved
