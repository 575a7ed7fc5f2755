"""Instants as people write them: `tomorrow 9:00`, `friday 17:30`, `2030-01-01 09:00`."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from postdate.cli.output import UsageError

DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAYS_AHEAD: Final = {"today": 0, "tomorrow": 1}
WRITTEN: Final = re.compile(
    r"(?:(?P<day>today|tomorrow|[a-z]+day|\d{4}-\d\d-\d\d)[ t]+)?"
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?"
)
WEEK: Final = 7


def read_instant(text: str, zone: str | None, now: datetime) -> datetime:
    """Return the instant that a text means, by the wall clock of a zone, or else of this machine.

    A time without a day is its next one, a day of the week the next one that is not over. A time
    that a change of the clock leaves out or repeats is refused, because it is ambiguous.
    """
    wall_zone = None if zone is None else _zone(zone)
    if instant := _with_offset(text):
        return instant
    found = WRITTEN.fullmatch(text.strip().lower())
    if found is None:
        raise UsageError(f"{text!r} is no time: write `tomorrow 9:00` or 2030-01-01T09:00:00Z")
    here = now.astimezone(wall_zone).replace(tzinfo=None)
    try:
        wall = time(int(found["hour"]), int(found["minute"]), int(found["second"] or 0))
        day = _day(found["day"], here, wall)
    except ValueError as error:
        raise UsageError(f"{text!r} is no time: {error}") from None
    return _on_wall_clock(datetime.combine(day, wall), wall_zone, text)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UsageError(f"{name!r} is no time zone such as Europe/Berlin") from None


def _with_offset(text: str) -> datetime | None:
    """Return an instant that has its offset, as the API takes it."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None


def _day(word: str | None, here: datetime, wall: time) -> date:
    today = here.date()
    is_over = wall <= here.time()
    if word is None:
        return today + timedelta(days=1) if is_over else today
    if word in {"today", "tomorrow"}:
        return today + timedelta(days=DAYS_AHEAD[word])
    if word in DAYS:
        ahead = (DAYS.index(word) - today.weekday()) % WEEK
        return today + timedelta(days=WEEK if ahead == 0 and is_over else ahead)
    return date.fromisoformat(word)


def _on_wall_clock(local: datetime, wall_zone: ZoneInfo | None, text: str) -> datetime:
    first, second = (local.replace(tzinfo=wall_zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first == second:
        return first
    exists = first.astimezone(wall_zone).replace(tzinfo=None) == local
    why = "is shown twice" if exists else "is left out"
    raise UsageError(f"{text!r} {why} when the clock changes: write it with an offset")
