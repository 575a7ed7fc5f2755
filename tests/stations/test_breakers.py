"""Breakers as deliveries meet them: whose they are, and who goes by them."""

from postdate.delivery.breaker import FAILURES
from postdate.model.job.outcome import Completed, Failed, Throttled
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
