"""Walks along the wall clock: the times of a rule from any time on, each found by jumps."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from functools import cached_property, lru_cache
from itertools import islice
from typing import Final

from postdate.recurrence.budget import StepBudget
from postdate.recurrence.days import END, Cycle, Days
from postdate.recurrence.product import ChosenSlots, Product, indexes

_DAY_SECONDS: Final = 86_400
_SECOND: Final = timedelta(seconds=1)
_DAYS_A_STEP: Final = 8
"""Days without a time that count as one step of a search."""

_FEW: Final = 64
"""Up to this many slots are checked one by one; more are counted as bits."""

_NEVER: Final = datetime.max  # noqa: DTZ901 - a wall clock


class Walk(ABC):
    """The times of a rule that has no end, asked for from any time on."""

    _empty: tuple[datetime, datetime] = (_NEVER, _NEVER)
    days: Days | None
    """The days among which all of its times lie; None for any day."""

    def times(self, start: datetime, budget: StepBudget | None = None) -> Iterator[datetime]:
        """Return the times from `start` on; what one search found empty the next one leaps over."""
        budget = budget or StepBudget()
        if start.microsecond:
            start = start.replace(microsecond=0) + _SECOND
        searched, end = self._empty
        if searched <= start <= end:
            start = end
        else:
            searched = start
        found = False
        for at in self._times(start, budget):
            if not found:
                self._empty, found = (searched, at), True
            budget.renew()
            yield at
        if not found:
            self._empty = (searched, _NEVER)

    @abstractmethod
    def _times(self, start: datetime, budget: StepBudget) -> Iterator[datetime]: ...

    def day_bits(self, first: int, count: int) -> int:
        """Return which of some days in a row, at most a year, have times: the first is bit 0."""
        return (1 << count) - 1 if self.days is None else self.days.day_bits(first, count)

    @property
    def seconds(self) -> Product | ChosenSlots | None:
        """Return the seconds of the day that every day with times has; None if they differ."""
        return None

    def nth(self, start: datetime, count: int) -> datetime | None:
        """Return the n-th time from `start` on, counted from 1."""
        return next(islice(self._times(start, StepBudget()), count - 1, None), None)


class DayWalk(Walk):
    """The chosen times of the chosen days, or of every day or every n-th where none are chosen."""

    def __init__(self, days: Days | None, clock: Product, cycle: Cycle | None = None) -> None:
        self.days = self._days = days
        self._clock = clock
        self._cycle = cycle

    def _times(self, start: datetime, budget: StepBudget) -> Iterator[datetime]:
        today, clock = start.toordinal(), self._clock
        if not clock:
            return
        day = self._day(today, budget)
        first = clock.rank(_second_of_day(start)) if day == today else 0
        while day is not None:
            midnight = _midnight(day)
            for position in range(first, len(clock)):
                yield midnight + timedelta(seconds=clock[position])
            first, day = 0, self._day(day + 1, budget)

    def day_bits(self, first: int, count: int) -> int:
        """Return which of some days in a row have times."""
        bits, cycle = super().day_bits(first, count), self._cycle
        if cycle is None or cycle.interval == 1:
            return bits
        aligned = sum(1 << at for at in range(count) if cycle.aligned(first + at) == first + at)
        return bits & aligned

    @property
    def seconds(self) -> Product | ChosenSlots | None:
        """Return the seconds of each day."""
        return self._clock

    def _day(self, day: int, budget: StepBudget) -> int | None:
        """Return the next chosen day: days and cycle leap over each other until they meet."""
        while self._days is not None:
            aligned = day if self._cycle is None else self._cycle.aligned(day)
            chosen = self._days.first_on_or_after(aligned, budget)
            if chosen is None or self._cycle is None:
                return chosen
            day = self._cycle.aligned(chosen)
            if day == chosen:
                return day
            budget.spend()
        day = day if self._cycle is None else self._cycle.aligned(day)
        return day if day < END else None

    def nth(self, start: datetime, count: int) -> datetime | None:
        """Count whole days instead of times."""
        budget, today, clock = StepBudget(), start.toordinal(), self._clock
        first = self._day(today, budget) if clock else None
        if first is None:
            return None
        before = clock.rank(_second_of_day(start)) if first == today else 0
        days, position = divmod(before + count - 1, len(clock))
        day = self._later(first, days, budget)
        return None if day is None else _midnight(day) + timedelta(seconds=clock[position])

    def _later(self, day: int, days: int, budget: StepBudget) -> int | None:
        interval = 1 if self._cycle is None else self._cycle.interval
        if self._days is None:
            return day + days * interval if day + days * interval < END else None
        if interval == 1:
            return self._days.later(day, days, budget)
        for _ in range(days):
            following = self._day(day + 1, budget)
            if following is None:
                return None
            day = following
        return day


class PositionWalk(Walk):
    """Times chosen by their position among all times of a year, month or week."""

    def __init__(
        self, days: Days, clock: Product, cycle: Cycle, positions: tuple[int, ...]
    ) -> None:
        self.days = self._days = days
        self._clock = clock
        self._cycle = cycle
        self._positions = positions
        self._known: dict[int, tuple[timedelta, ...]] = {}

    def _times(self, start: datetime, budget: StepBudget) -> Iterator[datetime]:
        if start.toordinal() >= END:
            return
        day = self._cycle.first(self._cycle.number(start.toordinal()))
        while (day := self._cycle.aligned(day)) < END:
            end = self._cycle.first(self._cycle.number(day) + 1)
            bits = self._days.day_bits(day, end - day)
            for after in self._of_period(bits):
                at = _midnight(day) + after
                if at >= start:
                    yield at
            following = end if bits else self._days.first_on_or_after(end, budget)
            if following is None:
                return
            # A period that begins before its first chosen day is read from its beginning.
            day = self._cycle.first(self._cycle.number(following)) if following < END else END
            budget.spend()

    def _of_period(self, bits: int) -> tuple[timedelta, ...]:
        """Return the chosen times of a period by its chosen days: few periods differ in them."""
        known = self._known.get(bits)
        if known is None:
            days = [day for day in range(bits.bit_length()) if bits >> day & 1]
            chosen = indexes(self._positions, len(days) * len(self._clock))
            split = (divmod(position, len(self._clock)) for position in chosen)
            known = tuple(timedelta(days[day], self._clock[at]) for day, at in split)
            self._known[bits] = known
        return known


class SlotWalk(Walk):
    """Every n-th hour, minute or second, where days and hours, minutes or seconds are chosen too.

    A slot is an hour, a minute or a second, numbered through all days. Within each chosen slot lie
    the same `offsets` in seconds.
    """

    def __init__(
        self,
        begin: datetime,
        interval: int,
        unit: int,
        *,
        days: Days | None,
        wanted: Product | None,
        offsets: Product,
    ) -> None:
        self._unit = unit
        self._a_day = _DAY_SECONDS // unit
        self._interval = interval
        self._origin = self._slot(begin)
        self.days = self._days = days
        self._wanted = wanted
        self._offsets = offsets
        self._reached = None if wanted is None else _residues(wanted, self._a_day, interval)

    @property
    def seconds(self) -> Product | ChosenSlots | None:
        """Return the seconds of each day, where the interval fits into a day."""
        if self._a_day % self._interval:
            return None
        whole = (1 << self._a_day) - 1
        # One bit in each interval: what the bits of a day are, divided by those of an interval.
        met = whole // ((1 << self._interval) - 1) << self._origin % self._interval
        chosen = whole if self._wanted is None else self._wanted.bits()
        return ChosenSlots(met & chosen, self._unit, self._offsets)

    def _slot(self, at: datetime) -> int:
        return at.toordinal() * self._a_day + _second_of_day(at) // self._unit

    def _times(self, start: datetime, budget: StepBudget) -> Iterator[datetime]:
        now = self._slot(start)
        for slot in self._slots(now, budget):
            inside = _second_of_day(start) % self._unit
            first = self._offsets.rank(inside) if slot == now else 0
            day, position = divmod(slot, self._a_day)
            begin = _midnight(day) + timedelta(seconds=position * self._unit)
            for at in range(first, len(self._offsets)):
                yield begin + timedelta(seconds=self._offsets[at])

    def nth(self, start: datetime, count: int) -> datetime | None:
        """Count slots, and where that does not suffice days, instead of times."""
        size = len(self._offsets)
        before = self._offsets.rank(_second_of_day(start) % self._unit)
        now, budget = self._slot(start), StepBudget()
        first = next(self._slots(now, budget), None)
        if first is None:
            return None
        slots, position = divmod(count - 1 + (before if first == now else 0), size)
        slot = self._later(first, slots, budget)
        if slot is None or slot >= END * self._a_day:
            return None
        day, at = divmod(slot, self._a_day)
        return _midnight(day) + timedelta(seconds=at * self._unit + self._offsets[position])

    def _later(self, slot: int, slots: int, budget: StepBudget) -> int | None:
        """Return the slot that comes `slots` chosen slots after a chosen one."""
        if self._days is None and self._wanted is None:
            return slot + slots * self._interval
        day, position = divmod(slot, self._a_day)
        count = self._count(self._residue(day), position)
        counted: dict[int, int] = {}
        while slots >= count:
            following = self._chosen_day(day + 1, budget)
            if following is None:
                return None
            slots, day, position = slots - count, following, 0
            residue = self._residue(day)
            if residue not in counted:
                counted[residue] = self._count(residue, 0)
            count = counted[residue]
        return day * self._a_day + next(islice(self._of_day(day, position, budget), slots, None))

    def _count(self, residue: int, position: int) -> int:
        """Count the chosen slots of a day from a place on."""
        first = position + (residue - position) % self._interval
        met = range(first, self._a_day, self._interval)
        if self._wanted is None:
            return len(met)
        if len(met) < _FEW:
            return sum(self._wanted_bytes[at >> 3] >> (at & 7) & 1 for at in met)
        return (self._wanted_bits & _progression(self._interval, self._a_day) << first).bit_count()

    @cached_property
    def _wanted_bits(self) -> int:
        return 0 if self._wanted is None else self._wanted.bits()

    @cached_property
    def _wanted_bytes(self) -> bytes:
        return self._wanted_bits.to_bytes(self._a_day // 8, "little")

    def _slots(self, slot: int, budget: StepBudget) -> Iterator[int]:
        """Return the chosen slots from one on, day by day."""
        if not self._offsets:
            return
        first, position = divmod(slot, self._a_day)
        day = self._chosen_day(first, budget)
        while day is not None:
            for at in self._of_day(day, position if day == first else 0, budget):
                yield day * self._a_day + at
            day = self._chosen_day(day + 1, budget)

    def _of_day(self, day: int, position: int, budget: StepBudget) -> Iterator[int]:
        """Return the chosen slots of a day: the interval and the clock leap over each other."""
        residue, wanted = self._residue(day), self._wanted
        while True:
            position += (residue - position) % self._interval
            if position >= self._a_day:
                return
            following = position if wanted is None else wanted.first_not_less(position)
            if following is None:
                return
            if following == position:
                yield position
                position += 1
            else:
                budget.spend()
                position = following

    def _chosen_day(self, day: int, budget: StepBudget) -> int | None:
        """Return the next chosen day on which the interval meets a wanted slot."""
        while day < END:
            reached = self._reached_day(day, budget)
            if self._days is None:
                return reached if reached < END else None
            chosen = self._days.first_on_or_after(reached, budget)
            if chosen is None or chosen == reached:
                return chosen
            budget.spend()
            day = chosen
        return None

    def _reached_day(self, day: int, budget: StepBudget) -> int:
        reached, first = self._reached, day
        if reached is None:
            return day + self._residue(day) // self._a_day
        origin, interval, a_day = self._origin, self._interval, self._a_day
        while day < END:
            residue = (origin - day * a_day) % interval
            if reached[residue >> 3] >> (residue & 7) & 1:
                break
            day += 1
        budget.spend((day - first) // _DAYS_A_STEP)
        return day

    def _residue(self, day: int) -> int:
        """Return how many slots after its midnight the interval meets a day."""
        return (self._origin - day * self._a_day) % self._interval


@lru_cache(maxsize=64)
def _progression(interval: int, size: int) -> int:
    """Return every n-th bit, from bit 0 on."""
    bits, step = 1, interval
    while step < size:
        bits |= bits << step
        step *= 2
    return bits & (1 << size) - 1


def _residues(wanted: Product, size: int, interval: int) -> bytes:
    """Return the residues of the wanted slots of a day by the interval, as bits."""
    bits, step = wanted.bits(), interval
    while step * 2 < size:
        step *= 2
    while step >= interval:
        bits = bits & (1 << step) - 1 | bits >> step
        step //= 2
    return bits.to_bytes(interval // 8 + 1, "little")


def _second_of_day(at: datetime) -> int:
    return at.hour * 3600 + at.minute * 60 + at.second


def _midnight(day: int) -> datetime:
    return datetime.combine(datetime.fromordinal(day), time())
