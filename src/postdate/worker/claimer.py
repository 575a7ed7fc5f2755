"""Choose what to claim next, fairly, and claim it."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import msgspec

from postdate.core.limit import Limit
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.halt import store as halt
from postdate.job.spec.retry import RetryPolicies
from postdate.job.spec.verdict import Move
from postdate.job.store import execution
from postdate.job.store.execution import ClaimedExecution
from postdate.job.store.key_claim import KeyClaims
from postdate.lane.spec import LaneKind
from postdate.lane.store.lane import Lane, LaneDirectory
from postdate.lane.store.permit import lane_limits
from postdate.runtime.capacity import Capacity
from postdate.runtime.key_rotation import KeyRotation
from postdate.runtime.share import EVERY_BUCKET, BucketShare
from postdate.runtime.shared_read import SharedReads
from postdate.secret.payload_encryption import PayloadCipher
from postdate.timer import timer
from postdate.timer.timer import Head
from postdate.worker.claim import ClaimTransaction, LaneClaim
from postdate.worker.lane_bucket import ACTIVE_SECONDS, INSTANT_SECONDS, LaneBucket, LaneBuckets
from postdate.worker.ready_queue import ReadyQueue

MAX_LANE_BUCKETS: Final = 16
"""The most buckets of one transaction: lanes with a job each share the cost of a commit."""

MAX_LOOK: Final = 2000
"""Maximum number of buckets of one statement."""

MAX_HINTED: Final = 1000
"""The most unknown lanes that hints may name before they are loaded."""

FAILED_SECONDS: Final = 0.5
"""How long a bucket rests at which a claim failed: those claimed together with it come first."""

CLAIM_ANY: Final = 1_000_000
ROLE: Final = "worker"


@dataclass(slots=True, kw_only=True)
class Claimer:
    """Claims due jobs for one node. Several claims may run at once, but never two on one bucket.

    Claimed jobs are passed to `hand_over` as soon as the claim ends.
    """

    database: Database
    node_id: UUID
    lanes: LaneDirectory
    settings: Settings
    max_claim: Callable[[Sequence[Limit]], int]
    """How many jobs under these limits are worth claiming."""

    capacity: Capacity
    hand_over: Callable[[LaneClaim], None]
    kinds: frozenset[LaneKind] = frozenset({"push"})
    shared_reads: SharedReads | None = None
    cipher: PayloadCipher | None = None
    mine: frozenset[int] = EVERY_BUCKET
    afar: frozenset[int] = frozenset()
    lane_buckets: LaneBuckets = field(default_factory=LaneBuckets)
    ready: ReadyQueue = field(init=False)
    reads: SharedReads = field(init=False)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _policies: RetryPolicies = field(init=False)
    _key_claims: KeyClaims = field(init=False)
    _share: BucketShare = field(init=False)
    _transactions: set[ClaimTransaction] = field(default_factory=set)
    _held: frozenset[int] = frozenset()
    """The tenants that are halted."""
    _hinted: set[int] = field(default_factory=set)
    """Lanes that a hint has named and this node does not know."""

    def __post_init__(self) -> None:
        self._policies = RetryPolicies(self.settings)
        self._key_claims = KeyClaims(self._policies, self.node_id, self.cipher)
        self.reads = self.shared_reads or SharedReads(self.database)
        self._share = BucketShare(self.reads, self.node_id, ROLE)
        self.ready = ReadyQueue(self.capacity, self._max_claim)

    async def refresh(self, _: int = 1) -> int:
        """Refresh the known lanes and nodes; the step of a loop."""
        wanted, self._hinted = self._hinted, set()
        self.mine, self._held, _loaded = await asyncio.gather(
            self._share.refresh(), halt.list_halted(self.reads), self.lanes.load(wanted)
        )
        self.afar = self._share.afar
        now = time.monotonic()
        self.lane_buckets.follow(self._runnable, now)
        for lane in filter(None, map(self._runnable, wanted)):
            self.lane_buckets.hint(lane, now)
        self.ready.forget_others(*self.lane_buckets.followed())
        return 0

    def _runnable(self, lane_id: int) -> Lane | None:
        """Return a lane whose jobs this node may run; None if it may not, or does not know it."""
        lane = self.lanes.by_id.get(lane_id)
        if lane is None or lane.test or lane.paused or lane.kind not in self.kinds:
            return None
        return None if lane.tenant_id in self._held else lane

    def hint(self, lane_id: int | None) -> bool:
        """Read a lane soon, or all lanes; return False if the lane is unknown."""
        now = time.monotonic()
        if lane_id is None:
            self.lane_buckets.hint_all(now)
        elif lane_id not in self.lanes.by_id:
            if len(self._hinted) < MAX_HINTED:
                self._hinted.add(lane_id)
            return False
        elif (lane := self._runnable(lane_id)) is not None:
            self.lane_buckets.hint(lane, now)
        return True

    def under_way(self) -> list[LaneClaim]:
        """List the claims that have not ended."""
        return [claim for transaction in self._transactions for claim in transaction.claims]

    def reexamine(self, bucket: int, lane_id: int) -> None:
        """Forget what is remembered of a bucket, and read it immediately."""
        if (lane := self._runnable(lane_id)) is not None:
            self.lane_buckets.forget(lane, bucket, time.monotonic())

    def next_due(self) -> float:
        """Return in how many seconds a claim may find something."""
        if self.ready.is_open():
            return 0.0
        return max(0.0, self.lane_buckets.next_look() - time.monotonic())

    async def claim(self, limit: int) -> list[LaneClaim]:
        """Claim up to `limit` due jobs in fair order, within the room of their tenants."""
        await self._look()
        with self._transaction() as transaction:
            claim = self._begin(transaction, limit)
            if claim is not None:
                await self._claim_several(transaction, claim, limit)
        return transaction.claims

    async def _look(self) -> None:
        """Read the first timers of the buckets that are due for a read, and sweep for others."""
        async with self._looking:
            now, floor = time.monotonic(), self.settings.floor
            looked = self.lane_buckets.due(now, MAX_LOOK)
            sweeping = self.lane_buckets.sweep_at <= now + INSTANT_SECONDS
            if not (looked or sweeping):
                return
            try:
                wanted = [(p.bucket, p.lane.lane_id, p.mark.current(now, floor)) for p in looked]
                swept, heads = await asyncio.gather(
                    self._sweep() if sweeping else _nothing(),
                    timer.heads(self.reads, wanted) if wanted else _nothing(),
                )
                looked += self._newly_watched(swept)
                self._learn(looked, [*heads, *swept])
            except BaseException:
                for lane_bucket in looked:
                    self._look_anew(lane_bucket, now)
                raise

    def _learn(self, looked: Sequence[LaneBucket], heads: Sequence[Head]) -> None:
        at = datetime.fromtimestamp(self.database.unix_ms() / 1000, UTC)
        for lane_bucket in self.lane_buckets.learn(
            looked, heads, (time.monotonic(), at), self.mine, self._left_alone(heads)
        ):
            self.ready.add(lane_bucket)

    async def _sweep(self) -> list[Head]:
        """Find lanes with timers that are not watched yet, and load unknown lanes."""
        began = time.monotonic()
        found = await self.lane_buckets.sweep.step(self.reads)
        now = time.monotonic()
        self.lane_buckets.plan_sweep(now, now - began)
        await self.lanes.load({head.lane_id for head in found})
        return found

    def _newly_watched(self, found: Sequence[Head]) -> list[LaneBucket]:
        """Watch what the sweep has found, return what is learnt; set aside what may not run.

        Below the floor lies what must not be touched: a read from the floor on shows the rest.
        """
        learnt, now = [], time.monotonic()
        for head in found:
            lane = self._runnable(head.lane_id)
            if lane is None:
                self.lane_buckets.set_aside(head.bucket, head.lane_id)
                continue
            lane_bucket = self.lane_buckets.watch(lane, head.bucket)
            if head.due_at >= self.settings.floor:
                learnt.append(lane_bucket)
            else:
                self.lane_buckets.plan(lane_bucket, now)
        return learnt

    def _left_alone(self, heads: Sequence[Head]) -> frozenset[int]:
        """Return the buckets of other database nodes, which cost more, to leave alone for now.

        A node without work of its own helps anyway.
        """
        due = (head.seconds <= 0 and head.bucket not in self.afar for head in heads)
        return self.afar if self.ready or any(due) else frozenset()

    @contextmanager
    def _transaction(self) -> Iterator[ClaimTransaction]:
        """Own the claims of one transaction; conclude or abort each of them when it ends."""
        transaction = ClaimTransaction()
        self._transactions.add(transaction)
        try:
            yield transaction
        except BaseException:
            self._break_off(transaction)
            raise
        else:
            for claim in transaction.claims:
                self._conclude(claim)
        finally:
            self._transactions.discard(transaction)

    def _max_claim(self, lane: Lane) -> int:
        """Return how many jobs of a lane may be claimed, beside the claims under way."""
        limits = lane_limits(lane, self.settings)
        if not limits:
            return CLAIM_ANY
        claiming = sum(
            claim.room.count
            for claim in self.under_way()
            if claim.limits and not set(claim.limits).isdisjoint(limits)
        )
        return max(0, self.max_claim(limits) - claiming)

    def _begin(self, transaction: ClaimTransaction, limit: int) -> LaneClaim | None:
        """Reserve the next bucket and room, because other claims run at the same time."""
        lane_bucket = self.ready.take_next()
        if lane_bucket is None:
            return None
        lane = lane_bucket.lane
        limits = lane_limits(lane, self.settings)
        count = min(limit, self._max_claim(lane), self.capacity.free(lane.tenant_id))
        room = self.capacity.take(lane.tenant_id, count)
        lease_seconds = self.settings.number("worker.lease_seconds", lane.tenant_id)
        claim = LaneClaim(lane_bucket, lane, limits, room, lease_seconds)
        transaction.claims.append(claim)
        return claim

    async def _claim_several(
        self, transaction: ClaimTransaction, first: LaneClaim, limit: int
    ) -> None:
        """Claim from one bucket after another in one transaction, until the limit is reached."""
        claim: LaneClaim | None = first
        async with self.database.near.write("claim") as connection:
            while claim is not None:
                await self._take(connection, claim, claim.room.count)
                limit -= len(claim.executions)
                more = limit > 0 and len(transaction.claims) < MAX_LANE_BUCKETS
                claim = self._begin(transaction, limit) if more else None
            transaction.committing = True

    async def _take(self, connection: Connection, claim: LaneClaim, count: int) -> None:
        """Send the claim; release unneeded room for the next one immediately."""
        lane_bucket, claim.wanted, claim.claimed_at = claim.lane_bucket, count, time.monotonic()
        low = lane_bucket.mark.current(claim.claimed_at, self.settings.floor)
        if claim.lane.key_rotation is None:
            claim.executions = await execution.take(
                connection,
                claim.lane,
                lane_bucket.bucket,
                self._policies,
                self.cipher,
                low=low,
                limit=count,
                lease_seconds=claim.lease_seconds,
                claimed_by=self.node_id,
            )
        else:
            claim.rotation = lane_bucket.key_rotation()
            claim.executions, claim.keys = await self._key_claims.take(
                connection,
                (claim.lane, lane_bucket.bucket, claim.rotation),
                low=low,
                limit=count,
                lease_seconds=claim.lease_seconds,
            )
        claim.trim()

    def _conclude(self, claim: LaneClaim) -> None:
        """Release what a claim did not need, plan the next read, and hand its jobs over."""
        claim.trim()
        lane_bucket, now, taken = claim.lane_bucket, time.monotonic(), claim.executions
        self.ready.spend(claim.lane, len(taken))
        if claim.rotation is not None:
            self._conclude_rotation(claim, claim.rotation)
        else:
            lane_bucket.vain = lane_bucket.vain + 1 if claim.wanted and not taken else 0
            if taken:
                lane_bucket.mark.learn_empty_below(
                    max(each.ready_at for each in taken), taken[0].claimed_at
                )
        if taken:
            lane_bucket.active_until = now + ACTIVE_SECONDS
        full = len(taken) == claim.wanted
        leads = full if claim.rotation is None else claim.rotation.ready_at() <= now
        leads = leads and not (claim.lane_bucket.vain or lane_bucket.late_seconds(self.mine, now))
        if leads and self.lane_buckets.is_current(lane_bucket):
            self.ready.add(lane_bucket)
        else:
            self.lane_buckets.plan(lane_bucket, now + lane_bucket.rest_seconds())
        if taken:
            self.hand_over(claim)

    def _conclude_rotation(self, claim: LaneClaim, rotation: KeyRotation) -> None:
        """Learn how far the walk came: the keys of all that is due below are known."""
        lane_bucket = claim.lane_bucket
        lane_bucket.vain = lane_bucket.vain + 1 if rotation.locked else 0
        if lane_bucket.rotation is rotation and rotation.known_until is not None:
            lane_bucket.mark.learn_empty_below(rotation.known_until, rotation.known_until)

    def ended(self, claim: LaneClaim, job_id: UUID, *, unused: bool) -> bool:
        """Look again at a job's key; return whether to claim. A start that was `unused` is back."""
        rotation, lane_bucket, now = claim.rotation, claim.lane_bucket, time.monotonic()
        if rotation is None:
            return False
        waited = rotation.freed(claim.keys[job_id], now)
        if unused:
            waited = rotation.refund(claim.keys[job_id], now) or waited
        if not waited or not self.lane_buckets.is_current(lane_bucket):
            return False
        if not (lane_bucket.ready or lane_bucket.busy):
            self.lane_buckets.plan(lane_bucket, now)
        return True

    def _break_off(self, transaction: ClaimTransaction) -> None:
        """Release everything; give back by token what may have been committed.

        None of its jobs has run. The bucket that failed rests, so that it does not keep failing the
        others.
        """
        now = time.monotonic()
        for claim in transaction.claims:
            failed = claim is transaction.claims[-1] and not transaction.committing
            self._look_anew(claim.lane_bucket, now + FAILED_SECONDS if failed else now)
            claim.in_doubt = transaction.committing
            claim.executions = _returned(claim.executions) if claim.in_doubt else []
            claim.trim()
            if claim.executions:
                self.hand_over(claim)

    def _look_anew(self, lane_bucket: LaneBucket, at: float) -> None:
        """Reset a bucket, because work below its low-water mark may be back."""
        lane_bucket.mark.forget()
        if lane_bucket.rotation is not None:
            lane_bucket.rotation.forget()
        self.lane_buckets.plan(lane_bucket, at)


async def _nothing() -> list[Head]:
    return []


def _returned(executions: list[ClaimedExecution]) -> list[ClaimedExecution]:
    back = Move(seconds=0.0)
    return [msgspec.structs.replace(each, delivery=None, verdict=back) for each in executions]
