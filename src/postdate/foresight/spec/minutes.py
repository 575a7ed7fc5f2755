"""Counts per minute over up to a year, a day packed into one integer.

Each minute has 32 bits of the integer of its day, so that adding what many rules do on a day is one
addition. 10,000 schedules over a year are added in milliseconds, without a library of arrays.
"""

import sys
from array import array
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from postdate.recurrence.run_days import MINUTE_BITS

Counts: TypeAlias = "array[int]"
"""How much there is in each minute."""

DAY_MINUTES: Final = 1440
HOUR_MINUTES: Final = 60

MARGIN_DAYS: Final = 3
"""Occurrences this many days before a window are counted too: jitter may move them into it."""

_DAY_BITS: Final = DAY_MINUTES * MINUTE_BITS
_DAY_MASK: Final = (1 << _DAY_BITS) - 1
_MINUTE: Final = timedelta(minutes=1)
_COUNT_BYTES: Final = MINUTE_BITS // 8


def no_counts(minutes: int) -> Counts:
    """Return a count of 0 for each of a number of minutes."""
    return array("I", bytes(_COUNT_BYTES * minutes))


class MinuteGrid:
    """Counts for each minute from `begin` until `until`, both whole minutes."""

    def __init__(self, begin: datetime, until: datetime) -> None:
        self.begin, self.until = begin.astimezone(UTC), until.astimezone(UTC)
        self.first_day = self.begin.toordinal() - MARGIN_DAYS
        self.last_day = self.until.toordinal()
        self._days = [0] * (self.last_day - self.first_day + 1)
        self._single = no_counts(self.size)

    def add_day(self, day: int, packed: int) -> None:
        """Add packed counts from the midnight of a day on; they may reach into the next days."""
        for place in range(day - self.first_day, len(self._days)):
            if not packed:
                return
            self._days[place] += packed & _DAY_MASK
            packed >>= _DAY_BITS

    def add(self, at: datetime, count: int = 1) -> None:
        """Add what is due at one instant."""
        if self.begin <= at < self.until:
            self._single[(at - self.begin) // _MINUTE] += count

    def add_seconds(self, seconds: Iterable[int], count: int) -> None:
        """Add counts by seconds after `begin`."""
        single = self._single
        for second in seconds:
            single[second // 60] += count

    def add_minutes(self, minutes: Iterable[tuple[int, int]]) -> None:
        """Add counts by minutes after `begin`."""
        for minute, count in minutes:
            self._single[minute] += count

    @property
    def size(self) -> int:
        """Return how many minutes there are."""
        return (self.until - self.begin) // _MINUTE

    @property
    def _start(self) -> int:
        midnight = self.begin.replace(hour=0, minute=0, second=0, microsecond=0)
        days = self.begin.toordinal() - self.first_day
        return days * DAY_MINUTES + (self.begin - midnight) // _MINUTE

    def counts(self) -> Counts:
        """Return the counts, minute by minute."""
        length = DAY_MINUTES * _COUNT_BYTES
        row = array("I")
        row.frombytes(b"".join(day.to_bytes(length, sys.byteorder) for day in self._days))
        return added([row[self._start : self._start + self.size], self._single])


def added(parts: Iterable[Counts]) -> Counts:
    """Add counts up, minute by minute: as integers, which costs no step for each minute.

    Of parts that are made one by one, no more than one is kept.
    """
    coming = iter(parts)
    first = next(coming)
    rest = sum(_integer(part) for part in coming)
    return _counts(_integer(first) + rest, len(first)) if rest else first


def hour_peaks(counts: Counts) -> Counts:
    """Return the most of a minute in each hour, counted from the first minute on.

    A minute of every hour is compared at once, as the parts of two integers. With the highest bit
    of each part added to one of them, it stays after a subtraction unless the other is larger.
    """
    hours = -(-len(counts) // HOUR_MINUTES)
    whole = counts + no_counts(hours * HOUR_MINUTES - len(counts))
    highest = _integer(array("I", [1 << MINUTE_BITS - 1]) * hours)
    most = 0
    for minute in range(HOUR_MINUTES):
        other = _integer(whole[minute::HOUR_MINUTES])
        kept = (most | highest) - other & highest
        kept -= kept >> MINUTE_BITS - 1
        most = other ^ (most ^ other) & kept
    return _counts(most, hours)


def _integer(counts: Counts) -> int:
    return int.from_bytes(counts.tobytes(), sys.byteorder)


def _counts(packed: int, size: int) -> Counts:
    row = array("I")
    row.frombytes(packed.to_bytes(_COUNT_BYTES * size, sys.byteorder))
    return row


def coarsen(counts: Counts, width: int) -> list[int]:
    """Add up groups of minutes."""
    return [sum(counts[at : at + width]) for at in range(0, len(counts), width)]
