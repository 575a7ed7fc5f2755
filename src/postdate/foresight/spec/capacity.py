"""How much can be executed in a second: measured, or set by a person."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from postdate.monitor.spec.activity import LATE_SECONDS, SLOT_SECONDS

MINUTE_SLOTS: Final = 60 // SLOT_SECONDS
LATE_FROM: Final = LATE_SECONDS.index(1.0) + 1
"""Where in a histogram those stand that began more than a second late."""

CapacitySource = Literal["given", "setting", "measured", "lane", "unknown"]


class LoadCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """What can be executed in a second, and where the figure comes from.

    `measured` is the busiest minute of the last two hours. It is what was possible, and less than
    what can be unless work had to wait in that minute: `at_least` says so.
    """

    per_second: float | None
    source: CapacitySource
    at_least: bool = False


UNKNOWN: Final = LoadCapacity(per_second=None, source="unknown")


def measured(slots: Sequence[tuple[float, int, Sequence[int]]]) -> LoadCapacity:
    """Return the rate of the busiest minute: slots have a time, executions and their lateness."""
    best, waited = 0, False
    for place, (begin, _, _) in enumerate(slots):
        minute = [each for each in slots[place : place + MINUTE_SLOTS] if each[0] < begin + 60]
        executed = sum(count for _, count, _ in minute)
        if executed > best:
            late = sum(sum(histogram[LATE_FROM:]) for _, _, histogram in minute)
            best, waited = executed, late > executed // 2
    if not best:
        return UNKNOWN
    return LoadCapacity(per_second=round(best / 60, 3), source="measured", at_least=not waited)


def chosen(
    given: float | None, setting: float, slots: Sequence[tuple[float, int, Sequence[int]]]
) -> LoadCapacity:
    """Return the effective capacity: given by the caller, set by the tenant, or measured."""
    if given:
        return LoadCapacity(per_second=given, source="given")
    if setting:
        return LoadCapacity(per_second=setting, source="setting")
    return measured(slots)


def limited(capacity: LoadCapacity, rate_per_second: float | None) -> LoadCapacity:
    """Return the capacity of a lane with a `rate_per_second`."""
    known = capacity.per_second
    if rate_per_second is None or (known is not None and known <= rate_per_second):
        return capacity
    return LoadCapacity(per_second=rate_per_second, source="lane")
