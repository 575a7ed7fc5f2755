"""Schedules that break: found in their batch and set aside alone, and only for their own fault."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, ClassVar

import pytest

from conftest import Api, Clock, eventually
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection
from postdate.database.connection.error import (
    LockNotAvailableError,
    ServerFaultError,
    UnavailableError,
    UniqueViolationError,
)
from postdate.node import schedule as wiring
from postdate.schedule.change.occurrence import OccurrenceIntake
from postdate.schedule.spec import expansion
from postdate.schedule.spec.firing import Fired, Firing
from postdate.scheduler.audit import Audit
from postdate.scheduler.expander import MAX_STUMBLES, Expander
from postdate.words.error import Refusal
from support.log import capture_logs
from support.schedule import create, drain, labels, set_to_morning


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
    monkeypatch.setattr("postdate.schedule.change.schedule.random.randrange", lambda _: 7)
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


class _Racing(OccurrenceIntake):
    """Something happens in the middle of an expansion, once, before its first statement."""

    happens: ClassVar[list[Callable[[Connection], Awaitable[None]]]] = []

    async def fire(
        self, connection: Connection, firings: Sequence[Firing], now: datetime
    ) -> list[Fired | Refusal]:
        while self.happens:
            await self.happens.pop(0)(connection)
        return await super().fire(connection, firings, now)


def _racing(api: Api, *happens: Callable[[Connection], Awaitable[None]]) -> Expander:
    firings = wiring.occurrences(api.node)
    firings.__class__ = _Racing
    _Racing.happens[:] = happens
    return Expander(api.node.database, firings)


async def test_a_connection_lost_between_two_statements_sets_nothing_aside(
    api: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    [made] = await _neighbours(api, monkeypatch, 1)

    async def lose(connection: Connection) -> None:
        connection.terminate()

    expander = _racing(api, lose)
    await clock.advance(60)
    with pytest.raises(UnavailableError):
        await expander.run_once()
    assert (await _shown(api, made))["status"] == "ACTIVE"

    # The server may not have noticed yet that the session is gone, whose lock is passed over.
    async def expanded() -> bool:
        return await drain(expander) == 1

    await eventually(expanded)
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_a_lock_awaited_at_the_second_look_sets_nothing_aside(
    api: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postdate.scheduler.expander.HELD_SECONDS", -1.0)
    [made] = await _neighbours(api, monkeypatch, 1)

    async def meet(_: Connection) -> None:
        _Racing.happens.append(wait)
        raise UniqueViolationError("the book has it already")

    async def wait(_: Connection) -> None:
        raise LockNotAvailableError("somebody holds the account")

    expander = _racing(api, meet)
    await clock.advance(60)
    with capture_logs():
        await expander.run_once()
    assert (await _shown(api, made))["status"] == "ACTIVE"
    await drain(expander)
    assert (await labels(api, made["schedule_id"]))[0] == "FIRED"
    await api.call("DELETE", f"/schedules/{made['schedule_id']}")


async def test_what_another_node_has_expanded_meanwhile_is_not_set_aside(
    api: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    [made] = await _neighbours(api, monkeypatch, 1)
    set_aside = Expander._set_aside

    async def break_here(_: Connection) -> None:
        raise ValueError("only here")

    async def behind_another(self: Expander, *given: Any) -> int:
        assert await Expander(api.node.database, wiring.occurrences(api.node)).run_once() == 1
        return await set_aside(self, *given)

    monkeypatch.setattr(Expander, "_set_aside", behind_another)
    await clock.advance(60)
    with capture_logs():
        await _racing(api, break_here).run_once()
    assert (await _shown(api, made))["status"] == "ACTIVE"
    assert (await labels(api, made["schedule_id"]))[0] == "FIRED"
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
