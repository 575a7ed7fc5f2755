"""From wall-clock times to instants, where clocks jump and repeat, by the schedule's own choice."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from postdate.model import zone
from postdate.model.schedule import Dst, Gap, Occurrence, Repeated, Status
from postdate.model.zone import Change


class Nominal(NamedTuple):
    """A time on the wall clock, where the rule put it (`nominal`) and where it ended (`local`)."""

    local: datetime
    nominal: datetime
    notes: tuple[str, ...] = ()
    skip: Status | None = None


_TICK: Final = timedelta(microseconds=1)
_Waiting = tuple[datetime, int, int, Occurrence]


def reach(place: ZoneInfo, after: datetime) -> datetime:
    """Give the wall-clock time from which to look so that nothing after an instant is missed.

    Near a change an earlier reading of the clock can mean a later instant.
    """
    local = zone.to_local(place, after)
    for change in zone.changes(place, after.date()):
        if change.at - change.size <= after < change.at + change.size:
            local = min(local, _rough(change)[0])
    return local.replace(microsecond=0)


def mapped(
    nominals: Iterator[Nominal], place: ZoneInfo, dst: Dst, *, twins: bool
) -> Iterator[Occurrence]:
    """Map times that come in their order to occurrences in theirs, merging those that coincide.

    Far from a change of the clock both orders agree. Within reach of one, occurrences wait until
    the wall clock has passed it. With `twins` the same time may come again.
    """
    waiting: list[_Waiting] = []
    number = 0
    for nominal in nominals:
        for each in _instants(nominal, place, dst):
            number += 1
            heappush(waiting, (each.scheduled_for, _rank(each), number, each))
        safe = _safe(nominal.local, place)
        while waiting and (waiting[0][0] < safe or (waiting[0][0] == safe and not twins)):
            yield _merge(waiting)
    while waiting:
        yield _merge(waiting)


def _rank(occurrence: Occurrence) -> int:
    """Order those of one instant: one that was not moved, then moved ones, then left out ones."""
    if occurrence.skip is not None:
        return 2
    return int(any(note.startswith(("gap_", "rolled_")) for note in occurrence.notes))


def _instants(nominal: Nominal, place: ZoneInfo, dst: Dst) -> Iterator[Occurrence]:
    local, _, notes, skip = nominal
    first, second = zone.offsets(place, local)
    if first == second:
        yield _occurrence(nominal, first, notes, skip)
    elif first < second:
        yield _missing(nominal, first, second, dst)
    else:
        if dst.repeated is not Repeated.SECOND:
            yield _occurrence(nominal, first, (*notes, "repeated_first"), skip)
        if dst.repeated in {Repeated.SECOND, Repeated.BOTH}:
            yield _occurrence(nominal, second, (*notes, "repeated_second"), skip)


def _missing(nominal: Nominal, before: timedelta, after: timedelta, dst: Dst) -> Occurrence:
    # With the offset of before the jump a clock that was not put forward shows the time: that is
    # later. With the offset of after it, the same time lies earlier.
    notes, skip = nominal.notes, nominal.skip
    match dst.gap:
        case Gap.SKIP:
            label = skip or Status.SKIPPED_BY_DST
            return _occurrence(nominal, before, (*notes, "gap_skipped"), label)
        case Gap.SHIFT_BACK:
            return _occurrence(nominal, after, (*notes, "gap_shifted_back"), skip)
        case _:
            return _occurrence(nominal, before, (*notes, "gap_shifted_forward"), skip)


def _occurrence(
    nominal: Nominal, offset: timedelta, notes: tuple[str, ...], skip: Status | None
) -> Occurrence:
    return Occurrence(zone.instant(nominal.local, offset), nominal.nominal, notes, skip)


def _rough(change: Change) -> tuple[datetime, datetime]:
    """Give the wall-clock times between which a change can bring the order about."""
    at = change.at.replace(tzinfo=None)
    low, high = sorted((change.before, change.after))
    return at + low - change.size, at + high + change.size


def _safe(local: datetime, place: ZoneInfo) -> datetime:
    """Give the instant up to which nothing new can come once the clock shows this time."""
    first, second = zone.offsets(place, local)
    safe = zone.instant(local, max(first, second))
    for change in zone.changes(place, local.date()):
        low, high = _rough(change)
        if low <= local < high:
            # A missing time may yet be put back onto the very first instant.
            safe = min(safe, (low - change.before - _TICK).replace(tzinfo=UTC))
    return safe


def _merge(waiting: list[_Waiting]) -> Occurrence:
    """Take the next instant; what else falls on it and would run too is merged into it."""
    chosen = heappop(waiting)[3]
    if chosen.skip is not None:
        return chosen
    merged = []
    while waiting and waiting[0][0] == chosen.scheduled_for and waiting[0][3].skip is None:
        merged.append(heappop(waiting)[3].nominal_local)
    if not merged:
        return chosen
    return Occurrence(
        chosen.scheduled_for,
        chosen.nominal_local,
        (*chosen.notes, "merged"),
        None,
        tuple(sorted(merged)),
    )
