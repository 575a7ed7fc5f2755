"""Which payments will fail, from the API: stored ones and those that schedules will make."""

from conftest import Api
from support.plain_browser import Browser


async def _account(api: Api, name: str, amount: int = 0) -> None:
    assert (await api.call("POST", "/accounts", {"account_id": name})).status == 201
    if amount:
        body, headers = {"amount": amount, "reason": "start"}, {"Idempotency-Key": name}
        made = await api.call("POST", f"/accounts/{name}/adjustments", body, headers=headers)
        assert made.status == 201, made.body


async def test_failing_payments_are_named_with_when_and_why(api: Api) -> None:
    await _account(api, "rent", 0)
    await _account(api, "ada", 250)
    pay = {"from_account_id": "ada", "to_account_id": "rent", "amount": 100}
    made = await api.call(
        "POST", "/schedules", {"every_seconds": 86_400, "template": {"payment": pay}}
    )
    assert made.status == 201, made.body
    held = {**pay, "amount": 50, "delay_seconds": 3600}
    headers = {"Idempotency-Key": "once"}
    assert (await api.call("POST", "/payments/schedule", held, headers=headers)).status == 201
    found = (await api.call("GET", "/foresight/money?account_id=ada")).body
    assert (found["balance"], found["available"], found["completed"]) == (250, 200, 3)
    assert found["end"]["balance"] == 0
    assert found["lowest"]["available"] == 0
    assert found["failing_count"] in {27, 28}
    first = found["failing"][0]
    assert (first["code"], first["available"]) == ("insufficient_funds", 0)
    assert first["schedule_id"] == made.body["schedule_id"]
    assert found["first_short_at"] == first["due_at"] == found["first_failing_at"]
    everything = (await api.call("GET", "/foresight/money")).body
    assert everything["failing_count"] == found["failing_count"]
    assert (await api.call("GET", "/foresight/money?account_id=bob")).status == 404
    assert (await api.call("GET", "/accounts/ada")).body["balance"] == 250
    async with Browser(api) as browser:
        await browser.sign_in()
        page = await browser.get("/foresight?window=month")
        assert "insufficient funds" in page.text
        assert "27 of" in page.text or "28 of" in page.text or "29 of" in page.text
