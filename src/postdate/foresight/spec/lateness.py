"""When what becomes due is more than what can be executed: how late, from when, until when.

Work flows into a queue minute by minute and out of it at a steady rate. Within a minute it is taken
to arrive evenly, so that a lateness is at most a minute below what it is when all of a minute's
work is due at its first second.
"""

from datetime import datetime, timedelta
from fractions import Fraction
from heapq import nlargest
from typing import Final, NamedTuple

import msgspec

from postdate.foresight.spec.minutes import HOUR_MINUTES, Counts, hour_peaks

MINUTE_SECONDS: Final = 60
MAX_EPISODES: Final = 20
ERROR_SECONDS: Final = 60
"""How far a lateness may be below the true one: see above."""

MAX_LATE_SECONDS: Final = 3_155_760_000
"""A hundred years: with next to no capacity the lateness would be beyond all numbers."""


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


class _Episode(NamedTuple):
    """An episode in minutes of the window; there are up to a hundred thousand in a year."""

    waiting: int
    """In parts of an item."""
    since: int
    until: int | None
    worst: int


def late_forecast(
    counts: Counts,
    begin: datetime,
    per_second: float,
    backlog: int = 0,
    peaks: "Counts | None" = None,
) -> LateForecast:
    """Let work that is due by minute flow through a queue that starts with a backlog.

    `peaks` are those of its hours, for a caller that knows them already.
    """
    # In whole parts of an item: what fits exactly must not be late by a rounding.
    rate = Fraction(str(per_second))
    parts, a_minute = rate.denominator, rate.numerator * MINUTE_SECONDS
    hours = hour_peaks(counts) if peaks is None else peaks
    found = _episodes(counts, hours, (parts, a_minute), backlog * parts)
    # Of two that are as late the first one is worse.
    kept = nlargest(MAX_EPISODES, found, key=lambda each: (each.waiting // parts, -each.since))
    shown = {each: _shown(each, begin, parts, a_minute) for each in kept}
    return LateForecast(
        first_late_at=_at(begin, found[0].since) if found else None,
        worst=shown[kept[0]] if kept else None,
        episodes=sorted(shown.values(), key=lambda each: each.from_at),
    )


def _episodes(counts: Counts, peaks: Counts, rate: tuple[int, int], backlog: int) -> list[_Episode]:
    """Go through the minutes; hours in which nothing can be late are passed as a whole.

    An episode is a stretch without an empty queue.
    """
    found: list[_Episode] = []
    parts, a_minute = rate
    waiting, since, most, worst = backlog, 0, backlog, 0
    for hour, peak in enumerate(peaks):
        if waiting == 0 and peak * parts <= a_minute:
            continue
        start = hour * HOUR_MINUTES
        for minute, count in enumerate(counts[start : start + HOUR_MINUTES], start):
            if waiting == 0:
                if count * parts <= a_minute:
                    continue
                since, most = minute, 0
            waiting += count * parts - a_minute
            if waiting > most:
                most, worst = waiting, minute + 1
            elif waiting <= 0:
                waiting = 0
                found.append(_Episode(most, since, minute + 1, worst))
    if waiting > 0:
        found.append(_Episode(most, since, None, worst))
    return found


def _shown(each: _Episode, begin: datetime, parts: int, a_minute: int) -> LateEpisode:
    worst_at = _at(begin, each.worst)
    within = worst_at - timedelta(seconds=1) if each.worst else worst_at
    return LateEpisode(
        from_at=_at(begin, each.since),
        until_at=None if each.until is None else _at(begin, each.until),
        worst_at=worst_at,
        worst_hour=within.replace(minute=0, second=0),
        late_seconds=min(each.waiting * MINUTE_SECONDS // a_minute, MAX_LATE_SECONDS),
        waiting=int(each.waiting / parts),
    )


def _at(begin: datetime, minute: int) -> datetime:
    return begin + timedelta(minutes=minute)
