"""A slow second opinion on schedules: walk through time minute by minute and look at the clock.

Only while the clock shows the same offset at both ends of an hour are the minutes in between told
from it: in no hour does a zone change its offset and change it back.

It shares nothing with the product but the words for the policies: no cron library, no formula for
gaps and folds, its own reading of the tz data.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
HOUR = [minute * MINUTE for minute in range(60)]
DAY = timedelta(days=1)


@cache
def load(name: str) -> ZoneInfo:
    with files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


@dataclass
class Walk:
    """Every minute of a stretch of time, and what the clock on the wall showed."""

    zone: ZoneInfo
    begin: datetime
    end: datetime
    shown: dict[datetime, list[datetime]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at = self.begin
        while at < self.end:
            begins, ends = self._clock(at), self._clock(at + HOUR[-1])
            steady = ends - begins == HOUR[-1]
            for later in HOUR:
                local = begins + later if steady else self._clock(at + later)
                self.shown.setdefault(local, []).append(at + later)
            at += HOUR[-1] + MINUTE

    def _clock(self, at: datetime) -> datetime:
        """Look at the clock on the wall."""
        return at.astimezone(self.zone).replace(tzinfo=None, fold=0)

    def later(self, local: datetime) -> datetime:
        """When a clock that nobody put forward would have shown this missing time."""
        minutes = 0
        while local - minutes * MINUTE not in self.shown:
            minutes += 1
        return self.shown[local - minutes * MINUTE][-1] + minutes * MINUTE

    def earlier(self, local: datetime) -> datetime:
        """When a clock that had been put forward before would have shown this missing time."""
        minutes = 0
        while local + minutes * MINUTE not in self.shown:
            minutes += 1
        return self.shown[local + minutes * MINUTE][0] - minutes * MINUTE


@cache
def changes(zone: ZoneInfo, first_year: int, last_year: int) -> list[datetime]:
    """Find the hours in which the offset changes."""
    at, found = datetime(first_year, 1, 1, tzinfo=UTC), []
    while at.year <= last_year:
        later = at + timedelta(hours=12)
        if at.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
            found.append(at)
        at = later
    return found


@dataclass
class Closed:
    """Closed days and what happens on them, told once more in the plainest way."""

    holidays: frozenset[date]
    roll: str

    def is_closed(self, day: date) -> bool:
        return day.strftime("%a") in {"Sat", "Sun"} or day in self.holidays

    def move(self, day: date) -> date | None:
        later = earlier = day
        while self.is_closed(later):
            later += DAY
        while self.is_closed(earlier):
            earlier -= DAY
        if later == day:
            return day
        if self.roll == "modified_following":
            return earlier if later.strftime("%Y%m") != day.strftime("%Y%m") else later
        return {"none": None, "following": later, "preceding": earlier}[self.roll]


def nominal(
    begin: datetime, end: datetime, matches: Callable[[datetime], bool]
) -> Iterable[datetime]:
    """Ask about every minute on the wall clock."""
    at = begin
    while at < end:
        if matches(at):
            yield at
        at += MINUTE


def expected(
    walk: Walk, wanted: Iterable[datetime], gap: str, repeated: str, closed: Closed | None
) -> tuple[set[datetime], set[datetime]]:
    """Give the instants that run, and the wall-clock times that are left out."""
    runs: set[datetime] = set()
    left_out: set[datetime] = set()
    for local in wanted:
        day = local.date() if closed is None else closed.move(local.date())
        if day is None:
            left_out.add(local)
            continue
        moved = datetime.combine(day, local.time())
        if not walk.begin + DAY <= moved.replace(tzinfo=UTC) <= walk.end - DAY:
            continue  # beyond what was walked, and of what is compared
        instants = walk.shown.get(moved, [])
        if len(instants) == 2:
            runs |= {"first": {instants[0]}, "second": {instants[1]}, "both": set(instants)}[
                repeated
            ]
        elif instants:
            runs.add(instants[0])
        elif gap == "skip":
            left_out.add(local)
        else:
            runs.add(walk.later(moved) if gap == "shift_forward" else walk.earlier(moved))
    return runs, left_out
