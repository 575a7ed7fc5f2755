"""What a schedule must be like, and the defaults that every answer shows."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Final

from msgspec.structs import replace

from postdate.model import cron, rrule, zone
from postdate.model.calendar import Calendar, Roll
from postdate.model.errors import Code, RefusedError, refuse
from postdate.model.recurrence import Plan, occurrences
from postdate.model.schedule import (
    EPOCH,
    Definition,
    Dst,
    Gap,
    Overlap,
    Policies,
    Repeated,
    Rule,
    Template,
)

ROLL_LEAST_SECONDS: Final = 3600
"""A rule that rolls keeps at least this distance: all that rolls onto a day is sorted at once."""

FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAST: Final = datetime(2200, 1, 1, tzinfo=UTC)
"""Schedules live between these instants, far from where the calendar of computers ends."""

SAMPLE: Final = 400
SAMPLE_SPAN: Final = timedelta(days=400)
"""How many occurrences, how far ahead, are looked at for the shortest distance between two."""


def completed(definition: Definition, now: datetime) -> Definition:
    """Check the form of a rule, and fill in what it takes from the present."""
    rule = definition.rule
    _check_form(rule)
    if rule.rrule is not None and rule.start_at is None:
        # The next whole second, so that the first of COUNT occurrences is still to come.
        rule = replace(rule, start_at=now.replace(microsecond=0) + timedelta(seconds=1))
    rule = replace(rule, start_at=_utc(rule.start_at), end_at=_utc(rule.end_at))
    return replace(definition, rule=rule)


def policies_of(definition: Definition) -> Policies:
    """Give the policies with every default filled in.

    A rule that does not fix the hour means an interval: it goes on through a repeated hour and has
    nothing to catch up on in a missing one. A fixed hour means once a day.
    """
    policies, interval = definition.policies, _is_interval(definition.rule)
    dst = Dst(
        gap=policies.dst.gap or (Gap.SKIP if interval else Gap.SHIFT_FORWARD),
        repeated=policies.dst.repeated or (Repeated.BOTH if interval else Repeated.FIRST),
    )
    return replace(policies, dst=dst)


def plan_of(definition: Definition, calendar: Calendar | None = None) -> Plan:
    """Put together all that decides when a schedule is due."""
    return Plan(definition.rule, policies_of(definition).dst, calendar)


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)


def _is_interval(rule: Rule) -> bool:
    if rule.cron is not None:
        return cron.every_hour(rule.cron)
    return rule.rrule is None or rrule.every_hour(rule.rrule)


def _check_form(rule: Rule) -> None:
    given = [name for name in ("cron", "every_seconds", "rrule") if getattr(rule, name) is not None]
    if len(given) != 1:
        wrong = given[1] if given else "cron"
        raise _wrong(wrong, "Give one of cron, every_seconds and rrule.")
    zone.find(rule.timezone)
    if rule.cron is not None:
        cron.validate(rule.cron)
    if rule.rrule is not None:
        rrule.validate(rule.rrule)
    for name in ("start_at", "end_at"):
        at = getattr(rule, name)
        if at is not None and not FIRST <= at <= LAST:
            raise _wrong(name, f"It lies between the years {FIRST:%Y} and {LAST:%Y}.")


def check(
    definition: Definition, calendar: Calendar | None, now: datetime, min_interval_seconds: float
) -> None:
    """Refuse a completed schedule that cannot be kept, naming the part that is wrong."""
    rule, policies = definition.rule, definition.policies
    _check_template(definition.template, policies)
    if rule.start_at is not None and rule.end_at is not None and rule.end_at <= rule.start_at:
        raise _wrong("end_at", "The end lies before the start.")
    if rule.end_at is not None and rule.end_at <= now:
        raise _wrong("end_at", "The end lies in the past.")
    if rule.roll is not Roll.NONE and calendar is None:
        raise _wrong("roll", "Rolling needs a calendar.")
    if rule.roll is not Roll.NONE and rule.every_seconds is not None:
        raise _wrong("roll", "An interval does not roll; give a cron or an rrule.")
    _check_occurrences(plan_of(definition, calendar), now, min_interval_seconds)


def _check_template(template: Template, policies: Policies) -> None:
    if (template.job is None) == (template.payment is None):
        raise _wrong("template", "A template has either a job or a payment.")
    payment = template.payment
    if payment is not None and payment.from_account_id == payment.to_account_id:
        detail = f"{payment.to_account_id} cannot pay itself."
        raise refuse(Code.SELF_PAYMENT, detail, "template.payment.to_account_id")
    if policies.overlap is Overlap.CANCEL_RUNNING and template.job is None:
        raise _wrong("overlap", "Only a job can be cancelled while it is running.")


def _check_occurrences(plan: Plan, now: datetime, min_interval_seconds: float) -> None:
    rule = plan.rule
    named = "cron" if rule.cron else "rrule" if rule.rrule else "every_seconds"
    begin = max(now, rule.start_at or EPOCH) - timedelta(seconds=1)
    sample = _sample(plan, begin)
    if not sample or not any(
        each.skip is None for each in islice(occurrences(plan, begin), SAMPLE)
    ):
        field = "end_at" if rule.end_at is not None and sample else named
        raise _wrong(field, "There is no occurrence in all the time to come.")
    least = max(min_interval_seconds, ROLL_LEAST_SECONDS if rule.roll is not Roll.NONE else 0)
    shortest = min(((b - a).total_seconds() for a, b in pairwise(sample)), default=least)
    if shortest < least:
        raise _wrong(named, f"Occurrences lie {shortest:g} s apart; {least:g} s is the least.")


def _sample(plan: Plan, begin: datetime) -> list[datetime]:
    """Give a year of occurrences on the wall clock alone; DST may push two together."""
    rule = replace(
        plan.rule, timezone="UTC", calendar=None, roll=Roll.NONE, exclude_dates=(), end_at=None
    )
    found: list[datetime] = []
    for each in islice(occurrences(Plan(rule, plan.dst), begin), SAMPLE):
        found.append(each.scheduled_for)
        if found[-1] - found[0] > SAMPLE_SPAN:
            break
    return found


def _wrong(field: str, detail: str) -> RefusedError:
    return refuse(Code.INVALID_FIELD, detail, field)
