"""Delivering events: at least once, in order per subject, none held up by another."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from conftest import Clock, eventually
from postdate.core.setting.setting import Settings, Stored
from postdate.database.connection.database import Database
from postdate.event.spec.types import EVENT_TYPES
from postdate.event.store import seal
from postdate.http.page import encode_cursor
from postdate.job.spec.job import Queue
from postdate.job.spec.outcome import Completed, Delivery, Failed, Outcome, Throttled, Unknown
from postdate.publisher import deliverer as deliverer_module
from postdate.publisher.deliverer import Deliverer
from postdate.publisher.meter import PublisherMeter
from postdate.subscription.change import Subscriptions
from postdate.subscription.spec import ReplayBody, SubscriptionPauseBody, SubscriptionSpec
from postdate.words.error import RefusedError
from support.event import subjects
from support.subscription import URL, SubscribedTenant, Subscriber, node

PAUSE = SubscriptionPauseBody(paused=True, note="test")
RESUME = SubscriptionPauseBody(paused=False)
ALL = ReplayBody(start="beginning")


@pytest.fixture
async def subscribed(database: Database, tenant_id: int) -> AsyncIterator[SubscribedTenant]:
    async def known(_: Any) -> dict[Any, Any]:
        return {}

    subscriber, settings = Subscriber(), Settings()
    subscriptions = Subscriptions(database, settings, allowed=(), check_names=known)
    made = SubscribedTenant(
        database,
        tenant_id,
        subscriber,
        settings,
        subscriptions,
        node(database, subscriber, settings),
    )
    yield made
    await database.writer.execute("DELETE FROM timer WHERE lane_id = 2")


async def test_events_arrive_in_their_envelope_and_then_nothing_is_left(
    subscribed: SubscribedTenant,
) -> None:
    subscription_id = await subscribed.subscribe("job.*")
    [wanted, _] = await subscribed.tell("job.accepted", "payment.completed")
    await subscribed.run()
    [delivery] = subscribed.subscriber.got
    body = msgspec.json.decode(delivery.payload or b"")
    assert (delivery.job_id, delivery.content_type) == (wanted, "application/cloudevents+json")
    assert (body["id"], body["type"]) == (str(wanted), "job.accepted")
    row = await subscribed.row(subscription_id)
    assert (row.lag_events, row.lag_seconds, await subscribed.timers()) == (0, None, 0)
    assert row.delivered_at is not None
    assert await subscribed.run() == 0


async def test_only_subscriptions_that_match_are_woken(subscribed: SubscribedTenant) -> None:
    for n in range(5):
        await subscribed.subscribe("payment.*", url=f"{URL}/{n}")
    await subscribed.subscribe("job.*")
    await subscribed.run()
    assert await subscribed.timers() == 0
    await subscribed.tell("job.accepted")
    assert await subscribed.timers() == 1
    assert await subscribed.run() == 1


async def test_the_order_of_each_subject_is_kept(subscribed: SubscribedTenant) -> None:
    await subscribed.subscribe()
    things = subjects(subscribed.database, 12)
    kinds = [each for each in EVENT_TYPES if each.startswith(("lane.", "key."))]
    for thing in things:
        await subscribed.tell(*kinds, subject=thing)
    await subscribed.run()
    arrived = [msgspec.json.decode(each.payload or b"") for each in subscribed.subscriber.got]
    for thing in things:
        assert [each["type"] for each in arrived if each["subject"] == str(thing)] == kinds


async def test_many_pages_arrive_without_gap(
    subscribed: SubscribedTenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliverer_module, "PAGE", 7)
    monkeypatch.setattr(seal, "MAX_SCAN", 20)
    await subscribed.subscribe("job.*")
    made = []
    for _ in range(10):
        made += await subscribed.tell(*("job.accepted",) * 5)
        await subscribed.tell(*("payment.completed",) * 5)
    await subscribed.run()
    assert sorted(subscribed.subscriber.ids()) == sorted(made)


async def test_a_dead_subscriber_holds_up_nobody(subscribed: SubscribedTenant) -> None:
    dead, alive = f"{URL}/dead", f"{URL}/alive"
    for url in (dead, alive):
        await subscribed.subscribe("job.*", url=url)
    await subscribed.run()
    subscribed.subscriber.block[dead] = asyncio.Event()
    made = await subscribed.tell("job.accepted")
    await subscribed.deliverer.run_once(64)

    async def arrived() -> bool:
        return subscribed.subscriber.ids(alive) == made

    assert await eventually(arrived)
    assert subscribed.subscriber.ids(dead) == []
    subscribed.subscriber.block[dead].set()
    await subscribed.deliverer.drain()
    assert subscribed.subscriber.ids(dead) == made


async def test_failures_are_tried_again_ever_later(
    subscribed: SubscribedTenant, clock: Clock
) -> None:
    subscribed.subscriber.answers[URL] = lambda _: Failed(code="http_500", error="broken")
    subscription_id = await subscribed.subscribe("job.*")
    made = await subscribed.tell("job.accepted")
    waits = []
    for failures in range(1, 5):
        assert await subscribed.run() == 1
        assert await subscribed.run() == 0
        row = await subscribed.row(subscription_id)
        assert (row.failures, row.lag_events > 0) == (failures, True)
        assert row.error is not None
        assert str(made[0]) in row.error
        waits.append(await _wait(subscribed))
        await clock.advance(waits[-1] + 0.1)
    assert [round(wait) for wait in waits] == [1, 2, 4, 8]
    subscribed.subscriber.answers.clear()
    await subscribed.run()
    row = await subscribed.row(subscription_id)
    assert (subscribed.subscriber.ids(), row.failures, row.error) == (made, 0, None)


async def _wait(subscribed: SubscribedTenant) -> float:
    seconds: float = await subscribed.database.writer.fetchval(
        "SELECT extract(epoch FROM due_at - clock())::float8 FROM timer WHERE tenant_id = $1",
        subscribed.tenant_id,
    )
    return seconds


async def test_a_failure_in_the_middle_loses_nothing(
    subscribed: SubscribedTenant, clock: Clock
) -> None:
    subscription_id = await subscribed.subscribe("job.*")
    await subscribed.run()
    made = [(await subscribed.tell("job.accepted"))[0] for _ in range(20)]
    bad = made[7]
    subscribed.subscriber.answers[URL] = lambda d: (
        Unknown(code="timeout", error="no answer") if d.job_id == bad else Completed()
    )
    await subscribed.run()
    assert set(made[:7]) <= set(subscribed.subscriber.ids())
    before = len(subscribed.subscriber.got)
    await clock.advance(2)
    await subscribed.run()
    assert len(subscribed.subscriber.got) == before, "only the failed one is tried again"
    subscribed.subscriber.answers.clear()
    await clock.advance(5)
    await subscribed.run()
    assert set(subscribed.subscriber.ids()) == set(made)
    assert (await subscribed.row(subscription_id)).lag_events == 0


async def test_what_cannot_mend_itself_is_paused(subscribed: SubscribedTenant) -> None:
    subscribed.subscriber.answers[URL] = lambda _: Failed(
        code="destination_gone", error="410", retryable=False, http_status=410
    )
    subscription_id = await subscribed.subscribe("job.*")
    made = await subscribed.tell("job.accepted")
    await subscribed.run()
    row = await subscribed.row(subscription_id)
    assert row.paused_at is not None
    assert str(made[0]) in (row.paused_note or "")
    assert (await subscribed.timers(), row.lag_events > 0) == (0, True)
    subscribed.subscriber.answers.clear()
    await subscribed.subscriptions.switch(subscribed.who, subscription_id, RESUME)
    await subscribed.run()
    assert subscribed.subscriber.ids() == made


async def test_a_refusal_of_the_receiver_is_tried_again(subscribed: SubscribedTenant) -> None:
    subscribed.subscriber.answers[URL] = lambda _: Failed(
        code="http_422", error="no", retryable=False, http_status=422
    )
    subscription_id = await subscribed.subscribe("job.*")
    await subscribed.tell("job.accepted")
    await subscribed.run()
    row = await subscribed.row(subscription_id)
    assert (row.paused_at, row.failures) == (None, 1)


async def test_a_subscriber_that_fails_for_too_long_is_paused(
    subscribed: SubscribedTenant, clock: Clock
) -> None:
    subscribed.subscriber.answers[URL] = lambda _: Unknown(code="timeout", error="no answer")
    subscribed.settings.replace(
        {(0, "event.max_age_seconds"): Stored(0, "event.max_age_seconds", 60.0)}
    )
    subscription_id = await subscribed.subscribe("job.*")
    await subscribed.tell("job.accepted")
    await subscribed.run()
    await clock.advance(61)
    await subscribed.run()
    assert (await subscribed.row(subscription_id)).paused_at is not None


async def test_waiting_for_a_permit_is_no_failure(
    subscribed: SubscribedTenant, clock: Clock
) -> None:
    subscribed.subscriber.answers[URL] = lambda _: Throttled(seconds=7.0)
    subscription_id = await subscribed.subscribe("job.*")
    made = await subscribed.tell("job.accepted")
    await subscribed.run()
    row = await subscribed.row(subscription_id)
    assert (row.failures, row.error, round(await _wait(subscribed))) == (0, None, 7)
    subscribed.subscriber.answers.clear()
    await clock.advance(8)
    await subscribed.run()
    assert subscribed.subscriber.ids() == made


async def test_a_replay_sends_again_and_can_leave_out(subscribed: SubscribedTenant) -> None:
    subscription_id = await subscribed.subscribe("job.*")
    first = await subscribed.tell("job.accepted")
    await subscribed.run()
    await subscribed.subscriptions.replay(subscribed.who, subscription_id, ALL)
    await subscribed.run()
    assert subscribed.subscriber.ids() == first * 2
    await subscribed.subscriptions.switch(subscribed.who, subscription_id, PAUSE)
    await subscribed.tell("job.accepted")
    await subscribed.subscriptions.replay(subscribed.who, subscription_id, ReplayBody(start="now"))
    await subscribed.subscriptions.switch(subscribed.who, subscription_id, RESUME)
    await subscribed.run()
    assert subscribed.subscriber.ids() == first * 2


async def test_a_replay_wins_over_a_delivery_under_way(subscribed: SubscribedTenant) -> None:
    subscription_id = await subscribed.subscribe("job.*")
    await subscribed.run()
    made = await subscribed.tell("job.accepted")
    subscribed.subscriber.block[URL] = asyncio.Event()
    await subscribed.deliverer.run_once(64)
    await subscribed.subscriptions.replay(subscribed.who, subscription_id, ALL)
    subscribed.subscriber.block.pop(URL).set()
    await subscribed.deliverer.drain()
    await subscribed.run()
    assert subscribed.subscriber.ids() == made * 2


async def test_a_paused_or_deleted_subscription_gets_nothing(subscribed: SubscribedTenant) -> None:
    paused = await subscribed.subscribe("job.*")
    deleted = await subscribed.subscribe("job.*")
    await subscribed.subscriptions.switch(subscribed.who, paused, PAUSE)
    await subscribed.subscriptions.delete(subscribed.who, deleted)
    await subscribed.tell("job.accepted")
    assert (await subscribed.run(), subscribed.subscriber.got) == (0, [])


async def test_a_dead_node_is_taken_over(subscribed: SubscribedTenant, clock: Clock) -> None:
    await subscribed.subscribe("job.*")
    await subscribed.run()
    made = await subscribed.tell("job.accepted")
    subscribed.subscriber.block[URL] = asyncio.Event()
    await subscribed.deliverer.run_once(64)
    for serving in subscribed.deliverer._serving._tasks:
        serving.cancel()
    await asyncio.gather(*subscribed.deliverer._serving._tasks, return_exceptions=True)
    subscribed.subscriber.block.clear()
    other = node(subscribed.database, subscribed.subscriber, subscribed.settings)
    assert await other.run_once(64) == 0
    await clock.advance(31)
    assert await other.run_once(64) == 1
    await other.drain()
    assert subscribed.subscriber.ids() == made


async def test_a_node_that_comes_back_too_late_moves_nothing(
    subscribed: SubscribedTenant, clock: Clock
) -> None:
    subscription_id = await subscribed.subscribe("job.*")
    await subscribed.run()
    made = await subscribed.tell("job.accepted")
    before = (await subscribed.row(subscription_id)).position
    held = subscribed.subscriber.block[URL] = asyncio.Event()
    await subscribed.deliverer.run_once(64)

    async def delivering() -> bool:
        return bool(held._waiters)

    await eventually(delivering)
    await clock.advance(31)
    slow = Subscriber(block={URL: asyncio.Event()})
    other = node(subscribed.database, slow, subscribed.settings)
    assert await other.run_once(64) == 1
    subscribed.subscriber.block.pop(URL).set()
    await subscribed.deliverer.drain()
    assert (await subscribed.row(subscription_id)).position == before, "its lease was lost"
    slow.block.pop(URL).set()
    await other.drain()
    assert (await subscribed.row(subscription_id)).position > before
    assert slow.ids() == subscribed.subscriber.ids() == made


async def test_no_event_slips_past_a_subscription_that_comes_to_rest(
    subscribed: SubscribedTenant,
) -> None:
    """Seal and deliver against each other: what is sealed last is delivered too."""
    await subscribed.subscribe("job.*")
    made: list[UUID] = []
    telling = True

    async def tell_on() -> None:
        nonlocal telling
        for _ in range(60):
            made.extend(await subscribed.tell("job.accepted"))
        telling = False

    async def deliver_on(runner: Deliverer) -> None:
        while telling or await subscribed.timers():
            await runner.run_once(64)
            await runner.drain()
            await asyncio.sleep(0)

    other = node(subscribed.database, subscribed.subscriber, subscribed.settings)
    await asyncio.gather(tell_on(), deliver_on(subscribed.deliverer), deliver_on(other))
    assert set(subscribed.subscriber.ids()) == set(made)
    assert len(subscribed.subscriber.got) == len(made), "nothing failed, so nothing came twice"


async def test_a_subscription_to_accounts_gets_only_their_events(
    subscribed: SubscribedTenant,
) -> None:
    await subscribed.subscribe("account.*", accounts=["alice"])
    await subscribed.tell("account.adjusted", account_id="bob")
    wanted = await subscribed.tell("account.adjusted", account_id="alice")
    await subscribed.run()
    assert subscribed.subscriber.ids() == wanted


async def test_a_subject_of_a_queue_may_carry_the_type(subscribed: SubscribedTenant) -> None:
    got: list[Delivery] = []

    async def queue(delivery: Delivery) -> Outcome:
        got.append(delivery)
        return Completed()

    meter = PublisherMeter(CollectorRegistry())
    runner = Deliverer(subscribed.database, {"queue": queue}, subscribed.settings, uuid4(), meter)
    spec = SubscriptionSpec(
        destination=Queue(name="nats", subject="postdate.{type}"), types=["job.*"]
    )
    await subscribed.subscriptions.create(subscribed.who, spec)
    await subscribed.tell("job.accepted")
    await runner.run_once(64)
    await runner.drain()
    assert [each.destination["subject"] for each in got] == ["postdate.job.accepted"]


async def test_a_position_that_is_not_there_yet_is_refused(subscribed: SubscribedTenant) -> None:
    with pytest.raises(RefusedError, match="invalid_cursor"):
        await subscribed.subscribe("job.*", start=encode_cursor(10**9))
