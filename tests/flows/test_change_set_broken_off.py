"""A change set that is broken off anywhere goes on, and is made and undone once."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import aiohttp
import pytest

from conftest import Api, Clock, eventually
from flows.test_change_set_undo import _account, _held, _left, _pay, _schedule
from flows.test_change_sets import _do, _draft, _jobs
from postdate.change_set.change.lane_operation import LaneOperation
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import CommitUnknownError, UnavailableError
from postdate.http.login_throttle import LoginThrottle
from postdate.key.authentication.identity import Identities
from postdate.node import http as edge
from postdate.tenant.change.tenant import Tenants


async def _everything(api: Api) -> tuple[dict[str, Any], str, list[str]]:
    """Draft one change of each kind that touches something of its own."""
    ids = [*await _jobs(api, "mail", 2), *await _jobs(api, "post", 2)]
    schedule_id = await _schedule(api)
    await _account(api, "rent")
    await _account(api, "ada", 100)
    await _pay(api, 30)
    await _pay(api, 20, 7200)
    near = (datetime.now(UTC) + timedelta(seconds=5000)).isoformat()
    draft = await _draft(
        api,
        {"type": "pause_lane", "lane": "mail"},
        {"type": "limit_lane", "lane": "post", "rate_per_second": 5},
        {"type": "change_policy", "schedule_id": schedule_id, "jitter_seconds": 60},
        {"type": "pause_schedule", "schedule_id": schedule_id},
        {"type": "put_setting", "name": "foresight.warn_hours", "value": 3},
        {"type": "reschedule_jobs", "filter": {"lane": "mail"}, "to": {"delay_seconds": 9000}},
        {"type": "cancel_jobs", "filter": {"lane": "post"}},
        {"type": "cancel_payments", "filter": {"due_before": near}},
        {"type": "reschedule_payments", "filter": {"due_after": near}, "to": {"delay_seconds": 60}},
        {"type": "halt"},
    )
    return draft, schedule_id, ids


async def _state(api: Api, schedule_id: str, ids: list[str]) -> list[Any]:
    """Read all that the set changes, whatever its ids."""
    mail, post = [(await api.call("GET", f"/lanes/{each}")).body for each in ("mail", "post")]
    schedule = (await api.call("GET", f"/schedules/{schedule_id}")).body
    jobs = (await api.call("GET", "/jobs?status=PENDING")).body["jobs"]
    payments = (await api.call("GET", "/payments?status=PENDING")).body["payments"]
    return [
        mail["paused_at"] is None,
        post["rate_per_second"],
        (schedule["jitter_seconds"], schedule.get("paused_note")),
        sorted((each["lane"], each["next_attempt_at"]) for each in jobs),
        sorted((each["amount"], each["scheduled_time"]) for each in payments),
        await _held(api),
        len((await api.call("GET", "/halts")).body["halts"]),
        len(ids),
    ]


@asynccontextmanager
async def _broken(nth: int, moment: str) -> AsyncIterator[None]:
    """Let the nth transaction fail: before it begins, before its commit, or after it."""
    write, numbers = Database.write, itertools.count(1)

    @asynccontextmanager
    async def failing(self: Database, failpoint: str = "") -> AsyncIterator[Connection]:
        number = next(numbers)
        if number == nth and moment == "away":
            raise UnavailableError("away")
        async with write(self, failpoint) as connection:
            yield connection
            if number == nth and moment == "rolled back":
                raise UnavailableError("rolled back")
        if number == nth and moment == "unknown":
            raise CommitUnknownError("the answer is lost")

    Database.write = failing  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Database.write = write  # type: ignore[method-assign]


async def _until_done(
    api: Api, clock: Clock, draft: dict[str, Any], verb: str, nth: int, moment: str
) -> None:
    """Break one transaction of it, then ask again; where its hold was not let go, later."""
    path = f"/change-sets/{draft['change_set_id']}/{verb}"
    async with _broken(nth, moment):
        await api.call("POST", path)
    if (await api.call("POST", path)).status == 409:
        await clock.advance(100)
        assert (await api.call("POST", path)).status == 200


@pytest.mark.parametrize("moment", ["rolled back", "unknown"])
@pytest.mark.parametrize("nth", [2, 7, 11])
async def test_whatever_breaks_between_it_is_made_and_undone_once(
    api: Api, clock: Clock, nth: int, moment: str
) -> None:
    await _breaks(api, clock, nth, moment)


@pytest.mark.soak
@pytest.mark.parametrize("moment", ["away", "rolled back", "unknown"])
async def test_whatever_breaks_anywhere_it_is_made_and_undone_once(
    edge_server: Api, clock: Clock, moment: str
) -> None:
    for nth in range(1, 25):
        tenants, name = Tenants(edge_server.node.database), f"{moment}-{nth}".replace(" ", "-")
        await tenants.create(name)
        key = (await tenants.issue(name, ["admin"])).key
        await _breaks(replace(edge_server, key=key, tenant=name), clock, nth, moment)


async def _breaks(api: Api, clock: Clock, nth: int, moment: str) -> None:
    draft, schedule_id, ids = await _everything(api)
    before = await _state(api, schedule_id, ids)
    await _until_done(api, clock, draft, "apply", nth, moment)
    found = (await api.call("GET", f"/change-sets/{draft['change_set_id']}")).body
    assert [each["state"] for each in found["steps"]] == ["done"] * 10
    assert [each["changed"] for each in found["steps"]] == [0, 0, 0, 0, 0, 2, 2, 1, 1, 0]
    applied = await _state(api, schedule_id, ids)
    assert applied[0] is False
    assert (applied[1], applied[5], applied[6]) == (5, 20, 1)
    await _until_done(api, clock, draft, "undo", nth, moment)
    found = (await api.call("GET", f"/change-sets/{draft['change_set_id']}")).body
    assert (found["status"], _left(found)) == ("UNDONE", [])
    assert await _state(api, schedule_id, ids) == before


async def _two_lanes(api: Api) -> dict[str, Any]:
    await _jobs(api, "mail", 1)
    await _jobs(api, "post", 1)
    return await _draft(
        api, {"type": "pause_lane", "lane": "mail"}, {"type": "pause_lane", "lane": "post"}
    )


def _slow(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Let the second lane wait; return what says that it does, and what lets it go on."""
    make, reached, go_on = LaneOperation.make, asyncio.Event(), asyncio.Event()

    async def slow(self: LaneOperation, work: Any, change: Any) -> None:
        if change.lane == "post" and not reached.is_set():
            reached.set()
            await go_on.wait()
        await make(self, work, change)

    monkeypatch.setattr(LaneOperation, "make", slow)
    return reached, go_on


async def _paused(api: Api) -> list[bool]:
    lanes = [(await api.call("GET", f"/lanes/{lane}")).body for lane in ("mail", "post")]
    return [lane["paused_at"] is not None for lane in lanes]


async def test_a_client_that_hangs_up_stops_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = await _two_lanes(api)
    reached, go_on = _slow(monkeypatch)
    path = f"/change-sets/{draft['change_set_id']}"

    async def ask() -> None:
        headers = {"Authorization": f"Bearer {api.key}"}
        async with aiohttp.ClientSession() as other:
            await other.post(f"{api.url}/api/v1{path}/apply", headers=headers)

    asking = asyncio.create_task(ask())
    await asyncio.wait_for(reached.wait(), 10)
    asking.cancel()
    go_on.set()

    async def applied() -> bool:
        found = (await api.call("GET", path)).body["status"]
        return bool(found == "APPLIED")

    await eventually(applied)
    assert await _paused(api) == [True, True]


async def test_a_request_that_is_cut_off_leaves_a_set_that_goes_on_at_once(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = await _two_lanes(api)
    reached, _ = _slow(monkeypatch)
    identities = Identities(api.node.database, LoginThrottle(free=10**9))
    actor = await identities.authenticate(api.key)
    assert actor is not None
    sets = edge.services(api.node, identities).change_set
    asking = asyncio.create_task(sets.apply(actor, UUID(draft["change_set_id"])))
    await asyncio.wait_for(reached.wait(), 10)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await _paused(api) == [True, False]
    assert (await _do(api, draft, "apply"))["status"] == "APPLIED"
    assert await _paused(api) == [True, True]


async def test_whoever_comes_too_late_changes_nothing(
    api: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _jobs(api, "mail", 1)
    draft = await _draft(api, {"type": "pause_lane", "lane": "mail"})
    make, reached, go_on = LaneOperation.make, asyncio.Event(), asyncio.Event()

    async def slow(self: LaneOperation, work: Any, change: Any) -> None:
        if not reached.is_set():
            reached.set()
            await go_on.wait()
        await make(self, work, change)

    monkeypatch.setattr(LaneOperation, "make", slow)
    path = f"/change-sets/{draft['change_set_id']}"
    asking = asyncio.create_task(api.call("POST", f"{path}/apply"))
    await reached.wait()
    assert (await api.call("POST", f"{path}/apply")).status == 409
    await clock.advance(100)
    for verb in ("apply", "undo"):
        await _do(api, draft, verb)
    go_on.set()
    assert (await asking).status == 409
    assert (await api.call("GET", "/lanes/mail")).body["paused_at"] is None


async def _told(api: Api, change_set_id: str) -> list[tuple[str, str, bool]]:
    """Return the events of a set: verb, who, and whether the newest was sealed with what is now."""
    rows = await api.node.database.writer.fetch(
        "SELECT type, actor, state = state_now(type, tenant_id, subject, data) FROM event "
        "WHERE subject = $1 AND type <> 'change_set.progressed' ORDER BY time, event_id",
        UUID(change_set_id),
    )
    return [(row[0].partition(".")[2], row[1], row[2]) for row in rows]


async def test_every_move_of_a_set_is_sealed_with_its_actor(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _jobs(api, "mail", 1)
    draft = await _draft(api, {"type": "pause_lane", "lane": "mail"})
    change_set_id, who = draft["change_set_id"], draft["created_by"]

    async def die(*_: Any) -> None:
        raise UnavailableError("away")

    with monkeypatch.context() as broken:
        broken.setattr(LaneOperation, "make", die)
        assert (await api.call("POST", f"/change-sets/{change_set_id}/apply")).status == 503
    verbs = ["created", "applying", "broken_off"]
    assert [each[0] for each in await _told(api, change_set_id)] == verbs
    assert (await _told(api, change_set_id))[-1][2]
    for verb, moves in (("apply", ["applying", "applied"]), ("undo", ["undoing", "undone"])):
        await _do(api, draft, verb)
        verbs += moves
        told = await _told(api, change_set_id)
        assert [each[:2] for each in told] == [(each, who) for each in verbs]
        assert told[-1][2]
    await api.node.database.writer.execute(
        "UPDATE change_set SET status = 'APPLIED' WHERE change_set_id = $1", UUID(change_set_id)
    )
    assert not (await _told(api, change_set_id))[-1][2]
