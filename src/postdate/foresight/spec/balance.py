"""How a balance develops: the points of a curve, one after each change.

Instants are microseconds since the epoch. A position is an instant followed by `ORDER_BITS`
bits for the order of what happens at that instant.
"""

from bisect import bisect_left
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import accumulate
from operator import sub
from typing import Final

import msgspec

from postdate.recurrence.rule import EPOCH

MICROSECOND: Final = timedelta(microseconds=1)
ORDER_BITS: Final = 129
HOUR: Final = timedelta(hours=1) // MICROSECOND


def instant(at: datetime) -> int:
    """Return an instant as microseconds since the epoch."""
    return (at - EPOCH) // MICROSECOND


def first_at(at: int) -> int:
    """Return the position before all that happens at an instant."""
    return at << ORDER_BITS


def at_instant(instant: int) -> datetime:
    """Return the date of an instant."""
    return EPOCH + timedelta(microseconds=instant)


class BalancePoint(msgspec.Struct, frozen=True, gc=False):
    """An account, or the sum of many, right after a change."""

    at: datetime
    balance: int
    held: int
    available: int


class BalanceCurve:
    """How the balance of an account, or of many together, goes: a point after each change."""

    def __init__(self, at: int, balance: int = 0, held: int = 0) -> None:
        # Columns of changes, added up at the end: there may be a hundred thousand of them.
        self._positions, self._balance, self._held = [first_at(at)], [balance], [held]
        self._levels: tuple[list[int], list[int]] = ([], [])

    def change(self, position: int, balance: int, held: int) -> None:
        """Add to the balance and to the held amount."""
        self._positions.append(position)
        self._balance.append(balance)
        self._held.append(held)

    def extend(self, positions: Iterable[int], balance: Iterable[int], held: Iterable[int]) -> None:
        """Add many changes."""
        self._positions.extend(positions)
        self._balance.extend(balance)
        self._held.extend(held)

    def _summed(self) -> tuple[list[int], list[int]]:
        """Return what is available and what is held after each change."""
        if len(self._levels[0]) != len(self._positions):
            available = accumulate(map(sub, self._balance, self._held))
            self._levels = list(available), list(accumulate(self._held))
        return self._levels

    def _point(self, index: int) -> BalancePoint:
        available, held = (levels[index] for levels in self._summed())
        at = at_instant(self._positions[index] >> ORDER_BITS)
        return BalancePoint(at, available + held, held, available)

    @property
    def points(self) -> list[BalancePoint]:
        """Return all points; there may be hundreds of thousands."""
        return [self._point(index) for index in range(len(self._positions))]

    @property
    def lowest(self) -> BalancePoint:
        """Return the first point at which the least is available."""
        available, _ = self._summed()
        return self._point(available.index(min(available)))

    @property
    def end(self) -> BalancePoint:
        """Return the last point."""
        return self._point(-1)

    def thinned(self, count: int) -> list[BalancePoint]:
        """Return at most `limit` points: if there are more, the last point of each interval."""
        positions, stretches = self._positions, count - 2
        if len(positions) <= count:
            return self.points
        begin, end = positions[0] >> ORDER_BITS, positions[-1] >> ORDER_BITS
        span = (end - begin) or HOUR
        limits = [begin - -number * span // stretches for number in range(1, stretches + 2)]
        ends = {bisect_left(positions, first_at(limit)) for limit in limits}
        return [self._point(end - 1) for end in sorted(ends | {1}) if end]
