"""Run the handlers of claimed jobs: many at once, within a window, leases renewed meanwhile."""

import asyncio
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import asyncpg
import structlog

from postdate.model.job.outcome import (
    Completed,
    Delivery,
    Failed,
    Handler,
    Outcome,
    Throttled,
    Unknown,
)
from postdate.model.job.tally import Tally
from postdate.model.job.verdict import Keep, Move, complete, decide
from postdate.model.limit import Limit
from postdate.store.connection.database import LOST, CommitUnknownError, Database
from postdate.store.job import execution
from postdate.worker.claim import Claim
from postdate.worker.flight import Flight, Reach, pass_by
from postdate.worker.permit import HeldPermits, Permits
from postdate.worker.recorder import Recorder
from postdate.worker.share import Room, Window

log = structlog.get_logger()

OVERTIME_SECONDS: Final = 10.0
"""How long a handler may outlive its own timeout before it is stopped from outside."""

BUSY_SECONDS: Final = 0.5
"""How long one job at a full destination is thought to take, when others wait behind it."""

BUSY_MOST_SECONDS: Final = 30.0
STOP_SECONDS: Final = 3.0
"""How long stopped handlers have to be recorded when the process ends."""

TAKEN: Final = "lease_lost"
UNREADABLE: Final[Sequence[Limit]] = [Limit("unreadable")]

LimitsOf = Callable[[Delivery], Awaitable[Sequence[Limit]]]
"""What limits a delivery beyond its lane: its destination, for example."""


async def unlimited(_: Delivery) -> Sequence[Limit]:
    """Limit nothing."""
    return ()


class Runner:
    """Everything between a claim and its record."""

    def __init__(
        self,
        database: Database,
        handlers: Mapping[str, Handler],
        window: Window,
        permits: Permits,
        tally: Tally,
        *,
        limits_of: LimitsOf = unlimited,
        reach: Reach = pass_by,
    ) -> None:
        self._database = database
        self._handlers = handlers
        self._window = window
        self._permits = permits
        self._tally = tally
        self._limits_of = limits_of
        self._reach = reach
        self._recorder = Recorder(database, tally, self._make_room, self._land, reach)
        self._flights: set[Flight] = set()
        self._arrived: list[Flight] = []
        self._waiting: deque[Flight] = deque()
        self._spare = False
        self._closing = False
        self._running: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self.on_room: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._flights)

    def take_over(self, claim: Claim) -> None:
        """Own what was claimed from now on: each flight lands once, whatever becomes of it."""
        renew_at = claim.claimed_at + claim.lease_seconds / 3
        permits = (claim.permits,) if claim.permits else ()
        flights = [Flight(each, claim, renew_at, permits) for each in claim.executions]
        self._flights.update(flights)
        self._tally.running = len(self._flights)
        self._tally.claimed(claim.lane.tenant_id, [each.late_seconds for each in claim.executions])
        for flight in flights:
            if flight.execution.verdict is not None:
                self._recorder.submit(flight, flight.execution.verdict)
            else:
                self._arrived.append(flight)

    async def admit(self) -> None:
        """Run what has arrived, as far as it may run; what nobody could look at goes back."""
        arrived, self._arrived = self._arrived, []
        for flight in arrived:
            flight.admitting = True
        try:
            await self._admit(arrived)
        except BaseException:
            self._put_off(arrived)
            raise
        finally:
            for flight in arrived:
                flight.admitting = False
            if self._closing:
                self._give_back()
            self._spawn()

    def _put_off(self, flights: Sequence[Flight]) -> None:
        """Give back those for which nothing is under way yet; soon they are claimed again."""
        waiting = set(self._waiting)
        for flight in flights:
            if flight not in waiting and flight.running is None:
                self._recorder.submit(flight, Move(seconds=BUSY_SECONDS))

    def _give_back(self) -> None:
        while self._waiting:
            self._recorder.submit(self._waiting.popleft(), Move(seconds=0.0))

    async def _admit(self, flights: Sequence[Flight]) -> None:
        """Let flights wait for their turn as far as their destinations' limits permit."""
        groups: dict[tuple[Limit, ...], list[Flight]] = defaultdict(list)
        # Equal destinations of a batch are one object: each is asked about once.
        known: dict[int, Sequence[Limit]] = {}
        for flight in flights:
            where = id(flight.delivery.destination)
            limits = known.get(where)
            if limits is None:
                limits = known[where] = await self._limits(flight)
            if limits is UNREADABLE:
                self._recorder.submit(flight, Move(seconds=BUSY_SECONDS))
            elif limits:
                groups[tuple(limit for limit in limits if limit.limited)].append(flight)
            else:
                self._waiting.append(flight)
        for limits, group in groups.items():
            await self._admit_limited(limits, group)

    async def _limits(self, flight: Flight) -> Sequence[Limit]:
        """Read what limits a flight; where only that fails, the others do not wait for it."""
        try:
            return await self._limits_of(flight.delivery)
        except (CommitUnknownError, *LOST):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to one destination
            log.warning("job.limits_unreadable", job_id=str(flight.key[0]), error=repr(error))
            return UNREADABLE

    async def _admit_limited(self, limits: Sequence[Limit], group: Sequence[Flight]) -> None:
        held = HeldPermits()
        try:
            wait_seconds = await self._permits.acquire(held, limits, len(group))
        except BaseException:
            # Without a permit nothing starts; the leases are given back and soon claimed again.
            held.refund(held.count)
            raise
        starts = held.count
        for flight in group[:starts]:
            flight.permits += (held,)
            self._waiting.append(flight)
        for number, flight in enumerate(group[starts:]):
            wait = max(_line_seconds(limit, number) for limit in limits)
            self._end(flight, Throttled(seconds=wait_seconds + wait, reason="limit"))

    def _spawn(self) -> None:
        """See that somebody takes the next waiting flight.

        One spare runner is enough: it only comes to run when those before it wait for something,
        and then makes the next spare. Handlers that never wait thus share a single one.
        """
        if self._waiting and not self._spare:
            self._spare = True
            running = asyncio.create_task(self._work())
            self._running.add(running)
            running.add_done_callback(self._running.discard)

    async def _work(self) -> None:
        self._spare = False
        own = asyncio.current_task()
        while self._waiting:
            flight = self._waiting.popleft()
            if not self._spare:
                self._spawn()
            flight.started_at = time.monotonic()
            if not flight.may_start(flight.started_at):
                # Somebody else may have it by now; if nobody has, it is due again.
                self._recorder.submit(flight, Move(seconds=0.0))
                continue
            flight.running = own
            try:
                self._end(flight, await self._handle(flight))
            except BaseException as error:
                self._end(flight, Unknown(code="handler_error", error=repr(error)))
                if not isinstance(error, Exception):
                    raise
                log.warning("handler.failed", job_id=str(flight.key[0]), exc_info=True)
            finally:
                flight.running = None
            if flight.stopped is not None:
                self._spawn()
                return

    async def _handle(self, flight: Flight) -> Outcome:
        delivery = flight.delivery
        kind = delivery.destination["type"]
        handler = self._handlers.get(kind)
        if handler is None:
            return Failed(code="no_handler", error=f"No worker here serves the type {kind}.")
        try:
            outcome = await handler(delivery)
            if self._reach is not pass_by:
                await self._reach("handler.after")
        except asyncio.CancelledError:
            if flight.stopped is None:
                raise
            return Unknown(code=flight.stopped, error="It was stopped before it came back.")
        except Exception as error:
            log.warning("handler.failed", job_id=str(flight.key[0]), exc_info=True)
            return Unknown(code="handler_error", error=f"{type(error).__name__}: {error}")
        return outcome

    def _end(self, flight: Flight, outcome: Outcome) -> None:
        flight.ended_at = time.monotonic()
        if flight.stopped == TAKEN:
            self._recorder.lose(flight)
        elif isinstance(outcome, Completed):
            self._recorder.submit(flight, complete(outcome))
        else:
            self._recorder.submit(flight, decide(flight.execution.facts, outcome, flight.now()))

    def _make_room(self, flights: Sequence[Flight]) -> None:
        """Let others run: the next are claimed while these are being recorded.

        The recorder bounds how many those can be, and calls this when their commit begins. What
        holds a permit keeps its room as long: the permit may be wanted by another process.
        """
        self._leave([flight for flight in flights if not flight.permits])

    def _land(self, flights: Sequence[Flight]) -> None:
        """Let go of flights, and say so where somebody may have waited for a permit."""
        self._flights.difference_update(flights)
        self._tally.running = len(self._flights)
        limited = [flight for flight in flights if flight.permits]
        for flight in limited:
            for held in flight.permits:
                held.end()
        self._leave(flights)
        self._changed.set()
        if limited:
            self.on_room()

    def _leave(self, flights: Sequence[Flight]) -> None:
        """Give room back, and say so where somebody waited for it."""
        leaving = [flight for flight in flights if flight.in_window]
        for flight in leaving:
            flight.in_window = False
        rooms = Counter(flight.claim.room for flight in leaving)
        waited = any(self._window.free(room.tenant_id) == 0 for room in rooms)
        for room, count in rooms.items():
            room.leave(count)
        if waited:
            self.on_room()

    def owned(self) -> tuple[set[Room], set[HeldPermits]]:
        """Give the room and the permits of what is in flight."""
        rooms = {flight.claim.room for flight in self._flights if flight.in_window}
        return rooms, {held for flight in self._flights for held in flight.permits}

    def end_unhandled(self) -> None:
        """Let go of flights with which nobody is at work: what never began goes back."""
        cared = {*self._waiting, *self._arrived}
        for flight in self._flights - cared:
            if flight.running is not None or flight.recording or flight.admitting:
                continue
            log.error("flight.unhandled", job_id=str(flight.key[0]), token=flight.key[1])
            if flight.started_at:
                self._end(flight, Unknown(code="handler_lost", error="Nobody is at work with it."))
            else:
                self._recorder.submit(flight, Move(seconds=0.0))
        self._recorder.resume()
        self._spawn()

    async def renew(self, _: int = 1) -> int:
        """Renew the leases that need it; stop what has lost its lease or outlived its time."""
        self._recorder.resume()
        now = time.monotonic()
        wanted = [f for f in self._flights if f.renew_at <= now and not f.recording]
        for flight in wanted:
            overtime = flight.started_at + flight.delivery.timeout_seconds + OVERTIME_SECONDS
            if flight.running is not None and now > overtime:
                flight.stop("handler_timeout")
        await self._reach("renew.before")
        keeps = [(f.execution.held, Keep(f.claim.lease_seconds)) for f in wanted]
        held = await execution.renew(self._database, keeps) if keeps else {}
        for flight in wanted:
            if held.get(flight.execution.held.job_id) is not None:
                flight.renew_at = now + flight.claim.lease_seconds / 3
            elif flight.execution.held.job_id not in held and not flight.recording:
                # Somebody else has it, or it was cancelled. One that is only locked is tried again.
                flight.stop(TAKEN)
        return 0

    async def join(self) -> None:
        """Wait until nothing is in flight."""
        while self._flights:
            self._changed.clear()
            await self._changed.wait()

    async def drain(self, seconds: float) -> None:
        """End in good order: give back what has not begun, wait for the rest, then stop it."""
        self._closing = True
        self._give_back()
        until = time.monotonic() + seconds
        while self._flights and time.monotonic() < until:
            await self._joined(min(1.0, until - time.monotonic()))
            with suppress(CommitUnknownError, asyncpg.PostgresError, *LOST):
                await self.renew()
        for flight in list(self._flights):
            flight.stop("worker_stopped")
        await self._joined(STOP_SECONDS)
        with suppress(CommitUnknownError, asyncpg.PostgresError, *LOST):
            await self._permits.give_back()

    async def _joined(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.join(), max(0.0, seconds))


def _line_seconds(limit: Limit, number: int) -> float:
    """Guess when the next but `number` gets its turn, so that those who wait do not come at once.

    A rate says it exactly; for the rest a usual duration has to do.
    """
    if limit.rate_per_second is not None:
        return number / limit.rate_per_second
    turns = (number // max(1, limit.max_running or 1)) + 1
    return float(min(turns * BUSY_SECONDS, BUSY_MOST_SECONDS)) * random.uniform(0.8, 1.2)
