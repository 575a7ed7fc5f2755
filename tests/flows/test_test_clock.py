"""A test clock: a tenant's time stands still until it is advanced; then all happens in order."""

from datetime import timedelta

import msgspec
import pytest
from aiohttp import web

from conftest import Api, Clock
from postdate.change_set.change.change_set import ChangeSets
from postdate.change_set.change.lane_operation import LaneOperation
from postdate.database.connection.error import UnavailableError
from postdate.prover.checker import prove
from support.clock_bench import START, Bench, instant, new_bench, told
from support.plain_browser import Browser
from support.receiver import Receiver


@pytest.fixture
async def bench(api: Api) -> Bench:
    return await new_bench(api)


async def test_time_stands_still_until_it_is_advanced(bench: Bench, receiver: Receiver) -> None:
    job = await bench.make(
        "/jobs",
        {"delay_seconds": 3600, "destination": {"type": "webhook", "url": receiver.url("/a")}},
    )
    assert instant(job["due_at"]) == START + timedelta(hours=1)
    assert instant(job["created_at"]) == START
    assert await bench.now() == START
    assert await bench.advance("59m59s") == []
    assert receiver.arrivals == []
    entries = await bench.advance("1s")
    assert told(entries) == [("1:00:00", "job.completed")]
    assert len(receiver.arrivals) == 1
    shown = (await bench.call("GET", f"/jobs/{job['job_id']}")).body
    assert shown["status"] == "COMPLETED"


async def test_retries_wait_by_the_test_clock(bench: Bench, receiver: Receiver) -> None:
    answers = iter([500, 503, 200])

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=next(answers))

    receiver.script("/a", answer)
    retry = {"max_attempts": 5, "initial_seconds": 60}
    job = await bench.make(
        "/jobs",
        {
            "delay_seconds": 60,
            "destination": {"type": "webhook", "url": receiver.url("/a")},
            "retry": retry,
        },
    )
    entries = await bench.advance("1d")
    assert [kind for _, kind in told(entries)] == ["job.retried", "job.retried", "job.completed"]
    times = [instant(entry["at"]) for entry in entries]
    assert times[0] == START + timedelta(seconds=60)
    attempts = (await bench.call("GET", f"/jobs/{job['job_id']}/attempts")).body["attempts"]
    assert [instant(each["started_at"]) for each in attempts] == times
    assert instant(attempts[0]["retry_at"]) == times[1]
    assert instant(attempts[1]["retry_at"]) == times[2]
    assert times[1] > times[0]
    assert [arrival.path for arrival in receiver.arrivals] == ["/a"] * 3


async def test_things_happen_in_the_order_of_their_due_times(
    bench: Bench, receiver: Receiver
) -> None:
    await bench.accounts(payer=1000, payee=0)
    for seconds in (50, 10, 30):
        await bench.make(
            "/jobs",
            {
                "delay_seconds": seconds,
                "destination": {"type": "webhook", "url": receiver.url(f"/{seconds}")},
            },
        )
    for seconds in (20, 40):
        await bench.make(
            "/payments/schedule",
            {
                "from_account_id": "payer",
                "to_account_id": "payee",
                "amount": seconds,
                "delay_seconds": seconds,
            },
        )
    entries = await bench.advance("1m")
    assert told(entries) == [
        ("0:00:10", "job.completed"),
        ("0:00:20", "payment.completed"),
        ("0:00:30", "job.completed"),
        ("0:00:40", "payment.completed"),
        ("0:00:50", "job.completed"),
    ]
    assert [arrival.path for arrival in receiver.arrivals] == ["/10", "/30", "/50"]
    assert [entry["number"] for entry in entries] == [1, 2, 3, 4, 5]
    assert await bench.now() == START + timedelta(minutes=1)


async def test_a_schedule_keeps_its_wall_clock_across_dst(api: Api, receiver: Receiver) -> None:
    bench = await new_bench(api, clock_at="2027-03-26T00:00:00Z")
    schedule = await bench.make(
        "/schedules",
        {
            "cron": "30 8 * * *",
            "timezone": "Europe/Berlin",
            "template": {"job": {"destination": {"type": "webhook", "url": receiver.url("/a")}}},
        },
    )
    entries = await bench.advance("4d")  # 28 March 2027: clocks go forward
    hours = [instant(e["at"]).hour for e in entries if e["type"] == "job.completed"]
    assert hours == [7, 7, 6, 6]
    assert len(receiver.arrivals) == 4
    book = await bench.call("GET", f"/schedules/{schedule['schedule_id']}/occurrences?limit=100")
    statuses = {each["status"] for each in book.body["occurrences"]}
    assert statuses == {"FIRED"}


async def test_payments_settle_in_order_and_fail_without_funds(bench: Bench) -> None:
    await bench.accounts(payer=100, payee=0)

    async def pay(seconds: int, amount: int, payer: str, payee: str) -> None:
        body = {"from_account_id": payer, "to_account_id": payee, "amount": amount}
        funding = {"funding": "at_execution", "delay_seconds": seconds}
        await bench.make("/payments/schedule", body | funding)

    await pay(30, 80, "payer", "payee")  # there are 40 left by then
    await pay(10, 60, "payer", "payee")
    await pay(20, 50, "payer", "payee")  # one too many
    await pay(40, 60, "payee", "payer")  # gives back what the next one needs
    await pay(40, 100, "payer", "payee")
    entries = await bench.advance("1m")
    kinds = [kind for _, kind in told(entries)]
    assert kinds[:3] == ["payment.completed", "payment.failed", "payment.failed"]
    assert entries[1]["outcome"]["code"] == "insufficient_funds"
    assert await bench.balance("payer") + await bench.balance("payee") == 100
    assert kinds[3] == "payment.completed"


async def test_a_payment_waits_for_its_money_until_its_deadline(bench: Bench) -> None:
    await bench.accounts(payer=0, payee=0)
    until = START + timedelta(hours=3)
    await bench.make(
        "/payments/schedule",
        {
            "from_account_id": "payer",
            "to_account_id": "payee",
            "amount": 10,
            "delay_seconds": 3600,
            "funding": "at_execution",
            "on_insufficient": {"retry_until": until.isoformat()},
        },
    )
    entries = await bench.advance("2h")
    assert {kind for _, kind in told(entries)} == {"payment.retried"}
    entries = await bench.advance("2h")
    assert told(entries)[-1] == ("3:00:00", "payment.failed")


async def test_an_approval_expires_by_the_test_clock(bench: Bench) -> None:
    await bench.accounts(payer=1000, payee=0)
    for name, value in (("payment.approval_above", 100), ("payment.approval_seconds", 86_400)):
        answer = await bench.call("PUT", f"/settings/{name}", {"value": value})
        assert answer.status in {200, 204}, answer.body
    await bench.api.node.refresh_settings()
    payment = await bench.make(
        "/payments/schedule",
        {
            "from_account_id": "payer",
            "to_account_id": "payee",
            "amount": 500,
            "delay_seconds": 60,
        },
    )
    entries = await bench.advance("23h")
    assert entries == []
    entries = await bench.advance("2h")
    assert told(entries) == [("1 day, 0:00:00", "payment.failed")]
    shown = (await bench.call("GET", f"/payments/{payment['payment_id']}")).body
    assert shown["status"] == "FAILED"
    assert (await bench.call("GET", "/accounts/payer")).body["held"] == 0


async def test_the_lease_of_a_worker_ends_by_the_test_clock(bench: Bench) -> None:
    job = await bench.make(
        "/jobs", {"delay_seconds": 60, "lane": "mail", "destination": {"type": "worker"}}
    )
    claim = {"max": 1, "lease_seconds": 30, "wait_seconds": 0}
    assert (await bench.call("POST", "/lanes/mail/claim", claim)).body["leases"] == []
    assert told(await bench.advance("60s")) == [("0:01:00", "job.ready")]
    [lease] = (await bench.call("POST", "/lanes/mail/claim", claim)).body["leases"]
    assert instant(lease["lease_until"]) == START + timedelta(seconds=90)
    assert await bench.advance("29s") == []
    assert (await bench.call("POST", "/lanes/mail/claim", claim)).body["leases"] == []
    entries = await bench.advance("1s")
    assert told(entries) == [("0:01:30", "lease.expired")]
    assert entries[0]["id"] == job["job_id"]
    [again] = (await bench.call("POST", "/lanes/mail/claim", claim)).body["leases"]
    assert again["attempt"] == 2
    late = await bench.call("POST", f"/leases/{job['job_id']}/complete", {"token": lease["token"]})
    assert late.body["code"] == "lease_lost"
    done = await bench.call("POST", f"/leases/{job['job_id']}/complete", {"token": again["token"]})
    assert done.status == 200


async def test_a_job_expires_by_the_test_clock(bench: Bench, receiver: Receiver) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=500)

    receiver.script("/a", answer)
    await bench.make(
        "/jobs",
        {
            "delay_seconds": 60,
            "destination": {"type": "webhook", "url": receiver.url("/a")},
            "expires_at": (START + timedelta(hours=1)).isoformat(),
            "retry": {"max_attempts": 50},
        },
    )
    entries = await bench.advance("1d")
    assert entries[-1]["type"] == "job.failed"
    assert instant(entries[-1]["at"]) <= START + timedelta(hours=1)


async def test_subscriptions_are_served_by_the_test_clock(bench: Bench, receiver: Receiver) -> None:
    up = [False]

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=200 if up[0] else 500)

    receiver.script("/events", answer)
    await bench.accounts(payer=100, payee=0)
    await bench.make(
        "/subscriptions",
        {
            "destination": {"type": "webhook", "url": receiver.url("/events")},
            "types": ["payment.completed"],
        },
    )
    body = {"from_account_id": "payer", "to_account_id": "payee", "amount": 5}
    await bench.make("/payments/schedule", body | {"delay_seconds": 60})
    entries = await bench.advance("90s")
    kinds = [kind for _, kind in told(entries)]
    assert kinds[:2] == ["payment.completed", "subscription.failed"]
    assert told(entries)[1][0] == "0:01:00"
    up[0] = True
    entries = await bench.advance("1h")
    assert told(entries)[-1][1] == "subscription.delivered"
    sent = msgspec.json.decode(receiver.arrivals[-1].body)
    assert (sent["type"], instant(sent["time"])) == (
        "payment.completed",
        START + timedelta(seconds=60),
    )


async def test_a_freeze_ends_by_the_test_clock(bench: Bench) -> None:
    await bench.accounts(payer=100, payee=0)
    body = {"from_account_id": "payer", "to_account_id": "payee", "amount": 5}
    await bench.make("/payments/schedule", body | {"delay_seconds": 60})
    until = (START + timedelta(hours=1)).isoformat()
    answer = await bench.call(
        "PUT", "/freeze", {"mode": "hold", "until": until, "note": "inventory"}
    )
    assert answer.status in {200, 201, 204}, answer.body
    assert "payment.completed" not in {e["type"] for e in await bench.advance("59m")}
    entries = await bench.advance("1m")
    assert ("1:00:00", "payment.completed") in told(entries)


async def test_the_console_shows_the_test_clock(bench: Bench) -> None:
    await bench.advance("90m")
    async with Browser(bench.api) as browser:
        await browser.sign_in(bench.key)
        for page in ("/", "/jobs", "/payments"):
            seen = await browser.get(page)
            assert seen.status == 200
            assert "test clock 2027-01-01 01:30:00 UTC" in seen.text


PAUSE = {"changes": [{"type": "pause_lane", "lane": "mail"}]}


async def _mail_lane(bench: Bench) -> None:
    far = {"delay_seconds": 300 * 86400, "destination": {"type": "worker"}, "lane": "mail"}
    await bench.make("/jobs", far)


async def test_change_sets_are_forgotten_by_the_test_clock_and_nothing_is_missing(
    bench: Bench,
) -> None:
    await _mail_lane(bench)
    for by in ("8d", "1d"):
        await bench.make("/change-sets", PAUSE)
        await bench.advance(by)
    await bench.make("/change-sets", PAUSE)
    assert len((await bench.call("GET", "/change-sets")).body["change_sets"]) == 2
    findings = (await prove(bench.api.node.database)).findings
    assert [each for each in findings if each.check == "change_set_is_as_sealed"] == []


async def test_a_node_that_died_does_not_hold_a_change_set_until_the_clock_is_advanced(
    bench: Bench, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _mail_lane(bench)
    made = await bench.make("/change-sets", PAUSE)

    async def dies(*_: object) -> None:
        raise UnavailableError("the node is gone")

    with monkeypatch.context() as dead:
        dead.setattr(LaneOperation, "make", dies)
        dead.setattr(ChangeSets, "_break_off", dies)
        where = f"/change-sets/{made['change_set_id']}/apply"
        assert (await bench.call("POST", where)).status == 503
    assert (await bench.call("POST", where)).status == 409
    await clock.advance(100)
    assert (await bench.call("POST", where)).body["status"] == "APPLIED"
