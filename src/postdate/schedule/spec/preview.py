"""What a schedule is going to do: shown before and after it is created, by the same code."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from uuid import UUID

import msgspec

from postdate.recurrence import zone
from postdate.recurrence.calendar import Calendar
from postdate.recurrence.rule import Status
from postdate.recurrence.words import in_words
from postdate.schedule.spec.expansion import Coming, ExpansionProgress, to_come
from postdate.schedule.spec.rule import check_parts, plan_of, rolls_too_often
from postdate.schedule.spec.schedule import Definition
from postdate.schedule.spec.timeline import Segment
from postdate.schedule.spec.warning import ScheduleWarning, warnings_of


class ComingView(msgspec.Struct, frozen=True, kw_only=True):
    """An occurrence to come: what the rule says, when that is, and what the policies did.

    `status` is there when it will not run. `local` is the wall clock at `scheduled_for`.
    """

    nominal_local: datetime
    local: datetime
    scheduled_for: datetime
    due_at: datetime
    notes: list[str]
    merged: list[datetime]
    status: Status | None


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """The next occurrences, in order, the rule in words, and what one should know about it."""

    words: str
    timezone: str
    tzdata: str
    occurrences: list[ComingView]
    warnings: list[ScheduleWarning]


def preview_stored(
    segments: Sequence[Segment], progress: ExpansionProgress, now: datetime, count: int
) -> Preview:
    """Show what a stored schedule is going to do; the newest version's calendar is the last."""
    last = segments[-1]
    shown = [_shown(each) for each in islice(to_come(segments, progress), count)]
    return _preview(last.definition, shown, warnings_of(last.plan, last.definition.policies, now))


def preview_unsaved(
    definition: Definition,
    calendar: Calendar | None,
    now: datetime,
    count: int,
    min_interval_seconds: float,
) -> Preview:
    """Show what a schedule would do if it were created now.

    Its place within its jitter is drawn with its id, so that `due_at` is without it.
    """
    check_parts(definition.rule, calendar, now)
    plan = plan_of(definition, calendar)
    progress = ExpansionProgress(schedule_id=UUID(int=0), handled=now)
    # What is refused for that reason is not followed for a preview either.
    count = 0 if rolls_too_often(plan, now) else count
    coming = islice(to_come([Segment(1, definition, plan, now)], progress), count)
    shown = [msgspec.structs.replace(_shown(e), due_at=e.occurrence.scheduled_for) for e in coming]
    warned = warnings_of(plan, definition.policies, now, min_interval_seconds)
    return _preview(definition, shown, warned)


def _preview(
    definition: Definition, shown: list[ComingView], warned: list[ScheduleWarning]
) -> Preview:
    rule = definition.rule
    return Preview(
        words=in_words(rule.cron, rule.every_seconds, rule.rrule, rule.start_at, rule.timezone),
        timezone=rule.timezone,
        tzdata=zone.VERSION,
        occurrences=shown,
        warnings=warned,
    )


def _shown(coming: Coming) -> ComingView:
    each = coming.occurrence
    return ComingView(
        nominal_local=each.nominal_local,
        local=each.scheduled_for.astimezone(zone.get(coming.segment.plan.rule.timezone)),
        scheduled_for=each.scheduled_for,
        due_at=coming.due_at,
        notes=list(each.notes),
        merged=list(each.merged),
        status=each.skip,
    )
