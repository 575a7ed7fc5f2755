"""Ensure that a new version of a calendar neither repeats nor loses occurrences.

A rule that rolls may have run Monday's occurrence on Friday already when an upload opens that
Monday, or may wait with it until Tuesday when an upload opens Monday too late. Such an occurrence
is told by what the rule says on the wall clock, which no calendar changes.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec.structs import replace

from postdate.recurrence.calendar import MAX_ROLL_DAYS, Roll
from postdate.recurrence.plan import RecurrencePlan, occurrences
from postdate.recurrence.rule import Occurrence

REACH: Final = timedelta(days=2 * MAX_ROLL_DAYS)
"""How far from a change something may have been moved across it: there and back."""

REMEMBERED: Final = 256
_MOMENT: Final = timedelta(milliseconds=1)


class CalendarChange(NamedTuple):
    """The plan that decided between two instants; at the second another calendar took over."""

    plan: RecurrencePlan
    since: datetime
    until: datetime


def rolls(plan: RecurrencePlan) -> bool:
    """Return whether the calendar of a plan moves occurrences."""
    return plan.calendar is not None and plan.rule.roll is not Roll.NONE


def without_those_that_ran(
    coming: Iterator[Occurrence], changes: Iterable[CalendarChange]
) -> Iterator[Occurrence]:
    """Leave out what ran before a change under the calendar that held then."""
    ran = frozenset[datetime]().union(*(_ran(change) for change in changes))
    for each in coming:
        left = [local for local in _nominals(each) if local not in ran]
        if each.skip is not None or len(left) == 1 + len(each.merged):
            yield each
        elif left:
            yield replace(each, nominal_local=left[0], merged=tuple(left[1:]))


@lru_cache(REMEMBERED)
def left_behind(change: CalendarChange, plan: RecurrencePlan) -> Occurrence | None:
    """Return what was still to come under the old calendar and has passed under the new one.

    All of it is one occurrence, at the instant of the change: what falls together runs once.
    """
    waited = _between(change.plan, change.until, change.until + REACH)
    waiting = {local for each in waited if each.skip is None for local in _nominals(each)}
    passed = _between(plan, change.until - REACH, change.until)
    runs = [each for each in passed if each.skip is None]
    found = sorted(local for each in runs for local in _nominals(each) if local in waiting)
    if not found:
        return None
    at = change.until.replace(microsecond=change.until.microsecond // 1000 * 1000) + _MOMENT
    return Occurrence(at, found[0], ("moved_by_calendar",), None, tuple(found[1:]))


@lru_cache(REMEMBERED)
def _ran(change: CalendarChange) -> frozenset[datetime]:
    begin = max(change.since, change.until - REACH)
    found = _between(change.plan, begin, change.until)
    return frozenset(local for each in found if each.skip is None for local in _nominals(each))


def _between(plan: RecurrencePlan, begin: datetime, end: datetime) -> Iterator[Occurrence]:
    return takewhile(lambda each: each.scheduled_for <= end, occurrences(plan, begin))


def _nominals(occurrence: Occurrence) -> tuple[datetime, ...]:
    return occurrence.nominal_local, *occurrence.merged
