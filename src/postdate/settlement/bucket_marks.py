"""Where a settler looks: its share of the buckets first, each from a low-water mark on."""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from postdate.model.ids import BUCKETS
from postdate.runtime.low_water import WIDE_MARGIN, WIDE_SECONDS
from postdate.store.payment.settlement import BucketLook, Candidate
from postdate.store.timer.timer import LANE_PAYMENT, LONG_AGO, Head

GRACE_SECONDS: Final = 1.0
"""How long a node leaves a due payment to the node that prefers its bucket."""

LATE_INSERT: Final = timedelta(seconds=1)
"""An accepted payment is due a second later at the soonest; its commit may take that and this.

For commits that take longer, a look once a second reaches back as far as a transaction can last.
"""

CLOCK_SECONDS: Final = 1.0
"""How far two clocks may drift apart between two looks before one of them was set."""

FORGET_SECONDS: Final = 30.0
"""How often every mark is forgotten, for servers that do not bound transactions."""


class BucketMarks:
    """The low-water mark and the grace of every bucket."""

    def __init__(self) -> None:
        self.own: frozenset[int] = frozenset(range(BUCKETS))
        self._lows = [LONG_AGO] * BUCKETS
        self._at = LONG_AGO
        self._saw_at = 0.0
        self._floor = LONG_AGO
        self._forget_at = 0.0
        self._wide_at = 0.0

    def heed(self, floor: datetime) -> None:
        """Look at nothing due before an instant; where it fell, the marks hide too much."""
        if floor < self._floor:
            self._lows = [LONG_AGO] * BUCKETS
        self._floor = floor

    def grace(self, bucket: int) -> float:
        """Return how long to wait before reaching into this bucket."""
        return 0.0 if bucket in self.own else GRACE_SECONDS

    def looks(self, beyond: datetime | None = None) -> list[BucketLook]:
        """Return where to look; `beyond` skips what others were seen to be busy with."""
        now = time.monotonic()
        if now >= self._forget_at:
            self._lows = [LONG_AGO] * BUCKETS
            self._forget_at = now + FORGET_SECONDS
        if beyond is not None:
            lows = [(bucket, max(low, beyond)) for bucket, low in self.lows()]
        elif now >= self._wide_at:
            self._wide_at = now + WIDE_SECONDS
            lows = self.safe_lows()
        else:
            lows = self.lows()
        return [BucketLook(bucket, low, self.grace(bucket)) for bucket, low in lows]

    def forget(self) -> None:
        """Look from the beginning again."""
        self._forget_at = 0.0

    def lows(self) -> list[tuple[int, datetime]]:
        """Return every bucket's mark."""
        return [(bucket, max(self._floor, low)) for bucket, low in enumerate(self._lows)]

    def safe_lows(self) -> list[tuple[int, datetime]]:
        """Return marks below which nothing can become visible any more, however slow its commit."""
        safe = self._at - WIDE_MARGIN
        return [(bucket, max(self._floor, min(low, safe))) for bucket, low in enumerate(self._lows)]

    def bare_lows(self) -> list[tuple[int, datetime]]:
        """Return marks that hide nothing: for a server that lets a transaction last for ever."""
        return [(bucket, self._floor) for bucket in range(BUCKETS)]

    def heads(self) -> list[tuple[int, int, datetime]]:
        """Return where to look for the next instant, however slow the commit that brought it."""
        return [(bucket, LANE_PAYMENT, low) for bucket, low in self.safe_lows()]

    def clock_was_set(self, at: datetime) -> bool:
        """Return whether the database's clock did not go on as ours did since the last look."""
        passed = time.monotonic() - self._saw_at
        return abs((at - self._at).total_seconds() - passed) > CLOCK_SECONDS

    def saw(
        self,
        at: datetime,
        candidates: Sequence[Candidate],
        aside: Iterable[Candidate] = (),
        *,
        cut: bool = False,
    ) -> bool:
        """Move the marks after a look: nothing older than what was seen is visible.

        `aside` is what the look left out. With `cut` there was more to see than the given: it lies
        behind the last of them. False when the clock has stepped back: what was accepted since may
        be due before the marks. They are forgotten, and one must look again.
        """
        before, self._at, self._saw_at = self._at, at, time.monotonic()
        if at < before:
            self._lows = [LONG_AGO] * BUCKETS
            return False
        firsts: dict[int, datetime] = {}
        for candidate in (*candidates, *aside):
            first = firsts.get(candidate.bucket, candidate.due_at)
            firsts[candidate.bucket] = min(first, candidate.due_at)
        behind = candidates[-1].due_at if cut else at
        for bucket, low in enumerate(self._lows):
            unseen = at - LATE_INSERT - timedelta(seconds=self.grace(bucket))
            raised = max(low, min(behind, unseen))
            # A wide look may have found something below the mark.
            self._lows[bucket] = min(raised, firsts.get(bucket, raised))
        return True

    def next_due(self, heads: Sequence[Head]) -> float | None:
        """Return how long it is until the first of these is ours to settle.

        What is due lowers its bucket's mark: the next look must find it.
        """
        waits = [(head.seconds + self.grace(head.bucket), head) for head in heads]
        for seconds, head in waits:
            if seconds <= 0:
                self._lows[head.bucket] = min(self._lows[head.bucket], head.due_at)
        return min((seconds for seconds, _ in waits), default=None)
