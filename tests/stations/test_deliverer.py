"""Delivering events: at least once, in order per subject, none held up by another."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from conftest import Clock, eventually
from postdate.intake.subscription.subscription import Subscriptions, SubscriptionSpec
from postdate.model.error import RefusedError
from postdate.model.job.job import Queue
from postdate.model.job.outcome import Completed, Delivery, Failed, Outcome, Throttled, Unknown
from postdate.model.setting.setting import Settings, Stored
from postdate.publisher import deliverer as deliverer_module
from postdate.publisher.deliverer import Deliverer
from postdate.publisher.meter import PublisherMeter
from postdate.store.connection.database import Database
from support.event import subjects
from support.subscription import URL, Ground, Subscriber, node


@pytest.fixture
async def ground(database: Database, tenant_id: int) -> AsyncIterator[Ground]:
    async def known(_: Any) -> dict[Any, Any]:
        return {}

    subscriber, settings = Subscriber(), Settings()
    subscriptions = Subscriptions(database, settings, allowed=(), check_names=known)
    made = Ground(
        database,
        tenant_id,
        subscriber,
        settings,
        subscriptions,
        node(database, subscriber, settings),
    )
    yield made
    await database.writer.execute("DELETE FROM timer WHERE lane_id = 2")


async def test_events_arrive_in_their_envelope_and_then_nothing_is_left(ground: Ground) -> None:
    subscription_id = await ground.subscribe("job.*")
    [wanted, _] = await ground.tell("job.accepted", "payment.completed")
    await ground.run()
    [delivery] = ground.subscriber.got
    body = msgspec.json.decode(delivery.payload or b"")
    assert (delivery.job_id, delivery.content_type) == (wanted, "application/cloudevents+json")
    assert (body["id"], body["type"]) == (str(wanted), "job.accepted")
    row = await ground.row(subscription_id)
    assert (row.lag_events, row.lag_seconds, await ground.timers()) == (0, None, 0)
    assert row.delivered_at is not None
    assert await ground.run() == 0


async def test_only_subscriptions_that_match_are_woken(ground: Ground) -> None:
    for n in range(5):
        await ground.subscribe("payment.*", url=f"{URL}/{n}")
    await ground.subscribe("job.*")
    await ground.run()
    assert await ground.timers() == 0
    await ground.tell("job.accepted")
    assert await ground.timers() == 1
    assert await ground.run() == 1


async def test_the_order_of_each_subject_is_kept(ground: Ground) -> None:
    await ground.subscribe()
    things = subjects(ground.database, 12)
    kinds = [f"job.step_{letter}" for letter in "abcdef"]
    for thing in things:
        await ground.tell(*kinds, subject=thing)
    await ground.run()
    arrived = [msgspec.json.decode(each.payload or b"") for each in ground.subscriber.got]
    for thing in things:
        assert [each["type"] for each in arrived if each["subject"] == str(thing)] == kinds


async def test_many_pages_arrive_without_gap(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliverer_module, "PAGE", 7)
    monkeypatch.setattr(deliverer_module, "MAX_SCAN", 20)
    await ground.subscribe("job.*")
    made = []
    for _ in range(10):
        made += await ground.tell(*("job.accepted",) * 5)
        await ground.tell(*("payment.completed",) * 5)
    await ground.run()
    assert sorted(ground.subscriber.ids()) == sorted(made)


async def test_a_dead_subscriber_holds_up_nobody(ground: Ground) -> None:
    dead, alive = f"{URL}/dead", f"{URL}/alive"
    for url in (dead, alive):
        await ground.subscribe("job.*", url=url)
    await ground.run()
    ground.subscriber.block[dead] = asyncio.Event()
    made = await ground.tell("job.accepted")
    await ground.deliverer.run_once(64)

    async def arrived() -> bool:
        return ground.subscriber.ids(alive) == made

    assert await eventually(arrived)
    assert ground.subscriber.ids(dead) == []
    ground.subscriber.block[dead].set()
    await ground.deliverer.drain()
    assert ground.subscriber.ids(dead) == made


async def test_failures_are_tried_again_ever_later(ground: Ground, clock: Clock) -> None:
    ground.subscriber.answers[URL] = lambda _: Failed(code="http_500", error="broken")
    subscription_id = await ground.subscribe("job.*")
    made = await ground.tell("job.accepted")
    waits = []
    for failures in range(1, 5):
        assert await ground.run() == 1
        assert await ground.run() == 0
        row = await ground.row(subscription_id)
        assert (row.failures, row.lag_events > 0) == (failures, True)
        assert row.error is not None
        assert str(made[0]) in row.error
        waits.append(await _wait(ground))
        await clock.advance(waits[-1] + 0.1)
    assert [round(wait) for wait in waits] == [1, 2, 4, 8]
    ground.subscriber.answers.clear()
    await ground.run()
    row = await ground.row(subscription_id)
    assert (ground.subscriber.ids(), row.failures, row.error) == (made, 0, None)


async def _wait(ground: Ground) -> float:
    seconds: float = await ground.database.writer.fetchval(
        "SELECT extract(epoch FROM due_at - clock())::float8 FROM timer WHERE tenant_id = $1",
        ground.tenant_id,
    )
    return seconds


async def test_a_failure_in_the_middle_loses_nothing(ground: Ground, clock: Clock) -> None:
    subscription_id = await ground.subscribe("job.*")
    await ground.run()
    made = [(await ground.tell("job.accepted"))[0] for _ in range(20)]
    bad = made[7]
    ground.subscriber.answers[URL] = lambda d: (
        Unknown(code="timeout", error="no answer") if d.job_id == bad else Completed()
    )
    await ground.run()
    assert set(made[:7]) <= set(ground.subscriber.ids())
    before = len(ground.subscriber.got)
    await clock.advance(2)
    await ground.run()
    assert len(ground.subscriber.got) == before, "only the failed one is tried again"
    ground.subscriber.answers.clear()
    await clock.advance(5)
    await ground.run()
    assert set(ground.subscriber.ids()) == set(made)
    assert (await ground.row(subscription_id)).lag_events == 0


async def test_what_cannot_mend_itself_is_paused(ground: Ground) -> None:
    ground.subscriber.answers[URL] = lambda _: Failed(
        code="destination_gone", error="410", retryable=False, http_status=410
    )
    subscription_id = await ground.subscribe("job.*")
    made = await ground.tell("job.accepted")
    await ground.run()
    row = await ground.row(subscription_id)
    assert row.paused_at is not None
    assert str(made[0]) in (row.paused_note or "")
    assert (await ground.timers(), row.lag_events > 0) == (0, True)
    ground.subscriber.answers.clear()
    await ground.subscriptions.resume(ground.who, subscription_id)
    await ground.run()
    assert ground.subscriber.ids() == made


async def test_a_refusal_of_the_receiver_is_tried_again(ground: Ground) -> None:
    ground.subscriber.answers[URL] = lambda _: Failed(
        code="http_422", error="no", retryable=False, http_status=422
    )
    subscription_id = await ground.subscribe("job.*")
    await ground.tell("job.accepted")
    await ground.run()
    row = await ground.row(subscription_id)
    assert (row.paused_at, row.failures) == (None, 1)


async def test_a_subscriber_that_fails_for_too_long_is_paused(ground: Ground, clock: Clock) -> None:
    ground.subscriber.answers[URL] = lambda _: Unknown(code="timeout", error="no answer")
    ground.settings.replace(
        {(0, "event.max_age_seconds"): Stored(0, "event.max_age_seconds", 60.0)}
    )
    subscription_id = await ground.subscribe("job.*")
    await ground.tell("job.accepted")
    await ground.run()
    await clock.advance(61)
    await ground.run()
    assert (await ground.row(subscription_id)).paused_at is not None


async def test_waiting_for_a_permit_is_no_failure(ground: Ground, clock: Clock) -> None:
    ground.subscriber.answers[URL] = lambda _: Throttled(seconds=7.0)
    subscription_id = await ground.subscribe("job.*")
    made = await ground.tell("job.accepted")
    await ground.run()
    row = await ground.row(subscription_id)
    assert (row.failures, row.error, round(await _wait(ground))) == (0, None, 7)
    ground.subscriber.answers.clear()
    await clock.advance(8)
    await ground.run()
    assert ground.subscriber.ids() == made


async def test_a_replay_sends_again_and_can_leave_out(ground: Ground) -> None:
    subscription_id = await ground.subscribe("job.*")
    first = await ground.tell("job.accepted")
    await ground.run()
    await ground.subscriptions.replay(ground.who, subscription_id, 0)
    await ground.run()
    assert ground.subscriber.ids() == first * 2
    await ground.subscriptions.pause(ground.who, subscription_id, "test")
    await ground.tell("job.accepted")
    await ground.subscriptions.replay(ground.who, subscription_id, None)
    await ground.subscriptions.resume(ground.who, subscription_id)
    await ground.run()
    assert ground.subscriber.ids() == first * 2


async def test_a_replay_wins_over_a_delivery_under_way(ground: Ground) -> None:
    subscription_id = await ground.subscribe("job.*")
    await ground.run()
    made = await ground.tell("job.accepted")
    ground.subscriber.block[URL] = asyncio.Event()
    await ground.deliverer.run_once(64)
    await ground.subscriptions.replay(ground.who, subscription_id, 0)
    ground.subscriber.block.pop(URL).set()
    await ground.deliverer.drain()
    await ground.run()
    assert ground.subscriber.ids() == made * 2


async def test_a_paused_or_deleted_subscription_gets_nothing(ground: Ground) -> None:
    paused = await ground.subscribe("job.*")
    deleted = await ground.subscribe("job.*")
    await ground.subscriptions.pause(ground.who, paused, "test")
    await ground.subscriptions.delete(ground.who, deleted)
    await ground.tell("job.accepted")
    assert (await ground.run(), ground.subscriber.got) == (0, [])


async def test_a_dead_node_is_taken_over(ground: Ground, clock: Clock) -> None:
    await ground.subscribe("job.*")
    await ground.run()
    made = await ground.tell("job.accepted")
    ground.subscriber.block[URL] = asyncio.Event()
    await ground.deliverer.run_once(64)
    for serving in ground.deliverer._serving:
        serving.cancel()
    await asyncio.gather(*ground.deliverer._serving, return_exceptions=True)
    ground.subscriber.block.clear()
    other = node(ground.database, ground.subscriber, ground.settings)
    assert await other.run_once(64) == 0
    await clock.advance(31)
    assert await other.run_once(64) == 1
    await other.drain()
    assert ground.subscriber.ids() == made


async def test_no_event_slips_past_a_subscription_that_comes_to_rest(ground: Ground) -> None:
    """Seal and deliver against each other: what is sealed last is delivered too."""
    await ground.subscribe("job.*")
    made: list[UUID] = []
    telling = True

    async def tell_on() -> None:
        nonlocal telling
        for _ in range(60):
            made.extend(await ground.tell("job.accepted"))
        telling = False

    async def deliver_on(runner: Deliverer) -> None:
        while telling or await ground.timers():
            await runner.run_once(64)
            await runner.drain()
            await asyncio.sleep(0)

    other = node(ground.database, ground.subscriber, ground.settings)
    await asyncio.gather(tell_on(), deliver_on(ground.deliverer), deliver_on(other))
    assert set(ground.subscriber.ids()) == set(made)
    assert len(ground.subscriber.got) == len(made), "nothing failed, so nothing came twice"


async def test_accounts_choose_payments(ground: Ground) -> None:
    await ground.subscribe("account.*", accounts=["alice"])
    await ground.tell("account.adjusted", account_id="bob")
    wanted = await ground.tell("account.adjusted", account_id="alice")
    await ground.run()
    assert ground.subscriber.ids() == wanted


async def test_a_subject_of_a_queue_may_carry_the_type(ground: Ground) -> None:
    got: list[Delivery] = []

    async def queue(delivery: Delivery) -> Outcome:
        got.append(delivery)
        return Completed()

    meter = PublisherMeter(CollectorRegistry())
    runner = Deliverer(ground.database, {"queue": queue}, ground.settings, uuid4(), meter)
    spec = SubscriptionSpec(
        destination=Queue(name="nats", subject="postdate.{type}"), types=["job.*"]
    )
    await ground.subscriptions.create(ground.who, spec)
    await ground.tell("job.accepted")
    await runner.run_once(64)
    await runner.drain()
    assert [each.destination["subject"] for each in got] == ["postdate.job.accepted"]


async def test_a_position_that_is_not_there_yet_is_refused(ground: Ground) -> None:
    with pytest.raises(RefusedError, match="invalid_cursor"):
        await ground.subscribe("job.*", position=10**9)
