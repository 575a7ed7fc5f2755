"""What looks after schedules: standing orders, the audit, new tz data, schedules that break."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

import pytest

from conftest import Api, Clock
from postdate.intake.schedule.occurrence import OccurrenceIntake
from postdate.intake.tenant.tenant import KeyLimits, Tenants
from postdate.model.error import Refusal
from postdate.model.schedule import expansion
from postdate.model.schedule.firing import Fired, Firing
from postdate.model.setting.setting import Settings
from postdate.node import schedule as wiring
from postdate.scheduler.audit import Audit
from postdate.scheduler.expander import MAX_STUMBLES, Expander
from postdate.scheduler.recompute import Recompute
from postdate.store.connection.database import Connection
from postdate.store.connection.error import ServerFaultError, UnavailableError
from support.bank import drain as settle_all
from support.bank import settler
from support.log import capture_logs
from support.schedule import book, create, drain, labels, set_to_morning


@pytest.fixture(autouse=True)
async def _morning(clock: Clock) -> None:
    await set_to_morning(clock)


@pytest.fixture
def expander(api: Api) -> Expander:
    return Expander(api.node.database, wiring.occurrences(api.node))


async def _events(api: Api, schedule_id: str, kind: str) -> list[dict[str, Any]]:
    rows = await api.node.database.writer.fetch(
        "SELECT data FROM event WHERE subject = $1 AND type = $2", schedule_id, kind
    )
    return [row["data"] for row in rows]


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
    # As if an expander had forgotten one: the book skips an occurrence.
    await api.node.database.writer.execute(
        "UPDATE schedule SET handled = handled + interval '2 minutes' WHERE schedule_id = $1",
        made["schedule_id"],
    )
    with capture_logs() as logs:
        assert await audit.run_once() == 2
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
    assert [each["schedule_id"] for each in logs if each["event"] == "schedule.timer_lost"] == [
        made["schedule_id"]
    ]
    await drain(expander)
    assert await labels(api, made["schedule_id"]) == ["FIRED"]
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


class _Refusing(OccurrenceIntake):
    """Makes jobs, but breaks with an error of its own on those of some schedules."""

    broken: ClassVar[dict[str, Exception]] = {}

    async def fire(
        self, connection: Connection, firings: Sequence[Firing], now: datetime
    ) -> list[Fired | Refusal]:
        for each in firings:
            if error := self.broken.get(str(each.schedule_id)):
                raise error
        return await super().fire(connection, firings, now)


async def _neighbours(api: Api, monkeypatch: pytest.MonkeyPatch, many: int) -> list[dict[str, Any]]:
    """Make schedules that lie in one bucket, so that one batch expands them."""
    monkeypatch.setattr("postdate.intake.schedule.schedule.random.randrange", lambda _: 7)
    return [await create(api, every_seconds=60) for _ in range(many)]


async def _shown(api: Api, made: dict[str, Any]) -> dict[str, Any]:
    return dict((await api.call("GET", f"/schedules/{made['schedule_id']}")).body)


async def test_what_breaks_a_batch_is_found_and_set_aside_and_the_others_fire(
    api: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await _neighbours(api, monkeypatch, 9)
    bad = [made[2], made[6]]
    firings = wiring.occurrences(api.node)
    firings.__class__ = _Refusing
    errors = [ValueError("the template is odd"), RuntimeError("the rule is odd")]
    ids = [each["schedule_id"] for each in bad]
    monkeypatch.setattr(_Refusing, "broken", dict(zip(ids, errors, strict=True)))
    expander = Expander(api.node.database, firings)
    await clock.advance(60)
    with capture_logs():
        assert await drain(expander) == 9
    for each in made:
        seen = await labels(api, each["schedule_id"])
        assert seen == ([] if each in bad else ["FIRED"])
    shown = await _shown(api, bad[0])
    assert shown["status"] == "SET_ASIDE"
    assert shown["set_aside_error"] == "ValueError: the template is odd"
    assert shown["next_due_at"] is None
    [told] = await _events(api, bad[0]["schedule_id"], "schedule.set_aside")
    assert told == {"error": "ValueError: the template is odd"}
    listed = await api.call("GET", "/schedules?set_aside=true")
    assert {each["schedule_id"] for each in listed.body["schedules"]} == set(ids)
    # The audit leaves it alone, and nothing of it is lost when it is resumed after a repair.
    assert await Audit(api.node.database, Settings()).run_once() == 0
    monkeypatch.setattr(_Refusing, "broken", {})
    resumed = await api.call("POST", f"/schedules/{ids[0]}/resume")
    assert (resumed.body["status"], resumed.body["set_aside_error"]) == ("ACTIVE", None)
    changed = await api.call("PATCH", f"/schedules/{ids[1]}", {"overlap": "skip"})
    assert changed.body["status"] == "ACTIVE"
    await drain(expander)
    # On a busy machine another minute may have passed.
    assert [(await labels(api, each))[0] for each in ids] == ["FIRED", "FIRED"]
    for each in made:
        await api.call("DELETE", f"/schedules/{each['schedule_id']}")


async def test_a_faltering_database_sets_nothing_aside(
    api: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    [made] = await _neighbours(api, monkeypatch, 1)
    firings = wiring.occurrences(api.node)
    firings.__class__ = _Refusing
    gone = UnavailableError("the server is gone")
    monkeypatch.setattr(_Refusing, "broken", {made["schedule_id"]: gone})
    expander = Expander(api.node.database, firings)
    await clock.advance(60)
    with pytest.raises(UnavailableError):
        await expander.run_once()
    assert (await _shown(api, made))["status"] == "ACTIVE"
    monkeypatch.setattr(_Refusing, "broken", {})
    assert await drain(expander) == 1
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


@pytest.mark.parametrize("lasts", [False, True], ids=["for a moment", "for good"])
async def test_a_failing_disk_sets_a_schedule_aside_only_if_it_goes_on(
    api: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch, *, lasts: bool
) -> None:
    monkeypatch.setattr("postdate.scheduler.expander.HELD_SECONDS", -1.0)
    [made] = await _neighbours(api, monkeypatch, 1)
    firings = wiring.occurrences(api.node)
    firings.__class__ = _Refusing
    bad = ServerFaultError("could not read block 7: Input/output error")
    monkeypatch.setattr(_Refusing, "broken", {made["schedule_id"]: bad})
    expander = Expander(api.node.database, firings)
    await clock.advance(60)
    with capture_logs():
        for _ in range(MAX_STUMBLES - 1):
            assert await expander.run_once() == 1
        assert (await _shown(api, made))["status"] == "ACTIVE"
        if not lasts:
            monkeypatch.setattr(_Refusing, "broken", {})
        await expander.run_once()
    assert (await _shown(api, made))["status"] == ("SET_ASIDE" if lasts else "ACTIVE")
    assert await labels(api, made["schedule_id"]) == ([] if lasts else ["FIRED"])
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_a_rule_that_cannot_be_computed_is_set_aside_alone(
    api: Api, expander: Expander, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await _neighbours(api, monkeypatch, 3)
    bad = made[1]["schedule_id"]
    computed = expansion.decide

    def decide(segments: Any, progress: Any, *rest: Any) -> Any:
        if str(progress.schedule_id) == bad:
            raise OverflowError("beyond the budget")
        return computed(segments, progress, *rest)

    monkeypatch.setattr("postdate.scheduler.expansion.decide", decide)
    await clock.advance(60)
    with capture_logs():
        assert await drain(expander) == 3
    seen = [await labels(api, each["schedule_id"]) for each in made]
    assert seen == [["FIRED"], [], ["FIRED"]]
    assert (await _shown(api, made[1]))["set_aside_error"] == "OverflowError: beyond the budget"
    for each in made:
        await api.call("DELETE", f"/schedules/{each['schedule_id']}")


async def test_a_schedule_that_cannot_be_read_is_set_aside(
    api: Api, expander: Expander, clock: Clock
) -> None:
    good = await create(api, every_seconds=60)
    owner = api.node.database.writer
    broken = await create(api, every_seconds=60)
    await owner.execute(
        "INSERT INTO schedule_version (bucket, tenant_id, schedule_id, version, name, rule, "
        "policies, template, actor, template_by, persons) SELECT bucket, tenant_id, schedule_id, "
        "2, '', '{\"cron\": 5}', policies, template, 'test', template_by, persons "
        "FROM schedule_version WHERE schedule_id = $1",
        broken["schedule_id"],
    )
    await owner.execute(
        "UPDATE schedule SET version = 2 WHERE schedule_id = $1", broken["schedule_id"]
    )
    await clock.advance(60)
    with capture_logs():
        assert await drain(expander) == 2
        assert await drain(expander) == 0
    assert await labels(api, good["schedule_id"]) == ["FIRED"]
    error = await owner.fetchval(
        "SELECT set_aside_error FROM schedule WHERE schedule_id = $1", broken["schedule_id"]
    )
    assert error.startswith("ValidationError")
    await owner.execute("DELETE FROM timer WHERE lane_id = 1")
    # It can be seen and ended; what needs its definition says that it cannot be read.
    where = f"/schedules/{broken['schedule_id']}"
    assert (await _shown(api, broken))["status"] == "SET_ASIDE"
    listed = await api.call("GET", "/schedules?set_aside=true")
    assert broken["schedule_id"] in {each["schedule_id"] for each in listed.body["schedules"]}
    assert (await api.call("GET", f"{where}/occurrences")).status == 200
    for method, path, body in (
        ("GET", f"{where}/preview", None),
        ("PATCH", where, {"name": "another"}),
        ("POST", f"{where}/trigger", None),
    ):
        refused = await api.call(method, path, body)
        assert (refused.status, "cannot be read" in refused.body["detail"]) == (422, True)
    assert (await api.call("POST", f"{where}/pause", {"note": "broken"})).status == 200
    assert (await api.call("DELETE", where)).status == 204
    assert (await api.call("GET", where)).status == 404


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
    with pytest.raises(Exception, match="permission denied"):
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
