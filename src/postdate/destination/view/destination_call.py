"""The results of the latest calls to a target, by node and combined."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final
from uuid import UUID

import msgspec

from postdate.destination.store.call import NodeCalls

MAX_ROWS: Final = 200
"""Most reports that one page reads."""

MAX_NODES: Final = 20
"""Maximum reports per target when several targets are listed."""

MAX_ANSWERS: Final = 20
"""Most answers that are shown."""

FAILING_ANSWERS: Final = 10
"""A target is FAILING when none of its last answers, of this number, succeeded."""


DEGRADED_BELOW: Final = 0.9
"""A target is DEGRADED when a smaller part of its latest answers succeeded."""


class AnswerView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one call."""

    at: datetime
    target: str
    node_id: UUID
    duration_ms: int
    succeeded: bool
    answer: str


class CallSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The latest calls, at most 100 of each target by each node; p50 and p99 of the slowest."""

    calls: int
    successes: int
    p50_ms: int
    p99_ms: int
    reports: Sequence[NodeCalls]
    answers: list[AnswerView]
    """The newest first; those between which a target began to fail are among them."""

    @property
    def latest(self) -> list[AnswerView]:
        """Return the answers to show."""
        return self.answers[:MAX_ANSWERS]

    @property
    def success_percent(self) -> float:
        """Return the success rate in percent."""
        return round(100 * self.successes / self.calls, 1)

    def degraded(self, changed_at: datetime | None) -> bool:
        """Return whether fewer of the latest answers succeeded than of a healthy target."""
        known = [one for one in self.latest if changed_at is None or one.at > changed_at]
        successes = sum(one.succeeded for one in known)
        return len(known) >= FAILING_ANSWERS and successes < DEGRADED_BELOW * len(known)

    def failing_since(self, changed_at: datetime | None) -> datetime | None:
        """Return since when nothing has succeeded; None while one of the latest answers did.

        What was answered before the destination was changed or enabled says nothing about it now.
        """
        known = [one for one in self.answers if changed_at is None or one.at > changed_at]
        failed = list(takewhile(lambda one: not one.succeeded, self.answers))
        enough = min(FAILING_ANSWERS, len(known))
        if not known or len(failed) < enough:
            return None
        return failed[-1].at if changed_at is None else max(failed[-1].at, changed_at)


class FailingTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target that answers every call with a failure."""

    label: str
    since: datetime
    answer: str


def find_failing(
    doubted: Mapping[str, datetime | None], reports: Sequence[NodeCalls]
) -> list[FailingTarget]:
    """Choose the failing ones of the targets that are in doubt, the longest failing first."""
    found = [
        FailingTarget(label=target, since=since, answer=summary.answers[0].answer)
        for target, summary in summarize_each(reports).items()
        if (since := summary.failing_since(doubted.get(target))) is not None
    ]
    return sorted(found, key=lambda one: (one.since, one.label))


def summarize(reports: Sequence[NodeCalls]) -> CallSummary | None:
    """Combine the reports of several nodes or targets; None if nothing was called."""
    if not reports:
        return None
    answers = [answer for report in reports for answer in _answers(report)]
    return CallSummary(
        calls=sum(report.calls for report in reports),
        successes=sum(report.successes for report in reports),
        p50_ms=max(report.p50_ms for report in reports),
        p99_ms=max(report.p99_ms for report in reports),
        reports=reports,
        answers=sorted(answers, key=lambda one: one.at, reverse=True),
    )


def summarize_each(reports: Sequence[NodeCalls]) -> dict[str, CallSummary]:
    """Combine the reports of several nodes for each target."""
    by_target: dict[str, list[NodeCalls]] = {}
    for report in reports:
        by_target.setdefault(report.target, []).append(report)
    found = {target: summarize(each) for target, each in by_target.items()}
    return {target: summary for target, summary in found.items() if summary is not None}


def _answers(report: NodeCalls) -> list[AnswerView]:
    return [
        AnswerView(
            at=report.reported_at - timedelta(seconds=ago),
            target=report.target,
            node_id=report.node_id,
            duration_ms=duration_ms,
            succeeded=succeeded,
            answer=answer,
        )
        for ago, duration_ms, succeeded, answer in report.answers
    ]
