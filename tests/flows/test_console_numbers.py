"""Every number of a page equals the one of the API, over a tenant that has been lived in."""

import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import pytest

from conftest import INTERNAL_TOKEN, Api, Clock
from flows.test_console_frame import failed
from postdate.core.money import money_text
from support.plain_browser import Browser
from support.real_browser import make

pytestmark = pytest.mark.own_database("foresight and the overview read the work of every tenant")

WORKER = {"destination": {"type": "worker"}}
ACCOUNTS = {
    "eur-main": ("EUR", 84_696_139),
    "eur-shop": ("EUR", 0),
    "yen-main": ("JPY", 90_005),
    "yen-shop": ("JPY", 7),
    "dinar": ("KWD", 1_234_567),
    "points": (None, 9_000),
    "club": (None, 3),
    "whale": ("EUR", 9_000_899_999_600_000),
}


async def live(api: Api, clock: Clock) -> None:
    """Fill a tenant: four currencies, payments in every state, jobs that wait and that failed."""
    for name, (currency, balance) in ACCOUNTS.items():
        await make(api, "/accounts", {"account_id": name, "currency": currency})
        if balance:
            opening = {"amount": balance, "reason": "opening balance"}
            await make(api, f"/accounts/{name}/adjustments", opening)
    for number in range(4):
        await _pay(api, "eur-main", "eur-shop", 12_550 + number, delay_seconds=10)
        await _pay(api, "yen-main", "yen-shop", 100 + number, delay_seconds=10)
    await _pay(api, "points", "club", 9_001, delay_seconds=10, funding="at_execution")
    await clock.advance(11)
    for payment in await everything(api, "/payments", "payments"):
        await _settle(api, payment["payment_id"])
    for number in range(5):
        await _pay(api, "eur-main", "eur-shop", 5_005 + number, delay_seconds=7_200)
        later = {"delay_seconds": 86_400 * (number + 2), "funding": "at_execution"}
        await _pay(api, "yen-main", "yen-shop", 40_000, **later)
    await api.call("PUT", "/settings/payment.approval_above", {"value": 500_000})
    await api.node.refresh_settings()
    for number in range(3):
        await _pay(api, "eur-main", "eur-shop", 700_001 + number, delay_seconds=3_600)
    for code, many in (("broken", 7), ("refused", 4)):
        await failed(api, many, code)
    await make(api, "/jobs/batch", {"jobs": [{**WORKER, "lane": "mail"}] * 6})
    await make(api, "/jobs/batch", {"jobs": [{**WORKER, "delay_seconds": 900}] * 9})


async def _settle(api: Api, payment_id: str) -> None:
    path = f"{api.url}/api/v1/internal/payments/{payment_id}/execute"
    headers = {"X-Internal-Auth": INTERNAL_TOKEN}
    body = {"execution_id": f"by-hand-{payment_id}"}
    async with api.session.post(path, json=body, headers=headers) as answer:
        assert answer.status in {200, 422}, await answer.text()


async def _pay(api: Api, payer: str, payee: str, amount: int, **more: Any) -> None:
    order = {"from_account_id": payer, "to_account_id": payee, "amount": amount, **more}
    await make(api, "/payments/schedule", order)


@pytest.fixture
async def browser(api: Api, clock: Clock) -> AsyncIterator[Browser]:
    await live(api, clock)
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


async def everything(api: Api, path: str, name: str) -> list[Any]:
    """Read a list of the API to its end."""
    found, cursor = [], ""
    while True:
        page = (await api.call("GET", f"{path}{'&' if '?' in path else '?'}limit=100{cursor}")).body
        found += page[name]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def words(page: str) -> str:
    """Return the words of a page's content."""
    main = page.partition("<main")[2].partition("</main>")[0]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", main)).split())


def tile(page: str, name: str) -> str:
    return page.partition(f'id="tile-{name}"')[2].partition("<strong>")[2].partition("</strong>")[0]


def tab(page: str, means: str) -> str:
    found = re.search(rf'title="([^"]*?) {re.escape(means)}"', page)
    return found[1] if found else "0"


async def test_now_and_the_tabs_say_what_the_lists_of_the_api_have(browser: Browser) -> None:
    api = browser.api
    page = (await browser.get("/")).text
    dead = await everything(api, "/dead-letters", "jobs")
    waiting = await everything(api, "/approvals", "payments")
    ready = await everything(api, "/jobs?status=READY", "jobs")
    lost = await everything(api, "/payments?status=FAILED", "payments")
    assert (len(dead), len(waiting), len(ready), len(lost)) == (11, 3, 6, 1)
    assert tile(page, "jobs-failed") == str(len(dead))
    assert tile(page, "approvals") == str(len(waiting))
    assert tile(page, "backlog") == str(len(ready))
    assert tile(page, "payments-failed") == str(len(lost))
    assert tab(page, "approvals, unknown outcomes and broken payments") == str(len(waiting))
    work = (await browser.get("/jobs")).text
    assert tab(work, "due and not started") == str(len(ready))
    assert tab(work, "jobs of 24 h that failed") == str(len(dead))
    letters = (await browser.get("/dead-letters")).text
    groups = Counter(each["code"] for each in dead)
    shown = re.findall(r'data-label="24 h" class="number">(\d+)<', letters)
    assert sorted(map(int, shown)) == sorted(groups.values())


async def test_accounts_and_their_totals_are_those_of_the_api_in_units(browser: Browser) -> None:
    accounts = await everything(browser.api, "/accounts", "accounts")
    page = words((await browser.get("/accounts")).text)
    totals: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for each in accounts:
        row = [each[name] for name in ("balance", "held", "available")]
        said = " ".join(money_text(amount, each.get("currency")) for amount in row)
        assert f"OPEN {said}" in page
        if each["account_id"] != "issuer":
            assert f"{each['account_id']} OPEN {said}" in page.replace("✓ ", "").replace("● ", "")
            totals[each.get("currency")][0] += each["balance"]
            totals[each.get("currency")][1] += each["held"]
    for currency, (balance, held) in totals.items():
        assert f"{money_text(balance, currency)} in " in page
        assert f"{money_text(held, currency)} held" in page


async def test_an_account_its_statement_and_its_file_are_those_of_the_api(browser: Browser) -> None:
    api = browser.api
    for name, (currency, _) in ACCOUNTS.items():
        account = (await api.call("GET", f"/accounts/{name}")).body
        page = words((await browser.get(f"/accounts/{name}")).text)
        for field, label in (("available", "available"), ("balance", "balance"), ("held", "held")):
            assert f"{money_text(account[field], currency)} {label}" in page
        told = (await api.call("GET", f"/accounts/{name}/statement")).body
        paper = words((await browser.get(f"/accounts/{name}/statement")).text)
        assert f"{money_text(told['opening_balance'], currency)} opening balance" in paper
        assert f"{money_text(told['closing_balance'], currency)} closing balance" in paper
        for entry in told["entries"]:
            moved, after = (money_text(entry[field], currency) for field in ("amount", "balance"))
            assert f"{moved} {after}" in paper


async def test_payments_are_listed_and_exported_in_units(browser: Browser) -> None:
    payments = await everything(browser.api, "/payments", "payments")
    page = words((await browser.get("/payments")).text)
    rows = (await browser.get("/payments.csv")).text.splitlines()
    assert len(rows) == len(payments) + 1
    written = Counter(row.split(",")[4] + "," + row.split(",")[5] for row in rows[1:])
    wanted: Counter[str] = Counter()
    for each in payments:
        said = money_text(each["amount"], each.get("currency"))
        assert said in page
        number, _, code = said.partition(" ")
        wanted[f"{number.replace(',', '')},{code}"] += 1
    assert written == wanted


async def test_cash_ahead_is_that_of_the_api_in_units(browser: Browser) -> None:
    api = browser.api
    page = words((await browser.get("/foresight/money")).text)
    found = (await api.call("GET", "/foresight/money")).body
    assert found["failing_count"] == 3
    for each in found["pay_in"]:
        assert f"Pay in {money_text(each['amount'], each['currency'])} by" in page
    for total in found["totals"]:
        for point, label in (("lowest", "available"), ("end", "balance")):
            assert money_text(total[point][label], total.get("currency")) in page
    for cause in found["causes"]:
        said = f"{cause['count']} {money_text(cause['amount'], cause['currency'])}"
        assert said in page


async def test_charts_draw_units_of_the_currency(browser: Browser) -> None:
    """The curve of 84,696,139 cents ends at 846,961.39, and a yen has no cents."""
    for name, (currency, _) in ACCOUNTS.items():
        account = (await browser.api.call("GET", f"/accounts/{name}")).body
        page = (await browser.get(f"/foresight/money?account={name}")).text
        data = page.partition('id="data-money-1">')[2].partition("</script>")[0]
        digits = int(data.partition('"digits": ')[2].partition(",")[0].partition("}")[0])
        drawn = re.findall(r"[-\d.e+]+", data.partition('"balance": [')[2].partition("]")[0])
        known = [float(each) for each in drawn]
        assert digits == {"EUR": 2, "JPY": 0, "KWD": 3, None: 0}[currency]
        assert known[0] == account["balance"] / 10**digits
