"""The attempts at a job on one axis of time: how long each waited, ran, and what lies ahead."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from postdate.core.status import JobStatus
from postdate.job.spec.view import JobView
from postdate.job.view import AttemptView

WIDTH: Final = 1000
"""The length of the axis, in units of the drawing."""

THINNEST: Final = 4
"""No bar is thinner: an attempt of a millisecond is seen beside a wait of hours."""


class Bar(msgspec.Struct, frozen=True):
    """A stretch of time: where it begins, how long it is, and how it looks."""

    x: int
    width: int
    look: str


class WaterfallRow(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt with its bars; without an attempt it runs or lies ahead."""

    number: int
    status: str
    due_at: datetime
    bars: list[Bar]
    attempt: AttemptView | None = None


class _Axis(msgspec.Struct, frozen=True):
    begin: datetime
    end: datetime

    def bar(self, since: datetime, until: datetime, look: str) -> Bar:
        whole = max((self.end - self.begin).total_seconds(), 0.001)
        x = round(WIDTH * (since - self.begin).total_seconds() / whole)
        right = round(WIDTH * (until - self.begin).total_seconds() / whole)
        x = max(0, min(x, WIDTH - THINNEST))
        return Bar(x, max(THINNEST, min(right, WIDTH) - x), look)


def waterfall(job: JobView, attempts: Sequence[AttemptView], now: datetime) -> list[WaterfallRow]:
    """Return a row for each attempt, the running and the next one included."""
    open_rows = list(_open(job, now))
    instants = [
        *(each for one in attempts for each in (one.due_at, one.started_at, one.finished_at)),
        *(each for _, since, until, _ in open_rows for each in (since, until)),
    ]
    if not attempts and job.status is not JobStatus.RUNNING:
        return []
    axis = _Axis(min(instants), max(instants))
    return [
        *(_row(axis, one) for one in attempts),
        *(
            WaterfallRow(
                number=number,
                status=look.upper(),
                due_at=since,
                bars=[axis.bar(since, until, look)],
            )
            for number, since, until, look in open_rows
        ),
    ]


def _row(axis: _Axis, one: AttemptView) -> WaterfallRow:
    waited = axis.bar(one.due_at, one.started_at, "wait")
    return WaterfallRow(
        number=one.attempt,
        status=one.status,
        due_at=one.due_at,
        bars=[waited, axis.bar(one.started_at, one.finished_at, one.status.lower())],
        attempt=one,
    )


def _open(job: JobView, now: datetime) -> Iterator[tuple[int, datetime, datetime, str]]:
    """Yield the attempt that runs, or the one that comes."""
    if job.status is JobStatus.RUNNING and job.claimed_at is not None:
        yield job.attempt, job.claimed_at, max(now, job.claimed_at), "running"
    elif job.attempt and job.next_attempt_at is not None:
        at = job.next_attempt_at
        yield job.attempt + 1, at, at, "pending" if at > now else "ready"
