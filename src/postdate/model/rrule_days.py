"""The days of a recurrence rule: those of a period, and those its BY parts allow."""

from calendar import monthrange
from datetime import date, datetime, timedelta

from msgspec.structs import replace

from postdate.model.rrule_parse import Day, Freq, RRule

_SUB_DAILY = frozenset({Freq.HOURLY, Freq.MINUTELY, Freq.SECONDLY})


def with_defaults(rule: RRule, start: datetime) -> RRule:
    """Fill in what a rule takes from its start: the day and the time."""
    if not (rule.byweekno or rule.byyearday or rule.bymonthday or rule.byday):
        rule = _with_day(rule, start)
    if rule.freq not in _SUB_DAILY:
        rule = replace(rule, byhour=rule.byhour or (start.hour,))
    if rule.freq not in _SUB_DAILY - {Freq.HOURLY}:
        rule = replace(rule, byminute=rule.byminute or (start.minute,))
    if rule.freq is not Freq.SECONDLY:
        rule = replace(rule, bysecond=rule.bysecond or (start.second,))
    return rule


def _with_day(rule: RRule, start: datetime) -> RRule:
    match rule.freq:
        case Freq.YEARLY:
            months = rule.bymonth or (start.month,)
            return replace(rule, bymonth=months, bymonthday=(start.day,))
        case Freq.MONTHLY:
            return replace(rule, bymonthday=(start.day,))
        case Freq.WEEKLY:
            return replace(rule, byday=(Day(0, start.weekday()),))
        case _:
            return rule


def of_year(year: int) -> list[date]:
    """Give the days of a year."""
    first = date(year, 1, 1).toordinal()
    return [date.fromordinal(first + day) for day in range(_year_days(year))]


def of_month(year: int, month0: int) -> list[date]:
    """Give the days of a month, counted from 0."""
    return [date(year, month0 + 1, day + 1) for day in range(monthrange(year, month0 + 1)[1])]


def week_start(day: date, wkst: int) -> date:
    """Give the first day of a day's week."""
    return day - timedelta(days=(day.weekday() - wkst) % 7)


def allows(rule: RRule, day: date) -> bool:
    """Say whether every BY part admits this day."""
    return (
        (not rule.bymonth or day.month in rule.bymonth)
        and (not rule.bymonthday or _in_month(rule, day))
        and (not rule.byyearday or _in_year(rule, day))
        and (not rule.byweekno or _in_weeks(rule, day))
        and (not rule.byday or any(_is_day(rule, day, wanted) for wanted in rule.byday))
    )


def _year_days(year: int) -> int:
    return (date(year, 12, 31) - date(year, 1, 1)).days + 1


def _in_month(rule: RRule, day: date) -> bool:
    left = day.day - monthrange(day.year, day.month)[1] - 1
    return day.day in rule.bymonthday or left in rule.bymonthday


def _in_year(rule: RRule, day: date) -> bool:
    number = day.timetuple().tm_yday
    return number in rule.byyearday or number - _year_days(day.year) - 1 in rule.byyearday


def _first_week(year: int, wkst: int) -> date:
    """Give the start of week 1: the first with four days or more in the year."""
    return week_start(date(year, 1, 4), wkst)


def _in_weeks(rule: RRule, day: date) -> bool:
    year = day.year
    if day < _first_week(year, rule.wkst):
        year -= 1
    elif day >= _first_week(year + 1, rule.wkst):
        year += 1
    first, after = _first_week(year, rule.wkst), _first_week(year + 1, rule.wkst)
    number = (day - first).days // 7 + 1
    return number in rule.byweekno or number - (after - first).days // 7 - 1 in rule.byweekno


def _is_day(rule: RRule, day: date, wanted: Day) -> bool:
    if day.weekday() != wanted.weekday:
        return False
    if not wanted.nth:
        return True
    if rule.freq is Freq.YEARLY and not rule.bymonth:
        place, size = day.timetuple().tm_yday, _year_days(day.year)
    else:
        place, size = day.day, monthrange(day.year, day.month)[1]
    if wanted.nth > 0:
        return (place - 1) // 7 + 1 == wanted.nth
    return -((size - place) // 7 + 1) == wanted.nth
