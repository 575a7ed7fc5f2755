"""Statements: opening balance, entries, closing balance; the file adds up, in every format."""

import csv
import io
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4
from xml.etree import ElementTree as ET

import pytest

from conftest import INTERNAL_TOKEN, Api, Clock
from postdate.account.view import statement
from postdate.account.view.statement_file import CAMT
from support.plain_browser import Browser

NAMES = ("eva", "emil", "jun")
HOSTILE = "=1+1 <b>&\x01 text " + "x" * 300


async def adjust(api: Api, name: str, amount: int, reason: str) -> None:
    headers = {"Idempotency-Key": uuid4().hex}
    body = {"amount": amount, "reason": reason}
    answer = await api.call("POST", f"/accounts/{name}/adjustments", body, headers=headers)
    assert answer.status == 201, answer.body


@pytest.fixture
async def books(api: Api, clock: Clock) -> list[tuple[datetime, int, str, str]]:
    """Make a random history of eva; return when, how much, with whom and why."""
    for name in NAMES:
        body = {"account_id": name, "currency": "EUR", "floor": 0}
        await api.call("POST", "/accounts", body)
    await adjust(api, "emil", 10_000_000, "opening")
    chance, made = random.Random(7), []
    for number in range(25):
        amount = chance.randint(1, 5000)
        if number % 5 == 0:
            await adjust(api, "eva", 10_000 + amount, HOSTILE)
            made.append((10_000 + amount, "issuer", HOSTILE))
        else:
            payer, payee = ("eva", "emil") if chance.random() < 0.6 else ("emil", "eva")
            await pay(api, clock, payer, payee, amount, f"invoice {number}")
            made.append((amount if payee == "eva" else -amount, "emil", f"invoice {number}"))
        await clock.advance(60)
    rows = (await api.call("GET", "/accounts/eva/entries?limit=100")).body["entries"][::-1]
    return [
        (datetime.fromisoformat(row["created_at"]), *each)
        for row, each in zip(rows, made, strict=True)
    ]


async def pay(api: Api, clock: Clock, payer: str, payee: str, amount: int, text: str) -> None:
    order = {"from_account_id": payer, "to_account_id": payee, "amount": amount}
    body = order | {"delay_seconds": 1, "description": text}
    headers = {"Idempotency-Key": uuid4().hex}
    made = await api.call("POST", "/payments/schedule", body, headers=headers)
    assert made.status == 201, made.body
    await clock.advance(2)
    path = f"{api.url}/api/v1/internal/payments/{made.body['payment_id']}/execute"
    sent = {"execution_id": uuid4().hex}
    token = {"X-Internal-Auth": INTERNAL_TOKEN}
    async with api.session.post(path, json=sent, headers=token) as answer:
        assert answer.status == 200, await answer.text()


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


async def text_of(api: Api, query: str) -> str:
    headers = {"authorization": f"Bearer {api.key}"}
    path = f"{api.url}/api/v1/accounts/eva/statement?{query}"
    async with api.session.get(path, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.text()


def span(since: datetime, until: datetime) -> str:
    return f"from_time={since:%Y-%m-%dT%H:%M:%S.%fZ}&to_time={until:%Y-%m-%dT%H:%M:%S.%fZ}"


async def test_any_period_adds_up_in_every_format(
    api: Api, books: list[tuple[datetime, int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement, "PAGE_ENTRIES", 4)
    instants = [each[0] for each in books]
    bounds = [instants[0] - timedelta(days=1), instants[3], instants[11], instants[-1]]
    bounds.append(instants[-1] + timedelta(days=1))
    for since in bounds:
        for until in (each for each in bounds if each >= since):
            own = [each for each in books if since <= each[0] < until]
            opening = sum(each[1] for each in books if each[0] < since)
            closing = sum(each[1] for each in books if each[0] < until)
            query = span(since, until)
            found = (await api.call("GET", f"/accounts/eva/statement?{query}")).body
            told = [
                (one["amount"], one["counterparty"], one["description"]) for one in found["entries"]
            ]
            assert told == [each[1:] for each in own]
            assert (found["opening_balance"], found["closing_balance"]) == (opening, closing)
            assert found["credits"] - found["debits"] == closing - opening
            assert found["count"] == len(own)
            rows = list(csv.DictReader(io.StringIO(await text_of(api, f"{query}&format=csv"))))
            assert [rows[0]["type"], rows[-1]["type"]] == ["OPENING", "CLOSING"]
            summed = sum(Decimal(row["amount"]) for row in rows[1:-1])
            assert Decimal(rows[0]["balance"]) + summed == Decimal(rows[-1]["balance"])
            assert Decimal(rows[-1]["balance"]) == Decimal(closing) / 100
            check_camt(await text_of(api, f"{query}&format=camt.053"), opening, closing, own)


def check_camt(text: str, opening: int, closing: int, own: list[Any]) -> None:
    """Check the parts that camt.053 demands, in the order of its schema, and that it adds up."""
    root = ET.fromstring(text)
    at = {"c": CAMT}
    assert root.tag == f"{{{CAMT}}}Document"
    [stmt] = root.findall("c:BkToCstmrStmt/c:Stmt", at)
    assert root.find("c:BkToCstmrStmt/c:GrpHdr/c:MsgId", at) is not None
    order = [part.tag.partition("}")[2] for part in stmt]
    head = ["Id", "CreDtTm", "FrToDt", "Acct", "Bal", "Bal", "TxsSummry"]
    assert order == head + ["Ntry"] * len(own)
    kinds = [bal.findtext("c:Tp/c:CdOrPrtry/c:Cd", "", at) for bal in stmt.findall("c:Bal", at)]
    assert kinds == ["OPBD", "CLBD"]
    assert [signed(bal) for bal in stmt.findall("c:Bal", at)] == [opening, closing]
    entries = stmt.findall("c:Ntry", at)
    assert opening + sum(map(signed, entries)) == closing
    for entry, (_, amount, other, why) in zip(entries, own, strict=True):
        assert signed(entry) == amount
        names = [part.tag.partition("}")[2] for part in entry]
        assert names == [
            "NtryRef", "Amt", "CdtDbtInd", "Sts", "BookgDt", "ValDt", "AcctSvcrRef", "BkTxCd",
            "NtryDtls",
        ]  # fmt: skip
        side = "CdtrAcct" if amount < 0 else "DbtrAcct"
        path = f"c:NtryDtls/c:TxDtls/c:RltdPties/c:{side}/c:Id/c:Othr/c:Id"
        assert entry.findtext(path, "", at) == other
        pieces = [each.text or "" for each in entry.findall(".//c:Ustrd", at)]
        assert all(len(piece) <= 140 for piece in pieces)
        assert "".join(pieces) == why.replace("\x01", "\N{REPLACEMENT CHARACTER}")


def signed(part: ET.Element) -> int:
    at = {"c": CAMT}
    amount = part.find("c:Amt", at)
    assert amount is not None
    assert amount.get("Ccy") == "EUR"
    cents = int(Decimal(amount.text or "") * 100)
    return -cents if part.findtext("c:CdtDbtInd", "", at) == "DBIT" else cents


async def test_filters_leave_the_balances_and_the_file_is_no_formula(
    api: Api, books: list[tuple[datetime, int, str, str]]
) -> None:
    whole = (await api.call("GET", "/accounts/eva/statement")).body
    balances = ("opening_balance", "closing_balance")
    for query, admits in (
        ("counterparty=issuer", lambda one: one[2] == "issuer"),
        ("text=INVOICE 1", lambda one: "invoice 1" in one[3]),
        ("min_amount=2000&max_amount=4000", lambda one: 2000 <= abs(one[1]) <= 4000),
    ):
        found = (await api.call("GET", f"/accounts/eva/statement?{query}")).body
        own = [one[1] for one in books if admits(one)]
        assert [one["amount"] for one in found["entries"]] == own
        assert found["credits"] == sum(each for each in own if each > 0)
        assert [found[name] for name in balances] == [whole[name] for name in balances]
    rows = list(csv.DictReader(io.StringIO(await text_of(api, "format=csv"))))
    assert {row["description"][0] for row in rows[1:-1]} == {"'", "i"}
    assert all(row["amount"].lstrip("-")[0].isdecimal() for row in rows[1:-1])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("format=pdf", "format"),
        ("from_time=yesterday", "from_time"),
        ("from_time=2031-01-02T00:00:00Z&to_time=2031-01-01T00:00:00Z", "to_time"),
        ("min_amount=-1", "min_amount"),
        ("format=camt.053&text=x", "text"),
        ("colour=red", "colour"),
    ],
)
async def test_what_is_no_statement_is_refused_by_its_field(
    api: Api, query: str, field: str
) -> None:
    await api.call("POST", "/accounts", {"account_id": "eva", "currency": "EUR"})
    answer = await api.call("GET", f"/accounts/eva/statement?{query}")
    assert (answer.status, answer.body["field"]) == (422, field), answer.body


async def test_an_account_without_a_currency_has_no_camt(api: Api) -> None:
    await api.call("POST", "/accounts", {"account_id": "eva"})
    await adjust(api, "eva", 1250, "opening")
    answer = await api.call("GET", "/accounts/eva/statement?format=camt.053")
    assert (answer.status, answer.body["field"]) == (422, "format")
    assert ",1250,," in await text_of(api, "format=csv")


async def test_a_period_with_too_many_entries_is_refused(
    api: Api, books: list[tuple[datetime, int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement, "MAX_ENTRIES", 24)
    answer = await api.call("GET", "/accounts/eva/statement")
    assert (answer.status, answer.body["field"]) == (422, "from_time")
    query = span(books[1][0], datetime.now(UTC) + timedelta(days=365))
    assert (await api.call("GET", f"/accounts/eva/statement?{query}")).status == 200


async def test_a_limited_key_reads_the_statements_of_its_accounts_alone(
    api: Api, browser: Browser
) -> None:
    for name in NAMES:
        await api.call("POST", "/accounts", {"account_id": name, "currency": "EUR"})
    body = {"scopes": ["payments:read"], "accounts": ["eva"]}
    key = (await api.call("POST", "/keys", body)).body["key"]
    await browser.sign_in(key)
    for path in (
        "/accounts/{}/statement",
        "/accounts/{}/statement.csv",
        "/accounts/{}/statement.xml",
    ):
        assert (await browser.get(path.format("eva"))).status == 200
        assert (await browser.get(path.format("jun"))).status == 404
    headers = {"authorization": f"Bearer {key}"}
    path = f"{api.url}/api/v1/accounts/jun/statement"
    async with api.session.get(path, headers=headers) as answer:
        assert answer.status == 404
    await browser.sign_in(await api.new_key("jobs:read"))
    assert (await browser.get("/accounts/eva/statement")).status == 403


@pytest.mark.usefixtures("books")
async def test_the_page_shows_what_the_file_has(browser: Browser) -> None:
    page = (await browser.get("/accounts/eva/statement")).text
    closing = (await browser.api.call("GET", "/accounts/eva")).body["balance"]
    assert f"<strong>{closing // 100:,}.{closing % 100:02} EUR</strong>" in page
    assert "25 of 25 entries of the period" in page
    assert "invoice 24" in page
    assert "&lt;b&gt;&amp;" in page
    few = (await browser.get("/accounts/eva/statement?counterparty=issuer&text=text")).text
    assert "5 of 25 entries of the period" in few
    assert (await browser.get("/accounts/eva/statement?least=much")).status == 422
    assert (await browser.get("/accounts/eva/statement.pdf")).status == 404
    rows = (await browser.get("/accounts/eva/statement.csv")).text
    assert rows.count("\r\n") == 28
    listed = (await browser.get("/accounts?q=e")).text
    assert "/accounts/emil" in listed
    assert "/accounts/jun" not in listed
    assert "in 3 accounts" in listed
    assert "No account begins so" in (await browser.get("/accounts?q=zz")).text
