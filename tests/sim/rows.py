"""The timers of a simulation: rows, locks and transactions that commit, roll back or hang.

Each function stands for one statement of `lease/lease.sql`, `timer.sql` or `permit.sql` and
does to the rows what that one does; the statements themselves are tested on PostgreSQL. What others
see of a row is what was last committed; what a transaction has changed it has locked.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from postdate.core.ids import bucket_of
from postdate.database.connection.database import Database
from postdate.database.connection.error import (
    CommitUnknownError,
    LockNotAvailableError,
    UnavailableError,
)
from postdate.database.connection.shard_map import ShardMap
from postdate.lane.store.lane import Lane
from postdate.lease.store import Endings, LeaseMove, MovedTimer, TakenJob
from postdate.timer.timer import Head
from sim import cancel
from sim.loop import wait

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
LOCK_SECONDS = 2.0
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
DESTINATION = '{"type":"webhook","url":"https://example.com/hook"}'


@dataclass(frozen=True)
class State:
    """A timer, as a transaction sees it; one that has ended has an outcome."""

    due_at: datetime
    claimed_at: datetime | None = None
    claimed_by: UUID | None = None
    ready_at: datetime | None = None
    token: int = 0
    attempt: int = 0
    outcome: str | None = None
    asked_at: datetime | None = None
    """When its worker was asked to stop."""
    deadline: datetime | None = None
    """When it loses the job; None once that is settled."""


@dataclass
class Row:
    """A job with its timer: what is committed, and what the one who has it locked has changed."""

    job_id: UUID
    lane: Lane
    policy: str
    committed: State
    changed: State | None = None
    owner: "Transaction | None" = None
    ends: int = 0


class Transaction:
    """What stands for a connection inside a transaction."""

    def __init__(self, database: "SimDatabase") -> None:
        self.database = database
        self.rows: list[Row] = []
        self.slots: list[tuple[str, UUID, tuple[int, float] | None]] = []

    def commit(self) -> None:
        for row in self.rows:
            if row.changed is not None and row.changed.outcome and not row.committed.outcome:
                row.ends += 1
            row.committed, row.changed, row.owner = row.changed or row.committed, None, None
        self.rows.clear()

    async def fetch(self, text: str, *args: Any) -> list[tuple[Any, ...]]:
        return await cancel.fetch(self, text, *args)

    async def execute(self, text: str, *args: Any) -> None:
        await cancel.execute(self, text, *args)

    def roll_back(self) -> None:
        for row in self.rows:
            row.changed, row.owner = None, None
        self.rows.clear()
        for scope, holder, before in reversed(self.slots):
            self.database.world.put_slots(scope, holder, before)


@dataclass
class World:
    """Everything that is stored, and how often things go wrong."""

    trouble: float = 0.0
    cancels: bool = True
    """Whether people cancel; older seeds replay histories in which nobody does."""
    rows: dict[UUID, Row] = field(default_factory=dict)
    slots: dict[tuple[str, UUID], tuple[int, float]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    issued: int = 0
    graves: list[asyncio.Future[None]] = field(default_factory=list)

    async def grave(self) -> None:
        """Keep what belongs to a killed node where nobody hears of it, until the end of all."""
        self.graves.append(asyncio.get_running_loop().create_future())
        await self.graves[-1]

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=asyncio.get_running_loop().time())

    def put_slots(self, scope: str, holder: UUID, slots: tuple[int, float] | None) -> None:
        if slots is None:
            self.slots.pop((scope, holder), None)
        else:
            self.slots[scope, holder] = slots


class SimDatabase(Database):
    """One node's way to the world: slow, sometimes broken, and gone when the node is."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.near = self
        self.shard_map = ShardMap()
        self.dead = False
        self.under_way: set[Transaction] = set()
        self.asleep_until = 0.0
        self.bounds_transactions = True

    def unix_ms(self) -> int:
        return int(self.world.now().timestamp() * 1000)

    async def step(self, name: str) -> None:
        """Take a moment, and break now and then; a dead node waits for ever."""
        sleeps = self.asleep_until - asyncio.get_running_loop().time()
        await wait(max(sleeps, random.uniform(0.0002, 0.005)))
        if self.dead:
            await self.world.grave()
        if random.random() < self.world.trouble:
            self.world.faults[name] += 1
            raise UnavailableError(f"lost at {name}")

    @asynccontextmanager
    async def connection(self, seconds: float = 0.0) -> AsyncIterator[Any]:
        """Take a connection; none is ever waited for."""
        del seconds
        await self.step("acquire")
        yield Transaction(self)

    @asynccontextmanager
    async def write(self, failpoint: str = "") -> AsyncIterator[Any]:
        """Run a transaction; the answer to its commit may be lost, and it may commit later."""
        del failpoint
        transaction = Transaction(self)
        await self.step("begin")
        self.under_way.add(transaction)
        try:
            yield transaction
        except BaseException:
            transaction.roll_back()
            raise
        finally:
            self.under_way.discard(transaction)
        await self._commit(transaction)

    def die(self) -> None:
        """End with the node; the server ends the transactions of a connection that is gone."""
        self.dead = True
        for transaction in self.under_way:
            transaction.roll_back()

    async def _commit(self, transaction: Transaction) -> None:
        if self.dead:
            transaction.roll_back()
            await self.world.grave()
        if random.random() >= self.world.trouble:
            transaction.commit()
            return
        way = random.choice(["done", "late", "never"])
        self.world.faults[f"commit {way}"] += 1
        later = asyncio.get_running_loop().call_later
        if way == "done":
            transaction.commit()
        elif way == "late":  # it is still on its way, and keeps its locks until it arrives
            later(random.uniform(0.01, 1.5), transaction.commit)
        else:
            later(random.uniform(0.0, 0.5), transaction.roll_back)
        raise CommitUnknownError(f"the answer was lost, {way}")


def _seen(row: Row, transaction: Transaction) -> State:
    return row.changed or row.committed if row.owner is transaction else row.committed


def _change(row: Row, transaction: Transaction, state: State) -> None:
    if row.owner is None:
        transaction.rows.append(row)
    row.owner, row.changed = transaction, state


async def _locked(row: Row, transaction: Transaction) -> None:
    """Wait for whoever has a row locked, as long as the lock time-out lets us."""
    loop = asyncio.get_running_loop()
    until = loop.time() + LOCK_SECONDS
    while row.owner not in {None, transaction}:
        if loop.time() > until:
            raise LockNotAvailableError("canceling statement due to lock timeout")
        await wait(0.02)
    if transaction.database.dead:  # killed while it waited: the server has ended the transaction
        await transaction.database.world.grave()


def _rows(transaction: Transaction, bucket: int, lane_id: int | None = None) -> list[Row]:
    return [
        row
        for row in transaction.database.world.rows.values()
        if bucket_of(row.job_id) == bucket
        and not _seen(row, transaction).outcome
        and (lane_id is None or row.lane.lane_id == lane_id)
    ]


async def take(
    transaction: Transaction, bucket: int, lane: Lane, *, low: datetime, limit: int,
    lease_seconds: float, claimed_by: UUID,
) -> list[TakenJob]:  # fmt: skip
    """Stand for lease_take."""
    await transaction.database.step("take")
    world = transaction.database.world
    now, taken = world.now(), list[TakenJob]()
    found = sorted(_rows(transaction, bucket, lane.lane_id), key=lambda row: row.committed.due_at)
    for row in found:
        was = row.committed
        if len(taken) == limit or was.due_at > now or was.due_at < low or row.owner is not None:
            continue
        world.issued += 1 + random.randrange(3)
        lost = was.claimed_at is not None
        new = replace(
            was, due_at=now + timedelta(seconds=lease_seconds), claimed_at=now,
            claimed_by=claimed_by, ready_at=was.due_at, token=world.issued,
            attempt=was.attempt + lost,
        )  # fmt: skip
        _change(row, transaction, new)
        late = (now - was.due_at).total_seconds()
        before = was.due_at, late, was.claimed_at, was.claimed_by, was.ready_at
        again = world.cancels and was.token + was.attempt > 0
        nothing_else: Sequence[Any] = [None] * 8
        job = EPOCH, None, DESTINATION, row.policy, *nothing_else, again
        taken.append(TakenJob(row.job_id, new.token, new.attempt + 1, 0, *before, *job))
    return taken


def _holds(state: State, token: int) -> bool:
    return state.claimed_at is not None and state.token == token and not state.outcome


async def end(
    transaction: Transaction, bucket: int, endings: Endings, actor: str, *, reported: bool = False
) -> list[UUID]:
    """Stand for lease_end."""
    del bucket, actor, reported
    await transaction.database.step("end")
    done = []
    statuses = list(endings.statuses) * (1 if len(endings.statuses) > 1 else len(endings.subjects))
    for job_id, token, status in zip(endings.subjects, endings.tokens, statuses, strict=True):
        row = transaction.database.world.rows[job_id]
        await _locked(row, transaction)
        state = _seen(row, transaction)
        if _holds(state, token):
            _change(row, transaction, replace(state, outcome=status, claimed_at=None))
            done.append(job_id)
    return done


async def move(
    transaction: Transaction, bucket: int, moves: Sequence[LeaseMove]
) -> list[MovedTimer]:
    """Stand for lease_move."""
    del bucket
    await transaction.database.step("move")
    world, moved = transaction.database.world, []
    for moving in sorted(moves):
        row = world.rows[moving.subject]
        await _locked(row, transaction)
        was = _seen(row, transaction)
        if not _holds(was, moving.token):
            continue
        due = NEVER if moving.seconds is None else world.now() + timedelta(seconds=moving.seconds)
        asked: dict[str, Any] = {"asked_at": was.asked_at, "deadline": was.deadline}
        new = State(due_at=due, token=was.token, attempt=was.attempt + moving.tried, **asked)
        _change(row, transaction, new)
        ready, claimed = was.ready_at or was.due_at, was.claimed_at or was.due_at
        moved.append(
            MovedTimer(row.job_id, row.lane.tenant_id, due, ready, claimed, was.claimed_by)
        )
    return moved


async def lock(transaction: Transaction, bucket: int, subjects: Sequence[UUID]) -> set[UUID]:
    """Stand for lease_lock."""
    await transaction.database.step("lock")
    held = set()
    for row in _rows(transaction, bucket):
        if row.job_id in subjects:
            if row.owner not in {None, transaction}:
                held.add(row.job_id)
            else:
                _change(row, transaction, _seen(row, transaction))
    return held


async def renew(
    transaction: Transaction, bucket: int, held: Sequence[tuple[UUID, int, float]]
) -> dict[UUID, datetime | None]:
    """Stand for lease_renew."""
    await transaction.database.step("renew")
    found: dict[UUID, datetime | None] = {}
    for row in _rows(transaction, bucket):
        for job_id, token, seconds in held:
            state = _seen(row, transaction)
            if job_id != row.job_id or not _holds(state, token):
                continue
            if row.owner not in {None, transaction}:
                found[job_id] = None
            else:
                until = transaction.database.world.now() + timedelta(seconds=seconds)
                _change(row, transaction, replace(state, due_at=until))
                found[job_id] = until
    return found


async def unchanged(_: SimDatabase, verdicts: Any) -> Any:
    """Stand for job_cancel.spare_failures, where nobody cancels."""
    return verdicts


async def no_checkpoints(transaction: Transaction, *_: Any) -> dict[UUID, bytes | None]:
    """Stand for progress_checkpoints: nobody reports any."""
    await transaction.database.step("history")
    return {}


async def nothing(transaction: Transaction, *_: Any) -> None:
    """Stand for what only writes history down: attempts, lost leases, events."""
    await transaction.database.step("history")


async def heads(
    transaction: Transaction, places: Sequence[tuple[int, int, datetime]]
) -> list[Head]:
    """Stand for timer_heads."""
    await transaction.database.step("heads")
    found, now = [], transaction.database.world.now()
    for bucket, lane_id, low in places:
        dues = [row.committed.due_at for row in _rows(transaction, bucket, lane_id)]
        if first := min((due for due in dues if due >= low), default=None):
            found.append(Head(bucket, lane_id, first, (first - now).total_seconds()))
    return found


async def lanes(
    transaction: Transaction, gaps: Sequence[tuple[int, int, int]], _most: int
) -> list[Head]:
    """Stand for timer_lanes."""
    await transaction.database.step("lanes")
    world, found = transaction.database.world, []
    for bucket, after, before in gaps:
        ids = {row.lane.lane_id for row in world.rows.values() if after < row.lane.lane_id < before}
        for lane_id in sorted(ids):
            if dues := [row.committed.due_at for row in _rows(transaction, bucket, lane_id)]:
                seconds = (min(dues) - world.now()).total_seconds()
                found.append(Head(bucket, lane_id, min(dues), seconds))
    return found
