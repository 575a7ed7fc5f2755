"""What a schedule must be like, and the defaults that every answer shows."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from postdate.recurrence import cron, rrule, zone
from postdate.recurrence.budget import HORIZON
from postdate.recurrence.calendar import Calendar, Roll
from postdate.recurrence.plan import RecurrencePlan, first_that_runs, occurrences, wall_clock
from postdate.recurrence.rule import EPOCH, Dst, Gap, Occurrence, Repeated, Rule
from postdate.schedule.spec.schedule import Definition, Overlap, Policies, Template
from postdate.words.error import Code, RefusedError, refuse

MIN_ROLL_SECONDS: Final = 3600
"""A rule that rolls keeps at least this distance: all that rolls onto a day is sorted at once."""

FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAST: Final = datetime(HORIZON.year, HORIZON.month, HORIZON.day, tzinfo=UTC)
"""Schedules live between these instants; a search for an occurrence ends where they do."""

SAMPLE: Final = 400
SAMPLE_SPAN: Final = timedelta(days=400)
"""How many occurrences, how far ahead, are compared to find the shortest interval."""


def completed(definition: Definition, now: datetime) -> Definition:
    """Check the form of a rule, and fill in what it takes from the present."""
    rule = definition.rule
    _check_form(rule)
    if rule.rrule is not None and rule.start_at is None:
        rule = replace(rule, start_at=_default_start(rule.rrule, now))
    rule = replace(rule, start_at=_utc(rule.start_at), end_at=_utc(rule.end_at))
    return replace(definition, rule=rule)


def _default_start(text: str, now: datetime) -> datetime:
    """Return the next whole minute: a rule that leaves the seconds open fires at :00.

    A rule of seconds starts with the next one. Either lies ahead, so that the first of COUNT
    occurrences is still to come.
    """
    if rrule.every_second(text):
        return now.replace(microsecond=0) + timedelta(seconds=1)
    return now.replace(second=0, microsecond=0) + timedelta(minutes=1)


def policies_of(definition: Definition) -> Policies:
    """Return the policies with every default filled in.

    A rule that does not fix the hour means an interval: it goes on through a repeated hour and has
    nothing to catch up on in a missing one. A fixed hour means once a day.
    """
    policies, interval = definition.policies, _is_interval(definition.rule)
    dst = Dst(
        gap=policies.dst.gap or (Gap.SKIP if interval else Gap.SHIFT_FORWARD),
        repeated=policies.dst.repeated or (Repeated.BOTH if interval else Repeated.FIRST),
    )
    return replace(policies, dst=dst)


def plan_of(definition: Definition, calendar: Calendar | None = None) -> RecurrencePlan:
    """Collect all that decides when a schedule is due."""
    return RecurrencePlan(definition.rule, policies_of(definition).dst, calendar)


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
    zone.get(rule.timezone)
    if rule.cron is not None:
        cron.validate(rule.cron)
    if rule.rrule is not None:
        rrule.validate(rule.rrule)
    for name in ("start_at", "end_at"):
        at = getattr(rule, name)
        if at is not None and not FIRST <= at <= LAST:
            raise _wrong(name, f"It must be between the years {FIRST:%Y} and {LAST:%Y}.")


def check(
    definition: Definition, calendar: Calendar | None, now: datetime, min_interval_seconds: float
) -> None:
    """Refuse a completed schedule that cannot be kept, naming the part that is wrong."""
    check_parts(definition.rule, calendar, now)
    _check_occurrences(plan_of(definition, calendar), now, min_interval_seconds)


def check_parts(rule: Rule, calendar: Calendar | None, now: datetime) -> None:
    """Refuse parts of a rule that do not fit together, whatever its occurrences are."""
    if rule.start_at is not None and rule.end_at is not None and rule.end_at < rule.start_at:
        raise _wrong("end_at", "The end is before the start.")
    if rule.end_at is not None and rule.end_at <= now:
        raise _wrong("end_at", "The end is in the past.")
    if rule.roll is not Roll.NONE and calendar is None:
        raise _wrong("roll", "Rolling needs a calendar.")
    if rule.roll is not Roll.NONE and rule.every_seconds is not None:
        raise _wrong("roll", "An interval does not roll; give a cron or an rrule.")


def check_template(template: Template, policies: Policies) -> None:
    """Refuse a template that no occurrence could become."""
    if (template.job is None) == (template.payment is None):
        raise _wrong("template", "A template has either a job or a payment.")
    payment = template.payment
    if payment is not None and payment.from_account_id == payment.to_account_id:
        detail = f"{payment.to_account_id} cannot pay itself."
        raise refuse(Code.SELF_PAYMENT, detail, "template.payment.to_account_id")
    if policies.overlap is Overlap.CANCEL_RUNNING and template.job is None:
        raise _wrong("overlap", "Only a job can be cancelled while it is running.")


def _check_occurrences(plan: RecurrencePlan, now: datetime, min_interval_seconds: float) -> None:
    rule = plan.rule
    named = "cron" if rule.cron else "rrule" if rule.rrule else "every_seconds"
    # Before anything is rolled: what rolls in seconds or minutes would be sorted by thousands.
    minimum = min_distance(rule, min_interval_seconds)
    shortest = shortest_distance(plan, now)
    if shortest is not None and shortest < minimum:
        raise _wrong(named, f"Occurrences lie {shortest:g} s apart; {minimum:g} s is the minimum.")
    if first_run(plan, now) is None:
        # The end is to blame where the rule would go on without it.
        endless = plan._replace(rule=replace(rule, end_at=None))
        ends = rule.end_at is not None and first_run(endless, now) is not None
        detail = f"No occurrence runs between now and {rule.end_at if ends else LAST:%Y-%m-%d}."
        raise _wrong("end_at" if ends else named, detail)


def first_run(plan: RecurrencePlan, now: datetime) -> Occurrence | None:
    """Return the first occurrence to come that is not left out."""
    return first_that_runs(plan, _begin(plan.rule, now))


def min_distance(rule: Rule, min_interval_seconds: float) -> float:
    """Return the seconds that must lie between two occurrences of a rule."""
    return max(min_interval_seconds, MIN_ROLL_SECONDS if rule.roll is not Roll.NONE else 0)


def rolls_too_often(plan: RecurrencePlan, now: datetime) -> bool:
    """Return whether a rule that rolls is too dense to be followed, even for a preview."""
    shortest = shortest_distance(plan, now) if plan.rule.roll is not Roll.NONE else None
    return shortest is not None and shortest < MIN_ROLL_SECONDS


def shortest_distance(plan: RecurrencePlan, now: datetime) -> float | None:
    """Return the seconds between the two closest occurrences of the next year or so."""
    return min(((b - a).total_seconds() for a, b in pairwise(sample(plan, now))), default=None)


def sample(plan: RecurrencePlan, now: datetime) -> list[datetime]:
    """Return a year of occurrences on the wall clock alone; DST may push two together."""
    found: list[datetime] = []
    for at in islice(_unmoved(plan, _begin(plan.rule, now)), SAMPLE):
        found.append(at)
        if at - found[0] > SAMPLE_SPAN:
            break
    return found


def _unmoved(plan: RecurrencePlan, after: datetime) -> Iterator[datetime]:
    if plan.rule.every_seconds is None:
        return wall_clock(plan, after)
    rule = Rule(every_seconds=plan.rule.every_seconds, start_at=plan.rule.start_at)
    return (each.scheduled_for for each in occurrences(RecurrencePlan(rule, plan.dst), after))


def refuse_unreadable(schedule_id: UUID) -> RefusedError:
    """Refuse what needs to know a schedule whose stored definition can no longer be read."""
    detail = f"The stored schedule {schedule_id} cannot be read; create it again."
    return refuse(Code.INVALID_FIELD, detail)


def _begin(rule: Rule, now: datetime) -> datetime:
    return max(now, rule.start_at or EPOCH) - timedelta(seconds=1)


def _wrong(field: str, detail: str) -> RefusedError:
    return refuse(Code.INVALID_FIELD, detail, field)


def check_instant(name: str, at: datetime | None) -> None:
    """Refuse an instant outside the supported years."""
    if at is not None and not FIRST <= at <= LAST:
        detail = f"It must be between the years {FIRST:%Y} and {LAST:%Y}."
        raise refuse(Code.INVALID_FIELD, detail, name)
