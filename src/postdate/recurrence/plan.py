"""From a rule to its occurrences: wall-clock times, rolled by the calendar, mapped to instants.

The rule is evaluated on the wall clock, which knows nothing of zones. Each time is then mapped to
the instant or instants at which a clock of the zone shows it, so that what happens in missing and
repeated hours is decided there and nowhere else.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache, partial
from heapq import heappop, heappush
from itertools import takewhile
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from postdate.recurrence import calendar as calendars
from postdate.recurrence import cron, mapping, rrule, zone
from postdate.recurrence.budget import HORIZON
from postdate.recurrence.calendar import MAX_ROLL_DAYS, Calendar, Roll
from postdate.recurrence.days import Days
from postdate.recurrence.mapping import Nominal, map_occurrences
from postdate.recurrence.rule import EPOCH, Dst, Gap, Occurrence, Rule, Status
from postdate.recurrence.walk import Walk

_TICK: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_WORTH_A_LEAP: Final = timedelta(hours=1)
_END: Final = datetime(HORIZON.year, HORIZON.month, HORIZON.day, tzinfo=UTC)


class RecurrencePlan(NamedTuple):
    """All that decides when: the rule, what it does about DST, and its calendar if it has one."""

    rule: Rule
    dst: Dst
    calendar: Calendar | None = None


def occurrences(plan: RecurrencePlan, after: datetime) -> Iterator[Occurrence]:
    """Return the occurrences after an instant, in order; no two of them run at one instant."""
    rule = plan.rule
    if rule.start_at is not None:
        after = max(after, rule.start_at - _TICK)
    found = _fixed(plan, after) if rule.every_seconds else _on_wall_clock(plan, after)
    later = (each for each in found if each.scheduled_for > after)
    end = rule.end_at
    return later if end is None else takewhile(lambda each: each.scheduled_for <= end, later)


def first_that_runs(plan: RecurrencePlan, after: datetime) -> Occurrence | None:
    """Return the next occurrence that is not left out; closed days are passed as a whole."""
    opens = after
    # Computed once: it hashes every holiday.
    open_days = calendars.open_days(plan.calendar, frozenset(plan.rule.exclude_dates))
    if _never_opens(plan, open_days, after):
        return None
    while True:
        for each in occurrences(plan, after):
            if each.skip is None:
                return each
            if each.skip is Status.SKIPPED_BY_CALENDAR and each.scheduled_for >= opens:
                opens = max(each.scheduled_for, _reopening(plan, open_days, each))
                if opens >= _END:
                    return None
                if opens > each.scheduled_for + _WORTH_A_LEAP:
                    after = opens
                    break
        else:
            return None


def _never_opens(plan: RecurrencePlan, open_days: Days, after: datetime) -> bool:
    """Return whether no day is open from an instant on: neither to run on, nor to roll to."""
    first = zone.to_local(zone.get(plan.rule.timezone), after).toordinal() - MAX_ROLL_DAYS
    return open_days.first_common(None, max(1, first)) is None


def _reopening(plan: RecurrencePlan, open_days: Days, closed: Occurrence) -> datetime:
    """Return an instant before which nothing that is due after a closed one can run."""
    rule, rolls = plan.rule, plan.rule.roll is not Roll.NONE
    position = zone.get(rule.timezone)
    # What does not roll is judged by its own day; a change of the clock may have moved it on.
    day = closed.nominal_local.date()
    if rolls:
        day = zone.to_local(position, closed.scheduled_for).date()
    found = open_days.first_common(None if rolls else _days(plan, position), day.toordinal() + 1)
    if found is None:
        return _END
    opens = date.fromordinal(found)
    if rule.every_seconds and opens - day <= timedelta(seconds=rule.every_seconds):
        return closed.scheduled_for  # the next one is as near: no leap is worth its while
    if rolls:
        opens = max(day, opens - timedelta(days=MAX_ROLL_DAYS))
    # A clock that is changed on that day may put its first times before midnight.
    span = zone.span(position, datetime.combine(opens, time(), UTC) - _DAY)
    size = span.closed.size if span.closed and span.closed.at.date() <= opens + _DAY else _TICK
    return mapping.earliest(datetime.combine(opens, time()), position, plan.dst) - size


def _days(plan: RecurrencePlan, position: ZoneInfo) -> Days | None:
    """Return the days among which all times of a rule lie; None for any day."""
    if plan.rule.cron is not None:
        return cron.days(plan.rule.cron)
    if plan.rule.rrule is not None:
        return rrule.days(plan.rule.rrule, _anchor(plan.rule, position))
    return None


def _anchor(rule: Rule, position: ZoneInfo) -> datetime:
    """Return the local time at which a rule begins."""
    return zone.to_wall(position, rule.start_at or EPOCH)


def _fixed(plan: RecurrencePlan, after: datetime) -> Iterator[Occurrence]:
    """Return the occurrences of an interval: counted in elapsed time, whatever clocks do."""
    position = zone.get(plan.rule.timezone)
    excluded = frozenset(plan.rule.exclude_dates)
    every = timedelta(seconds=plan.rule.every_seconds or 0)
    origin = plan.rule.start_at or EPOCH
    at = origin + max(0, (after - origin) // every) * every
    while at < _END:
        local = zone.to_local(position, at)
        closed = plan.calendar is not None and not plan.calendar.is_open(local.date())
        skip = closed or local.date() in excluded
        note = ("closed_day",) if closed else ("excluded_date",) if skip else ()
        yield Occurrence(at, local, note, Status.SKIPPED_BY_CALENDAR if skip else None)
        at += every


def _on_wall_clock(plan: RecurrencePlan, after: datetime) -> Iterator[Occurrence]:
    position = zone.get(plan.rule.timezone)
    rolls = plan.calendar is not None and plan.rule.roll is not Roll.NONE
    nominals = partial(_nominals, plan, position, frozenset(plan.rule.exclude_dates))
    found = map_occurrences(nominals, position, plan.dst, after, twins=rolls)
    until = rrule.until(plan.rule.rrule) if plan.rule.rrule is not None else None
    if until is None:
        return found
    # What the calendar moved was judged by where the rule had put it.
    return (each for each in found if each.scheduled_for <= until or _was_rolled(each))


def _was_rolled(occurrence: Occurrence) -> bool:
    return any(note.startswith("rolled_") for note in occurrence.notes)


def wall_clock(plan: RecurrencePlan, after: datetime) -> Iterator[datetime]:
    """Return what cron or rrule say after an instant, before zones and calendars move anything."""
    position = zone.get(plan.rule.timezone)
    return _wall_clock(plan, position, zone.to_local(position, after) + _TICK)


def daily_walk(plan: RecurrencePlan) -> Walk | None:
    """Return the walk of a rule of cron or rrule, its end left aside; None for an interval."""
    rule = plan.rule
    if rule.cron is not None:
        return cron.walk(rule.cron)
    return (
        None
        if rule.rrule is None
        else rrule.walk(rule.rrule, _anchor(rule, zone.get(rule.timezone)))
    )


def last_time(plan: RecurrencePlan) -> datetime | None:
    """Return a wall-clock time after which the COUNT or UNTIL of a rule leaves nothing, if any."""
    rule = plan.rule
    if rule.rrule is None:
        return None
    position = zone.get(rule.timezone)
    uncounted = position if plan.dst.gap is Gap.SKIP else None
    return rrule.last(rule.rrule, _anchor(rule, position), uncounted)


def _wall_clock(plan: RecurrencePlan, position: ZoneInfo, start: datetime) -> Iterator[datetime]:
    """Return what cron or rrule say on the wall clock from `start` on."""
    rule = plan.rule
    if rule.cron is not None:
        return cron.matches(rule.cron, start)
    uncounted = position if plan.dst.gap is Gap.SKIP else None
    text = rule.rrule or ""
    times = rrule.matches(text, _anchor(rule, position), start, uncounted)
    until = rrule.until(text)
    if until is None:
        return times
    last = zone.latest_reading(position, until)
    # Beside a change of the clock a later reading may mean an earlier instant.
    possible = takewhile(lambda at: at <= last, times)
    return (at for at in possible if mapping.earliest(at, position, plan.dst) <= until)


def _nominals(
    plan: RecurrencePlan, position: ZoneInfo, excluded: frozenset[date], start: datetime
) -> Iterator[Nominal]:
    """Apply excluded dates and the calendar to the times that end at `start` or later."""
    if plan.calendar is None or plan.rule.roll is Roll.NONE:
        times = _wall_clock(plan, position, start)
        target = partial(_target, plan)
        return (_roll(plan, excluded, at, target) for at in times)
    return _rolled(plan, plan.calendar, position, excluded, start)


def _rolled(
    plan: RecurrencePlan,
    calendar: Calendar,
    position: ZoneInfo,
    excluded: frozenset[date],
    start: datetime,
) -> Iterator[Nominal]:
    """Return rolled times in order: each waits until none can come before it."""
    begin = datetime.combine(calendars.reach_back(calendar, start.date()), time())
    # All times of a day roll alike, and a long closure takes a while to walk through.
    target = lru_cache(maxsize=64)(partial(_target, plan))
    earliest = lru_cache(maxsize=64)(partial(calendars.earliest, calendar, roll=plan.rule.roll))
    waiting: list[Nominal] = []
    for at in _wall_clock(plan, position, begin):
        safe = datetime.combine(earliest(at.date()), time())
        while waiting and waiting[0].local < safe:
            yield heappop(waiting)
        nominal = _roll(plan, excluded, at, target)
        if nominal.local >= start:
            heappush(waiting, nominal)
    while waiting:
        yield heappop(waiting)


def _target(plan: RecurrencePlan, day: date) -> date | None:
    """Return the day on which an occurrence of this day runs; None when it has nowhere to go."""
    if plan.calendar is None:
        return day
    return calendars.roll_day(plan.calendar, day, plan.rule.roll)


def _roll(
    plan: RecurrencePlan,
    excluded: frozenset[date],
    at: datetime,
    target: Callable[[date], date | None],
) -> Nominal:
    if at.date() in excluded:
        return Nominal(at, at, ("excluded_date",), Status.SKIPPED_BY_CALENDAR)
    day = target(at.date())
    if day is None:
        return Nominal(at, at, ("closed_day",), Status.SKIPPED_BY_CALENDAR)
    if day == at.date():
        return Nominal(at, at)
    moved, note = datetime.combine(day, at.time()), f"rolled_{plan.rule.roll}"
    if day in excluded:
        return Nominal(moved, at, (note, "excluded_date"), Status.SKIPPED_BY_CALENDAR)
    return Nominal(moved, at, (note,))
