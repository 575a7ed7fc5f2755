"""Recurrence rules of RFC 5545 on a wall clock: what their parts choose, and where they end."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache, partial
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from postdate.recurrence import days as cycles
from postdate.recurrence import year as years
from postdate.recurrence import zone
from postdate.recurrence.budget import HORIZON
from postdate.recurrence.days import Cycle, Days
from postdate.recurrence.product import HOUR, HOURS, MINUTE, SIXTY, Product, clock
from postdate.recurrence.rrule_text import Day, Freq, RRule, parse, refuse_part
from postdate.recurrence.walk import DayWalk, PositionWalk, SlotWalk, Walk
from postdate.recurrence.year import Month, Year

MAX_COUNT: Final = 10_000
"""The most occurrences of a rule with COUNT; a rule with more of them ends by other means."""

_UNITS: Final = {Freq.HOURLY: HOUR, Freq.MINUTELY: MINUTE, Freq.SECONDLY: 1}
_SECOND: Final = timedelta(seconds=1)
_END: Final = datetime(HORIZON.year, HORIZON.month, HORIZON.day)  # noqa: DTZ001 - a wall clock
_TWO_DAYS: Final = timedelta(days=2)
"""No reading of a wall clock is further than this from UTC, not even where a day is missing."""


def validate(text: str) -> RRule:
    """Refuse what is not a rule, saying which part is wrong."""
    rule = parse(text)
    if rule.count is not None and rule.count > MAX_COUNT:
        raise refuse_part(f"COUNT is at most {MAX_COUNT}; use end_at or max_runs instead")
    return rule


def every_hour(text: str) -> bool:
    """Return whether the rule does not fix the hour, so that it means an interval."""
    return parse(text).freq in _UNITS


def every_second(text: str) -> bool:
    """Return whether the rule counts in seconds."""
    return parse(text).freq is Freq.SECONDLY


def every_month(text: str) -> bool:
    """Return whether a yearly rule names days of the month and no month, so that all have them."""
    rule = parse(text)
    limits = rule.bymonth or rule.byyearday or rule.byweekno
    return rule.freq is Freq.YEARLY and bool(rule.bymonthday) and not limits


def until(text: str) -> datetime | None:
    """Return the last instant of a rule whose UNTIL is in UTC."""
    return parse(text).until_utc


def matches(
    text: str, anchor: datetime, start: datetime, uncounted: ZoneInfo | None = None
) -> Iterator[datetime]:
    """Return the wall-clock times from `start` on of a rule that begins at `anchor`.

    COUNT leaves out the times that the clocks of the zone `uncounted` jump over. An UNTIL in UTC is
    an instant, so that only a caller who knows the zone can hold to it: a few times more are given.
    """
    walk = _walk(text, anchor)
    times = walk.times(max(start, anchor))
    last = _last(text, anchor, uncounted)
    return times if last is None else takewhile(lambda at: at <= last, times)


def days(text: str, anchor: datetime) -> Days | None:
    """Return the days among which all times lie; None for any day."""
    return _walk(text, anchor).days


def walk(text: str, anchor: datetime) -> Walk:
    """Return the walk along the wall clock that a rule means, its COUNT and UNTIL left aside."""
    return _walk(text, anchor)


def last(text: str, anchor: datetime, uncounted: ZoneInfo | None = None) -> datetime | None:
    """Return a wall-clock time after which no time of a rule lies; None where it has no end."""
    return _last(text, anchor, uncounted)


@lru_cache(maxsize=4096)
def _last(text: str, anchor: datetime, uncounted: ZoneInfo | None) -> datetime | None:
    rule = validate(text)
    if rule.until_utc is not None:
        return min(rule.until_utc.replace(tzinfo=None), _END) + _TWO_DAYS
    if rule.count is None:
        return rule.until
    walk = _walk(text, anchor)
    last = walk.nth(anchor, rule.count)
    if uncounted is None or last is None:
        return last
    return _with_missing(walk, anchor, last, uncounted)


def _with_missing(
    walk: Walk, anchor: datetime, last: datetime, position: ZoneInfo
) -> datetime | None:
    """Move the last of a COUNT on by as many times as fall into missing hours before it."""
    end = last
    for begin, after in zone.skipped_times(position, anchor):
        if end < begin:
            break
        lost = _count(walk, max(begin, anchor), min(after, end + _SECOND))
        if lost:
            following = walk.times(max(end + _SECOND, after))
            moved = next(islice(following, lost - 1, None), None)
            if moved is None:
                return None
            end = moved
    return end


def _count(walk: Walk, begin: datetime, end: datetime) -> int:
    return sum(1 for _ in takewhile(lambda at: at < end, walk.times(begin)))


@lru_cache(maxsize=2048)
def _walk(text: str, anchor: datetime) -> Walk:
    rule = with_defaults(validate(text), anchor)
    unit = _UNITS.get(rule.freq)
    if unit is not None:
        return _slots(rule, anchor, unit)
    times = clock(rule.byhour, rule.byminute, rule.bysecond)
    days, cycle = Days(partial(_chosen, rule)), _cycle(rule, anchor.toordinal())
    if rule.bysetpos and rule.freq is not Freq.DAILY:
        return PositionWalk(days, times, cycle, rule.bysetpos)
    picked = times.by_position(rule.bysetpos) if rule.bysetpos else times
    return DayWalk(days if _names_days(rule) else None, picked, cycle)


def _cycle(rule: RRule, begin: int) -> Cycle:
    match rule.freq:
        case Freq.YEARLY:
            return cycles.every_year(rule.interval, begin)
        case Freq.MONTHLY:
            return cycles.every_month(rule.interval, begin)
        case Freq.WEEKLY:
            return cycles.every_week(rule.interval, begin, rule.wkst)
        case _:
            return cycles.every_day(rule.interval, begin)


def _slots(rule: RRule, anchor: datetime, unit: int) -> Walk:
    levels = ((rule.byhour, HOURS, HOUR), (rule.byminute, SIXTY, MINUTE), (rule.bysecond, SIXTY, 1))
    outside = [level for level in levels if level[2] >= unit]
    inside = Product(*[(values, weight) for values, _, weight in levels if weight < unit])
    wanted = Product(*[(values or every, weight // unit) for values, every, weight in outside])
    return SlotWalk(
        anchor,
        rule.interval,
        unit,
        days=Days(partial(_chosen, rule)) if _names_days(rule) else None,
        wanted=wanted if any(values for values, _, _ in outside) else None,
        offsets=inside.by_position(rule.bysetpos) if rule.bysetpos else inside,
    )


def _names_days(rule: RRule) -> bool:
    named = (rule.bymonth, rule.bymonthday, rule.byyearday, rule.byweekno, rule.byday)
    return any(named)


def with_defaults(rule: RRule, start: datetime) -> RRule:
    """Fill in what a rule takes from its start: the day and the time."""
    if not (rule.byyearday or rule.bymonthday or rule.byday):
        rule = _with_day(rule, start)
    if rule.freq not in _UNITS:
        rule = replace(rule, byhour=rule.byhour or (start.hour,))
    if rule.freq not in {Freq.MINUTELY, Freq.SECONDLY}:
        rule = replace(rule, byminute=rule.byminute or (start.minute,))
    if rule.freq is not Freq.SECONDLY:
        rule = replace(rule, bysecond=rule.bysecond or (start.second,))
    return rule


def _with_day(rule: RRule, start: datetime) -> RRule:
    match rule.freq:
        case Freq.YEARLY if not rule.byweekno:
            months = rule.bymonth or (start.month,)
            return replace(rule, bymonth=months, bymonthday=(start.day,))
        case Freq.MONTHLY:
            return replace(rule, bymonthday=(start.day,))
        case Freq.YEARLY | Freq.WEEKLY:
            return replace(rule, byday=(Day(0, start.weekday()),))
        case _:
            return rule


def _chosen(rule: RRule, year: Year) -> int:
    """Choose the days of a year that every BY part admits."""
    mask = years.all_days(year)
    if rule.bymonth:
        mask &= years.in_months(year, rule.bymonth)
    if rule.bymonthday:
        mask &= years.on_month_days(year, rule.bymonthday)
    if rule.byyearday:
        mask &= years.on_year_days(year, rule.byyearday)
    if rule.byweekno:
        mask &= years.in_weeks(year, rule.byweekno, rule.wkst)
    if rule.byday:
        mask &= _on_days(rule, year)
    return mask


def _on_days(rule: RRule, year: Year) -> int:
    if rule.freq is Freq.YEARLY and not rule.bymonth:
        within: tuple[Month, ...] = (Month(0, year.days),)
    else:
        within = years.months(year.leap)
    mask = 0
    for nth, weekday in rule.byday:
        if nth:
            for each in within:
                mask |= years.on_nth_weekday(year, nth, weekday, each)
        else:
            mask |= years.on_weekday(year, weekday)
    return mask
