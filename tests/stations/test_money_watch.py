"""Payments that will fail are told before they do: once, by the tenant's own hours."""

from uuid import uuid4

from prometheus_client import CollectorRegistry

from conftest import Api
from postdate.foresight.view.money import MoneyViews
from postdate.foresight.view.money_watch import MoneyWatch
from postdate.foresight.view.rules import RuleBooks
from postdate.payment.accept.warning import PaymentWarnings
from support.event import seal_all
from support.plain_browser import Browser


async def _pay(api: Api, amount: int, delay_seconds: int) -> str:
    order = {
        "from_account_id": "short",
        "to_account_id": "payee",
        "amount": amount,
        "delay_seconds": delay_seconds,
        "funding": "at_execution",
    }
    headers = {"Idempotency-Key": uuid4().hex}
    made = await api.call("POST", "/payments/schedule", order, headers=headers)
    assert made.status == 201, made.body
    return str(made.body["payment_id"])


async def test_what_will_fail_is_told_once_and_shown(api: Api) -> None:
    for name in ("short", "payee"):
        await api.call("POST", "/accounts", {"account_id": name})
    soon, _later = await _pay(api, 50, 3600), await _pay(api, 60, 3 * 86_400)
    node, registry = api.node, CollectorRegistry()
    money = MoneyViews(node.database, RuleBooks())
    tell = PaymentWarnings(node.database).record_warnings
    watch = MoneyWatch(registry, node.database, node.runtime, money, tell)
    assert await watch.step() == 0, "the first look waits for a minute"
    assert await watch.run_once() == 1
    assert await watch.run_once() == 1
    assert registry.get_sample_value("postdate_payment_will_fail") == 1.0
    await seal_all(node.database)
    events = (await api.call("GET", "/events?types=payment.will_fail")).body["events"]
    assert [each["subject"] for each in events] == [soon]
    assert (events[0]["data"]["code"], events[0]["data"]["amount"]) == ("insufficient_funds", 50)
    async with Browser(api) as browser:
        await browser.sign_in()
        page = (await browser.get("/")).text
    assert "1 payment will fail within the warning time" in page
    await api.call("PUT", "/settings/foresight.warn_hours", {"value": 0})
    await node.refresh_settings()
    assert await watch.run_once() == 0
