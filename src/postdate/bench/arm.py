"""Arms: named parts of a measurement, run one after another on one server."""

import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from postdate.bench.testbed import Measure, Testbed, testbed
from postdate.model.error import StartError

Plan = TypeVar("Plan")
Arm: TypeAlias = Callable[[Testbed, Plan], Awaitable[list[Measure]]]


async def run_arms(arms: Mapping[str, Arm[Plan]], plan: Plan, only: Sequence[str]) -> list[Measure]:
    """Run all arms, or those that were asked for; refuse an unknown name before any work."""
    unknown = set(only) - arms.keys()
    if unknown:
        raise StartError(f"there is no arm {unknown.pop()}: choose among {', '.join(arms)}")
    found: list[Measure] = []
    async with testbed() as at:
        for name, arm in arms.items():
            if not only or name in only:
                print(f"{name} …", file=sys.stderr, flush=True)
                began = time.monotonic()
                found += await arm(at, plan)
                print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return found
