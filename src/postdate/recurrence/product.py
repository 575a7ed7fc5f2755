"""Numbers made of digits that are chosen place by place, such as the seconds of a day."""

from bisect import bisect_left
from typing import Final, NamedTuple

HOUR: Final = 3600
MINUTE: Final = 60
HOURS: Final = tuple(range(24))
SIXTY: Final = tuple(range(60))


class Product:
    """All sums of one value of each level times its weight, in order, without being listed."""

    def __init__(self, *levels: tuple[tuple[int, ...], int]) -> None:
        self._levels: list[tuple[tuple[int, ...], int, int]] = []
        self._size = 1
        for values, weight in reversed(levels):
            self._levels.insert(0, (values, weight, self._size))
            self._size *= len(values)

    def __len__(self) -> int:
        return self._size

    @property
    def size(self) -> int:
        """Return how many numbers there are."""
        return self._size

    def __getitem__(self, position: int) -> int:
        number = 0
        for values, weight, below in self._levels:
            at, position = divmod(position, below)
            number += values[at] * weight
        return number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Product) and self._levels == other._levels

    def __hash__(self) -> int:
        return hash(tuple(self._levels))

    def numbers(self) -> tuple[int, ...]:
        """List all of them."""
        found = [0]
        for values, weight, _ in self._levels:
            found = [number + value * weight for number in found for value in values]
        return tuple(found)

    def rank(self, number: int) -> int:
        """Return how many of them are less than a number."""
        count = 0
        for values, weight, below in self._levels:
            digit, number = divmod(number, weight)
            position = bisect_left(values, digit)
            count += position * below
            if position == len(values) or values[position] != digit:
                break
        return count

    def first_not_less(self, number: int) -> int | None:
        """Return the first of them that is not less than a number."""
        rank = self.rank(number)
        return self[rank] if rank < self._size else None

    def bits(self) -> int:
        """Return them as a row of bits."""
        mask = 1
        for values, weight, _ in reversed(self._levels):
            shifted = 0
            for value in values:
                shifted |= mask << value * weight
            mask = shifted
        return mask

    def by_position(self, positions: tuple[int, ...]) -> "Product":
        """Choose by position, from 1 on or, from the end, from -1 on."""
        return Product((tuple(self[at] for at in indexes(positions, len(self))), 1))


class ChosenSlots(NamedTuple):
    """Slots that are set in a row of bits, each `unit` long, and numbers within each."""

    slots: int
    unit: int
    offsets: Product

    @property
    def size(self) -> int:
        """Return how many numbers there are."""
        return self.slots.bit_count() * len(self.offsets)

    def numbers(self) -> tuple[int, ...]:
        """List all of them."""
        inside, row = self.offsets.numbers(), reversed(f"{self.slots:b}")
        slots = (at * self.unit for at, bit in enumerate(row) if bit == "1")
        return tuple(slot + offset for slot in slots for offset in inside)


def indexes(positions: tuple[int, ...], size: int) -> list[int]:
    """Bring positions in a set, counted from 1 or from -1, to indexes from 0 on, in order."""
    found = {at - 1 if at > 0 else size + at for at in positions}
    return sorted(at for at in found if 0 <= at < size)


def clock(hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]) -> Product:
    """Return the seconds of a day at which a clock shows one of each."""
    return Product((hours, HOUR), (minutes, MINUTE), (seconds, 1))
