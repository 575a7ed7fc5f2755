"""Find the lanes that have timers, bucket by bucket, at no cost for lanes that have none.

The due index is led by bucket and lane, so that PostgreSQL can go from one lane with timers to the
next. Known lanes are left out: the sweep scans only the gaps between them. Below the head of a
known lane may lie any number of dead rows (runtime.low_water); such a lane is read from its mark.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from postdate.core.ids import BUCKETS
from postdate.database.connection.query import Reader
from postdate.timer import timer
from postdate.timer.timer import LAST_SYSTEM_LANE, Head

MAX_GAPS: Final = 2000
"""The most gaps of one statement, but for those of a single bucket."""

MAX_EACH: Final = 32
"""The most lanes that one statement finds in a gap."""

MAX_LANE: Final = 2**31 - 1
LaneGap = tuple[int, int, int]
"""A bucket, the lane after which the gap begins, and the one before which it ends."""


@dataclass(slots=True)
class LaneSweep:
    """The lanes known in each bucket, and how far the present sweep has come."""

    _known: list[list[int]] = field(default_factory=lambda: [[] for _ in range(BUCKETS)])
    _gaps: list[list[LaneGap] | None] = field(default_factory=lambda: [None] * BUCKETS)
    _next: int = 0
    found_any: bool = False
    """Whether the last step found a lane: its buckets may have more."""

    looked: int = 0
    """How many gaps the last step scanned."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for bucket, lanes in enumerate(self._known):
            for lane_id in lanes:
                yield bucket, lane_id

    @property
    def at_end(self) -> bool:
        """Return whether the last step has come to the last bucket."""
        return self._next == 0

    def add(self, bucket: int, lane_id: int) -> None:
        """Leave a lane out from now on."""
        known = self._known[bucket]
        at = bisect_left(known, lane_id)
        if known[at : at + 1] != [lane_id]:
            known.insert(at, lane_id)
            self._gaps[bucket] = None

    def discard(self, bucket: int, lane_id: int) -> None:
        """Find a lane again, if it has timers."""
        known = self._known[bucket]
        at = bisect_left(known, lane_id)
        if known[at : at + 1] == [lane_id]:
            del known[at]
            self._gaps[bucket] = None

    def begin(self) -> None:
        """Begin again with the first bucket."""
        self._next = 0

    async def step(self, reader: Reader) -> list[Head]:
        """Scan the gaps of the next buckets; return the unknown lanes.

        The caller adds them when it has made use of them; a lane that is not added is found again.
        A bucket in which a lane is found is scanned once more in the next step.
        """
        first, gaps = self._next, self._take()
        heads = await timer.lanes(reader, gaps, MAX_EACH)
        self.looked, self.found_any = len(gaps), bool(heads)
        if heads:
            self._next = first
        return heads

    def _take(self) -> list[LaneGap]:
        gaps: list[LaneGap] = []
        while True:
            gaps += self._of(self._next)
            self._next = (self._next + 1) % BUCKETS
            if self.at_end or len(gaps) + len(self._of(self._next)) > MAX_GAPS:
                return gaps

    def _of(self, bucket: int) -> Sequence[LaneGap]:
        gaps = self._gaps[bucket]
        if gaps is None:
            edges = [LAST_SYSTEM_LANE, *self._known[bucket], MAX_LANE]
            gaps = [(bucket, *pair) for pair in pairwise(edges) if pair[1] - pair[0] > 1]
            self._gaps[bucket] = gaps
        return gaps
