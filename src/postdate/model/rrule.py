"""Recurrence rules of RFC 5545, read from text and evaluated on a wall clock.

A period (a year, month, week, day, hour, minute or second) is expanded into its set of times, the
BY parts choosing among them. Any period can be the first one looked at, and looking ends after
fifty empty years, so that no rule can keep a node busy.
"""

from collections.abc import Iterator
from datetime import MAXYEAR, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice, product
from typing import Final, NamedTuple

from postdate.model import rrule_clock, rrule_days
from postdate.model.rrule_parse import Freq, RRule, parse, wrong

COUNT_MOST: Final = 10_000
"""The most occurrences of a rule with COUNT: they are counted from its start each time."""

EMPTY_DAYS_MOST: Final = 50 * 366
EMPTY_STEPS_MOST: Final = 100_000
"""How many candidates in a row may fail before a rule is taken to have ended."""

_DAY: Final = timedelta(days=1)
_WEEK_DAYS: Final = 7
_YEAR_MONTHS: Final = 12


class _Anchored(NamedTuple):
    rule: RRule
    start: datetime


@lru_cache(maxsize=16_384)
def _anchored(text: str, start: datetime, offset: timedelta) -> _Anchored:
    rule = parse(text)
    if rule.count is not None and rule.count > COUNT_MOST:
        raise wrong(f"COUNT is at most {COUNT_MOST}; use end_at or max_runs instead")
    return _Anchored(rrule_days.with_defaults(rule.until_local(offset), start), start)


def validate(text: str) -> RRule:
    """Refuse what is not a rule, saying which part is wrong."""
    return parse(text)


def every_hour(text: str) -> bool:
    """Say whether the rule does not fix the hour, so that it means an interval."""
    return parse(text).freq in rrule_clock.UNITS


def matches(
    text: str, anchor: datetime, start: datetime, offset: timedelta = timedelta(0)
) -> Iterator[datetime]:
    """Give the wall-clock times from `start` on of a rule that begins at `anchor`.

    `offset` is the zone's at the anchor; it makes a wall-clock time of an UNTIL in UTC.
    """
    rule, anchor = _anchored(text, anchor.replace(microsecond=0), offset)
    if rule.count is not None:
        yield from (at for at in _counted(rule, anchor) if at >= start)
        return
    for at in _times(rule, anchor, max(start, anchor)):
        if rule.until is not None and at > rule.until:
            return
        yield at


@lru_cache(maxsize=1024)
def _counted(rule: RRule, anchor: datetime) -> tuple[datetime, ...]:
    until = rule.until or datetime.max  # noqa: DTZ901 - a wall clock
    every = islice(_times(rule, anchor, anchor), rule.count)
    return tuple(at for at in every if at <= until)


def _times(rule: RRule, anchor: datetime, start: datetime) -> Iterator[datetime]:
    seen, steps = start.date(), 0
    for days in _periods(rule, anchor, start):
        chosen = [day for day in days if rrule_days.allows(rule, day)]
        for at in _expand(rule, anchor, chosen, start):
            if at >= start:
                seen, steps = at.date(), 0
                yield at
        steps += len(chosen)
        empty = (days[0] - seen).days > EMPTY_DAYS_MOST
        if empty or steps * rrule_clock.cost(rule) > EMPTY_STEPS_MOST:
            return


def _periods(rule: RRule, anchor: datetime, start: datetime) -> Iterator[list[date]]:
    """Give the days of each period, beginning with the one that holds `start`."""
    match rule.freq:
        case Freq.YEARLY:
            for year in range(
                _aligned(anchor.year, start.year, rule.interval), MAXYEAR, rule.interval
            ):
                yield rrule_days.of_year(year)
        case Freq.MONTHLY:
            origin = anchor.year * _YEAR_MONTHS + anchor.month - 1
            now = start.year * _YEAR_MONTHS + start.month - 1
            end = MAXYEAR * _YEAR_MONTHS
            for index in range(_aligned(origin, now, rule.interval), end, rule.interval):
                yield rrule_days.of_month(*divmod(index, _YEAR_MONTHS))
        case Freq.WEEKLY:
            monday = rrule_days.week_start(anchor.date(), rule.wkst)
            step = rule.interval * _WEEK_DAYS
            yield from _day_runs(monday, start.date() - 6 * _DAY, step, _WEEK_DAYS)
        case Freq.DAILY:
            yield from _day_runs(anchor.date(), start.date(), rule.interval, 1)
        case Freq.HOURLY | Freq.MINUTELY | Freq.SECONDLY:
            yield from _day_runs(anchor.date(), start.date(), 1, 1)


def _aligned(origin: int, wanted: int, interval: int) -> int:
    """Give the last number of a progression that is not above `wanted`."""
    return origin + max(0, wanted - origin) // interval * interval


def _day_runs(origin: date, wanted: date, step: int, length: int) -> Iterator[list[date]]:
    first = _aligned(origin.toordinal(), wanted.toordinal(), step)
    for ordinal in range(first, date.max.toordinal() - length, step):
        yield [date.fromordinal(ordinal + day) for day in range(length)]


def _expand(rule: RRule, anchor: datetime, days: list[date], start: datetime) -> Iterator[datetime]:
    if rule.freq in rrule_clock.UNITS:
        for day in days:
            for times in rrule_clock.of_day(rule, anchor, day, start):
                yield from _positions(rule, times)
        return
    clock = [time(*each) for each in product(rule.byhour, rule.byminute, rule.bysecond)]
    yield from _positions(rule, [datetime.combine(day, at) for day, at in product(days, clock)])


def _positions(rule: RRule, times: list[datetime]) -> list[datetime]:
    """Choose by position in the period's set, counted from either end."""
    if not rule.bysetpos:
        return times
    size = len(times)
    chosen = {at - 1 if at > 0 else size + at for at in rule.bysetpos}
    return [times[at] for at in sorted(chosen) if 0 <= at < size]
