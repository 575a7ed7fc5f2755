"""From a rule to its occurrences: wall-clock times, rolled by the calendar, mapped to instants.

The rule is evaluated on the wall clock, which knows nothing of zones. Each time is then mapped to
the instant or instants at which a clock of the zone shows it, so that what happens in missing and
repeated hours is decided here and nowhere else.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, time, timedelta
from itertools import groupby, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

from postdate.model import calendar as calendars
from postdate.model import cron, rrule, zone
from postdate.model.calendar import Calendar, Roll
from postdate.model.mapping import Nominal, mapped, reach
from postdate.model.schedule import EPOCH, Dst, Occurrence, Rule, Status

_SECOND = timedelta(seconds=1)


class Plan(NamedTuple):
    """All that decides when: the rule, what it does about DST, and its calendar if it has one."""

    rule: Rule
    dst: Dst
    calendar: Calendar | None = None


def occurrences(plan: Plan, after: datetime) -> Iterator[Occurrence]:
    """Give the occurrences after an instant, in order, one for each instant."""
    rule = plan.rule
    if rule.start_at is not None:
        after = max(after, rule.start_at - _SECOND / 1000)
    found = _fixed(plan, after) if rule.every_seconds else _walled(plan, after)
    later = (each for each in found if each.scheduled_for > after)
    end = rule.end_at
    return later if end is None else takewhile(lambda each: each.scheduled_for <= end, later)


def _fixed(plan: Plan, after: datetime) -> Iterator[Occurrence]:
    """Give the occurrences of an interval: counted on the instants, no clock change moves them."""
    place = zone.find(plan.rule.timezone)
    every = timedelta(seconds=plan.rule.every_seconds or 0)
    origin = plan.rule.start_at or EPOCH
    at = origin + max(0, (after - origin) // every) * every
    while True:
        local = zone.to_local(place, at)
        closed = plan.calendar is not None and not plan.calendar.is_open(local.date())
        skip = closed or local.date() in plan.rule.exclude_dates
        note = ("closed_day",) if closed else ("excluded_date",) if skip else ()
        yield Occurrence(at, local, note, Status.SKIPPED_BY_CALENDAR if skip else None)
        at += every


def _walled(plan: Plan, after: datetime) -> Iterator[Occurrence]:
    place = zone.find(plan.rule.timezone)
    start = reach(place, after)
    rolls = plan.calendar is not None and plan.rule.roll is not Roll.NONE
    if plan.calendar is not None and rolls:
        first = calendars.reach_back(plan.calendar, start.date())
        start = datetime.combine(first, time())
    times = _rolled(plan, wall_clock(plan.rule, place, start))
    return mapped(times, place, plan.dst, twins=rolls)


def wall_clock(rule: Rule, place: ZoneInfo, start: datetime) -> Iterator[datetime]:
    """Give what cron or rrule say on the wall clock from `start` on."""
    if rule.cron is not None:
        return cron.matches(rule.cron, start)
    anchor = rule.start_at or EPOCH
    offset = anchor.astimezone(place).utcoffset() or timedelta(0)
    return rrule.matches(rule.rrule or "", zone.to_local(place, anchor), start, offset)


def _rolled(plan: Plan, times: Iterator[datetime]) -> Iterator[Nominal]:
    """Apply excluded dates and the calendar; what rolls onto one day comes out in its order."""
    nominals = (_roll(plan, at) for at in times)
    if plan.calendar is None or plan.rule.roll is Roll.NONE:
        yield from nominals
        return
    for day, group in groupby(nominals, key=lambda each: each.local.date()):
        crowded = calendars.receives(plan.calendar, day, plan.rule.roll)
        yield from _in_order(group, crowded=crowded)


def _in_order(group: Iterable[Nominal], *, crowded: bool) -> Iterable[Nominal]:
    return sorted(group) if crowded else group


def _roll(plan: Plan, at: datetime) -> Nominal:
    if at.date() in plan.rule.exclude_dates:
        return Nominal(at, at, ("excluded_date",), Status.SKIPPED_BY_CALENDAR)
    if plan.calendar is None:
        return Nominal(at, at)
    day = calendars.rolled(plan.calendar, at.date(), plan.rule.roll)
    if day is None:
        return Nominal(at, at, ("closed_day",), Status.SKIPPED_BY_CALENDAR)
    if day == at.date():
        return Nominal(at, at)
    return Nominal(datetime.combine(day, at.time()), at, (f"rolled_{plan.rule.roll}",))
