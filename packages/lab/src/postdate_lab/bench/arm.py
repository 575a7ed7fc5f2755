"""Arms: named parts of a measurement, run one after another on one server."""

import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from postdate.words.error import StartError
from postdate_lab.bench.testbed import Measure, Testbed, testbed


class Rounds(Protocol):
    """A plan that says how often an arm takes its turn."""

    @property
    def rounds(self) -> int:
        """Return how often."""


MAX_SAID: Final = 300
"""The most characters of an error in a table, of which it is one cell."""

Plan = TypeVar("Plan")
Repeatable = TypeVar("Repeatable", bound=Rounds)
Arm: TypeAlias = Callable[[Testbed, Plan], Awaitable[list[Measure]]]


def show_progress(text: str) -> None:
    """Show how far a measurement is."""
    print(text, file=sys.stderr, flush=True)


def repeated(arm: Arm[Repeatable]) -> Arm[Repeatable]:
    """Run an arm for each round of its plan; its figures are the middle ones."""

    async def rounds(at: Testbed, plan: Repeatable) -> list[Measure]:
        found = []
        for number in range(plan.rounds):
            found.append(await arm(at, plan))
            show_progress(f"  round {number + 1} of {plan.rounds}")
        return middle(found)

    return rounds


def middle(rounds: Sequence[Sequence[Measure]]) -> list[Measure]:
    """Choose the middle one of each figure, and keep the extremes beside it."""
    found = []
    for figures in zip(*rounds, strict=True):
        value = statistics.median_low([each.value for each in figures])
        chosen = next(each for each in figures if each.value == value)
        low, high = (pick(each.value for each in figures) for pick in (min, max))
        found.append(msgspec.structs.replace(chosen, low=low, high=high))
    return found


@dataclass(slots=True, frozen=True)
class Suite(Generic[Plan]):
    """Arms that follow one plan; the quick one shows that everything runs, not how fast."""

    arms: Mapping[str, Arm[Plan]]
    plan: Plan
    quick: Plan

    async def run(self, plan: Plan, only: Sequence[str] = ()) -> list[Measure]:
        """Run all arms on one server, or those asked for; refuse an unknown name at once."""
        unknown = set(only) - self.arms.keys()
        if unknown:
            known = ", ".join(self.arms)
            raise StartError(f"there is no arm {unknown.pop()}: choose among {known}")
        found: list[Measure] = []
        chosen = [name for name in self.arms if not only or name in only]
        async with testbed() as at:
            for number, name in enumerate(chosen, 1):
                show_progress(f"{name} … ({number} of {len(chosen)})")
                began = time.monotonic()
                found += await or_missed(name, self.arms[name](at, plan))
                show_progress(f"{name}: {time.monotonic() - began:.0f} s")
        return found


async def or_missed(name: str, running: Awaitable[list[Measure]]) -> list[Measure]:
    """Return the figures of an arm; one that fails costs a long run no other arm's figures."""
    try:
        return await running
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown as a goal missed
        said = " ".join(str(error).split())[:MAX_SAID].replace("|", "/")
        why = f"failed: {type(error).__name__}: {said}"
        show_progress(f"{name} {why}")
        return [Measure(arm=name, what=why, value=0, unit="", target="runs", held=False)]
