"""Choose what to claim next, fairly, and claim it."""

import asyncio
import dataclasses
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import msgspec

from postdate.model.lane import Kind
from postdate.model.limit import Limit
from postdate.model.retry import Policies
from postdate.model.setting import Settings
from postdate.model.verdict import Move
from postdate.store import execution, halt, node, timer
from postdate.store.database import CommitUnknownError, Connection, Database
from postdate.store.execution import Execution
from postdate.store.lane import Lane, LaneDirectory
from postdate.store.mark import Mark
from postdate.store.permit import lane_limits
from postdate.store.timer import LONG_AGO
from postdate.store.vault import Vault
from postdate.worker.bucket import EVERY_BUCKET, preferred
from postdate.worker.pace import Pace
from postdate.worker.permit import Permits
from postdate.worker.place import ACTIVE_SECONDS, Place, Places
from postdate.worker.ready import Ready
from postdate.worker.share import Window

PLACES_MOST: Final = 16
"""The most places of one transaction: lanes with a job each share the cost of a commit."""

LOOK_MOST: Final = 2000
"""The most places of one look."""

ROLE: Final = "worker"


@dataclass(slots=True, frozen=True)
class Batch:
    """What one claim at one place brought: executions, each holding permits of these scopes."""

    lane: Lane
    executions: list[Execution]
    scopes: tuple[str, ...]
    lease_seconds: float
    claimed_at: float
    """By this node's monotonic clock, taken before the claim: the lease ends no sooner."""


@dataclass(slots=True)
class _Taken:
    """A claim under way; `counted` is how much of the window it fills."""

    place: Place
    wanted: int
    counted: int
    scopes: tuple[str, ...] = ()
    claimed_at: float = 0.0
    executions: list[Execution] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Claimer:
    """One node's view of what is due. Several claims may be under way, never two at one place."""

    database: Database
    node_id: UUID
    lanes: LaneDirectory
    settings: Settings
    permits: Permits
    window: Window
    kinds: frozenset[Kind] = frozenset({"push"})
    pace: Pace = field(default_factory=Pace)
    vault: Vault | None = None
    mine: frozenset[int] = EVERY_BUCKET
    places: Places = field(default_factory=Places)
    ready: Ready = field(init=False)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _policies: Policies = field(init=False)
    _stale: bool = True
    _floor: datetime = LONG_AGO

    def __post_init__(self) -> None:
        self._policies = Policies(self.settings)
        self.ready = Ready(self.window)

    async def refresh(self, _: int = 1) -> int:
        """Take over which lanes and nodes there are; the step of a loop."""
        if self._stale:
            self._stale = False
            await self.lanes.refresh()
        async with self.database.writer.acquire() as connection:
            nodes = await node.live(connection)
            held = await halt.held(connection)
        self.mine = preferred(self.node_id, [n.node_id for n in nodes if ROLE in n.roles])
        now = time.monotonic()
        known = self.lanes.by_id
        self.places.replace(
            [
                lane
                for lane in known.values()
                if lane.kind in self.kinds and not lane.paused and lane.tenant_id not in held
            ],
            now,
        )
        self.ready.keep(known, now)
        return 0

    def hint(self, lane_id: int | None) -> bool:
        """Look at a lane soon, or at all of them; False asks for a refresh: it is a new one."""
        if lane_id is not None and not self.places.watches(lane_id):
            lane = self.lanes.by_id.get(lane_id)
            self._stale = self._stale or lane is None
            return lane is not None and (lane.paused or lane.kind not in self.kinds)
        self.places.hint(lane_id, time.monotonic())
        return True

    def next_due(self) -> float | None:
        """Say in how many seconds a claim may find something."""
        now = time.monotonic()
        times = (self.ready.opens_at(now), self.places.next_look())
        known = [at for at in times if at is not None]
        return max(0.0, min(known) - now) if known else None

    async def claim(self, limit: int) -> list[Batch]:
        """Claim up to `limit` due jobs, in turn, as far as their tenants have room."""
        limit = min(limit, self.pace.size)
        await self._look()
        place = self.ready.next(time.monotonic())
        if place is None:
            return []
        if limits := lane_limits(place.lane, self.settings):
            return await self._claim_limited(place, limits, limit)
        return await self._claim_several(place, limit)

    def _heed_floor(self) -> datetime:
        """Give the instant below which nothing is touched; marks made above a higher one go."""
        floor = self.settings.floor
        if floor < self._floor:
            for place in self.places:
                place.mark = Mark()
        self._floor = floor
        return floor

    async def _look(self) -> None:
        """Ask for the heads of the places whose time has come."""
        async with self._looking:
            floor = self._heed_floor()
            now = time.monotonic()
            looked = self.places.due(now, LOOK_MOST)
            if not looked:
                return
            try:
                wanted = [(p.bucket, p.lane.lane_id, max(floor, p.mark.low(now))) for p in looked]
                async with self.database.writer.acquire() as connection:
                    heads = await timer.heads(connection, wanted)
            except BaseException:
                for place in looked:
                    self.places.plan(place, now)
                raise
            at = datetime.fromtimestamp(self.database.unix_ms() / 1000, UTC)
            for place in self.places.learn(looked, heads, (time.monotonic(), at), self.mine):
                self.ready.add(place)

    async def _claim_several(self, first: Place, limit: int) -> list[Batch]:
        """Claim at one place after another in one transaction, until the limit is reached."""
        taken: list[_Taken] = []
        place: Place | None = first
        began = time.monotonic()
        try:
            async with self.database.write() as connection:
                while place is not None:
                    taken.append(self._reserve(place, limit))
                    await self._take(connection, taken[-1])
                    limit -= len(taken[-1].executions)
                    more = limit > 0 and len(taken) < PLACES_MOST
                    place = self._next_unlimited() if more else None
        except CommitUnknownError:
            return [self._give_up(each) for each in taken]
        except BaseException:
            for each in taken:
                self._undo(each)
            raise
        count = sum(len(each.executions) for each in taken)
        self.pace.took(count, time.monotonic() - began)
        return [self._batch(each) for each in taken]

    async def _claim_limited(self, place: Place, limits: list[Limit], limit: int) -> list[Batch]:
        """Claim at one place as far as its limits permit."""
        now = time.monotonic()
        taken = self._reserve(place, limit)
        try:
            grant = await self.permits.acquire_all(limits, taken.counted)
            if not grant.starts:
                self._trim(taken, 0)
                self.ready.close(place.lane, now + grant.wait_seconds)
                self.ready.add(place)
                return []
            self._trim(taken, grant.starts)
            taken.scopes = tuple(each.scope for each in limits)
            async with self.database.write() as connection:
                await self._take(connection, taken)
        except CommitUnknownError:
            return [self._give_up(taken)]
        except BaseException:
            self._undo(taken)
            raise
        await self.permits.refund(limits, grant.starts - len(taken.executions))
        if grant.wait_seconds and len(taken.executions) == grant.starts:
            self.ready.close(place.lane, now + grant.wait_seconds)
        return [self._batch(taken)]

    def _reserve(self, place: Place, limit: int) -> _Taken:
        """Take room in the window first: another claim may be under way."""
        wanted = min(limit, self.window.room(place.lane.tenant_id))
        self.window.add(place.lane.tenant_id, wanted)
        return _Taken(place, wanted, wanted)

    def _trim(self, taken: _Taken, count: int) -> None:
        """Give back the room that is not needed."""
        self.window.add(taken.place.lane.tenant_id, count - taken.counted)
        taken.counted = count

    def _next_unlimited(self) -> Place | None:
        place = self.ready.next(time.monotonic())
        if place is not None and lane_limits(place.lane, self.settings):
            self.ready.add(place)
            return None
        return place

    async def _take(self, connection: Connection, taken: _Taken) -> None:
        place = taken.place
        taken.wanted = taken.counted
        taken.claimed_at = time.monotonic()
        taken.executions = await execution.take(
            connection,
            place.lane,
            place.bucket,
            self._policies,
            self.vault,
            low=max(self.settings.floor, place.mark.low(taken.claimed_at)),
            limit=taken.wanted,
            lease_seconds=self.settings.number("worker.lease_seconds", place.lane.tenant_id),
            claimed_by=self.node_id,
        )
        self._trim(taken, len(taken.executions))

    def _batch(self, taken: _Taken) -> Batch:
        """Note what a claim brought, and when to come back to its place."""
        place, now = taken.place, time.monotonic()
        self.ready.spend(place.lane, len(taken.executions))
        if taken.executions:
            highest = max(each.ready_at for each in taken.executions)
            place.mark.passed(highest, taken.executions[0].claimed_at)
            place.active_until = now + ACTIVE_SECONDS
        full = len(taken.executions) == taken.wanted
        if full and place.bucket in self.mine and self.places.knows(place):
            self.ready.add(place)
        else:
            self.places.plan(place, now)
        seconds = self.settings.number("worker.lease_seconds", place.lane.tenant_id)
        return Batch(place.lane, taken.executions, taken.scopes, seconds, taken.claimed_at)

    def _undo(self, taken: _Taken) -> None:
        """Forget a claim that was rolled back."""
        self.window.add(taken.place.lane.tenant_id, -taken.counted)
        self.permits.release(taken.scopes, taken.wanted)
        self.places.plan(taken.place, time.monotonic())

    def _give_up(self, taken: _Taken) -> Batch:
        """Let go of leases that may or may not have been taken: nothing of them has run."""
        self.permits.release(taken.scopes, taken.wanted - len(taken.executions))
        batch = self._batch(taken)
        back = [
            msgspec.structs.replace(each, delivery=None, verdict=Move(seconds=0.0))
            for each in batch.executions
        ]
        return dataclasses.replace(batch, executions=back)
