"""The times of a day of a recurrence rule that counts hours, minutes or seconds."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from itertools import product
from typing import Final

from postdate.model.rrule_parse import Freq, RRule

UNITS: Final = {Freq.HOURLY: 3600, Freq.MINUTELY: 60, Freq.SECONDLY: 1}
_DAY_SECONDS: Final = 86_400
_HOUR: Final = range(24)
_SIXTY: Final = range(60)


def cost(rule: RRule) -> int:
    """Give how many candidates a day has."""
    unit = UNITS.get(rule.freq)
    if unit is None:
        return 1
    if _free(rule):
        return _DAY_SECONDS // (unit * rule.interval) + 1
    return len(list(_hours(rule))) * len(list(_minutes(rule))) * len(list(_seconds(rule)))


def of_day(rule: RRule, anchor: datetime, day: date, start: datetime) -> Iterator[list[datetime]]:
    """Give the set of times of each period of a day: an hour's, a minute's or a single second.

    Periods that end before `start` are left out.
    """
    unit = UNITS[rule.freq]
    midnight = datetime.combine(day, time())
    # Periods are counted from the one that holds the anchor.
    before = int((midnight - anchor).total_seconds()) + _second_of_day(anchor) % unit
    floor = max(0, int((start - midnight).total_seconds())) // unit * unit
    for second in _candidates(rule, before // unit, unit, floor):
        at = midnight + timedelta(seconds=second)
        yield [at.replace(minute=m, second=s) for m, s in _inside(rule, at)]


def _second_of_day(at: datetime) -> int:
    return at.hour * 3600 + at.minute * 60 + at.second


def _candidates(rule: RRule, periods: int, unit: int, floor: int) -> Iterator[int]:
    """Give the seconds of the day, from `floor` on, at which a wanted period begins."""
    if _free(rule):
        first = max(floor // unit, -periods)
        first += -(periods + first) % rule.interval
        yield from range(first * unit, _DAY_SECONDS, rule.interval * unit)
        return
    hours = (hour for hour in _hours(rule) if hour >= floor // 3600)
    for hour, minute, second in product(hours, _minutes(rule), _seconds(rule)):
        start = hour * 3600 + minute * 60 + second
        number = periods + start // unit
        if start >= floor and number >= 0 and number % rule.interval == 0:
            yield start


def _free(rule: RRule) -> bool:
    """Say whether only the interval chooses the periods of a day."""
    unit = UNITS[rule.freq]
    minutes = rule.byminute if unit < UNITS[Freq.HOURLY] else ()
    return not (rule.byhour or minutes or (rule.bysecond if unit == 1 else ()))


def _hours(rule: RRule) -> Iterable[int]:
    return rule.byhour or _HOUR


def _minutes(rule: RRule) -> Iterable[int]:
    return (0,) if rule.freq is Freq.HOURLY else rule.byminute or _SIXTY


def _seconds(rule: RRule) -> Iterable[int]:
    return (rule.bysecond or _SIXTY) if rule.freq is Freq.SECONDLY else (0,)


def _inside(rule: RRule, at: datetime) -> Iterable[tuple[int, int]]:
    if rule.freq is Freq.SECONDLY:
        return ((at.minute, at.second),)
    minutes = rule.byminute if rule.freq is Freq.HOURLY else (at.minute,)
    return product(minutes, rule.bysecond)
