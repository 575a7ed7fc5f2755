"""Low-water marks: below them nothing is left but dead rows."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from postdate.store.connection.database import TRANSACTION_SECONDS
from postdate.store.timer.timer import LONG_AGO

# The mark trails what was claimed: a timer may become visible after the instant it is due, when
# the commit that brought it took its time. Most come within the first margin. A look once a second
# reaches back as far as a transaction can last, and finds the rest; a full look now and then finds
# what an old server, which does not bound transactions, let through even later.
MARGIN: Final = timedelta(seconds=1)
WIDE_MARGIN: Final = timedelta(seconds=TRANSACTION_SECONDS + 1)
WIDE_SECONDS: Final = 1.0
FULL_SECONDS: Final = 30.0


@dataclass(slots=True)
class LowWaterMark:
    """The mark of one (bucket, lane), as one process remembers it."""

    lowest: datetime = LONG_AGO
    seen_at: datetime = LONG_AGO
    wide_at: float = 0.0
    full_at: float = 0.0

    def low(self, now: float) -> datetime:
        """Return the mark for a statement that starts now, by the monotonic clock."""
        if now >= self.full_at:
            self.full_at, self.wide_at = now + FULL_SECONDS, now + WIDE_SECONDS
            return LONG_AGO
        margin = MARGIN
        if now >= self.wide_at:
            self.wide_at, margin = now + WIDE_SECONDS, WIDE_MARGIN
        if self.lowest == LONG_AGO:
            return LONG_AGO
        return min(self.lowest, self.seen_at - margin)

    def passed(self, lowest: datetime, at: datetime) -> None:
        """Note that at a time of the database nothing was left below an instant."""
        self.lowest, self.seen_at = min(lowest, at), at

    def found(self, due_at: datetime) -> None:
        """Note a timer that a wider look has found."""
        self.lowest = min(self.lowest, due_at)
