"""A count that is exact, or marked as a lower bound."""

import msgspec


class MarkedCount(msgspec.Struct, frozen=True):
    """A count; with `capped` a lower bound, because counting stopped."""

    many: int
    capped: bool = False

    def __str__(self) -> str:
        """Write the number; "≥" stands before a lower bound."""
        return f"{'≥ ' if self.capped else ''}{self.many:,}"

    def __add__(self, other: "MarkedCount") -> "MarkedCount":
        """Add two counts."""
        return MarkedCount(self.many + other.many, self.capped or other.capped)

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return self.many > 0

    def of(self, noun: str) -> str:
        """Write the number with its noun."""
        return f"{self} {noun}" if self.many == 1 else f"{self} {noun}s"
