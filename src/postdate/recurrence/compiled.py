"""Rules made ready to be counted: a set of days and, on each of them, the same seconds."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

import msgspec

from postdate.recurrence.plan import RecurrencePlan, daily_walk, last_time, occurrences
from postdate.recurrence.rule import EPOCH, SECONDS_A_DAY
from postdate.recurrence.run_days import (
    DaySet,
    DayTimes,
    RunDays,
    day_times,
    every_days,
    run_days,
    walk_days,
)
from postdate.words.error import RefusedError

EPOCH_DAY: Final = EPOCH.toordinal()

_NEAR: Final = timedelta(days=5)
"""A rule whose end is nearer than this to an instant may end before it."""


class CompiledRule:
    """A rule and, where all of its days have the same seconds, these days and seconds."""

    def __init__(self, plan: RecurrencePlan) -> None:
        self._given = plan
        self.fraction = _fraction(plan)
        """By how much each of its instants comes after those of `plan`, which are whole seconds."""
        self.plan = plan = _earlier(plan, self.fraction) if self.fraction else plan
        self.last: datetime | None = None
        self.steps: tuple[int, int] | None = None
        """Origin and length of a plain interval, in seconds since the epoch."""
        self._days: DaySet | None = None
        self.times = day_times(())
        try:
            found = self._interval() if plan.rule.every_seconds else self._walked()
        except RefusedError:
            found = None
        if found is not None:
            self._days, self.times = found

    def __reduce__(self) -> tuple[object, ...]:
        """Let another process compile the rule for itself."""
        return CompiledRule, (self._given,)

    def is_regular(self, until: datetime) -> bool:
        """Return whether its days are known, and no COUNT or UNTIL ends it before an instant."""
        goes_on = self.last is None or self.last >= until.replace(tzinfo=None) + _NEAR
        return self._days is not None and goes_on

    def run_days(self, first: int, count: int) -> Iterator[RunDays]:
        """Return when a regular rule runs on some days of UTC, its beginning and end left aside."""
        if self._days is None:
            return iter(())
        rule = self.plan.rule
        timezone = "UTC" if rule.every_seconds else rule.timezone
        return run_days(self._days, self.times, timezone, self.plan.dst, first, count)

    def occurrences(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Return when any rule runs, one after the other."""
        coming = takewhile(lambda each: each.scheduled_for < until, occurrences(self.plan, after))
        return (each.scheduled_for for each in coming if each.skip is None)

    def _walked(self) -> tuple[DaySet, DayTimes] | None:
        walk = daily_walk(self.plan)
        if walk is None or walk.seconds is None:
            return None
        self.last = last_time(self.plan)
        rule, calendar = self.plan.rule, self.plan.calendar
        # Expressions of cron whose days are written alike share them.
        days = walk if rule.cron is None or walk.days is None else walk.days
        return walk_days(days, rule.exclude_dates, calendar, rule.roll), day_times(walk.seconds)

    def _interval(self) -> tuple[DaySet, DayTimes] | None:
        rule = self.plan.rule
        every, origin = rule.every_seconds or 0, rule.start_at or EPOCH
        if self.plan.calendar is not None or rule.exclude_dates:
            return None
        self.steps = int(origin.timestamp()), every
        return _interval_days(*self.steps)


def _fraction(plan: RecurrencePlan) -> timedelta:
    """Return the part of a second at which a plain interval begins, and so each of its instants."""
    rule = plan.rule
    plain = rule.every_seconds and plan.calendar is None and not rule.exclude_dates
    begin = rule.start_at if plain else None
    return timedelta(microseconds=begin.microsecond if begin else 0)


def _earlier(plan: RecurrencePlan, part: timedelta) -> RecurrencePlan:
    rule = plan.rule
    begin, end = (None if at is None else at - part for at in (rule.start_at, rule.end_at))
    return plan._replace(rule=msgspec.structs.replace(rule, start_at=begin, end_at=end))


def _interval_days(origin: int, every: int) -> tuple[DaySet, DayTimes] | None:
    day, second = divmod(origin, SECONDS_A_DAY)
    if SECONDS_A_DAY % every == 0:
        return every_days(1, 0), day_times(range(second % every, SECONDS_A_DAY, every))
    if every % SECONDS_A_DAY == 0:
        return every_days(every // SECONDS_A_DAY, EPOCH_DAY + day), day_times((second,))
    return None
