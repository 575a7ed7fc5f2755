"""What becomes of due occurrences: pure decisions."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from postdate.model import recurrence, remembered
from postdate.model.expansion import ENTRIES_MOST, Progress, Step, decide, next_due
from postdate.model.recurrence import Plan
from postdate.model.schedule import (
    Dst,
    Gap,
    Misfire,
    MisfirePolicy,
    Occurrence,
    Overlap,
    Policies,
    Repeated,
    Rule,
    Status,
    jitter,
    occurrence_id,
)

ID = UUID("01890000-0000-7005-8000-000000000001")
START = datetime(2026, 3, 1, tzinfo=UTC)
DST = Dst(gap=Gap.SHIFT_FORWARD, repeated=Repeated.FIRST)
MINUTE = timedelta(minutes=1)


def plan(**fields: Any) -> Plan:
    return Plan(Rule(**(fields or {"every_seconds": 60})), DST)


def step(now: datetime, policies: Policies | None = None, **progress: Any) -> Step:
    standing = {"schedule_id": ID, "handled": START, **progress}
    return decide(plan(), policies or Policies(), Progress(**standing), now)


def labels(done: Step) -> list[Status]:
    return [entry.status for entry in done.entries]


def test_nothing_is_due_before_its_instant() -> None:
    done = step(START + MINUTE - timedelta(microseconds=1))
    assert done.entries == []
    assert done.next_due == START + MINUTE
    assert step(START + MINUTE).entries[0].occurrence.scheduled_for == START + MINUTE


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_the_result_does_not_depend_on_the_size_of_a_step(most: int) -> None:
    policies = Policies(misfire=Misfire(policy=MisfirePolicy.FIRE_ONCE))
    now = START + timedelta(hours=3, seconds=30)
    progress = Progress(schedule_id=ID, handled=START)
    seen: list[tuple[datetime, Status]] = []
    for _ in range(400):
        done = decide(plan(), policies, progress, now, most)
        seen += [(entry.occurrence.scheduled_for, entry.status) for entry in done.entries]
        progress = replace(progress, handled=done.handled, runs=done.runs)
        if done.next_due is None or done.next_due > now:
            break
    assert [at for at, _ in seen] == [START + n * MINUTE for n in range(1, 181)]
    assert [status for _, status in seen] == [Status.MISSED] * 179 + [Status.FIRED]


def test_one_step_is_bounded() -> None:
    policies = Policies(misfire=Misfire(policy=MisfirePolicy.SKIP))
    done = step(START + timedelta(days=30), policies)
    assert len(done.entries) == ENTRIES_MOST
    assert done.next_due is not None
    assert done.next_due <= START + timedelta(days=30)


def test_a_hiccup_shorter_than_late_after_loses_nothing() -> None:
    rule = plan(every_seconds=1)
    progress = Progress(schedule_id=ID, handled=START)
    done = decide(rule, Policies(), progress, START + timedelta(seconds=45))
    assert labels(done) == [Status.FIRED] * 45


def test_fire_once_fires_the_newest_that_can_run() -> None:
    # Daily at nine, down from Friday to Sunday noon; Sunday is excluded, so Saturday's runs.
    rule = Plan(Rule(cron="0 9 * * *", exclude_dates=((START + timedelta(days=7)).date(),)), DST)
    progress = Progress(schedule_id=ID, handled=START + timedelta(days=4, hours=12))
    done = decide(rule, Policies(), progress, START + timedelta(days=7, hours=12))
    assert labels(done) == [Status.MISSED, Status.LATE, Status.SKIPPED_BY_CALENDAR]


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
    progress = Progress(schedule_id=ID, handled=START)
    daily = plan(cron="0 9 * * *")
    due = next_due(daily, policies, progress)
    nominal = START + timedelta(hours=9)
    assert due == nominal + shift
    assert decide(daily, policies, progress, due - timedelta(microseconds=1)).entries == []
    done = decide(daily, policies, progress, due)
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
    assert buffered.unbuffered == [(START + 2 * MINUTE, Status.SKIPPED_BY_OVERLAP)]
    assert buffered.buffered_for == START + 3 * MINUTE
    assert buffered.next_due == now + timedelta(seconds=1)


def test_a_buffered_one_goes_when_the_one_before_has_ended() -> None:
    policies = Policies(overlap=Overlap.BUFFER_ONE)
    now = START + timedelta(seconds=90)
    waits = step(now, policies, handled=START + MINUTE, running=True, buffered_for=START + MINUTE)
    assert (waits.unbuffered, waits.buffered_for) == ([], START + MINUTE)
    goes = step(now, policies, handled=START + MINUTE, buffered_for=START + MINUTE)
    assert goes.unbuffered == [(START + MINUTE, Status.FIRED)]
    assert (goes.buffered_for, goes.runs) == (None, 1)
    assert goes.next_due == START + 2 * MINUTE


def test_max_runs_ends_a_schedule_at_once() -> None:
    ends = plan(every_seconds=60, max_runs=2)
    progress = Progress(schedule_id=ID, handled=START, runs=1)
    done = decide(ends, Policies(), progress, START + MINUTE)
    assert (done.runs, done.next_due) == (2, None)
    assert next_due(ends, Policies(), replace(progress, runs=2)) is None


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
        asked = Plan(draw.choice(rules), DST)
        after = START + timedelta(seconds=draw.randrange(12 * 86_400))
        count = draw.choice([1, 3, 40, 200])
        ours = list(islice(remembered.occurrences(asked, after), count))
        assert ours == list(islice(recurrence.occurrences(asked, after), count))


def test_an_iterator_that_nobody_used_changes_nothing() -> None:
    asked = Plan(Rule(cron="11 * * * *", timezone="Asia/Tokyo"), DST)
    remembered.occurrences(asked, START)
    later = START + timedelta(hours=7)
    [ours] = islice(remembered.occurrences(asked, later), 1)
    assert ours.scheduled_for > later


def test_what_is_due_is_computed_once_though_a_new_one_asked_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walks = []
    computed = recurrence.occurrences

    def counted(plan: Plan, after: datetime) -> Iterator[Occurrence]:
        walks.append(after)
        return computed(plan, after)

    monkeypatch.setattr(remembered, "computed", counted)
    asked = Plan(Rule(cron="13 * * * *", timezone="Asia/Tokyo"), DST)
    for minutes in (40, *[0] * 50, 40, 20):
        next(remembered.occurrences(asked, START + timedelta(minutes=minutes)))
    assert len(walks) == 2


def test_nothing_is_lost_where_the_memory_ends() -> None:
    asked = Plan(Rule(every_seconds=60), DST)
    for minutes in range(0, 300, 7):
        after = START + timedelta(minutes=minutes)
        ours = list(islice(remembered.occurrences(asked, after), 3))
        assert [each.scheduled_for for each in ours] == [after + MINUTE * n for n in (1, 2, 3)]
