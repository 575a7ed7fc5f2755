"""Which version of a schedule and of its calendar decides about which stretch of time.

The past is not rewritten: an occurrence belongs to the versions that were in force at the instant
it is scheduled for, however late it is expanded, audited or backfilled.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import merge
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from postdate.calendar.spec.version import (
    REACH,
    CalendarChange,
    left_behind,
    rolls,
    without_those_that_ran,
)
from postdate.recurrence.calendar import Calendar
from postdate.recurrence.plan import RecurrencePlan
from postdate.recurrence.plan import occurrences as computed
from postdate.recurrence.rule import EPOCH, Occurrence
from postdate.schedule.spec.rule import plan_of
from postdate.schedule.spec.schedule import Definition

Occurrences = Callable[[RecurrencePlan, datetime], Iterator[Occurrence]]
_instant: Final = attrgetter("scheduled_for")


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """A version decides about what is scheduled after `since`.

    The one before it decides about what is scheduled until `previous_until`: the same instant,
    unless the schedule stood still in between, because it had ended.
    """

    number: int
    since: datetime
    previous_until: datetime
    definition: Definition


class CalendarVersion(NamedTuple):
    """What a calendar says about occurrences that are scheduled after `since`."""

    since: datetime
    calendar: Calendar


class Segment(msgspec.Struct, frozen=True):
    """A stretch of time, `after` not included, `until` included, with all that decides in it."""

    version: int
    definition: Definition
    plan: RecurrencePlan
    after: datetime
    until: datetime | None = None
    changes: tuple[CalendarChange, ...] = ()
    """What its calendar said before, the newest last, where that may have moved occurrences."""

    def occurrences(self, after: datetime, source: Occurrences = computed) -> Iterator[Occurrence]:
        """Return the occurrences of this segment after an instant, in order."""
        found = source(self.plan, max(after, self.after))
        if self.changes and after < self.changes[-1].until + REACH:
            found = self._after_changes(found, after)
        return found if self.until is None else _until(found, self.until)

    def _after_changes(self, found: Iterator[Occurrence], after: datetime) -> Iterator[Occurrence]:
        coming = without_those_that_ran(found, self.changes)
        last = self.changes[-1]
        if after > last.until or last.until != self.after:
            return coming
        behind = left_behind(last, self.plan)
        return coming if behind is None else merge([behind], coming, key=_instant)


def _until(found: Iterator[Occurrence], until: datetime) -> Iterator[Occurrence]:
    for each in found:
        if each.scheduled_for > until:
            return
        yield each


def segments(
    versions: Sequence[Version], calendars: Mapping[str, Sequence[CalendarVersion]]
) -> list[Segment]:
    """Divide time among versions of a schedule, the oldest first, and of the calendars they follow.

    The oldest version that is known also answers for the time before it.
    """
    found: list[Segment] = []
    until: datetime | None = None
    for version in reversed(versions):
        after = EPOCH if version is versions[0] else version.since
        if until is None or after < until:
            known = calendars.get(version.definition.rule.calendar or "", ())
            found = [*_divided(version, known, after, until), *found]
        before = version.previous_until
        until = before if until is None else min(until, before)
    return _with_changes(found, versions[0].since)


def _with_changes(found: list[Segment], held_since: datetime) -> list[Segment]:
    """Tell each segment what its calendar said before, as long as the rule is the same."""
    if not any(rolls(segment.plan) for segment in found):
        return found
    chained = found[:1]
    for segment in found[1:]:
        chained.append(replace(segment, changes=_changes(chained[-1], segment, held_since)))
    return chained


def _changes(before: Segment, segment: Segment, held_since: datetime) -> tuple[CalendarChange, ...]:
    old, new = before.plan, segment.plan
    same = (old.rule, old.dst) == (new.rule, new.dst) and before.until == segment.after
    if not same or not rolls(old) or not rolls(new):
        return ()
    since = max(before.after, held_since)
    if old.calendar == new.calendar or segment.after <= since:
        return before.changes
    return (*before.changes, CalendarChange(old, since, segment.after))


def _divided(
    version: Version, known: Sequence[CalendarVersion], after: datetime, until: datetime | None
) -> Iterator[Segment]:
    """Divide one version's time where its calendar changed."""
    if not known:
        yield _segment(version, None, after, until)
        return
    for number, (one, following) in enumerate(pairwise([*known, None])):
        if one is None:
            continue
        begin = after if number == 0 else max(after, one.since)
        ends = [at for at in (until, following and following.since) if at is not None]
        end = min(ends, default=None)
        if end is None or begin < end:
            yield _segment(version, one.calendar, begin, end)


def _segment(
    version: Version, calendar: Calendar | None, after: datetime, until: datetime | None
) -> Segment:
    plan = plan_of(version.definition, calendar)
    return Segment(version.number, version.definition, plan, after, until)


def upcoming(held: Sequence[Segment], after: datetime) -> Iterator[tuple[Segment, Occurrence]]:
    """Return what is scheduled after an instant, each with the segment that decides about it."""
    for segment in held:
        if segment.until is None or segment.until > after:
            for each in segment.occurrences(after):
                yield segment, each
