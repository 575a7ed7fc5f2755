"""When a destination is called failing: by its latest answers, whatever a breaker says."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest

from postdate.delivery.call_log import CallLog
from postdate.destination.store.call import NodeCalls
from postdate.destination.view.destination_call import FAILING_ANSWERS, find_failing, summarize

KEY = (1, "shop")
NOW = datetime(2026, 11, 17, 3, 0, tzinfo=UTC)


def node(number: int, *answers: tuple[float, bool], target: str = "shop") -> NodeCalls:
    """Answers are seconds ago, the newest last."""
    return NodeCalls(
        target=target,
        node_id=UUID(int=number),
        calls=len(answers),
        successes=sum(good for _, good in answers),
        p50_ms=1,
        p99_ms=2,
        answers=[(ago, 1, good, "ok" if good else f"http_404 {ago:g}") for ago, good in answers],
        reported_at=NOW,
    )


def since(*reports: NodeCalls, changed: float | None = None) -> float | None:
    """Return how many seconds ago the failures began."""
    summary = summarize(reports)
    assert summary is not None
    changed_at = None if changed is None else NOW - timedelta(seconds=changed)
    found = summary.failing_since(changed_at)
    return None if found is None else (NOW - found).total_seconds()


FAILURES = [(float(ago), False) for ago in range(FAILING_ANSWERS, 0, -1)]


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([node(1, (5, False))], 5),
        ([node(1, (5, True))], None),
        ([node(1, (9, False), (5, False))], 9),
        ([node(1, (5, False), (4, True))], None),
        # One success among few answers is one: it is not clear yet that it fails.
        ([node(1, (9, True), (5, False))], None),
        # So many failures in a row are clear, whatever came before them.
        ([node(1, (99, True), *FAILURES)], FAILING_ANSWERS),
        ([node(1, (99, True), *FAILURES[1:])], None),
        # Nodes are taken together, by when they were answered.
        ([node(1, (50, False)), node(2, (40, True))], None),
        ([node(1, (9, False), (3, False)), node(2, (7, False))], 9),
    ],
)
def test_failing_is_what_none_of_the_latest_answers_denies(
    reports: list[NodeCalls], expected: float | None
) -> None:
    assert since(*reports) == expected


def test_what_was_answered_before_a_change_says_nothing_about_it_now() -> None:
    before = node(1, (50, False), (40, False))
    assert since(before, changed=30) is None
    assert since(before, changed=45) == 45
    assert since(node(1, (50, True), (20, False)), changed=30) == 20


def logged(now: float, *calls: tuple[float, bool], number: int = 1) -> NodeCalls:
    """Return what a node reports that has made calls: seconds ago, the newest last."""
    log = CallLog()
    for ago, good in calls:
        log.record(KEY, now - ago, 0.001, succeeded=good, answer="")
    report = log.reports(now)[KEY]
    return msgspec.structs.replace(node(number), calls=report.calls, answers=list(report.answers))


def test_the_beginning_of_failures_does_not_move_with_the_latest_of_them() -> None:
    hour = [(float(ago), False) for ago in range(3600, 0, -1)]
    assert since(logged(1e6, *hour)) == 3600
    assert since(logged(1e6, (3700, True), *hour)) == 3600
    assert since(logged(1e6, *hour), changed=1800) == 1800
    # Another node succeeded in between.
    half = [(float(ago), False) for ago in range(1800, 0, -1)]
    other = logged(1e6, (1900.5, True), *half, number=2)
    assert since(logged(1e6, *hour), other) == 1800
    # One that was started later says nothing about the time before.
    assert since(logged(1e6, *hour), logged(1e6, *half, number=2)) == 3600
    assert since(logged(1e6, *hour, (0.5, True))) is None


def test_of_those_in_doubt_the_failing_ones_are_found() -> None:
    doubted = {"a": None, "b": None, "c": NOW}
    reports = [
        node(1, (5, False), target="a"),
        node(1, (7, True), (6, False), target="b"),
        node(1, (9, False), target="c"),
        node(2, (8, False), (4, False), target="a"),
    ]
    [found] = find_failing(doubted, reports)
    assert (found.label, found.since, found.answer) == (
        "a",
        NOW - timedelta(seconds=8),
        "http_404 4",
    )
