"""`postdate bench jobs` measures what it says: its small arms run to their end."""

import pytest

from postdate.bench.job import run
from postdate.bench.testbed import percentile
from postdate.model.error import StartError


async def test_the_arms_without_peers_give_their_figures() -> None:
    found = await run(200, 20_000, ["pending", "webhooks"])
    figures = {(each.arm, each.what): each.value for each in found}
    assert figures["webhooks", "to a local receiver"] > 0
    assert figures["pending", "claim + delete beside 20000"] > 0
    assert {each.held for each in found if each.target} <= {True, False}


async def test_an_unknown_arm_is_named() -> None:
    with pytest.raises(StartError, match="there is no arm nonsense"):
        await run(1, 1, ["nonsense"])


def test_percentiles_are_values_that_occurred() -> None:
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.99) == 4.0
    assert percentile([7.0], 0.01) == 7.0
