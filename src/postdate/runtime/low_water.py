"""Low-water marks: below them nothing is left but dead rows."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from postdate.database.connection.database import TRANSACTION_SECONDS
from postdate.timer.timer import LONG_AGO

# The mark trails what was claimed: a timer may become visible after the instant it is due, when
# the commit that brought it took its time. Most come within the first margin. A scan once a second
# reaches back as far as a transaction can last, and finds the rest; a full scan now and then finds
# what an old server, which does not bound transactions, let through even later.
MARGIN: Final = timedelta(seconds=1)
WIDE_MARGIN: Final = timedelta(seconds=TRANSACTION_SECONDS + 1)
WIDE_SECONDS: Final = 1.0
FULL_SECONDS: Final = 30.0


@dataclass(slots=True)
class LowWaterMark:
    """The mark of one (bucket, lane), as one process remembers it."""

    margin: timedelta = MARGIN
    full_seconds: float = FULL_SECONDS
    floor: datetime = LONG_AGO
    lowest: datetime = LONG_AGO
    seen_at: datetime = LONG_AGO
    wide_at: float = 0.0
    full_at: float = 0.0

    def current(self, now: float, floor: datetime = LONG_AGO) -> datetime:
        """Return the mark for a statement that starts now, by the monotonic clock.

        Nothing below the floor is touched at all.
        """
        self.raise_to(floor)
        if now >= self.full_at:
            self.full_at, self.wide_at = now + self.full_seconds, now + WIDE_SECONDS
            return floor
        margin = self.margin
        if now >= self.wide_at:
            self.wide_at, margin = now + WIDE_SECONDS, max(margin, WIDE_MARGIN)
        return self._trailing(margin)

    def safe_mark(self) -> datetime:
        """Return a mark below which nothing can become visible, however slow its commit."""
        return self._trailing(WIDE_MARGIN)

    def _trailing(self, margin: timedelta) -> datetime:
        if self.lowest == LONG_AGO:
            return self.floor
        return max(self.floor, min(self.lowest, self.seen_at - margin))

    def raise_to(self, floor: datetime) -> None:
        """Set the floor: ignore what is due before an instant; reset the mark if the floor fell."""
        if floor < self.floor:
            self.forget()
        self.floor = floor

    def forget(self) -> None:
        """Reset the mark, so that the next scan begins at the floor."""
        self.lowest = LONG_AGO

    def learn_empty_below(self, lowest: datetime, at: datetime) -> None:
        """Record that nothing was left below an instant at a time of the database."""
        self.lowest, self.seen_at = min(lowest, at), at

    def learn_found(self, due_at: datetime) -> None:
        """Record a timer that a wider scan has found."""
        self.lowest = min(self.lowest, due_at)
