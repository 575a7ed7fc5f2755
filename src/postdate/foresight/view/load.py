"""The load forecast: what comes due, when that is too much, and what spreading would change."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, TypeVar, TypeVarTuple

import msgspec

from postdate.core.setting.setting import Settings
from postdate.core.work import TooMuchWorkError
from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.off_loop import (
    attempted,
    cancelling,
    computed,
    in_process,
    in_thread,
    started,
)
from postdate.foresight.spec.capacity import LoadCapacity, chosen, limited
from postdate.foresight.spec.lateness import late_forecast
from postdate.foresight.spec.minutes import added, hour_peaks
from postdate.foresight.store import due as due_store
from postdate.foresight.view.due import StoredDue, lane_buckets, stored_due
from postdate.foresight.view.load_shape import (
    JitterSpread,
    LoadPeak,
    LoadQuestion,
    LoadQueue,
    LoadSeries,
    LoadView,
    SpreadEffect,
)
from postdate.foresight.view.rules import (
    OTHERS,
    By,
    CountedSchedules,
    RuleBook,
    RuleBooks,
    SeriesKey,
    count_schedules,
    supposed,
)
from postdate.foresight.view.series import SeriesCounts, largest, max_series
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import Lane, LaneDirectory
from postdate.monitor.store import activity as activity_store
from postdate.monitor.store import vital as vital_store
from postdate.monitor.store.activity import ActivitySlot
from postdate.words.error import Code, refuse

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

Window = tuple[datetime, datetime]
"""From when until when, both whole minutes."""

MINUTE: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)
MAX_WINDOW: Final = timedelta(days=366)
DEFAULT_WINDOW: Final = DAY
MEASURED_SECONDS: Final = 7200

CAPACITY_SETTINGS: Final = {
    False: "foresight.jobs_per_second",
    True: "foresight.payments_per_second",
}
"""What a tenant says that can be executed: jobs, and payments."""

MAX_CELLS: Final = 300_000
"""Maximum number of counts in an answer: series times slots."""

_WIDTHS: Final = ((DAY, 1), (7 * DAY, 15), (31 * DAY, 60), (MAX_WINDOW, 1440))
"""Up to which window a slot has how many minutes."""


class LoadViews:
    """Forecasts what comes due."""

    def __init__(
        self, database: Database, lanes: LaneDirectory, settings: Settings, books: RuleBooks
    ) -> None:
        self._database = database
        self._lanes = lanes
        self._settings = settings
        self._books = books

    async def load(self, tenant_id: int, question: LoadQuestion) -> LoadView:
        """Return the forecast for one tenant."""
        return await self.answered(tenant_id, load_view, *await self.prepare(tenant_id, question))

    async def prepare(
        self, tenant_id: int, question: LoadQuestion
    ) -> tuple["LoadParts", RuleBook, asyncio.Task[CountedSchedules]]:
        """Read everything for a forecast, while a thread counts the schedules."""
        lanes = await self._lanes.of_tenant(tenant_id, question.lane)
        async with self._database.read(tenant_id) as connection:
            window = await self._window(connection, question)
            book, counting = await self._counting(connection, tenant_id, question.by, window)
            async with cancelling(counting):
                stored = await _stored(connection, tenant_id, question.by, lanes, window)
                slots = await activity_store.recent(connection, tenant_id, MEASURED_SECONDS)
        limits = self._capacities(tenant_id, question, slots)
        naming = LoadNaming(question.by, lanes, {})
        return LoadParts(question, window, stored, naming, limits), book, counting

    async def _counting(
        self, connection: Connection, tenant_id: int | None, by: By, window: Window
    ) -> tuple[RuleBook, asyncio.Task[CountedSchedules]]:
        """Read the rules, and begin to count their occurrences."""
        book = await self._books.get(connection, tenant_id)
        await in_thread(book.sums, by, *window)  # remembered, and so outside of any allowance
        return book, started(attempted(tenant_id, count_schedules, book, by, *window))

    async def answered(
        self,
        tenant_id: int | None,
        answer: Callable[["LoadParts", RuleBook, CountedSchedules | None, *Ts], R],
        parts: "LoadParts",
        book: RuleBook,
        counting: asyncio.Task[CountedSchedules],
        *arguments: *Ts,
    ) -> R:
        """Compute an answer in a thread, or all of it in a process if that is too much."""
        try:
            counted = await counting
            return await attempted(tenant_id, answer, parts, book, counted, *arguments)
        except TooMuchWorkError:
            return await in_process(tenant_id, answer, parts, book, None, *arguments)

    async def load_of_all(self, question: LoadQuestion) -> LoadView:
        """Return the forecast for all tenants, by tenant, for the operator."""
        question = msgspec.structs.replace(question, by="tenant", lane=None)
        async with self._database.connection() as connection:
            lanes = await lane_store.list_all(connection)
            window = await self._window(connection, question)
            book, counting = await self._counting(connection, None, question.by, window)
            async with cancelling(counting):
                walk = partial(due_store.by_tenant, connection)
                stored = await stored_due(connection, walk, lane_buckets(lanes), *window)
                slots = await activity_store.recent_of_all(connection, MEASURED_SECONDS)
                ids = {each.schedule.tenant_id for each in book.planned}
                ids |= {int(each.key) for each in stored.found if each.key is not None}
                names = await vital_store.tenant_names(connection, sorted(ids))
        limits = self._capacities(0, question, slots)
        naming = LoadNaming("tenant", lanes, names)
        parts = LoadParts(question, window, stored, naming, limits)
        return await self.answered(None, load_view, parts, book, counting)

    async def counts(
        self, connection: Connection, tenant_id: int, lanes: Sequence[Lane], window: Window
    ) -> tuple[StoredDue, CountedSchedules]:
        """Count stored work and future occurrences for the overview."""
        book = await self._books.get(connection, tenant_id)
        await in_thread(book.sums, "total", *window)
        counting = started(computed(None, count_schedules, book, "total", *window))
        async with cancelling(counting):
            walk = partial(due_store.by_lane, connection, tenant_id)
            stored = await stored_due(connection, walk, lane_buckets(lanes), *window)
            return stored, await counting

    async def _window(self, connection: Connection, question: LoadQuestion) -> Window:
        now = next_minute(await clock.now(connection))
        begin = max(now, next_minute(question.begin or now))
        until = next_minute(question.until or begin + DEFAULT_WINDOW)
        window = begin, min(max(until, begin + MINUTE), begin + MAX_WINDOW)
        _check_cells(question, window)
        return window

    def _capacities(
        self, tenant_id: int, question: LoadQuestion, slots: Sequence[ActivitySlot]
    ) -> dict[bool, LoadCapacity]:
        get = partial(self._settings.number, tenant_id=tenant_id)
        jobs = [(s.slot.timestamp(), s.jobs_executed + s.jobs_failed, s.jobs_late) for s in slots]
        payments = [
            (s.slot.timestamp(), s.payments_executed + s.payments_failed, s.payments_late)
            for s in slots
        ]
        return {
            False: chosen(question.jobs_per_second, get(CAPACITY_SETTINGS[False]), jobs),
            True: chosen(question.payments_per_second, get(CAPACITY_SETTINGS[True]), payments),
        }


def load_view(parts: "LoadParts", book: RuleBook, counted: CountedSchedules | None) -> LoadView:
    """Build the answer, with what spreading would change; best off the event loop."""
    by, window, spread = parts.naming.by, parts.window, parts.question.spread
    view = parts.view(counted or count_schedules(book, by, *window), book)
    if spread is None:
        return view
    changed = count_schedules(supposed([spread.of(each) for each in book.planned]), by, *window)
    return msgspec.structs.replace(view, spread=parts.effect(changed, spread))


def _slot_minutes(question: LoadQuestion, window: Window) -> int:
    """Return how many minutes a slot has: as many as were asked for, or what suits the window."""
    length = window[1] - window[0]
    return question.slot_minutes or next(each for upto, each in _WIDTHS if length <= upto)


def _check_cells(question: LoadQuestion, window: Window) -> None:
    """Refuse slots that are too short for the window, before anything is counted."""
    max_slots = MAX_CELLS // max_series(question.by)
    minutes = (window[1] - window[0]) // MINUTE
    least = -(-minutes // max_slots)
    if _slot_minutes(question, window) < least:
        detail = (
            f"A forecast has at most {MAX_CELLS} counts, which is {max_slots} slots "
            f"{'in total' if question.by == 'total' else 'by ' + question.by}: use slot_seconds "
            f"of at least {least * 60}, or a shorter window."
        )
        raise refuse(Code.INVALID_FIELD, detail, "slot_seconds")


def next_minute(at: datetime) -> datetime:
    """Return the first whole minute that is not before an instant."""
    whole = at.astimezone(UTC).replace(second=0, microsecond=0)
    return whole if whole == at else whole + MINUTE


async def _stored(
    connection: Connection, tenant_id: int, by: By, lanes: Sequence[Lane], window: Window
) -> StoredDue:
    by_lane = partial(due_store.by_lane, connection, tenant_id)
    found = await stored_due(connection, by_lane, lane_buckets(lanes), *window)
    if by != "destination":
        return found
    own = [(bucket, lane.lane_id) for lane in lanes for bucket in lane.buckets]
    places = [bucket for bucket, _ in own], [lane_id for _, lane_id in own]
    walk = partial(due_store.by_destination, connection, tenant_id)
    jobs = await stored_due(connection, walk, places, *window)
    payments = [each for each in found.found if each.payments]
    return StoredDue(
        found=jobs.found + payments,
        known_until=min(jobs.known_until, found.known_until),
        error_percent=_either(jobs.error_percent, found.error_percent),
    )


def _either(one: int | None, two: int | None) -> int | None:
    known = [each for each in (one, two) if each is not None]
    return max(known, default=None)


class LoadNaming:
    """Names the series of stored and of scheduled work."""

    def __init__(self, by: By, lanes: Sequence[Lane], tenants: dict[int, str]) -> None:
        self.by = by
        self.lanes = {lane.lane_id: lane for lane in lanes}
        self._tenants = tenants

    def with_lanes(self, lanes: dict[int, Lane]) -> "LoadNaming":
        """Return the same names for lanes with other limits."""
        return LoadNaming(self.by, list(lanes.values()), self._tenants)

    def of_scheduled(self, name: str) -> str:
        """Return the name of the series of schedules; a tenant is named by its id."""
        one_tenant = self.by == "tenant" and name != OTHERS
        return self._tenants.get(int(name), name) if one_tenant else name

    def of_stored(self, key: int | str | None) -> str:
        """Return the name of the series of a lane's id, a destination or a tenant's id."""
        match self.by:
            case "lane":
                lane = self.lanes.get(int(key or 0))
                return lane.name if lane else ""
            case "tenant":
                return self._tenants.get(int(key or 0), str(key))
            case "destination":
                return "" if key == 0 else str(key or "")
            case "total":
                return ""

    def wanted(self, question: LoadQuestion) -> Callable[[SeriesKey], bool]:
        """Return which series belong to the answer: those of the requested lane, if any."""
        if question.lane is None:
            return lambda series: question.payments or not series[0]
        return lambda series: series == (False, question.lane)


class LoadParts(msgspec.Struct, frozen=True):
    """Everything for a forecast, except the counts of schedules."""

    question: LoadQuestion
    window: Window
    stored: StoredDue
    naming: LoadNaming
    capacities: dict[bool, LoadCapacity]

    def view(self, counted: CountedSchedules, book: RuleBook) -> LoadView:
        """Build the answer."""
        begin, until = self.window
        width = _slot_minutes(self.question, self.window)
        grids = self.grids(counted)
        return LoadView(
            from_at=begin,
            until_at=until,
            known_until=self.stored.known_until,
            slot_seconds=width * 60,
            by=self.naming.by,
            series=self._series(grids, width),
            queues=self.queues(grids),
            error_percent=self.stored.error_percent,
            schedules=len(book.planned) - (0 if self.question.payments else len(book.orders)),
            left_out=counted.left_out + book.left_out,
        )

    def effect(self, counted: CountedSchedules, spread: JitterSpread) -> SpreadEffect:
        """Return the queues as they would be with another jitter."""
        only = next(iter(spread.schedules)) if spread.schedules else None
        queues = self.queues(self.grids(counted))
        return SpreadEffect(jitter_seconds=spread.seconds, schedule_id=only, queues=queues)

    @property
    def size(self) -> int:
        """Return how many minutes the window has."""
        return (self.window[1] - self.window[0]) // MINUTE

    def grids(self, counted: CountedSchedules) -> dict[SeriesKey, SeriesCounts]:
        """Combine stored and scheduled work, series by series: the largest, and all others as one.

        They are chosen before any of them has a place for each minute of the window.
        """
        wanted, naming = self.naming.wanted(self.question), self.naming
        scheduled = [
            (series, counts)
            for (payments, name), counts in counted.counts.items()
            if wanted(series := (payments, naming.of_scheduled(name)))
        ]
        stored = [
            (series, each)
            for each in self.stored.found
            if wanted(series := (each.payments, naming.of_stored(each.key)))
        ]
        shown = largest([*scheduled, *((series, each.counts) for series, each in stored)])
        grids: dict[SeriesKey, SeriesCounts] = defaultdict(lambda: SeriesCounts(self.size))
        for series, counts in scheduled:
            grids[shown[series]].add_scheduled(counts)
        for series, each in stored:
            grids[shown[series]].add_stored(each.minutes, each.counts)
        return dict(grids)

    def _series(self, grids: dict[SeriesKey, SeriesCounts], width: int) -> list[LoadSeries]:
        return [
            LoadSeries(
                kind="payments" if payments else "jobs",
                name=name,
                counts=both.coarsened(width),
                stored=(stored := both.stored.total()),
                scheduled=both.amount - stored,
            )
            for (payments, name), both in sorted(grids.items())
        ]

    def queues(self, grids: dict[SeriesKey, SeriesCounts]) -> list[LoadQueue]:
        """Compare the series with the capacities."""
        queues = []
        for payments in (False, True):
            parts = [both for (kind, _), both in grids.items() if kind is payments]
            if parts:
                capacity = self.capacities[payments]
                queues.append(self._queue(payments, self.question.lane or "", parts, capacity))
        for lane in {lane.name: lane for lane in self.naming.lanes.values()}.values():
            own = grids.get((False, lane.name))
            if self.naming.by == "lane" and own and lane.rate_per_second is not None:
                capacity = limited(self.capacities[False], lane.rate_per_second)
                queues.append(self._queue(False, lane.name, [own], capacity))
        return queues

    def _queue(
        self,
        payments: bool,  # noqa: FBT001 - it is the kind
        name: str,
        parts: Sequence[SeriesCounts],
        capacity: LoadCapacity,
    ) -> LoadQueue:
        counts = added(part.total for part in parts)
        backlog = sum(part.backlog for part in parts)
        peaks = hour_peaks(counts)
        most = max(peaks)
        begin = self.window[0]
        return LoadQueue(
            kind="payments" if payments else "jobs",
            name=name,
            total=sum(part.amount for part in parts),
            backlog=backlog,
            peak=LoadPeak(begin + counts.index(most) * MINUTE, most) if most else None,
            capacity=capacity,
            lateness=late_forecast(counts, begin, capacity.per_second, backlog, peaks)
            if capacity.per_second
            else None,
        )
