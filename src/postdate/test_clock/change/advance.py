"""Advance a test clock from one due instant to the next, and run everything due at each, in order.

The stages are those of live tenants. While something runs, the clock shows the instant at which it
is due, so nothing is late, and whatever it creates is due by the same clock.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from postdate.audit.spec import STAMP
from postdate.core import any_json
from postdate.core.ids import MAX_ID
from postdate.core.test_clock import following_tenant, lane_in_test, lane_purpose
from postdate.database.connection.database import Connection, Database
from postdate.event.spec.event import EventFilter, Sealed
from postdate.event.store import seal
from postdate.halt import store as halt
from postdate.job.store import job_cancel
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import Lane
from postdate.payment.store import approval
from postdate.test_clock import store
from postdate.test_clock.store import DueHead, NewClockEntry, PassedTimer, SubscriptionState
from postdate.timer.timer import LANE_EVENT, LANE_PAYMENT, LANE_SCHEDULE
from postdate.words.error import Code, refuse

MAX_BATCH: Final = 1000
"""Payments of one commit."""

MAX_LANES: Final = 10_000
PAGE: Final = 500
FLUSH_STEPS: Final = 100
"""Number of steps after which events are sealed, if no request needs them before."""

HOLD_SECONDS: Final = 5.0
"""How long the clock stays held without a sign of life: then an advance may be continued."""


class Rank(IntEnum):
    """The order of steps that are due at the same instant."""

    HALT = 0
    APPROVAL = 1
    CANCEL = 2
    SCHEDULE = 3
    PAYMENT = 4
    JOB = 5
    EVENT = 6


_RANKS: Final = {
    LANE_SCHEDULE: Rank.SCHEDULE,
    LANE_PAYMENT: Rank.PAYMENT,
    LANE_EVENT: Rank.EVENT,
}


class Stages(Protocol):
    """The stages that an advance runs; each does what is due by the tenant's clock."""

    async def thaw(self) -> object:
        """Bring back what waited for halts that have ended."""
        ...

    async def expire(self) -> object:
        """End payments that were not approved in time."""
        ...

    async def end_cancelled(self) -> object:
        """End jobs whose workers did not stop by the deadline of a cancel."""
        ...

    async def expand(self) -> object:
        """Expand schedules."""
        ...

    async def settle(self, keys: Sequence[tuple[int, UUID]]) -> object:
        """Settle payments, given in order."""
        ...

    async def run(self, lane: Lane, bucket: int, low: datetime) -> object:
        """Run the first job of a bucket's lane."""
        ...

    async def deliver(self) -> object:
        """Deliver events to subscriptions."""
        ...

    async def seal(self) -> object:
        """Seal what waits in the outbox, of all tenants."""
        ...

    def wake_pullers(self, lane_id: int) -> None:
        """Tell workers that wait for jobs of a lane that some are due."""
        ...


class AdvanceStep(NamedTuple):
    """The next step of an advance; steps of one instant are ordered by rank."""

    at: datetime
    rank: Rank
    due_at: datetime
    subject: UUID | None = None
    bucket: int = 0
    lane_id: int = 0

    @property
    def order(self) -> tuple[datetime, Rank, datetime, str]:
        """Return its place among all steps."""
        return self.at, self.rank, self.due_at, str(self.subject)


@dataclass(slots=True, kw_only=True)
class ClockAdvance:
    """One request's part of an advance; another can continue it from what is stored."""

    database: Database
    stages: Stages
    tenant_id: int
    holder: UUID
    at: datetime
    target: datetime
    finished: bool = False
    _lanes: dict[int, Lane] = field(default_factory=dict)
    # What was done at the instant that the clock shows, and what that has not moved.
    _tried: set[tuple[UUID | Rank, datetime]] = field(default_factory=set)
    _stuck: set[UUID] = field(default_factory=set)
    _subscribed: bool = False
    _unflushed: int = 0

    async def run(self, seconds: float) -> None:
        """Advance until everything is done, or for some seconds of the server's time."""
        until = time.monotonic() + seconds
        with following_tenant(self.tenant_id):
            self._subscribed = bool(await self._subscriptions())
            while (step := await self._next()) is not None:
                if time.monotonic() >= until:
                    await self._flush()
                    return
                if step.at > self.at:
                    await self._move(step.at)
                self._tried.add((step.subject or step.rank, step.due_at))
                await self._perform(step)
            await self._move(self.target)
            await self._flush()
        self.finished = True

    async def _next(self) -> AdvanceStep | None:
        """Find the next step; skip what was already tried without success at this instant."""
        with following_tenant(None):
            async with self.database.connection() as connection:
                found = await self._next_end(connection)
                heads = await self._heads(connection)
        for head in heads:
            rank = _RANKS.get(lane_purpose(head.lane_id), Rank.JOB)
            at = max(self.at, head.due_at)
            found.append(
                AdvanceStep(at, rank, head.due_at, head.subject, head.bucket, head.lane_id)
            )
        return min(found, key=lambda step: step.order, default=None)

    async def _heads(self, connection: Connection) -> list[DueHead]:
        lanes = [lane_in_test(self.tenant_id, lane_id) for lane_id in _RANKS]
        while True:
            heads = await store.heads(connection, self.tenant_id, lanes, self.target, self._stuck)
            stuck = {head.subject for head in heads if (head.subject, head.due_at) in self._tried}
            if not stuck:
                return heads
            self._stuck |= stuck

    async def _next_end(self, connection: Connection) -> list[AdvanceStep]:
        """Find the next end of a halt, of an approval, or of the time that a worker may take."""
        ends = [
            (Rank.HALT, await halt.next_end(connection, self.tenant_id)),
            (Rank.APPROVAL, await approval.next_end(connection, self.tenant_id)),
            (Rank.CANCEL, await job_cancel.next_deadline(connection, self.tenant_id)),
        ]
        steps = [
            AdvanceStep(max(self.at, due_at), rank, due_at)
            for rank, due_at in ends
            if due_at is not None and due_at <= self.target
        ]
        return [step for step in steps if (step.rank, step.due_at) not in self._tried]

    async def _move(self, at: datetime) -> None:
        """Move the clock to an instant, and record which jobs for workers came due until then."""
        passed = await self._passed(at)
        if passed:
            await self._flush()
        with following_tenant(None):
            async with self.database.write("clock.move") as connection:
                if passed:
                    await store.enter(
                        connection, self.tenant_id, [_passed_entry(p) for p in passed]
                    )
                moved = await store.move(connection, self.tenant_id, self.holder, at, HOLD_SECONDS)
                if moved is None:
                    raise refuse(
                        Code.CLOCK_ADVANCING, "Another request has continued this advance."
                    )
        self.at = moved
        self._tried.clear()
        self._stuck.clear()
        for lane_id in {each.lane_id for each in passed}:
            self.stages.wake_pullers(lane_id)

    async def _passed(self, until: datetime) -> list[PassedTimer]:
        found: list[PassedTimer] = []
        after = self.at, MAX_ID
        with following_tenant(None):
            async with self.database.connection() as connection:
                while page := await store.list_due_worker_timers(
                    connection, self.tenant_id, after, until, MAX_BATCH
                ):
                    found += page
                    after = page[-1].due_at, page[-1].subject
                    if len(page) < MAX_BATCH:
                        break
        return found

    async def _perform(self, step: AdvanceStep) -> None:
        match step.rank:
            case Rank.HALT:
                await self.stages.thaw()
            case Rank.APPROVAL:
                await self.stages.expire()
            case Rank.CANCEL:
                await self.stages.end_cancelled()
            case Rank.SCHEDULE:
                await self.stages.expand()
            case Rank.PAYMENT:
                await self._settle(step)
            case Rank.JOB:
                await self.stages.run(await self._lane(step.lane_id), step.bucket, step.due_at)
            case Rank.EVENT:
                await self._deliver()
        self._unflushed += 1
        # What was sealed wakes subscriptions, which are due at once.
        if self._subscribed or self._unflushed >= FLUSH_STEPS:
            await self._flush()

    async def _settle(self, step: AdvanceStep) -> None:
        with following_tenant(None):
            async with self.database.connection() as connection:
                keys = await store.payments(connection, step.lane_id, step.at, MAX_BATCH)
        await self.stages.settle(keys)

    async def _lane(self, lane_id: int) -> Lane:
        if lane_id not in self._lanes:
            async with self.database.connection() as connection:
                lanes = await lane_store.page(connection, self.tenant_id, "", MAX_LANES)
            self._lanes = {lane.lane_id: lane for lane in lanes}
        return self._lanes[lane_id]

    async def _deliver(self) -> None:
        """Deliver events, and record the progress of each subscription."""
        await self._flush()
        before = {each.subscription_id: each for each in await self._subscriptions()}
        await self.stages.deliver()
        entries = [
            _delivery_entry(self.at, before[each.subscription_id], each)
            for each in await self._subscriptions()
            if _served(before.get(each.subscription_id), each, self.at)
        ]
        if entries:
            with following_tenant(None):
                async with self.database.write() as connection:
                    await store.enter(connection, self.tenant_id, entries)

    async def _subscriptions(self) -> list[SubscriptionState]:
        with following_tenant(None):
            async with self.database.connection() as connection:
                return await store.subscriptions(connection, self.tenant_id)

    async def _flush(self) -> None:
        """Seal what has happened and record it from the chain, so that nothing is missed."""
        self._unflushed = 0
        with following_tenant(None):
            await self.stages.seal()
            more = True
            while more:
                async with self.database.write("clock.enter") as connection:
                    clock = await store.lock(connection, self.tenant_id)
                    if clock is None:
                        return
                    events = await self._events(connection, clock.position)
                    if events:
                        entries = [_event_entry(event) for event in events]
                        last = events[-1].position
                        await store.enter(connection, self.tenant_id, entries, last)
                more = len(events) == PAGE

    async def _events(self, connection: Connection, after: int) -> list[Sealed]:
        every = EventFilter(patterns=["%"])
        page = await seal.read_after(connection, self.tenant_id, every, after, PAGE)
        return page.events


def _event_entry(event: Sealed) -> NewClockEntry:
    data = any_json.decode(event.data) if event.data else {}
    data.pop(STAMP, None)
    return NewClockEntry(event.time, event.type, event.subject, data)


def _passed_entry(timer: PassedTimer) -> NewClockEntry:
    """Return the entry of a job that waits for its worker, or of an expired lease."""
    kind = "lease.expired" if timer.leased else "job.ready"
    return NewClockEntry(timer.due_at, kind, timer.subject, {"lane": timer.lane})


def _served(before: SubscriptionState | None, now: SubscriptionState, at: datetime) -> bool:
    """Return whether something was sent; events that the filter drops do not count."""
    if before is None or now == before:
        return False
    return now.failures > before.failures or now.delivered_at == at


def _delivery_entry(
    at: datetime, before: SubscriptionState, now: SubscriptionState
) -> NewClockEntry:
    if now.failures > before.failures:
        outcome = {"failures": now.failures, "error": now.error}
        return NewClockEntry(at, "subscription.failed", now.subscription_id, outcome)
    outcome = {"position": now.position}
    return NewClockEntry(at, "subscription.delivered", now.subscription_id, outcome)
