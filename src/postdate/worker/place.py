"""Places: a lane's bucket, and what this node remembers of it between two looks."""

import heapq
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from postdate.store.mark import Mark
from postdate.store.timer.lane import Lane
from postdate.store.timer.timer import Head

POLL_SECONDS: Final = 0.8
"""How often a place with recent work is looked at without a hint."""

PROBES_PER_SECOND: Final = 4000
"""The most places looked at in a second; with more idle ones than that, each waits longer."""

ACTIVE_SECONDS: Final = 60.0
"""How long a place counts as one with recent work."""

OTHERS_SECONDS: Final = 0.3
"""How late a timer in another node's bucket must be before this node helps out."""

NEVER: Final = float("inf")


@dataclass(slots=True, eq=False)
class Place:
    """One (bucket, lane). Times without a date are this node's monotonic clock."""

    lane: Lane
    bucket: int
    mark: Mark = field(default_factory=Mark)
    look_at: float = 0.0
    active_until: float = 0.0
    ready: bool = False
    busy: bool = False


class Places:
    """Every place of the lanes that may run, ordered by when to look at it next."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int], Place] = {}
        self._lanes: dict[int, Lane] = {}
        self._agenda: list[tuple[float, int, Place]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Place]:
        return iter(self._places.values())

    def replace(self, lanes: Iterable[Lane], now: float) -> None:
        """Take over which lanes there are; a paused one has no place at all."""
        self._lanes = {lane.lane_id: lane for lane in lanes}
        wanted = {(b, lane.lane_id): lane for lane in self._lanes.values() for b in lane.buckets}
        for key in self._places.keys() - wanted.keys():
            self._places.pop(key).ready = False
        for key, lane in wanted.items():
            if (place := self._places.get(key)) is not None:
                place.lane = lane
            else:
                self._places[key] = place = Place(lane, key[0], active_until=now + ACTIVE_SECONDS)
                self.plan(place, now)

    def forget(self, bucket: int, lane_id: int, now: float) -> None:
        """Look at a place as if for the first time; whoever is at it goes on with the old one."""
        if (place := self._places.get((bucket, lane_id))) is not None:
            place.ready = False
            fresh = Place(place.lane, bucket, active_until=now + ACTIVE_SECONDS)
            self._places[bucket, lane_id] = fresh
            self.plan(fresh, now)

    def watches(self, lane_id: int) -> bool:
        """Say whether a lane has places here."""
        return lane_id in self._lanes

    def plan(self, place: Place, at: float) -> None:
        """Look at a place at this instant, unless something brings it up sooner."""
        place.look_at, place.busy = at, False
        heapq.heappush(self._agenda, (at, next(self._order), place))

    def hint(self, lane_id: int | None, now: float) -> None:
        """Look at a lane soon, or at all of them: something was put there."""
        if lane_id is None:
            hinted = list(self._places.values())
        else:
            lane = self._lanes.get(lane_id)
            hinted = [self._places[bucket, lane_id] for bucket in lane.buckets] if lane else []
        for place in hinted:
            place.active_until = now + ACTIVE_SECONDS
            if not (place.ready or place.busy):
                self.plan(place, now)

    def due(self, now: float, most: int) -> list[Place]:
        """Take the places to look at now, those planned first in front."""
        found: list[Place] = []
        while self._agenda and self._agenda[0][0] <= now and len(found) < most:
            at, _, place = heapq.heappop(self._agenda)
            # A place planned again since, or gone, or being claimed, is skipped.
            current = place.look_at == at and self.knows(place)
            if current and not (place.ready or place.busy):
                place.look_at = NEVER
                found.append(place)
        return found

    def next_look(self) -> float | None:
        """Say when the next look is planned."""
        while self._agenda and self._agenda[0][2].look_at != self._agenda[0][0]:
            heapq.heappop(self._agenda)
        return self._agenda[0][0] if self._agenda else None

    def learn(
        self,
        looked: Iterable[Place],
        heads: Iterable[Head],
        now: tuple[float, datetime],
        mine: frozenset[int],
    ) -> list[Place]:
        """Give the places with something due; plan when to look at the others again.

        `now` is the monotonic clock and the time of the database, as this node knows it.
        """
        found = {(head.bucket, head.lane_id): head for head in heads}
        ready = []
        for place in looked:
            head = found.get((place.bucket, place.lane.lane_id))
            place.mark.passed(head.due_at if head else now[1], now[1])
            pause = self.cadence(place, now[0])
            if head is not None:
                late = 0.0 if place.bucket in mine else OTHERS_SECONDS
                pause = min(pause, head.seconds + late)
            if pause <= 0:
                ready.append(place)
            else:
                self.plan(place, now[0] + pause)
        return ready

    def cadence(self, place: Place, now: float) -> float:
        """Say how often a place deserves a look."""
        if place.active_until > now:
            return POLL_SECONDS
        return max(POLL_SECONDS, len(self._places) / PROBES_PER_SECOND)

    def knows(self, place: Place) -> bool:
        """Say whether a place still counts: its lane is neither gone nor paused."""
        return self._places.get((place.bucket, place.lane.lane_id)) is place
