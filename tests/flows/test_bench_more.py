"""`postdate bench schedules` and `events`: their small forms run to their end."""

import pytest

from postdate.bench.event import QUICK as FEW_EVENTS
from postdate.bench.event import run as run_events
from postdate.bench.schedule import ARMS
from postdate.bench.schedule import QUICK as FEW_SCHEDULES
from postdate.bench.schedule import run as run_schedules

# The idle arm waits for nothing to happen, which takes its time.
SMALL = ["seal", "deliver", "lag", "queue"]


async def test_schedules_give_their_figures() -> None:
    found = await run_schedules(FEW_SCHEDULES, ["expand"])
    assert {each.arm for each in found} == {"expand"}
    assert all(each.value > 0 for each in found)


@pytest.mark.soak
async def test_all_arms_of_schedules_give_their_figures() -> None:
    found = await run_schedules(FEW_SCHEDULES, [])
    assert {each.arm for each in found} == set(ARMS)
    assert all(each.value > 0 for each in found)


async def test_events_give_their_figures() -> None:
    found = await run_events(FEW_EVENTS, SMALL)
    assert {each.arm for each in found} == set(SMALL)
    assert all(each.value > 0 for each in found)
