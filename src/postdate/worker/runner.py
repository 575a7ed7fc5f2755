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

from postdate.model.limit import Limit
from postdate.model.outcome import Completed, Delivery, Failed, Handler, Outcome, Throttled, Unknown
from postdate.model.tally import Tally
from postdate.model.verdict import Keep, Move, complete, decide
from postdate.store import execution
from postdate.store.database import LOST, CommitUnknownError, Database
from postdate.store.permit import Grant
from postdate.worker.claimer import Batch
from postdate.worker.flight import Flight, Reach, pass_by
from postdate.worker.permit import Permits
from postdate.worker.recorder import Recorder
from postdate.worker.share import Window

log = structlog.get_logger()

OVERTIME_SECONDS: Final = 10.0
"""How long a handler may outlive its own timeout before it is stopped from outside."""

BUSY_SECONDS: Final = 0.5
"""How long one job at a full destination is thought to take, when others wait behind it."""

BUSY_MOST_SECONDS: Final = 30.0
STOP_SECONDS: Final = 3.0
"""How long stopped handlers have to be recorded when the process ends."""

TAKEN: Final = "lease_lost"

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
        self._waiting: deque[Flight] = deque()
        self._spare = False
        self._closing = False
        self._running: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self.on_room: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._flights)

    async def start(self, batch: Batch) -> None:
        """Take over what was claimed, and run what may run."""
        renew_at = batch.claimed_at + batch.lease_seconds / 3
        flights = [Flight(each, batch, renew_at, batch.scopes) for each in batch.executions]
        self._flights.update(flights)
        self._tally.running = len(self._flights)
        late = [each.late_seconds for each in batch.executions]
        self._tally.claimed(batch.lane.tenant_id, late)
        for flight in flights:
            if flight.execution.verdict is not None:
                self._recorder.submit(flight, flight.execution.verdict)
        await self._admit([flight for flight in flights if flight.execution.verdict is None])
        if self._closing:
            self._give_back()
        self._spawn()

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
                limits = known[where] = await self._limits_of(flight.delivery)
            if limits:
                groups[tuple(limit for limit in limits if limit.limited)].append(flight)
            else:
                self._waiting.append(flight)
        for limits, group in groups.items():
            await self._admit_limited(limits, group)

    async def _admit_limited(self, limits: Sequence[Limit], group: Sequence[Flight]) -> None:
        try:
            grant = await self._permits.acquire_all(limits, len(group))
        except (CommitUnknownError, asyncpg.PostgresError, *LOST) as error:
            # Without a permit nothing starts; the leases are given back and soon claimed again.
            log.warning("permit.unavailable", count=len(group), error=str(error))
            grant = Grant(0, BUSY_SECONDS)
        for flight in group[: grant.starts]:
            flight.scopes += tuple(limit.scope for limit in limits)
            self._waiting.append(flight)
        for number, flight in enumerate(group[grant.starts :]):
            wait = max(_line_seconds(limit, number) for limit in limits)
            self._end(flight, Throttled(seconds=grant.wait_seconds + wait, reason="limit"))

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
            flight.running = own
            flight.started_at = time.monotonic()
            outcome = await self._handle(flight)
            flight.running = None
            if flight.stopped == TAKEN:
                self._lose(flight)
            else:
                self._end(flight, outcome)
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
        if isinstance(outcome, Completed):
            self._recorder.submit(flight, complete(outcome))
        else:
            self._recorder.submit(flight, decide(flight.execution.facts, outcome, flight.now()))

    def _lose(self, flight: Flight) -> None:
        self._tally.lost()
        log.info("lease.lost", job_id=str(flight.key[0]), token=flight.key[1])
        self._make_room([flight])
        self._land([flight])

    def _make_room(self, flights: Sequence[Flight]) -> None:
        """Let others run: the next are claimed while these are being recorded.

        The recorder bounds how many those can be, and calls this when their commit begins. What
        holds a permit keeps its room as long: the permit may be wanted by another process.
        """
        self._leave([flight for flight in flights if not flight.scopes])

    def _land(self, flights: Sequence[Flight]) -> None:
        """Let go of flights, and say so where somebody may have waited for a permit."""
        self._flights.difference_update(flights)
        self._tally.running = len(self._flights)
        limited = [flight for flight in flights if flight.scopes]
        for flight in limited:
            self._permits.release(flight.scopes)
        self._leave(limited)
        self._changed.set()
        if limited:
            self.on_room()

    def _leave(self, flights: Sequence[Flight]) -> None:
        """Give room back, and say so where somebody waited for it."""
        tenants = Counter(flight.batch.lane.tenant_id for flight in flights)
        waited = any(self._window.room(tenant_id) == 0 for tenant_id in tenants)
        for tenant_id, count in tenants.items():
            self._window.add(tenant_id, -count)
        if waited:
            self.on_room()

    async def renew(self, _: int = 1) -> int:
        """Renew the leases that need it; stop what has lost its lease or outlived its time."""
        now = time.monotonic()
        wanted = [f for f in self._flights if f.renew_at <= now and not f.recording]
        for flight in wanted:
            overtime = flight.started_at + flight.delivery.timeout_seconds + OVERTIME_SECONDS
            if flight.running is not None and now > overtime:
                flight.stop("handler_timeout")
        await self._reach("renew.before")
        keeps = [(f.execution.held, Keep(f.batch.lease_seconds)) for f in wanted]
        held = await execution.renew(self._database, keeps) if keeps else {}
        for flight in wanted:
            if flight.execution.held.job_id in held:
                flight.renew_at = now + flight.batch.lease_seconds / 3
            elif not flight.recording:
                self._drop(flight)
        return 0

    def _drop(self, flight: Flight) -> None:
        """Let go of a lease that somebody else has, or that was cancelled."""
        if flight.running is not None:
            flight.stop(TAKEN)
        elif flight in self._waiting:
            self._waiting.remove(flight)
            self._lose(flight)

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
