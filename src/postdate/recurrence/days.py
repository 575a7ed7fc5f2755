"""The days of a rule, asked for by their number (`date.toordinal`): the next one is a jump away."""

from collections.abc import Callable
from datetime import date
from typing import Final

from postdate.recurrence import year as years
from postdate.recurrence.budget import HORIZON, StepBudget
from postdate.recurrence.year import Year

END: Final = HORIZON.toordinal()
_JANUARY: Final = tuple(date(max(year, 1), 1, 1).toordinal() for year in range(HORIZON.year + 1))


class Days:
    """The chosen days, a row of bits for each kind of year."""

    def __init__(self, choose: Callable[[Year], int]) -> None:
        self._choose = choose
        self._chosen: dict[Year, int] = {}

    def first_on_or_after(self, day: int, budget: StepBudget) -> int | None:
        """Return the first chosen day that is not before this one."""
        if day >= END:
            return None
        year = date.fromordinal(day).year
        rest = self.of_year(year) >> day - _JANUARY[year]
        while not rest:
            year += 1
            if year >= HORIZON.year:
                return None
            budget.spend()
            day, rest = _JANUARY[year], self.of_year(year)
        return day + (rest & -rest).bit_length() - 1

    def first_common(self, other: "Days | None", day: int) -> int | None:
        """Return the first day, not before this one, that is chosen here and there."""
        if day >= END:
            return None
        year = date.fromordinal(day).year
        rest = self._both(other, year) >> day - _JANUARY[year]
        while not rest:
            year += 1
            if year >= HORIZON.year:
                return None
            day, rest = _JANUARY[year], self._both(other, year)
        return day + (rest & -rest).bit_length() - 1

    def _both(self, other: "Days | None", year: int) -> int:
        return self.of_year(year) if other is None else self.of_year(year) & other.of_year(year)

    def day_bits(self, first: int, count: int) -> int:
        """Return the bits of some days in a row, at most a year, the first being bit 0."""
        year = date.fromordinal(first).year
        bits = self.of_year(year) >> first - _JANUARY[year]
        if year + 1 < HORIZON.year and first + count > _JANUARY[year + 1]:
            bits |= self.of_year(year + 1) << _JANUARY[year + 1] - first
        return bits & (1 << count) - 1

    def later(self, day: int, days: int, budget: StepBudget) -> int | None:
        """Return the chosen day that comes `days` chosen days after a chosen one."""
        year = date.fromordinal(day).year
        rest = self.of_year(year) >> day - _JANUARY[year]
        while days >= rest.bit_count():
            days -= rest.bit_count()
            year += 1
            if year >= HORIZON.year:
                return None
            budget.spend()
            day, rest = _JANUARY[year], self.of_year(year)
        for _ in range(days):
            rest &= rest - 1
        return day + (rest & -rest).bit_length() - 1

    def of_year(self, year: int) -> int:
        """Return the bits of a year."""
        kind = years.kind(year)
        chosen = self._chosen.get(kind)
        if chosen is None:
            chosen = self._chosen[kind] = self._choose(kind)
        return chosen


class Cycle:
    """Every n-th year, month, week or day, counted from the one in which a rule begins."""

    def __init__(
        self, interval: int, number: Callable[[int], int], first: Callable[[int], int], begin: int
    ) -> None:
        self.interval = interval
        self.number = number
        self._first = first
        self._origin = number(begin)
        self._last = number(END)

    def aligned(self, day: int) -> int:
        """Return the first day, not before this one, that lies in one of the cycle's periods."""
        if self.interval == 1 or day >= END:
            return day
        number = self.number(day)
        ahead = (self._origin - number) % self.interval
        return self.first(number + ahead) if ahead else day

    def first(self, number: int) -> int:
        """Return the first day of a period."""
        return self._first(number) if number <= self._last else END


def every_day(interval: int, begin: int) -> Cycle:
    """Count days."""
    return Cycle(interval, lambda day: day, lambda number: number, begin)


def every_week(interval: int, begin: int, week_start: int) -> Cycle:
    """Count weeks, which begin with a given weekday."""
    # Day 1, the first of January of year 1, was a Monday.
    shift = 1 + week_start
    return Cycle(interval, lambda day: (day - shift) // 7, lambda number: number * 7 + shift, begin)


def every_month(interval: int, begin: int) -> Cycle:
    """Count months."""

    def number(day: int) -> int:
        at = date.fromordinal(day)
        return at.year * 12 + at.month - 1

    def first(number: int) -> int:
        return date(number // 12, number % 12 + 1, 1).toordinal()

    return Cycle(interval, number, first, begin)


def every_year(interval: int, begin: int) -> Cycle:
    """Count years."""
    return Cycle(
        interval, lambda day: date.fromordinal(day).year, lambda number: _JANUARY[number], begin
    )
