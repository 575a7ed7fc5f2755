"""A rule in words: what a person reads before the expression."""

from datetime import datetime
from typing import Final

from postdate.recurrence import cron, rrule, zone
from postdate.recurrence.rrule_text import WEEKDAYS, Day, Freq, RRule, parse
from postdate.words.error import RefusedError

_UNITS: Final = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_DAYS: Final = dict(zip(WEEKDAYS, ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), strict=True))
_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)
_PERIODS: Final = {
    Freq.YEARLY: "year",
    Freq.MONTHLY: "month",
    Freq.WEEKLY: "week",
    Freq.DAILY: "day",
    Freq.HOURLY: "hour",
    Freq.MINUTELY: "minute",
    Freq.SECONDLY: "second",
}
_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}
_TEENS: Final = range(11, 14)


def in_words(
    cron_text: str | None,
    every_seconds: int | None,
    rrule_text: str | None,
    start_at: datetime | None = None,
    timezone: str = "UTC",
) -> str:
    """Return when a schedule runs; a rule that has no words is given as it was written.

    Where a recurrence rule names no day or time, it takes them from `start_at`, in `timezone`.
    """
    if every_seconds is not None:
        return _every(every_seconds)
    try:
        if cron_text is not None:
            return cron.explain(cron_text)
        begin = None if start_at is None else zone.to_wall(zone.get(timezone), start_at)
        return _rrule(rrule_text or "", begin)
    except RefusedError:
        return cron_text or rrule_text or ""


def _every(seconds: int) -> str:
    for unit, name in _UNITS:
        if seconds % unit == 0:
            return f"Every {_period(seconds // unit, name)}"
    return f"Every {seconds} seconds"


def _period(many: int, name: str) -> str:
    return name if many == 1 else f"{many} {name}s"


def _rrule(text: str, start: datetime | None) -> str:
    rule = parse(text)
    if start is not None:
        rule = rrule.with_defaults(rule, start)
    parts = [f"Every {_period(rule.interval, _PERIODS[rule.freq])}"]
    if rule.bymonth:
        parts.append("in " + ", ".join(_MONTHS[month - 1] for month in rule.bymonth))
    if rule.byweekno:
        parts.append("in week " + _numbers(rule.byweekno))
    if days := _days(rule):
        parts.append("on " + days + (" of every month" if rrule.every_month(text) else ""))
    parts += _clock(rule)
    if rule.bysetpos:
        parts.append(f"({', '.join(map(_nth, rule.bysetpos))} of each set)")
    if rule.count is not None:
        parts.append(f"({rule.count} times)")
    if until := rule.until or rule.until_utc:
        parts.append(f"until {until:%Y-%m-%d}")
    return " ".join(parts)


def _days(rule: RRule) -> str:
    named = [_day(day) for day in rule.byday]
    ordered = sorted(rule.bymonthday, key=lambda day: (day < 0, abs(day)))
    named += [f"the {_nth(day)}" + (" day" if day < 0 else "") for day in ordered]
    named += [f"the {_nth(day)} day of the year" for day in rule.byyearday]
    return ", ".join(named)


def _day(day: Day) -> str:
    name = _DAYS[WEEKDAYS[day.weekday]]
    return f"the {_nth(day.nth)} {name}" if day.nth else name


def _clock(rule: RRule) -> list[str]:
    """Return clock times where the parts name some, else each part by itself."""
    seconds = () if rule.bysecond == (0,) else rule.bysecond
    if rule.byhour and rule.byminute and len(seconds) <= 1:
        ending = "".join(f":{second:02}" for second in seconds)
        times = (f"{hour:02}:{minute:02}" for hour in rule.byhour for minute in rule.byminute)
        return ["at " + ", ".join(time + ending for time in times)]
    named = (("hour", rule.byhour), ("minute", rule.byminute), ("second", seconds))
    return [f"at {name} {_numbers(values)}" for name, values in named if values]


def _numbers(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))


def _nth(number: int) -> str:
    if number == -1:
        return "last"
    size = abs(number)
    ending = "th" if size % 100 in _TEENS else _ENDINGS.get(size % 10, "th")
    return f"{size}{ending}" + (" to last" if number < 0 else "")
