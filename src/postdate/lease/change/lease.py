"""Leases of workers that use HTTP: claim with a long poll, renew, report."""

import asyncio
import itertools
import math
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from postdate.core.field import NAME
from postdate.core.ids import bucket_of
from postdate.core.limit import Limit
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.job.spec.outcome import Delivery
from postdate.job.spec.retry import RetryPolicies
from postdate.job.spec.tally import Tally
from postdate.job.spec.verdict import Move
from postdate.job.store import execution
from postdate.job.store.execution import ClaimedExecution, Recorded
from postdate.job.store.expiry import end_expired
from postdate.job.store.key_claim import KeyClaims
from postdate.lane.spec import PerKey
from postdate.lane.store import permit
from postdate.lane.store.lane import Lane, LaneDirectory
from postdate.lane.store.permit import claim_holder, lane_limits
from postdate.lease.change.claim_order import claim_order, divide
from postdate.lease.change.release import LeaseReturns
from postdate.lease.store import FoundLease
from postdate.runtime.key_rotation import KeyRotation
from postdate.runtime.low_water import LowWaterMark
from postdate.secret.payload_encryption import PayloadCipher
from postdate.timer import timer
from postdate.words.error import Code, refuse

MAX_CLAIM: Final = 100
"""The most leases of one claim."""

MAX_WAIT_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.8
"""How long a waiting claim sleeps without a hint."""

FULL_SECONDS: Final = 0.1
"""How long to sleep when a limit is reached."""

MAX_RETRIED: Final = 50
"""The most keys of a bucket that a new request asks about again, because they were at a limit."""

SOON_SECONDS: Final = 0.01
NOT_RUN: Final = Move(seconds=0.0)


@dataclass(slots=True, frozen=True)
class Leased:
    """A job leased to a worker, and until when."""

    delivery: Delivery
    lease_until: datetime


@dataclass(slots=True, frozen=True, kw_only=True)
class ClaimAsk:
    """A claim request: who, for what, how long to wait; `gone` is set if the client leaves."""

    tenant_id: int
    lane: str
    holder: UUID
    max_leases: int
    lease_seconds: float
    wait_seconds: float
    gone: asyncio.Event


@dataclass(slots=True)
class _Door:
    """What this process knows of one lane; all waiting requests share one read of it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    hint: asyncio.Event = field(default_factory=asyncio.Event)
    marks: defaultdict[tuple[int, int], LowWaterMark] = field(
        default_factory=lambda: defaultdict(LowWaterMark)
    )
    """By the row of the lane and the bucket."""
    rotation: defaultdict[tuple[int, int], KeyRotation] = field(
        default_factory=lambda: defaultdict(KeyRotation)
    )
    """The same, of the rows in which keys take rotation."""
    per_key: PerKey | None = None
    empty_until: float = 0.0

    def forget(self) -> None:
        """Read everything again."""
        self.marks.clear()
        self.rotation.clear()

    def follow(self, lane: Lane) -> None:
        """Take over changed limits per key."""
        if self.per_key != lane.per_key:
            self.forget()
            self.per_key = lane.per_key


class LeaseClaims:
    """Hands out due jobs of pull lanes."""

    def __init__(
        self,
        database: Database,
        lanes: LaneDirectory,
        settings: Settings,
        tally: Tally,
        cipher: PayloadCipher | None = None,
    ) -> None:
        self._database = database
        self._cipher = cipher
        self._lanes = lanes
        self._settings = settings
        self._tally = tally
        self._policies = RetryPolicies(settings)
        self._returns = LeaseReturns(database)
        self._doors: dict[tuple[int, str], _Door] = {}
        """By tenant and name."""

    def freed(self, found: FoundLease) -> bool:
        """Look again at the key of a job that has ended; return whether its lane limits keys."""
        lane = self._lanes.by_id.get(found.lane_id)
        if lane is None or lane.key_rotation is None or found.key_id is None:
            return False
        door = self._doors.setdefault((lane.tenant_id, lane.name), _Door())
        for (_, bucket), rotation in door.rotation.items():
            if bucket == bucket_of(found.subject):
                rotation.freed(found.key_id, time.monotonic())
        door.empty_until = 0.0
        door.hint.set()
        return True

    def hint(self, lane_id: int | None) -> None:
        """Wake the requests that wait for a lane, or for all: there may be new jobs."""
        doors = list(self._doors.values())
        if lane_id is not None:
            lane = self._lanes.by_id.get(lane_id)
            door = None if lane is None else self._doors.get((lane.tenant_id, lane.name))
            doors = [] if door is None else [door]
        now = time.monotonic()
        for door in doors:
            for rotation in door.rotation.values():
                rotation.retry(now, MAX_RETRIED)
            door.empty_until = 0.0
            door.hint.set()

    async def claim(self, ask: ClaimAsk) -> list[Leased]:
        """Claim due jobs; if there are none, wait as long as the client does."""
        if NAME.fullmatch(ask.lane) is None:
            raise refuse(Code.INVALID_FIELD, f"{ask.lane} is not the name of a lane.", "lane")
        until = time.monotonic() + ask.wait_seconds
        first = True
        while True:
            leased, pause = await self._try(ask, first=first)
            first = False
            left = until - time.monotonic()
            if leased or left <= 0 or ask.gone.is_set():
                return leased
            await self._wait(ask, min(left, pause))

    async def _try(self, ask: ClaimAsk, *, first: bool) -> tuple[list[Leased], float]:
        """Claim once; without success, return how long to sleep.

        Waiting requests share what one of them has seen; a new request reads for itself.
        """
        rows = await self._lanes.find(ask.tenant_id, ask.lane, "pull")
        if not rows or rows[0].paused:
            return [], POLL_SECONDS
        door = self._doors.setdefault((ask.tenant_id, ask.lane), _Door())
        async with door.lock:
            now = time.monotonic()
            if door.empty_until > now and not first:
                return [], door.empty_until - now
            door.hint.clear()
            door.follow(rows[0])
            if first:
                for rotation in door.rotation.values():
                    rotation.retry(now, MAX_RETRIED)
            ready, pause = await self._take_ready(ask, rows, door)
            if not ready:
                pause = max(pause, await self._next_due(rows, door))
                door.empty_until = now + pause
        if ask.gone.is_set():
            return [], 0.0
        return [_leased(each, ask.lease_seconds) for each in ready], pause

    async def _take_ready(
        self, ask: ClaimAsk, rows: Sequence[Lane], door: _Door
    ) -> tuple[list[ClaimedExecution], float]:
        """Claim jobs to run; expired jobs that lie before them are ended, and use up no claim."""
        while True:
            with self._owned(rows[0], door, ask) as taken:
                pause = await self._take(ask, rows, door, taken)
                await self._record_judged(ask.tenant_id, taken)
                ready = [each for each in taken if each.delivery is not None]
            if ready or not taken or ask.gone.is_set():
                return ready, pause
            buckets = {bucket_of(each.held.job_id) for each in taken}
            for lane, bucket in itertools.product(rows, buckets):
                step = await end_expired(
                    self._database, lane, bucket, self._policies, ask.holder, self._settings.floor
                )
                self._tally.recorded([(lane.tenant_id, verdict) for _, verdict in step.ended])

    @contextmanager
    def _owned(self, lane: Lane, door: _Door, ask: ClaimAsk) -> Iterator[list[ClaimedExecution]]:
        """Own what is claimed: the client gets all of it, or it is given back, whatever is raised.

        This includes a claim whose commit is unknown: no worker runs it.
        """
        taken: list[ClaimedExecution] = []
        handed = False
        try:
            yield taken
            handed = not ask.gone.is_set()
        finally:
            if not handed:
                door.forget()
                back = [Recorded(each.held, each.verdict or NOT_RUN) for each in taken]
                limits = lane_limits(lane, self._settings)
                self._returns.give_back(back, [limit.scope for limit in limits])

    async def _take(
        self, ask: ClaimAsk, rows: Sequence[Lane], door: _Door, taken: list[ClaimedExecution]
    ) -> float:
        """Claim into `taken`, within the limits; without success, return how long to sleep.

        If this raises, the jobs in `taken` may have been claimed.
        """
        limits = lane_limits(rows[0], self._settings)
        passed: list[tuple[LowWaterMark, datetime, datetime]] = []
        async with self._database.write("lease.claim") as connection:
            max_leases, pause = await self._room(connection, limits, ask)
            where = await self._positions(connection, rows, door) if max_leases else []
            for (lane, bucket), parts in divide(where):
                left = max_leases - len(taken)
                if left > 0:
                    found, until = await self._take_from(
                        connection, (lane, bucket), door, ask, math.ceil(left / parts)
                    )
                    taken += found
                    if until is not None:
                        passed.append((door.marks[lane.lane_id, bucket], *until))
            # An expired job is ended, not run: it uses up no start and no slot.
            runs = [each for each in taken if each.delivery is not None]
            for limit in limits:
                await permit.spend(connection, limit, len(runs))
                holders = [claim_holder(*each.held[:2]) for each in runs]
                await permit.hold(connection, limit, holders, ask.lease_seconds)
        self._tally.claimed(ask.tenant_id, [each.late_seconds for each in taken])
        lost = [each for each in taken if each.lost]
        again = sum(each.verdict is None for each in lost)
        self._tally.count_lost(ask.tenant_id, len(lost), again)
        for mark, empty_below, at in passed:
            mark.learn_empty_below(empty_below, at)
        return pause

    async def _take_from(
        self,
        connection: Connection,
        where: tuple[Lane, int],
        door: _Door,
        ask: ClaimAsk,
        limit: int,
    ) -> tuple[list[ClaimedExecution], tuple[datetime, datetime] | None]:
        """Claim from one bucket; say up to which instant nothing is left there, and when."""
        lane, bucket = where
        key = lane.lane_id, bucket
        low = door.marks[key].current(time.monotonic(), self._settings.floor)
        if lane.key_rotation is not None:
            rotation = door.rotation[key]
            claims = KeyClaims(self._policies, ask.holder, self._cipher)
            found, _ = await claims.take(
                connection,
                (lane, bucket, rotation),
                low=low,
                limit=limit,
                lease_seconds=ask.lease_seconds,
            )
            until = rotation.known_until
            return found, None if until is None else (until, until)
        found = await execution.take(
            connection,
            lane,
            bucket,
            self._policies,
            self._cipher,
            low=low,
            limit=limit,
            lease_seconds=ask.lease_seconds,
            claimed_by=ask.holder,
        )
        if not found:
            return found, None
        return found, (max(each.ready_at for each in found), found[0].claimed_at)

    async def _positions(
        self, connection: Connection, rows: Sequence[Lane], door: _Door
    ) -> list[tuple[Lane, int]]:
        """List the buckets to claim from, those whose turn is first before the others.

        A lane with one row needs no look: its buckets come in any order.
        """
        if len(rows) == 1 and rows[0].key_rotation is None:
            return [
                (rows[0], each) for each in random.sample(rows[0].buckets, len(rows[0].buckets))
            ]
        heads = await timer.heads(connection, self._looks(rows, door))
        first = {(h.lane_id, h.bucket): h.due_at for h in heads if h.seconds <= 0}
        for key, rotation in door.rotation.items():
            if (due_at := rotation.first_due()) is not None:
                first[key] = min(due_at, first.get(key, due_at))
        by_id = {lane.lane_id: lane for lane in rows}
        found = [(by_id[key[0]], key[1], due) for key, due in first.items() if key[0] in by_id]
        return [(lane, bucket) for lane, bucket, _ in sorted(found, key=claim_order(found))]

    def _looks(self, rows: Sequence[Lane], door: _Door) -> list[tuple[int, int, datetime]]:
        now, floor = time.monotonic(), self._settings.floor
        return [
            (bucket, lane.lane_id, door.marks[lane.lane_id, bucket].current(now, floor))
            for lane in rows
            for bucket in lane.buckets
        ]

    async def _room(
        self, connection: Connection, limits: Sequence[Limit], ask: ClaimAsk
    ) -> tuple[int, float]:
        max_leases, pause = ask.max_leases, 0.0
        for limit in limits:
            grant = await permit.lock_room(connection, limit, ask.holder, 0, max_leases)
            max_leases, pause = grant.starts, max(pause, grant.wait_seconds)
        return max_leases, pause if max_leases else max(pause, FULL_SECONDS)

    async def _record_judged(self, tenant_id: int, taken: Sequence[ClaimedExecution]) -> None:
        """Record the verdicts of claimed jobs that must not run."""
        verdicts = [Recorded(each.held, each.verdict) for each in taken if each.verdict]
        if verdicts:
            written = await execution.record(self._database, verdicts)
            done = [v for held, v in verdicts if held.job_id in written.done]
            self._tally.recorded([(tenant_id, verdict) for verdict in done])

    async def _next_due(self, rows: Sequence[Lane], door: _Door) -> float:
        async with self._database.connection() as connection:
            heads = await timer.heads(connection, self._looks(rows, door))
        for head in heads:
            door.marks[head.lane_id, head.bucket].learn_found(head.due_at)
        now = time.monotonic()
        rotation = [each.ready_at() - now for each in door.rotation.values()]
        return max(SOON_SECONDS, min([POLL_SECONDS, *rotation, *(head.seconds for head in heads)]))

    async def _wait(self, ask: ClaimAsk, seconds: float) -> None:
        events = [ask.gone]
        if (ask.tenant_id, ask.lane) in self._doors:
            events.append(self._doors[ask.tenant_id, ask.lane].hint)
        waiting = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()


def _leased(taken: ClaimedExecution, lease_seconds: float) -> Leased:
    if taken.delivery is None:
        raise RuntimeError("an execution that must not run was handed out")
    return Leased(taken.delivery, taken.claimed_at + timedelta(seconds=lease_seconds))
