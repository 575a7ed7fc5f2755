"""When what becomes due is more than what can be executed: how late, from when, until when.

Work flows into a queue minute by minute and out of it at a steady rate. Within a minute it is taken
to arrive evenly, so that a lateness is at most a minute below what it is when all of a minute's
work is due at its first second.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

MINUTE_SECONDS: Final = 60
MAX_EPISODES: Final = 20
ERROR_SECONDS: Final = 60
"""How far a lateness may be below the true one: see above."""


class LateEpisode(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time in which work waits, and its worst moment."""

    from_at: datetime
    until_at: datetime | None
    """When the queue is empty again; None when that is after the window."""
    worst_at: datetime
    worst_hour: datetime
    """The hour, in UTC, in which it is worst."""
    late_seconds: int
    """How late the work is that becomes due at the worst moment."""
    waiting: int
    """How much waits then."""


class LateForecast(msgspec.Struct, frozen=True, kw_only=True):
    """What a capacity means for a window."""

    first_late_at: datetime | None
    worst: LateEpisode | None
    episodes: list[LateEpisode]
    """The worst of them, in the order of time."""
    error_seconds: int = ERROR_SECONDS


def late_forecast(
    counts: Sequence[int], begin: datetime, per_second: float, backlog: float = 0.0
) -> LateForecast:
    """Let work that is due by minute flow through a queue that starts with a backlog."""
    found = _Queue(begin, per_second, backlog).run(counts)
    worst = max(found, key=lambda episode: episode.late_seconds, default=None)
    kept = sorted(found, key=lambda episode: -episode.late_seconds)[:MAX_EPISODES]
    return LateForecast(
        first_late_at=found[0].from_at if found else None,
        worst=worst,
        episodes=sorted(kept, key=lambda episode: episode.from_at),
    )


class _Queue:
    """The work that waits, minute after minute; an episode is a stretch without an empty queue."""

    def __init__(self, begin: datetime, per_second: float, backlog: float) -> None:
        self._begin = begin
        self._per_second = per_second
        self._a_minute = per_second * MINUTE_SECONDS
        self._waiting = backlog
        self._since = 0 if backlog > 0 else -1
        self._worst = (backlog, 0)
        self.episodes: list[LateEpisode] = []

    def run(self, counts: Sequence[int]) -> list[LateEpisode]:
        """Go through the minutes; hours in which nothing can be late are passed as a whole."""
        chunk = 1440
        for start in range(0, len(counts), chunk):
            part = counts[start : start + chunk]
            if self._waiting > 0 or max(part) > self._a_minute:
                self._go_through(part, start)
        if self._since >= 0:
            self._end(None)
        return self.episodes

    def _go_through(self, part: Sequence[int], start: int) -> None:
        waiting, a_minute = self._waiting, self._a_minute
        for minute, count in enumerate(part, start):
            if waiting == 0 and count <= a_minute:
                continue
            if self._since < 0:
                self._since, self._worst = minute, (0.0, minute)
            waiting = max(0.0, waiting + count - a_minute)
            if waiting > self._worst[0]:
                self._worst = (waiting, minute + 1)
            if waiting == 0:
                self._end(minute + 1)
        self._waiting = waiting

    def _end(self, minute: int | None) -> None:
        waiting, worst = self._worst
        worst_at = self._at(worst)
        self.episodes.append(
            LateEpisode(
                from_at=self._at(self._since),
                until_at=None if minute is None else self._at(minute),
                worst_at=worst_at,
                worst_hour=(worst_at - timedelta(seconds=1)).replace(minute=0, second=0)
                if worst
                else worst_at.replace(minute=0),
                late_seconds=int(waiting / self._per_second),
                waiting=int(waiting),
            )
        )
        self._since = -1

    def _at(self, minute: int) -> datetime:
        return self._begin + timedelta(minutes=minute)
