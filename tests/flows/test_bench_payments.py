"""`postdate bench payments` measures what it says: its small form runs to its end."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from postdate.bench.loader import Order, requests
from postdate.bench.payment import ARMS, QUICK, run
from postdate.bench.transfer import pairs, pgledger_scripts
from postdate.model.error import StartError

# The other arms start servers of their own, which costs more than it shows.
SMALL = ["settle", "bulk", "pending"]
TINY = replace(QUICK, settled=400, naive=40, bulk=400, pending=6400)


async def test_the_small_form_gives_its_figures() -> None:
    found = await run(TINY, SMALL)
    figures = {(each.arm, each.what): each for each in found}
    assert set(SMALL) <= set(ARMS)
    for name in ("postdate", "limit", "naive, 16 clients"):
        assert figures["settle", name].value > 0
        assert figures["settle, hot", name].value > 0
    assert figures["bulk", "POST /payments/batch"].value > 0
    assert figures["pending", "ratio"].value > 0


@pytest.mark.soak
async def test_a_spike_is_neither_early_nor_lost() -> None:
    figures = {(each.arm, each.what): each for each in await run(QUICK, ["spike"])}
    # What is a matter of right and wrong holds on any machine.
    for name in ("early", "lost", "deadlocks"):
        assert figures["spike", name].held


async def test_an_unknown_arm_is_named() -> None:
    with pytest.raises(StartError, match="there is no arm nonsense"):
        await run(QUICK, ["nonsense"])


def test_a_place_without_pgledger_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="no checkout of pgledger"):
        pgledger_scripts(tmp_path)


def test_nobody_pays_himself() -> None:
    names = ["hot", "a", "b", "c"]
    thrown = pairs(names, 1000, hot=False)
    assert thrown
    assert all(a != b and "hot" not in (a, b) for a, b in thrown)
    assert {b for _, b in pairs(names, 10, hot=True)} == {"hot"}


@pytest.mark.parametrize(("kind", "count"), [("schedule", 1500), ("batch", 2), ("status", 1500)])
def test_a_load_sends_what_was_ordered(kind: Any, count: int) -> None:
    names = ["hot", "a", "b"]
    order = Order(url="", key="", kind=kind, count=1500, accounts=names, payment_ids=["x"])
    assert len(list(requests(order))) == count
