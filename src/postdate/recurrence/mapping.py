"""From wall-clock times to instants, where clocks jump and repeat, by the schedule's own choice.

Between two changes of the clock both run alike. The stretch right after a change and the one right
before the next, each as long as the jump, are handled by themselves: there times come twice, or
times that the clock jumps over find another instant.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from postdate.recurrence import zone
from postdate.recurrence.budget import HORIZON
from postdate.recurrence.rule import Dst, Gap, Occurrence, Repeated, Status
from postdate.recurrence.zone import OffsetSpan


class Nominal(NamedTuple):
    """A time on the wall clock, where the rule put it (`nominal`) and where it ended (`local`)."""

    local: datetime
    nominal: datetime
    notes: tuple[str, ...] = ()
    skip: Status | None = None


Nominals = Callable[[datetime], Iterator[Nominal]]
"""The times of a rule from a time on, ordered by where they ended."""

_END: Final = datetime(HORIZON.year, HORIZON.month, HORIZON.day, tzinfo=UTC)
_NEAR: Final = timedelta(days=2)
"""More than any jump of a clock: a search that starts this long before misses nothing."""

_ZERO: Final = timedelta(0)
_instant: Final = attrgetter("scheduled_for")


class Clock(NamedTuple):
    """What a clock with one offset shows between two instants, and what that means for a time."""

    begin: datetime
    end: datetime
    offset: timedelta
    note: str | None = None
    skip: Status | None = None


class SpanClocks(NamedTuple):
    """The clocks by which a zone's times are read between two changes of its offset."""

    head: tuple[Clock, ...]
    """Right after the first change, as long as its jump."""
    middle: Clock
    tail: tuple[Clock, ...]
    """Right before the second change, as long as its jump."""


def clocks(span: OffsetSpan, dst: Dst) -> SpanClocks:
    """Return the clocks of a stretch of time: all that is decided about missing and repeated time.

    Clocks of one end may overlap: times that they read at one instant run once.
    """
    head, tail = _ends(span)
    middle = Clock(head, tail, span.offset)
    return SpanClocks(tuple(_head(span, head, dst)), middle, tuple(_tail(span, tail, dst)))


def map_occurrences(
    nominals: Nominals, position: ZoneInfo, dst: Dst, after: datetime, *, twins: bool
) -> Iterator[Occurrence]:
    """Return the occurrences from an instant on, merged where several coincide.

    With `twins` the same time may come more than once.
    """
    at = after
    while at < _END:
        span = zone.span(position, at)
        head, middle, tail = clocks(span, dst)
        if at < middle.begin:
            yield from _merged(nominals, at, head)
        usual = _read(nominals, at, middle)
        yield from _coalesced(usual) if twins else usual
        yield from _merged(nominals, at, tail)
        offset = min(span.offset, span.closed.after if span.closed else span.offset)
        upcoming = next(nominals(_shown(span.end, offset)), None)
        if upcoming is None:
            return
        at = max(span.end, upcoming.local.replace(tzinfo=UTC) - _NEAR)


def _ends(span: OffsetSpan) -> tuple[datetime, datetime]:
    """Return the instants between which nothing is repeated, missing or moved."""
    head = span.begin + (span.opened.size if span.opened else _ZERO)
    tail = span.end - (span.closed.size if span.closed else _ZERO)
    return head, max(head, tail)


def _head(span: OffsetSpan, end: datetime, dst: Dst) -> Iterator[Clock]:
    """Return the clocks that tell the time after a change: ours, and the one not put forward."""
    change = span.opened
    if change is None:
        return
    if change.after > change.before:
        yield Clock(span.begin, end, span.offset)
        if dst.gap is Gap.SKIP:
            label = Status.SKIPPED_BY_DST
            yield Clock(span.begin, end, change.before, "gap_skipped", label)
        elif dst.gap is not Gap.SHIFT_BACK:
            yield Clock(span.begin, end, change.before, "gap_shifted_forward")
    elif dst.repeated in {Repeated.SECOND, Repeated.BOTH}:
        yield Clock(span.begin, end, span.offset, "repeated_second")


def _tail(span: OffsetSpan, begin: datetime, dst: Dst) -> Iterator[Clock]:
    """Return the clocks that tell the time before a change: ours, and one put forward already."""
    change = span.closed
    if change is None:
        return
    if change.after > change.before:
        yield Clock(begin, span.end, span.offset)
        if dst.gap is Gap.SHIFT_BACK:
            yield Clock(begin, span.end, change.after, "gap_shifted_back")
    elif dst.repeated is not Repeated.SECOND:
        yield Clock(begin, span.end, span.offset, "repeated_first")


def _merged(nominals: Nominals, at: datetime, clocks: Iterable[Clock]) -> Iterator[Occurrence]:
    readings = [_read(nominals, at, clock) for clock in clocks]
    return _coalesced(merge(*readings, key=_order))


def _coalesced(occurrences: Iterable[Occurrence]) -> Iterator[Occurrence]:
    """Make one run of all that would run at one instant; what is left out stays by itself."""
    for _, same in groupby(occurrences, _instant):
        chosen, *others = sorted(same, key=_order)
        merged = [each for each in others if each.skip is None]
        yield _with_merged(chosen, merged) if merged else chosen
        yield from (each for each in others if each.skip is not None)


def _with_merged(chosen: Occurrence, merged: list[Occurrence]) -> Occurrence:
    nominals = tuple(sorted(each.nominal_local for each in merged))
    return Occurrence(
        chosen.scheduled_for, chosen.nominal_local, (*chosen.notes, "merged"), None, nominals
    )


def _read(nominals: Nominals, at: datetime, clock: Clock) -> Iterator[Occurrence]:
    """Return what a clock shows from an instant on."""
    begin, end, offset, note, skip = clock
    if max(at, begin) >= end:
        return
    last = _shown(end, offset)
    for local, nominal, notes, left_out in nominals(_shown(max(at, begin), offset)):
        if local >= last:
            return
        noted = (*notes, note) if note else notes
        yield Occurrence((local - offset).replace(tzinfo=UTC), nominal, noted, left_out or skip)


def _shown(at: datetime, offset: timedelta) -> datetime:
    return at.replace(tzinfo=None) + offset


def _order(occurrence: Occurrence) -> tuple[datetime, int]:
    """Order those of one instant: one that was not moved, then moved ones, then left out ones."""
    moved = any(note.startswith(("gap_", "rolled_")) for note in occurrence.notes)
    return occurrence.scheduled_for, 2 if occurrence.skip is not None else int(moved)


def earliest(local: datetime, position: ZoneInfo, dst: Dst) -> datetime:
    """Return the first instant that a time on the wall clock means."""
    first, second = zone.offsets(position, local)
    late = dst.gap is not Gap.SHIFT_BACK if first < second else dst.repeated is Repeated.SECOND
    return zone.instant(local, min(first, second) if late else max(first, second))
