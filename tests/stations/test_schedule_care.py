"""What looks after schedules: standing orders, the audit, new tz data, the book."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from conftest import Api, Clock
from postdate.core.setting.setting import Settings
from postdate.node import schedule as wiring
from postdate.runtime import node as node_store
from postdate.scheduler.audit import Audit
from postdate.scheduler.expander import Expander
from postdate.scheduler.recompute import Recompute
from postdate.tenant.change.tenant import KeyLimits, Tenants
from support.bank import drain as settle_all
from support.bank import settler
from support.log import capture_logs
from support.schedule import book, create, drain, labels, set_to_morning


@pytest.fixture(autouse=True)
async def _morning(clock: Clock) -> AsyncIterator[None]:
    """Start in the morning, and leave no schedule of another test."""
    await set_to_morning(clock)
    yield
    await clock.database.writer.execute("DELETE FROM timer WHERE lane_id = 1")
    await clock.database.writer.execute("UPDATE schedule SET deleted_at = clock()")


@pytest.fixture
def expander(api: Api) -> Expander:
    return Expander(api.node.database, wiring.occurrences(api.node))


async def _events(api: Api, schedule_id: str, kind: str) -> list[dict[str, Any]]:
    rows = await api.node.database.writer.fetch(
        "SELECT data FROM event WHERE subject = $1 AND type = $2", schedule_id, kind
    )
    return [row["data"] for row in rows]


async def _tenant_id(api: Api) -> int:
    number = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    return int(number)


async def _beat(api: Api) -> None:
    """Let a worker be alive: without one, that is the problem, and not what it leaves undone."""
    async with api.node.database.connection() as connection:
        await node_store.beat(connection, uuid4(), "n", ["worker"], "1")


async def _bank(api: Api, amount: int) -> None:
    for name in ("alice", "bob"):
        assert (await api.call("POST", "/accounts", {"account_id": name})).status == 201
    paid = await api.call(
        "POST",
        "/accounts/alice/adjustments",
        {"amount": amount, "reason": "opening"},
        headers={"Idempotency-Key": f"opening-{api.tenant}"},
    )
    assert paid.status == 201, paid.body


def _rent(**fields: Any) -> dict[str, Any]:
    payment = {"from_account_id": "alice", "to_account_id": "bob", "amount": 40}
    return {"every_seconds": 60, "template": {"payment": payment}, **fields}


async def test_a_standing_order_pays_each_time_while_there_is_money(
    api: Api, expander: Expander, clock: Clock
) -> None:
    await _bank(api, 100)
    made = await create(api, **_rent())
    for _ in range(3):
        await clock.advance(60)
        assert await drain(expander) == 1
        await settle_all(settler(api.node.database))
    rows = await book(api, made["schedule_id"])
    assert [row["status"] for row in rows] == ["FIRED"] * 3
    paid = [(await api.call("GET", f"/payments/{row['payment_id']}")).body for row in rows]
    assert [each["status"] for each in paid] == ["COMPLETED", "COMPLETED", "FAILED"]
    assert (await api.call("GET", "/accounts/bob")).body["balance"] == 80
    assert rows[0]["job_id"] is None
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_without_funds_it_keeps_trying_when_asked_to(
    api: Api, expander: Expander, clock: Clock
) -> None:
    await _bank(api, 30)
    made = await create(api, **_rent(insufficient_funds={"policy": "retry", "retry_seconds": 600}))
    await clock.advance(60)
    await drain(expander)
    await settle_all(settler(api.node.database))
    [row] = await book(api, made["schedule_id"])
    path = f"/payments/{row['payment_id']}"
    assert (await api.call("GET", path)).body["status"] == "PENDING"
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_what_would_be_refused_is_labelled_refused_with_its_code(
    api: Api, expander: Expander, clock: Clock
) -> None:
    await _bank(api, 100)
    made = await create(api, **_rent(), max_runs=5)
    frozen = await api.call("POST", "/accounts/alice/freeze", {"reason": "a test"})
    assert frozen.status == 200, frozen.body
    await clock.advance(60)
    await drain(expander)
    [row] = await book(api, made["schedule_id"])
    assert (row["status"], row["code"], row["payment_id"]) == ("REFUSED", "account_frozen", None)
    assert (await api.call("GET", f"/schedules/{made['schedule_id']}")).body["runs"] == 0
    assert await _events(api, made["schedule_id"], "schedule.refused") == [{"count": 1}]
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_a_key_limited_to_accounts_cannot_order_from_others(api: Api) -> None:
    await _bank(api, 100)
    tenants = Tenants(api.node.database)
    scopes = ["schedules:write", "payments:write"]
    issued = await tenants.issue(api.tenant, scopes, limits=KeyLimits(accounts=["bob"]))
    limited = issued.key
    answer = await api.call("POST", "/schedules", _rent(), key=limited)
    assert (answer.status, answer.body["field"]) == (403, "template.payment.from_account_id")


async def test_the_audit_finds_what_the_book_lacks_and_names_the_schedule(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60)
    for _ in range(3):
        await clock.advance(60)
        await drain(expander)
    audit = Audit(api.node.database, Settings())
    assert await audit.run_once() == 0
    # As if an expander had forgotten some: the book skips two occurrences.
    await clock.advance(120)
    await api.node.database.writer.execute(
        "UPDATE schedule SET handled = handled + interval '2 minutes' WHERE schedule_id = $1",
        made["schedule_id"],
    )
    with capture_logs() as logs:
        assert await audit.run_once() == 2
    await api.node.database.writer.execute(
        "UPDATE timer SET due_at = due_at + interval '2 minutes' WHERE subject = $1",
        made["schedule_id"],
    )
    alert = next(each for each in logs if each["event"] == "schedule.missed")
    assert alert["schedule_id"] == made["schedule_id"]
    assert await labels(api, made["schedule_id"]) == ["FIRED"] * 3 + ["MISSED"] * 2
    assert await audit.run_once() == 0
    missed = (await api.call("GET", "/schedules?missed=true")).body["schedules"]
    assert [each["schedule_id"] for each in missed] == [made["schedule_id"]]
    [told] = await _events(api, made["schedule_id"], "schedule.missed")
    assert (told["count"], told["found_by"]) == (2, "audit")
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_the_audit_puts_back_a_lost_timer(api: Api, expander: Expander, clock: Clock) -> None:
    made = await create(api, every_seconds=60)
    await api.node.database.writer.execute(
        "DELETE FROM timer WHERE subject = $1", made["schedule_id"]
    )
    await clock.advance(60)
    assert await drain(expander) == 0
    with capture_logs() as logs:
        await Audit(api.node.database, Settings()).run_once()
    assert [(each["schedule_id"], each["fault"]) for each in logs
            if each["event"] == "schedule.silent"] == [(made["schedule_id"], "lost")]  # fmt: skip
    await drain(expander)
    assert await labels(api, made["schedule_id"]) == ["FIRED"]
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_a_timer_beyond_its_rule_is_put_back(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60)
    await api.node.database.writer.execute(
        "UPDATE timer SET due_at = due_at + interval '1 day' WHERE subject = $1",
        made["schedule_id"],
    )
    await clock.advance(60)
    assert await drain(expander) == 0
    await Audit(api.node.database, Settings()).run_once()
    assert await drain(expander) == 1
    assert await labels(api, made["schedule_id"]) == ["FIRED"]
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_a_schedule_that_nobody_expands_is_a_problem_until_somebody_does(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60)
    audit, watch = Audit(api.node.database, Settings()), api.node.overdue
    await clock.advance(180)
    await audit.run_once()
    await _beat(api)
    await watch.run_once()
    number = await _tenant_id(api)
    assert any("did not fire" in each for each in watch.sentences(number))
    await drain(expander)
    await audit.run_once()
    await watch.run_once()
    assert watch.sentences(number) == []
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_the_schedules_of_a_tenant_that_stands_still_are_no_problem(
    api: Api, clock: Clock
) -> None:
    made = await create(api, every_seconds=60)
    assert (await api.call("PUT", "/kill-switch", {"note": "a test"})).status < 300
    await clock.advance(180)
    await Audit(api.node.database, Settings()).run_once()
    await _beat(api)
    await api.node.overdue.run_once()
    assert api.node.overdue.sentences(await _tenant_id(api)) == []
    await api.call("DELETE", "/kill-switch")
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_new_tz_data_moves_timers_and_reports_the_difference(api: Api) -> None:
    made = await create(api, cron="0 9 * * *", timezone="Europe/Berlin")
    database = api.node.database
    recompute = Recompute(database)
    await recompute.run_once()
    # As if the old data had said an hour later.
    await database.writer.execute(
        "UPDATE timer SET due_at = due_at + interval '1 hour' WHERE subject = $1",
        made["schedule_id"],
    )
    await recompute.run_once()
    path = f"/schedules/{made['schedule_id']}"
    assert (await api.call("GET", path)).body["next_due_at"] != made["next_due_at"]
    await Recompute(database, version="2999a").run_once()
    assert (await api.call("GET", path)).body["next_due_at"] == made["next_due_at"]
    [told] = await _events(api, made["schedule_id"], "schedule.recomputed")
    assert told["tzdata"] == "2999a"
    assert told["after"] != told["before"]
    # A node with older data leaves it alone.
    await recompute.run_once()
    assert await database.writer.fetchval("SELECT version FROM schedule_tzdata") == "2999a"
    await api.call("DELETE", path)


async def test_the_book_keeps_what_ran(api: Api, expander: Expander, clock: Clock) -> None:
    made = await create(api, every_seconds=60)
    await clock.advance(60)
    await drain(expander)
    with pytest.raises(Exception, match="ran and does not change"):
        await api.node.database.writer.execute(
            "UPDATE occurrence SET status = 'MISSED', subject = NULL, kind = NULL"
            " WHERE schedule_id = $1",
            made["schedule_id"],
        )
    with pytest.raises(Exception, match="ran and does not change"):
        await api.node.database.writer.execute("DELETE FROM occurrence")
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_what_the_book_has_already_is_not_fired_again(
    api: Api, expander: Expander, clock: Clock
) -> None:
    made = await create(api, every_seconds=60)
    await clock.advance(60)
    await drain(expander)
    # As after a restore of the schedule's row, or a clock set back.
    await api.node.database.writer.execute(
        "UPDATE schedule SET handled = handled - interval '1 minute' WHERE schedule_id = $1",
        made["schedule_id"],
    )
    await clock.advance(60)
    assert await drain(expander) == 1
    assert await labels(api, made["schedule_id"]) == ["FIRED", "FIRED"]
    jobs = await api.call("GET", f"/jobs?schedule_id={made['schedule_id']}")
    assert len(jobs.body["jobs"]) == 2
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")
