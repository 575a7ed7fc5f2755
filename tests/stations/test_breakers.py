"""Breakers as deliveries meet them: whose they are, and who goes by them."""

import time

from postdate.database.connection.database import Database
from postdate.delivery.breaker import FAILURES, Health
from postdate.job.spec.outcome import Completed, Failed, Throttled
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.tenant.change.tenant import Tenants
from support.hostile_receiver import hostile, status
from support.webhook import delivery, destination, setup


async def test_a_path_that_fails_holds_back_no_other_path_of_its_host() -> None:
    async with hostile(status(500)) as bad, setup() as calls:
        for number in range(FAILURES):  # the query names the job, not the place
            assert isinstance(await calls.deliver(delivery(f"{bad.url}?job={number}")), Failed)
        held = await calls.deliver(delivery(bad.url))
        assert isinstance(held, Throttled)
        assert held.reason == "breaker_open"
        seen = len(bad.requests)
        assert isinstance(await calls.deliver(delivery(f"{bad.url}/other")), Failed)
        assert len(bad.requests) == seen + 1


async def test_a_destination_that_is_up_and_refuses_everything_has_no_success() -> None:
    """Its breaker stays closed, for it is not down; but no call to it was good."""
    async with hostile(status(404)) as strict, setup() as calls:
        for _ in range(FAILURES + 1):
            assert isinstance(await calls.deliver(delivery(strict.url)), Failed)
        breakers = calls.webhook.breakers
        assert breakers.reports(time.monotonic()) == {}
        [report] = breakers.calls.reports(time.monotonic()).values()
    assert (report.calls, report.successes) == (FAILURES + 1, 0)
    assert report.answers[-1].answer.startswith("http_404")


async def test_a_trial_goes_by_an_open_breaker_and_a_good_one_closes_it() -> None:
    named = delivery(destination={"type": "webhook", "name": "crm"})
    async with hostile(status(500)) as bad, hostile(status(200)) as good, setup() as calls:
        calls.destinations["crm"] = destination(name="crm", url=bad.url)
        for _ in range(FAILURES):
            await calls.deliver(named)
        assert isinstance(await calls.deliver(named), Throttled)
        assert isinstance(await calls.webhook.attempt(named), Failed)
        assert isinstance(await calls.deliver(named), Throttled)
        calls.destinations["crm"] = destination(name="crm", url=good.url)
        assert isinstance(await calls.webhook.attempt(named), Completed)
        assert isinstance(await calls.deliver(named), Completed)


async def test_a_destination_that_one_node_found_in_trouble_is_spared_by_the_others(
    database: Database,
) -> None:
    settings = ProcessSettings(secret_key="5e" * 32)
    first, second = (Node(settings=settings, database=database, roles=["worker"]) for _ in "ab")
    key = (await Tenants(database).create("spared"), "crm")
    for node in (first, second):
        assert node.outgoing.webhook.breakers.admit(key, time.monotonic()) == 0
    for _ in range(FAILURES):
        now = time.monotonic()
        first.outgoing.webhook.breakers.record(key, now, now, Health.BUSY, 30)
    teller = next(loop for loop in first.housekeeping() if loop.name == "troubles")
    await teller._run_once(1)
    await second.refresh_settings()
    assert second.outgoing.webhook.breakers.admit(key, time.monotonic()) > 20
    assert second.outgoing.webhook.breakers.reports(time.monotonic()) == {}
    for node in (first, second):
        await node.close()
