"""The buckets of a settler, its own share first, each with a low-water mark."""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from postdate.core.ids import BUCKETS
from postdate.payment.store.settlement import BucketLook, Candidate
from postdate.runtime.low_water import MARGIN, LowWaterMark
from postdate.runtime.share import AFAR_SECONDS, EVERY_BUCKET, OTHERS_SECONDS
from postdate.timer.timer import LANE_PAYMENT, LONG_AGO, Head

CLOCK_SECONDS: Final = 1.0
"""How far two clocks may drift apart between two looks before one of them was set."""


class BucketMarks:
    """The low-water mark and the grace of every bucket."""

    def __init__(self) -> None:
        self.own = EVERY_BUCKET
        self.afar: frozenset[int] = frozenset()
        self._busy = True
        self._marks = [LowWaterMark() for _ in range(BUCKETS)]
        self._at = LONG_AGO
        self._saw_at = 0.0

    def raise_to(self, floor: datetime) -> None:
        """Ignore what is due before an instant."""
        for mark in self._marks:
            mark.raise_to(floor)

    def forget(self) -> None:
        """Look from the beginning again."""
        for mark in self._marks:
            mark.forget()

    def grace(self, bucket: int) -> float:
        """Return how long to wait before reaching into this bucket."""
        if bucket in self.own:
            return 0.0
        return AFAR_SECONDS if self._busy and bucket in self.afar else OTHERS_SECONDS

    def looks(self, beyond: datetime | None = None) -> list[BucketLook]:
        """Return where to look; `beyond` skips what other settlers are working on."""
        now = time.monotonic()
        return [
            BucketLook(
                bucket,
                mark.current(now, mark.floor) if beyond is None else max(mark.safe_mark(), beyond),
                self.grace(bucket),
            )
            for bucket, mark in enumerate(self._marks)
        ]

    def safe_lows(self) -> list[tuple[int, datetime]]:
        """Return marks below which nothing can become visible any more, even with a slow commit."""
        return [(bucket, mark.safe_mark()) for bucket, mark in enumerate(self._marks)]

    def floors(self) -> list[tuple[int, datetime]]:
        """Return marks that hide nothing, for a server without a transaction timeout."""
        return [(bucket, mark.floor) for bucket, mark in enumerate(self._marks)]

    def heads(self) -> list[tuple[int, int, datetime]]:
        """Return where to scan for the next due instant, allowing for slow commits."""
        return [(bucket, LANE_PAYMENT, low) for bucket, low in self.safe_lows()]

    def clock_was_set(self, at: datetime) -> bool:
        """Return whether the database's clock has been set since the last scan."""
        passed = time.monotonic() - self._saw_at
        return abs((at - self._at).total_seconds() - passed) > CLOCK_SECONDS

    def learn_seen(
        self,
        at: datetime,
        candidates: Sequence[Candidate],
        aside: Iterable[Candidate] = (),
        *,
        cut: bool = False,
    ) -> bool:
        """Move the marks after a scan: nothing older than what was seen is visible.

        `aside` is what the scan left out. With `cut` there was more to see than the given: it lies
        behind the last of them. False when the clock has stepped back: what was accepted since may
        be due before the marks. They are forgotten, and the scan must be repeated.
        """
        before, self._at, self._saw_at = self._at, at, time.monotonic()
        if at < before:
            self.forget()
            return False
        firsts: dict[int, datetime] = {}
        for candidate in (*candidates, *aside):
            first = firsts.get(candidate.bucket, candidate.due_at)
            firsts[candidate.bucket] = min(first, candidate.due_at)
        behind = candidates[-1].due_at if cut else at
        for bucket, mark in enumerate(self._marks):
            unseen = at - MARGIN - timedelta(seconds=self.grace(bucket))
            mark.learn_empty_below(min(behind, unseen, firsts.get(bucket, behind)), at)
        self._busy = any(candidate.bucket not in self.afar for candidate in candidates)
        return True

    def next_due(self, heads: Sequence[Head]) -> float | None:
        """Return the seconds until the first of these may be settled by this node.

        What is due lowers its bucket's mark: the next scan must find it.
        """
        waits = [(head.seconds + self.grace(head.bucket), head) for head in heads]
        for seconds, head in waits:
            if seconds <= 0:
                self._marks[head.bucket].learn_found(head.due_at)
        return min((seconds for seconds, _ in waits), default=None)
