"""Amounts in units: pages, forms, files, search and sentences; the API stays in integers."""

import csv
import io
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from conftest import Api
from postdate.cli import answer, output
from postdate.cli.noun import find
from support.plain_browser import Browser

CURRENCIES = {"eva": "EUR", "emil": "EUR", "jun": "JPY", "joe": "JPY", "bea": "BHD", "ben": "BHD"}


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    for name, currency in CURRENCIES.items():
        body = {"account_id": name, "currency": currency, "max_amount": 900_000}
        assert (await api.call("POST", "/accounts", body)).status == 201
        headers = {"Idempotency-Key": uuid4().hex}
        body = {"amount": 84696139, "reason": "opening"}
        await api.call("POST", f"/accounts/{name}/adjustments", body, headers=headers)
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


async def pay(api: Api, amount: int, payer: str = "eva", payee: str = "emil", **more: Any) -> Any:
    order = {"from_account_id": payer, "to_account_id": payee, "amount": amount} | more
    headers = {"Idempotency-Key": uuid4().hex}
    body = {"delay_seconds": 600} | order
    return await api.call("POST", "/payments/schedule", body, headers=headers)


async def test_pages_show_units_with_the_digits_of_the_currency(browser: Browser) -> None:
    api = browser.api
    paid = (await pay(api, 12550)).body["payment_id"]
    page = (await browser.get("/accounts/eva")).text
    for text in ("846,961.39 EUR", "846,835.89 EUR", "125.50 EUR", "0.00 EUR", "9,000.00 EUR"):
        assert f"<strong>{text}</strong>" in page, text
    listed = (await browser.get("/accounts")).text
    assert "84,696,139 JPY" in listed
    assert "84,696.139 BHD" in listed
    shown = (await browser.get(f"/payments/{paid}")).text
    assert "125.50 EUR of" in shown
    assert "125.50 EUR" in (await browser.get("/payments")).text
    assert "12,550" not in shown
    found = (await api.call("GET", f"/payments/{paid}")).body
    assert (found["amount"], found["currency"]) == (12550, "EUR")
    entries = (await api.call("GET", "/accounts/eva/entries")).body
    assert (entries["balance"], entries["currency"]) == (84696139, "EUR")


async def test_a_form_takes_amounts_as_people_write_them(browser: Browser) -> None:
    order = {"from_account_id": "eva", "to_account_id": "emil", "delay_seconds": "600"}
    made = await browser.confirm("/new/payment", **order, amount="1,125.50 EUR")
    assert made.status == 303, made.text
    found = (await browser.api.call("GET", "/payments?account_id=eva")).body["payments"]
    assert [one["amount"] for one in found] == [112550]
    for amount, says in (
        ("5 USD", "The account counts in EUR, not in USD."),
        ("1.005", "EUR has 2 digits behind the point."),
        ("125,50", "Write an amount such as 125.50 EUR."),
    ):
        refused = await browser.confirm("/new/payment", **order, amount=amount)
        assert refused.status == 422
        assert f'<span class="problem" id="problem-amount">{says}</span>' in refused.text
        assert "Expected" not in refused.text
    poor = await browser.confirm("/new/payment", **order, amount="8,999.99", funding="hold")
    assert poor.status == 303
    above = await browser.confirm("/new/payment", **order, amount="9000.01")
    assert "The most for one payment from eva is 9,000.00 EUR." in above.text
    unknown = await browser.confirm(
        "/new/payment", **(order | {"from_account_id": "nobody"}), amount="5"
    )
    assert 'id="problem-from_account_id">There is no account nobody.' in unknown.text


async def test_an_edit_shows_units_and_sends_only_what_was_changed(browser: Browser) -> None:
    page = await browser.get("/accounts/eva/edit")
    assert 'value="9000.00"' in page.text
    assert (await browser.confirm("/accounts/eva/edit", max_amount="8,000.50")).status == 303
    assert (await browser.api.call("GET", "/accounts/eva")).body["max_amount"] == 800050
    assert (await browser.confirm("/accounts/bea/adjust", amount="-1.5", reason="x")).status == 303
    notice = (await browser.get("/accounts/bea")).text
    assert "bea was adjusted by -1.500 BHD: x" in notice


async def test_amounts_are_found_as_people_write_them(browser: Browser) -> None:
    api = browser.api
    euros = (await pay(api, 700_003)).body["payment_id"]
    yens = (await pay(api, 7000, "jun", "joe")).body["payment_id"]
    dinars = (await pay(api, 7030, "bea", "ben")).body["payment_id"]

    async def found(query: str) -> set[str]:
        text = (await browser.get(f"/payments?{query}")).text
        return {one for one in (euros, yens, dinars) if one in text}

    place = (await browser.get("/find?q=7000.03")).headers["location"]
    assert await found(place.partition("?")[2]) == {euros}
    place = (await browser.get("/find?q=7,000.03+EUR")).headers["location"]
    assert await found(place.partition("?")[2]) == {euros}
    assert await found("least=7000.03 USD&most=7000.03 USD") == set()
    assert await found("least=7000&most=7000") == {yens}
    assert await found("least=7.03&most=7.03") == {dinars}
    assert await found("least=7&most=7001") == {euros, yens, dinars}
    assert (await browser.get("/payments?least=much")).status == 422


async def test_files_have_units_and_no_formulas(browser: Browser) -> None:
    await pay(browser.api, 12550, description="=1+1")
    await pay(browser.api, 700, "jun", "joe")
    rows = list(csv.DictReader(io.StringIO((await browser.get("/payments.csv")).text)))
    assert [(row["amount"], row["currency"]) for row in rows] == [("700", "JPY"), ("125.50", "EUR")]
    assert rows[1]["description"] == "'=1+1"


async def test_refusals_and_failures_say_units(browser: Browser) -> None:
    api = browser.api
    await api.call("PATCH", "/accounts/eva", {"floor": 84_600_000})
    refused = (await pay(api, 200_000)).body
    assert refused["detail"] == "eva has 961.39 EUR available."
    assert refused["available"] == 96139


async def test_commands_print_units_where_a_currency_is_named(
    browser: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    api = browser.api
    await pay(api, 12550)
    output.take(["-o", "csv"])
    for operation, path, wanted in (
        (find("account", "list_accounts"), "/accounts", "84696.139"),
        (find("payment", "list_payments"), "/payments", "125.50"),
        (find("account", "list_account_entries"), "/accounts/jun/entries", "84696139"),
    ):
        answer.show_answer(operation, {}, (await api.call("GET", path)).body)
        assert wanted in capsys.readouterr().out
    output.take([])
    answer.show_answer(
        find("account", "get_account"), {}, (await api.call("GET", "/accounts/eva")).body
    )
    assert "846,961.39 EUR" in capsys.readouterr().out
