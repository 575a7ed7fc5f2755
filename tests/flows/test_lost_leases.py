"""Leases that ran out are counted by who takes the jobs over, and attempts by class and tier."""

import pytest

from conftest import Api, Clock
from postdate.core.setting.setting import Settings, Stored, validate
from postdate.job.spec.tally import Tally
from postdate.job.spec.verdict import DONE, End, Move
from postdate.tenant.spec.tier import MAX_TIERS, Tiers
from postdate.words.error import RefusedError
from support.metric import scrape

BODY = {"destination": {"type": "worker"}, "lane": "lost", "retry": {"max_attempts": 2}}


async def test_a_lease_that_ran_out_is_counted_by_who_takes_the_job(api: Api, clock: Clock) -> None:
    before = await scrape(api)
    for _ in range(3):
        await api.call("POST", "/jobs", BODY)
    for _ in range(3):
        await api.call("POST", "/lanes/lost/claim", {"max": 3, "lease_seconds": 5})
        await clock.advance(6)
    after = await scrape(api)

    def grown(name: str, **labels: str) -> float:
        key = (name, tuple(sorted(labels.items())))
        return after[key] - before.get(key, 0)

    lost = {"kind": "pull", "class": "lost"}
    # Each job lost two leases: it was tried again after the first, and failed after the second.
    assert grown("postdate_job_lease_lost_total", kind="pull") == 6
    assert grown("postdate_job_retried_total", **lost) == 3
    assert grown("postdate_job_failed_total", **lost) == 3
    assert grown("postdate_job_attempts_total", tier="", **lost) == 6


def test_few_tiers_are_labels_whatever_is_set() -> None:
    stored = [Stored(number, "tenant.tier", f"tier-{number}") for number in range(1, 30)]
    tiers = Tiers(Settings({(one.tenant_id, one.name): one for one in stored}))
    shown = {tiers.of(number) for number in range(1, 30)}
    assert len(shown) == MAX_TIERS + 1
    assert tiers.of(1) == "tier-1"
    assert tiers.of(29) == "other"


def test_attempts_are_counted_by_class_and_tier_and_what_was_not_tried_is_not() -> None:
    tally = Tally(tier_of={1: "gold", 2: ""}.__getitem__)
    late = End(status="FAILED", code="expired", tried=False)
    retried = Move(seconds=1, tried="UNKNOWN", code="timeout")
    tally.recorded([(1, DONE), (1, DONE), (2, DONE), (1, retried), (2, retried), (1, late)])
    tally.recorded([(1, End(status="COMPLETED", http_status=200)), (1, Move(seconds=1))])
    assert tally.attempts == {
        ("completed", "gold"): 3,
        ("completed", ""): 1,
        ("timeout", "gold"): 1,
        ("timeout", ""): 1,
    }


async def test_only_the_operator_gives_a_tier_and_it_is_short(api: Api) -> None:
    answer = await api.call("PUT", "/settings/tenant.tier", {"value": "gold"})
    assert answer.status in {403, 422}, answer.body
    with pytest.raises(RefusedError, match="30 characters"):
        validate("tenant.tier", "x" * 31, tenant_id=1)
    assert validate("tenant.tier", "gold", tenant_id=1) == "gold"
