"""What becomes of due occurrences: pure decisions."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from postdate.recurrence import plan as recurrence
from postdate.recurrence import remembered
from postdate.recurrence.calendar import Calendar, Roll
from postdate.recurrence.plan import RecurrencePlan
from postdate.recurrence.rule import EPOCH, Dst, Gap, Occurrence, Repeated, Rule, Status
from postdate.schedule.spec.expansion import (
    MAX_ENTRIES,
    ExpansionProgress,
    ExpansionStep,
    decide,
    next_due,
)
from postdate.schedule.spec.schedule import (
    Definition,
    Misfire,
    MisfirePolicy,
    Overlap,
    Policies,
    Template,
    jitter,
    occurrence_id,
)
from postdate.schedule.spec.timeline import CalendarVersion, Segment, Version, segments, upcoming

ID = UUID("01890000-0000-7005-8000-000000000001")
START = datetime(2026, 3, 1, tzinfo=UTC)
DST = Dst(gap=Gap.SHIFT_FORWARD, repeated=Repeated.FIRST)
MINUTE = timedelta(minutes=1)


def plan(**fields: Any) -> RecurrencePlan:
    return RecurrencePlan(Rule(**(fields or {"every_seconds": 60})), DST)


def held(
    plan: RecurrencePlan,
    policies: Policies | None = None,
    until: datetime | None = None,
    version: int = 1,
) -> Segment:
    """One version that decides, from the beginning on."""
    definition = Definition(
        rule=plan.rule, template=Template(), policies=policies or Policies(), name=""
    )
    return Segment(version, definition, plan, EPOCH, until)


def step(now: datetime, policies: Policies | None = None, **progress: Any) -> ExpansionStep:
    standing = {"schedule_id": ID, "handled": START, **progress}
    return decide([held(plan(), policies)], ExpansionProgress(**standing), now)


def labels(done: ExpansionStep) -> list[Status]:
    return [entry.status for entry in done.entries]


def unbuffered(done: ExpansionStep) -> list[tuple[datetime, Status]]:
    return [(each.scheduled_for, each.status) for each in done.unbuffered]


def test_nothing_is_due_before_its_instant() -> None:
    done = step(START + MINUTE - timedelta(microseconds=1))
    assert done.entries == []
    assert done.next_due == START + MINUTE
    assert step(START + MINUTE).entries[0].occurrence.scheduled_for == START + MINUTE


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_the_result_does_not_depend_on_the_size_of_a_step(most: int) -> None:
    policies = Policies(misfire=Misfire(policy=MisfirePolicy.FIRE_ONCE))
    now = START + timedelta(hours=3, seconds=30)
    progress = ExpansionProgress(schedule_id=ID, handled=START)
    seen: list[tuple[datetime, Status]] = []
    for _ in range(400):
        done = decide([held(plan(), policies)], progress, now, most)
        seen += [(entry.occurrence.scheduled_for, entry.status) for entry in done.entries]
        progress = replace(progress, handled=done.handled, runs=done.runs)
        if done.next_due is None or done.next_due > now:
            break
    assert [at for at, _ in seen] == [START + n * MINUTE for n in range(1, 181)]
    late = [Status.MISSED] * 178 + [Status.LATE]
    assert [status for _, status in seen] == [*late, Status.FIRED]


def test_one_step_is_bounded() -> None:
    policies = Policies(misfire=Misfire(policy=MisfirePolicy.SKIP))
    done = step(START + timedelta(days=30), policies)
    assert len(done.entries) == MAX_ENTRIES
    assert done.next_due is not None
    assert done.next_due <= START + timedelta(days=30)


def test_a_hiccup_shorter_than_late_after_loses_nothing() -> None:
    rule = plan(every_seconds=1)
    progress = ExpansionProgress(schedule_id=ID, handled=START)
    done = decide([held(rule)], progress, START + timedelta(seconds=45))
    assert labels(done) == [Status.FIRED] * 45


def test_fire_once_fires_the_newest_that_can_run() -> None:
    # Daily at nine, down from Friday to Sunday noon; Sunday is excluded, so Saturday's runs.
    rule = RecurrencePlan(
        Rule(cron="0 9 * * *", exclude_dates=((START + timedelta(days=7)).date(),)), DST
    )
    progress = ExpansionProgress(schedule_id=ID, handled=START + timedelta(days=4, hours=12))
    done = decide([held(rule)], progress, START + timedelta(days=7, hours=12))
    assert labels(done) == [Status.MISSED, Status.LATE, Status.SKIPPED_BY_CALENDAR]


def test_fire_once_fires_the_newest_late_one_beside_those_in_time() -> None:
    done = step(START + timedelta(minutes=5, seconds=30))
    assert labels(done) == [Status.MISSED] * 3 + [Status.LATE, Status.FIRED]


@pytest.mark.parametrize("left_out", ["closed", "paused"])
def test_fire_once_fires_once_however_much_is_left_out_between(left_out: str) -> None:
    # Every minute, down from Friday evening to Monday morning: 2,880 minutes lie between.
    friday, monday = START + timedelta(days=5, hours=23), START + timedelta(days=8, hours=1)
    progress = ExpansionProgress(schedule_id=ID, handled=friday)
    calendar = Calendar("weekend", frozenset()) if left_out == "closed" else None
    if left_out == "paused":
        midnights = (START + timedelta(days=days) for days in (6, 8))
        progress = replace(progress, paused_at=next(midnights), resumed_at=next(midnights))
    segment = held(RecurrencePlan(Rule(cron="* * * * *"), DST, calendar))
    ran: list[datetime] = []
    while progress.handled <= monday:
        done = decide([segment], progress, monday + MINUTE)
        ran += [entry.occurrence.scheduled_for for entry in done.entries if entry.runs]
        progress = replace(progress, handled=done.handled, runs=done.runs)
    assert ran == [monday - MINUTE, monday, monday + MINUTE]


def test_cancel_running_is_asked_for_within_one_step() -> None:
    policies = Policies(overlap=Overlap.CANCEL_RUNNING, misfire=Misfire(late_after_seconds=600))
    done = step(START + timedelta(minutes=3), policies)
    assert labels(done) == [Status.FIRED] * 3
    assert done.cancel_running
    assert not step(START + MINUTE, policies).cancel_running


def test_each_version_decides_about_what_was_due_in_its_time() -> None:
    skip = Policies(misfire=Misfire(policy=MisfirePolicy.SKIP))
    change = START + timedelta(minutes=5)
    old = held(plan(), skip, until=change)
    new = replace(held(plan(every_seconds=120), version=2), after=change)
    progress = ExpansionProgress(schedule_id=ID, handled=START)
    done = decide([old, new], progress, START + timedelta(minutes=20, seconds=90))
    seen = [(entry.segment.version, entry.status) for entry in done.entries]
    later = [(2, Status.MISSED)] * 7 + [(2, Status.LATE)]
    assert seen == [(1, Status.MISSED)] * 5 + later
    assert done.next_due == START + timedelta(minutes=22)


def test_a_version_that_had_its_runs_makes_room_for_the_next() -> None:
    change = START + timedelta(seconds=270)
    old = held(plan(every_seconds=60, max_runs=2), until=change)
    new = replace(held(plan(every_seconds=60, max_runs=3), version=2), after=change)
    progress = ExpansionProgress(schedule_id=ID, handled=START)
    now = START + timedelta(minutes=9)
    late = replace(old.definition.policies, misfire=Misfire(late_after_seconds=3600))
    both = [replace(s, definition=replace(s.definition, policies=late)) for s in (old, new)]
    done = decide(both, progress, now)
    minutes = [(e.occurrence.scheduled_for - START) // MINUTE for e in done.entries]
    assert minutes == [1, 2, 5]
    assert (done.runs, done.next_due) == (3, None)


def test_time_is_divided_among_versions_and_calendars() -> None:
    def version(number: int, minutes: int, until: int | None = None, **rule: Any) -> Version:
        return Version(
            number=number,
            since=START + minutes * MINUTE,
            previous_until=START + (minutes if until is None else until) * MINUTE,
            definition=replace(held(plan(every_seconds=60, **rule)).definition),
        )

    def shown(versions: list[Version], *calendar_minutes: int) -> list[tuple[int, Any, Any]]:
        known = [
            CalendarVersion(START + m * MINUTE, Calendar(f"{m}", frozenset()))
            for m in calendar_minutes
        ]
        return [
            (s.version, s.plan.calendar and s.plan.calendar.name, s.until and minute(s.until))
            for s in segments(versions, {"days": known})
        ]

    def minute(at: datetime) -> int:
        return (at - START) // MINUTE

    assert shown([version(1, 0)]) == [(1, None, None)]
    assert shown([version(1, 0), version(2, 10)]) == [(1, None, 10), (2, None, None)]
    # A name: the second decides about everything since the first was made.
    assert shown([version(1, 0), version(2, 0)]) == [(1, None, 0), (2, None, None)]
    # It had ended at 5; nothing is expected between 5 and 10.
    assert shown([version(1, 0), version(2, 10, 5)]) == [(1, None, 5), (2, None, None)]
    # The third takes over where the first stands: the second decides about nothing.
    over = [version(1, 0), version(2, 10), version(3, 4)]
    assert shown(over) == [(1, None, 4), (3, None, None)]
    assert shown([version(1, 0, calendar="days")], 3, 7) == [(1, "3", 7), (1, "7", None)]
    both = [version(1, 0, calendar="days"), version(2, 5, calendar="days")]
    assert shown(both, 3, 7) == [(1, "3", 5), (2, "3", 7), (2, "7", None)]


def test_late_ones_are_paced_and_fresh_ones_wait_behind_them() -> None:
    policies = Policies(misfire=Misfire(policy=MisfirePolicy.FIRE_ALL, per_minute=120))
    now = START + timedelta(minutes=10, seconds=1)
    done = step(now, policies)
    assert labels(done) == [Status.LATE]
    assert done.next_due == now + timedelta(seconds=0.5)


def test_max_lateness_ends_in_missed_whatever_the_policy() -> None:
    misfire = Misfire(policy=MisfirePolicy.FIRE_ALL, max_lateness_seconds=90)
    done = step(START + timedelta(minutes=5), Policies(misfire=misfire))
    assert labels(done) == [Status.MISSED] * 3 + [Status.FIRED] * 2


def test_jitter_is_for_ever_the_same_and_moves_the_timer_only() -> None:
    policies = Policies(jitter_seconds=3600)
    shift = jitter(ID, 3600)
    assert timedelta(0) < shift < timedelta(hours=1)
    progress = ExpansionProgress(schedule_id=ID, handled=START)
    daily = plan(cron="0 9 * * *")
    due = next_due([held(daily, policies)], progress)
    nominal = START + timedelta(hours=9)
    assert due == nominal + shift
    assert decide([held(daily, policies)], progress, due - timedelta(microseconds=1)).entries == []
    done = decide([held(daily, policies)], progress, due)
    assert [(e.occurrence.scheduled_for, e.due_at) for e in done.entries] == [(nominal, due)]
    ids = [UUID(int=n << 64 | n * 7919) for n in range(4000)]
    places = [jitter(each, 3600).total_seconds() // 360 for each in ids]
    counts = [places.count(n) for n in range(10)]
    assert min(counts) > 300
    assert max(counts) < 500


def test_overlap_sees_what_the_same_step_started() -> None:
    now = START + timedelta(seconds=200)
    late = Misfire(late_after_seconds=600)
    skip = step(now, Policies(overlap=Overlap.SKIP, misfire=late))
    assert labels(skip) == [Status.FIRED, Status.SKIPPED_BY_OVERLAP, Status.SKIPPED_BY_OVERLAP]
    buffered = step(now, Policies(overlap=Overlap.BUFFER_ONE, misfire=late))
    assert labels(buffered) == [Status.FIRED, Status.BUFFERED, Status.BUFFERED]
    assert unbuffered(buffered) == [(START + 2 * MINUTE, Status.SKIPPED_BY_OVERLAP)]
    assert buffered.buffered_for == START + 3 * MINUTE
    assert buffered.next_due == now + timedelta(seconds=1)


def test_a_buffered_one_goes_when_the_one_before_has_ended() -> None:
    policies = Policies(overlap=Overlap.BUFFER_ONE)
    now = START + timedelta(seconds=90)
    waits = step(now, policies, handled=START + MINUTE, running=True, buffered_for=START + MINUTE)
    assert (waits.unbuffered, waits.buffered_for) == ([], START + MINUTE)
    goes = step(now, policies, handled=START + MINUTE, buffered_for=START + MINUTE)
    assert unbuffered(goes) == [(START + MINUTE, Status.FIRED)]
    assert (goes.buffered_for, goes.runs) == (None, 1)
    assert goes.next_due == START + 2 * MINUTE


def test_a_buffered_one_waits_for_a_clock_that_was_put_back() -> None:
    """Somebody changes the schedule then, which sets its timer: it ran as early as that."""
    now, policies = START + 2 * MINUTE, Policies(overlap=Overlap.BUFFER_ONE)
    later = START + 5 * MINUTE
    waits = step(now, policies, handled=later, buffered_for=later)
    assert (waits.unbuffered, waits.buffered_for, waits.next_due) == ([], later, later)


def test_max_runs_ends_a_schedule_at_once() -> None:
    ends = plan(every_seconds=60, max_runs=2)
    progress = ExpansionProgress(schedule_id=ID, handled=START, runs=1)
    done = decide([held(ends)], progress, START + MINUTE)
    assert (done.runs, done.next_due) == (2, None)
    assert next_due([held(ends)], replace(progress, runs=2)) is None


def test_a_pause_is_an_interval() -> None:
    now = START + timedelta(minutes=5)
    done = step(
        now,
        Policies(misfire=Misfire(late_after_seconds=600)),
        paused_at=START + timedelta(seconds=90),
        resumed_at=START + timedelta(seconds=200),
    )
    skipped = [Status.SKIPPED_BY_PAUSE] * 2
    assert labels(done) == [Status.FIRED, *skipped, Status.FIRED, Status.FIRED]


def test_an_occurrence_has_one_id() -> None:
    at = START + MINUTE
    assert occurrence_id(ID, at) == occurrence_id(ID, at)
    assert occurrence_id(ID, at) < occurrence_id(ID, at + MINUTE)
    assert occurrence_id(ID, at) != occurrence_id(ID, at, "trigger")
    assert occurrence_id(ID, at).version == 7


def test_what_is_remembered_is_what_is_computed() -> None:
    draw = random.Random(7)
    rules = [
        Rule(cron="*/7 * * * *", timezone="America/New_York"),
        Rule(cron="30 2 * * *", timezone="Europe/Berlin", exclude_dates=(START.date(),)),
        Rule(every_seconds=61),
        Rule(rrule="FREQ=DAILY;COUNT=9", start_at=START),
        Rule(cron="0 0 1 * *", end_at=START + timedelta(days=100)),
    ]
    for _ in range(400):
        asked = RecurrencePlan(draw.choice(rules), DST)
        after = START + timedelta(seconds=draw.randrange(12 * 86_400))
        count = draw.choice([1, 3, 40, 200])
        ours = list(islice(remembered.occurrences(asked, after), count))
        assert ours == list(islice(recurrence.occurrences(asked, after), count))


def test_an_iterator_that_nobody_used_changes_nothing() -> None:
    asked = RecurrencePlan(Rule(cron="11 * * * *", timezone="Asia/Tokyo"), DST)
    remembered.occurrences(asked, START)
    later = START + timedelta(hours=7)
    [ours] = islice(remembered.occurrences(asked, later), 1)
    assert ours.scheduled_for > later


def test_what_is_due_is_computed_once_though_a_new_one_asked_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walks = []
    computed = recurrence.occurrences

    def counted(plan: RecurrencePlan, after: datetime) -> Iterator[Occurrence]:
        walks.append(after)
        return computed(plan, after)

    monkeypatch.setattr(remembered, "computed", counted)
    asked = RecurrencePlan(Rule(cron="13 * * * *", timezone="Asia/Tokyo"), DST)
    for minutes in (40, *[0] * 50, 40, 20):
        next(remembered.occurrences(asked, START + timedelta(minutes=minutes)))
    assert len(walks) == 2


def test_nothing_is_lost_where_the_memory_ends() -> None:
    asked = RecurrencePlan(Rule(every_seconds=60), DST)
    for minutes in range(0, 300, 7):
        after = START + timedelta(minutes=minutes)
        ours = list(islice(remembered.occurrences(asked, after), 3))
        assert [each.scheduled_for for each in ours] == [after + MINUTE * n for n in (1, 2, 3)]


def test_a_walk_that_broke_off_does_not_look_like_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = recurrence.occurrences

    def broken(plan: RecurrencePlan, after: datetime) -> Iterator[Occurrence]:
        yield from islice(computed(plan, after), 2)
        raise OverflowError("beyond the budget")

    asked = RecurrencePlan(Rule(cron="17 * * * *", timezone="Asia/Tokyo"), DST)
    monkeypatch.setattr(remembered, "computed", broken)
    with pytest.raises(OverflowError):
        list(islice(remembered.occurrences(asked, START), 3))
    with pytest.raises(OverflowError):
        list(islice(remembered.occurrences(asked, START), 3))
    monkeypatch.setattr(remembered, "computed", computed)
    assert len(list(islice(remembered.occurrences(asked, START), 3))) == 3


def test_no_upload_of_a_calendar_runs_an_occurrence_twice_or_never() -> None:
    """Whatever the calendars say and whenever they change: each wall-clock time runs once."""
    draw = random.Random(16)
    rule = Rule(cron="0 9,15 * * *", calendar="days", roll=Roll.NONE)
    for _ in range(60):
        roll = draw.choice([Roll.FOLLOWING, Roll.PRECEDING, Roll.MODIFIED_FOLLOWING])
        days = [START.date() + timedelta(days=n) for n in range(40)]
        instants = sorted(START + timedelta(hours=draw.randrange(24, 30 * 24)) for _ in range(3))
        known = [
            CalendarVersion(at, Calendar("days", frozenset(draw.sample(days, 9)), frozenset()))
            for at in (START, *instants)
        ]
        definition = replace(held(RecurrencePlan(replace(rule, roll=roll), DST)).definition)
        only = Version(number=1, since=START, previous_until=START, definition=definition)
        seen: list[datetime] = []
        handled = START
        for _, each in upcoming(segments([only], {"days": known}), START):
            if each.scheduled_for > START + timedelta(days=38):
                break
            assert each.scheduled_for >= handled
            handled = each.scheduled_for
            seen += [each.nominal_local, *each.merged]
        wanted = [datetime.combine(day, time(hour)) for day in days[2:33] for hour in (9, 15)]
        assert [seen.count(local) for local in wanted] == [1] * len(wanted)
