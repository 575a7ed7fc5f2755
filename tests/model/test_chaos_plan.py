"""The plan of `postdate chaos`: a seed decides faults and operations."""

from postdate_lab.chaos import life
from postdate_lab.chaos.plan import FAULTS, ChaosPlan


def test_one_seed_gives_one_plan_and_one_life() -> None:
    plan = ChaosPlan(seed=5, seconds=900)
    assert plan.fault_list() == ChaosPlan(seed=5, seconds=900).fault_list()
    assert plan.fault_list() != ChaosPlan(seed=6, seconds=900).fault_list()
    assert {fault.name for fault in plan.fault_list()} == set(FAULTS)
    zombies = [fault for fault in plan.fault_list() if fault.name == "zombie"]
    assert all(each.seconds >= 2 * plan.lease_seconds for each in zombies)
    drawn = [one for _, one in zip(range(2000), life.operations(5), strict=False)]
    assert drawn == [one for _, one in zip(range(2000), life.operations(5), strict=False)]
    assert len({one.kind for one in drawn}) == 16
    assert all(one.tenant == life.HALTED for one in drawn if one.kind == "halt.turn")
