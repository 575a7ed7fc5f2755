"""Warnings about a schedule before it is created: valid, but probably not intended."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from postdate.recurrence import rrule
from postdate.recurrence.plan import RecurrencePlan, occurrences
from postdate.recurrence.rule import Occurrence
from postdate.schedule.spec.rule import (
    first_run,
    min_distance,
    rolls_too_often,
    sample,
    shortest_distance,
)
from postdate.schedule.spec.schedule import MisfirePolicy, Policies

_LEAP_DAY: Final = (2, 29)
_TWO_DAYS: Final = timedelta(days=2)


class ScheduleWarning(msgspec.Struct, frozen=True):
    """A warning: its name, which never changes, and a sentence for a person."""

    code: str
    detail: str


def warnings_of(
    plan: RecurrencePlan, policies: Policies, now: datetime, min_interval_seconds: float = 0
) -> list[ScheduleWarning]:
    """Return what is odd about a schedule that would be made now; a sound one has no warnings."""
    too_often = _too_often(plan, now, min_interval_seconds)
    if too_often is not None and rolls_too_often(plan, now):
        return [too_often]
    never = _never_fires(plan, now)
    if never is not None:
        return [never]
    found = (
        too_often,
        _never_recovers(plan, policies, now),
        _leap_day_only(plan, now),
        _every_month(plan),
    )
    return [each for each in found if each is not None]


def _never_fires(plan: RecurrencePlan, now: datetime) -> ScheduleWarning | None:
    if first_run(plan, now) is not None:
        return None
    return ScheduleWarning("never_fires", "The rule, its end and its calendar leave no run at all.")


def _too_often(
    plan: RecurrencePlan, now: datetime, min_interval_seconds: float
) -> ScheduleWarning | None:
    minimum, shortest = min_distance(plan.rule, min_interval_seconds), shortest_distance(plan, now)
    if shortest is None or shortest >= minimum:
        return None
    detail = f"Occurrences lie {shortest:g} s apart; {minimum:g} s is the minimum."
    return ScheduleWarning("too_often", detail)


def _never_recovers(
    plan: RecurrencePlan, policies: Policies, now: datetime
) -> ScheduleWarning | None:
    """Compare the pace at which late occurrences run with the pace at which new ones come."""
    misfire, coming = policies.misfire, sample(plan, now)
    if misfire.policy is not MisfirePolicy.FIRE_ALL or not coming[1:]:
        return None
    between = (coming[-1] - coming[0]).total_seconds() / (len(coming) - 1)
    pace = 60 / misfire.per_minute
    if pace < between:
        return None
    detail = (
        f"A new occurrence comes every {between:g} s on average, but late ones run every {pace:g} s"
        " (misfire.per_minute): once late, the schedule never catches up."
    )
    return ScheduleWarning("never_recovers", detail)


def _leap_day_only(plan: RecurrencePlan, now: datetime) -> ScheduleWarning | None:
    first = next(occurrences(plan, now), None)
    if first is None or not _on_leap_day(first):
        return None
    following = next(occurrences(plan, first.scheduled_for + _TWO_DAYS), None)
    if following is not None and not _on_leap_day(following):
        return None
    detail = f"The rule falls on 29 February only; the next one is in {first.nominal_local:%Y}."
    return ScheduleWarning("leap_day_only", detail)


def _every_month(plan: RecurrencePlan) -> ScheduleWarning | None:
    if plan.rule.rrule is None or not rrule.every_month(plan.rule.rrule):
        return None
    detail = (
        "BYMONTHDAY without BYMONTH runs in every month of the year; some calendars run it once"
        " a year, in the month of the start. Add BYMONTH if you mean one month."
    )
    return ScheduleWarning("every_month", detail)


def _on_leap_day(occurrence: Occurrence) -> bool:
    local = occurrence.nominal_local
    return (local.month, local.day) == _LEAP_DAY
