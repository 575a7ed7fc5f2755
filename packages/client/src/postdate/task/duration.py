"""Durations as people write them: `5m`, `1h30m`, `2d`."""

import re
from datetime import timedelta
from math import isfinite
from typing import Final

SECONDS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([wdhms])")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")


def seconds_of(duration: str | float | timedelta) -> float:
    """Return a duration in seconds; text is numbers with units, such as `1h30m`."""
    match duration:
        case timedelta():
            seconds = duration.total_seconds()
        case str():
            seconds = _parsed(duration)
        case bool():
            raise ValueError(f"{duration!r} is no duration")
        case _:
            seconds = float(duration)
    if not isfinite(seconds):
        raise ValueError(f"a duration has an end: {duration!r}")
    if seconds < 0:
        raise ValueError(f"a duration is not negative: {duration!r}")
    return seconds


def _parsed(text: str) -> float:
    written = text.replace(" ", "").lower()
    if not _WHOLE.fullmatch(written):
        raise ValueError(f"{text!r} is no duration: write it as 30s, 5m, 1h30m or 2d")
    return sum(float(number) * SECONDS[unit] for number, unit in _PART.findall(written))
