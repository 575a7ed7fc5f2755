"""Settle due payments in batches: look, lock, decide, write, commit; a crash is a rollback."""

import asyncio
import time
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from postdate.account.store.account import AccountKey
from postdate.core.failpoint import reach
from postdate.core.ids import BUCKETS
from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import CheckViolationError, LockNotAvailableError
from postdate.halt import store as halt_store
from postdate.ledger import batch, held
from postdate.ledger.batch_order import BatchOrder, BeginAgainError
from postdate.ledger.settle import DuePayment, Waits
from postdate.payment.store import held_payment as held_store
from postdate.payment.store import settlement as store
from postdate.payment.store.settlement import Candidate, SettlementOrder
from postdate.runtime.retry import RetryLadder, RetryLimits
from postdate.runtime.share import BucketShare
from postdate.runtime.shared_read import SharedReads
from postdate.settlement import poison_payment
from postdate.settlement.batch_size import BatchSize
from postdate.settlement.blocked_payment import BlockedPayments
from postdate.settlement.bucket_marks import BucketMarks
from postdate.settlement.commit import Commit, Followed, SettlementAttempt, write_lines
from postdate.settlement.meter import SettlementMeter
from postdate.timer import timer as timer_store
from postdate.timer.timer import LONG_AGO

log = Log()

ROLE: Final = "settlement"
STOPPED: Final = "settlement.stopped"
MAX_BATCH: Final = 1000
"""Payments of one commit; fewer where that would lock the accounts for 100 ms."""

MAX_LOOK: Final = 16 * MAX_BATCH
"""Payments of one scan, settled in several commits."""

AT_ONCE: Final = 2
"""Batches under way: while one changes accounts, the next one is locked and prepared."""

TRIES: Final = RetryLimits(transient=4)
"""How often a batch is tried at once when the database only faltered."""

LOOK_SECONDS: Final = 5.0
"""How often a settler without work looks as thoroughly as one with work."""

SHARE_SECONDS: Final = 2.0
BUSY_SECONDS: Final = 0.01
"""The wait when other nodes settle all that is due."""

BLOCKED_SECONDS: Final = 0.05
"""The wait when what is due waits for a locked account."""

_MIN_LOOK: Final = 16
DEEPER: Final = 4
"""How many times as many payments of a bucket are read when what was read is too little."""

BY_HAND: Final = 16
"""Batches that are decided in Python after one that needed it: what is due is mostly alike."""

TenantPayment = tuple[int, UUID]


class _LookAhead(NamedTuple):
    """The database's time, and in how many seconds the next payment is due."""

    at: datetime
    seconds: float | None


class Settler:
    """One settler; any number of them may run, in any number of processes."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        node_id: UUID,
        meter: SettlementMeter | None = None,
        followed: Followed | None = None,
        *,
        max_batch: int = MAX_BATCH,
        reads: SharedReads | None = None,
    ) -> None:
        self._reads = reads or SharedReads(database)
        self._database = database
        self._settings = settings
        self._share = BucketShare(self._reads, node_id, ROLE)
        self._meter = meter or SettlementMeter()
        self._followed = followed
        self._batch = BatchSize(max_batch)
        self._marks = BucketMarks()
        self._blocked = BlockedPayments(database)
        self._in_database = not database.sharded
        self._by_hand = 0
        self._stopped: str | None = None
        self._depth = 0
        self._beyond: datetime | None = None
        self._busy = False
        self._more = False
        self._shared_at = 0.0
        # By the monotonic clock: until then it is enough to ask what is due next.
        self._look_at = 0.0
        self._ahead: _LookAhead | None = None

    def blocked(self) -> str | None:
        """Return why nothing is settled, or None."""
        return self._stopped

    def decide_in_python(self) -> None:
        """Leave nothing to the database, as on shards: the reference of tests and measurements."""
        self._in_database = False

    def look_everywhere(self) -> None:
        """Reset the marks, because long overdue payments have come back."""
        self._marks.forget()
        self._beyond = None
        self._look_at = 0.0

    async def run_once(self, limit: int = MAX_LOOK) -> int:
        """Settle up to `limit` due payments and return how many left the queue."""
        if await self._idle():
            return 0
        candidates = await self._look(limit)
        # After an empty look it is enough to ask what is due next, for a while.
        self._look_at = 0.0 if candidates else time.monotonic() + LOOK_SECONDS
        self._ahead = None
        count = await self._settle_all([(c.bucket, c.subject) for c in candidates])
        self._busy = bool(candidates) and count == 0
        self._beyond = self._next_look(candidates) if self._busy and self._more else None
        return count

    async def settle(self, keys: Sequence[TenantPayment]) -> int:
        """Settle the due ones of these payments, given in order; return how many left the queue."""
        return await self._settle_all(keys)

    async def _idle(self) -> bool:
        """Return whether a scan would find nothing: nothing was due a moment ago or is now.

        A full scan still follows when settlement was stopped or resumed, when the database's clock
        was set, and occasionally.
        """
        stopped = str(self._settings.get(STOPPED)) or None
        if time.monotonic() >= self._look_at or stopped != self._stopped:
            return False
        self._ahead = ahead = await self._look_ahead()
        due = ahead.seconds is not None and ahead.seconds <= 0
        return not due and not self._marks.clock_was_set(ahead.at)

    async def _look_ahead(self) -> "_LookAhead":
        self._marks.raise_to(self._settings.floor)
        heads, at = await asyncio.gather(
            timer_store.heads(self._reads, self._marks.heads()), clock.now(self._reads)
        )
        return _LookAhead(at, self._marks.next_due(heads))

    def _next_look(self, candidates: Sequence[Candidate]) -> datetime | None:
        """Return where to scan next if others are settling all of these; None to start over.

        The first payments must be read again: their settler may be gone.
        """
        last = candidates[-1].due_at
        return None if last == self._beyond else last

    async def next_due(self) -> float | None:
        """Return the seconds until the next payment is due, by the database's clock."""
        if self._stopped:
            return None
        seconds = (self._ahead or await self._look_ahead()).seconds
        if seconds is None:
            return None
        if self._blocked:
            return max(seconds, BLOCKED_SECONDS)
        return max(seconds, BUSY_SECONDS) if self._busy else seconds

    async def _look(self, limit: int) -> Sequence[Candidate]:
        self._stopped = str(self._settings.get(STOPPED)) or None
        if self._stopped:
            return []
        self._marks.raise_to(self._settings.floor)
        base = min(limit, limit // BUCKETS + _MIN_LOOK)
        depth = min(limit, max(base, self._depth))
        await self._blocked.look_again()
        self._meter.waiting(len(self._blocked.locked), len(self._blocked))
        await self._take_share()
        async with self._database.near.connection() as connection:
            found = await self._peek(connection, depth, limit)
            first, full = _complete(found, depth)
            # A hot payer has all its payments in one bucket: look deeper, and do so next time too.
            while full and len(first) < limit // 2 and depth < limit:
                depth = min(limit, depth * DEEPER)
                found = await self._peek(connection, depth, limit)
                first, full = _complete(found, depth)
        self._more = full or len(found) == limit
        self._depth = depth if full else max(base, depth // 2)
        return first

    async def _peek(self, connection: Connection, depth: int, limit: int) -> list[Candidate]:
        """Read what is due, and move the marks; a second time if the clock has stepped back."""
        aside, left_out = self._blocked.subjects(), self._blocked.candidates()
        looks = self._marks.looks(self._beyond)
        at, found = await store.peek(connection, looks, depth, limit, aside)
        cut = len(found) == limit
        if self._beyond is None and not self._marks.learn_seen(at, found, left_out, cut=cut):
            _, found = await store.peek(connection, self._marks.looks(), depth, limit, aside)
        return found

    async def _take_share(self) -> None:
        now = time.monotonic()
        if now < self._shared_at + SHARE_SECONDS:
            return
        self._shared_at = now
        self._marks.own = await self._share.refresh()
        self._marks.afar = self._share.afar

    async def _settle_all(self, keys: Sequence[TenantPayment]) -> int:
        """Settle these in batches that overlap; the first error is raised when all have ended."""
        room, order = asyncio.Semaphore(AT_ONCE), None
        going: list[asyncio.Task[int | Exception]] = []
        async with asyncio.TaskGroup() as group:
            first = 0
            while first < len(keys):
                order = BatchOrder(order)
                await room.acquire()
                some = keys[first : first + self._batch.current]
                first += len(some)
                going.append(group.create_task(self._in_order(some, order, room)))
        count = 0
        for each in going:
            match each.result():
                case int(settled):
                    count += settled
                case error:
                    raise error
        return count

    async def _in_order(
        self, keys: Sequence[TenantPayment], order: BatchOrder, room: asyncio.Semaphore
    ) -> int | Exception:
        """Settle a batch; an error must not stop the others in the middle of theirs."""
        commit, give_up = partial(self._commit, order), partial(self._give_up, order)
        ladder = RetryLadder("settlement", commit, give_up, TRIES)
        try:
            commits = await ladder.run(keys)
        except Exception as error:  # noqa: BLE001 - raised when the others have ended
            return error
        finally:
            # Before anything is counted: the next batch waits for this.
            order.end()
            room.release()
        for each in commits:
            self._report(each)
        return sum(each.left for each in commits)

    async def _commit(self, order: BatchOrder, keys: Sequence[TenantPayment]) -> Commit:
        """Settle in one commit: eagerly, and in order where the eager way cannot decide.

        Repeating an unknown commit needs no care: where it happened, the timers are gone.
        """
        eager = True
        while True:
            attempt = SettlementAttempt()
            await order.begin()
            try:
                return await self._transaction(keys, order, attempt, eager=eager)
            except BeginAgainError:
                # The batch before starts over; by the time we start over too, it has ended.
                eager = True
            except (batch.UnevenError, CheckViolationError):
                if not eager:
                    raise
                eager = False
            except LockNotAvailableError:
                # The next try leaves out what waits for these accounts.
                await self._blocked.locked.find(attempt.accounts())
                raise

    async def _give_up(self, order: BatchOrder, key: TenantPayment, error: Exception) -> Commit:
        """Record the failure of the one payment that broke its batch."""
        log.error("payment.broke", payment_id=str(key[1]), exc_info=error)
        self._meter.count_poison()
        await order.begin()
        left = await poison_payment.record(self._database, self._settings, key, error)
        return Commit(left=left)

    async def _transaction(
        self,
        keys: Sequence[TenantPayment],
        order: BatchOrder,
        attempt: SettlementAttempt,
        *,
        eager: bool,
    ) -> Commit:
        """Settle in the database where every payment is held, and decide the others one by one."""
        started = time.monotonic()
        async with self._database.near.write("settle") as connection:
            settling = self._settling(connection, attempt.dues, order, eager=eager)
            commit = None
            if eager and self._leaves_to_database():
                commit = await self._settle_held(connection, keys, settling, attempt)
            if commit is None:
                commit = await self._decide(connection, keys, settling)
        ended = time.monotonic()
        return commit._replace(seconds=ended - started, locked_seconds=ended - commit.paying_since)

    def _leaves_to_database(self) -> bool:
        """Return whether the database settles the next batch itself.

        What waits for a locked account is left out by hand, and a sharded database wants a
        statement for each bucket.
        """
        self._by_hand = max(0, self._by_hand - 1)
        return self._in_database and not self._by_hand and not len(self._blocked.locked)

    async def _settle_held(
        self,
        connection: Connection,
        keys: Sequence[TenantPayment],
        settling: batch.Settling,
        attempt: SettlementAttempt,
    ) -> Commit | None:
        """Settle payments that need no decision; None, and nothing done, if one of them does."""
        attempt.held = taken = await held_store.take(connection, keys)
        if taken is None:
            self._by_hand = BY_HAND
            return None
        reach("settle.taken")
        first_due = await store.first_due(connection, taken.tried())
        began = await held.settle(connection, taken, settling)
        return Commit(len(taken), taken.at, first_due=first_due, held=taken, paying_since=began)

    async def _decide(
        self, connection: Connection, keys: Sequence[TenantPayment], settling: batch.Settling
    ) -> Commit:
        """Settle one by one; payments of halted tenants leave the queue."""
        locked, halted = await store.lock(connection, keys)
        await halt_store.set_aside(connection, halted)
        payments = self._blocked.divide(locked)
        reach("settle.locked")
        tried = [(each.bucket, each.subject) for each in payments if each.token]
        first_due = await store.first_due(connection, tried)
        decisions = await batch.settle(connection, payments, settling)
        left = len(halted) + sum(not isinstance(decision, Waits) for decision in decisions)
        at = payments[0].at if payments else LONG_AGO
        return Commit(left, at, settling.dues or (), decisions, first_due)

    def _report(self, commit: Commit) -> None:
        if commit.held is not None:
            self._batch.learn(len(commit.held), commit.locked_seconds)
            self._meter.paid(commit.held, commit.seconds, commit.first_due)
        elif commit.dues:
            self._meter.settled(commit)
        write_lines(commit)
        if self._followed is not None:
            settled = commit.one_by_one()
            self._followed(settled.dues, settled.results, settled.seconds)

    def _settling(
        self, connection: Connection, dues: list[DuePayment], order: BatchOrder, *, eager: bool
    ) -> batch.Settling:
        async def earlier(
            until: SettlementOrder, ours: Sequence[UUID], accounts: Collection[AccountKey]
        ) -> dict[AccountKey, SettlementOrder]:
            bounded = self._database.bounds_transactions
            lows = self._marks.safe_lows() if bounded else self._marks.floors()
            return await store.earlier(connection, lows, until, ours, accounts)

        return batch.Settling(
            unix_ms=self._database.unix_ms(),
            retry_seconds=self._settings.number("payment.retry_seconds"),
            earlier=earlier,
            dues=dues,
            order=order,
            eager=eager,
            settings=self._settings,
        )


def _complete(found: Sequence[Candidate], depth: int) -> tuple[Sequence[Candidate], bool]:
    """Cut the list where a bucket may hold more than was read, so that the order has no gaps.

    Also return whether one may.
    """
    counts: dict[int, int] = {}
    for number, candidate in enumerate(found):
        counts[candidate.bucket] = counts.get(candidate.bucket, 0) + 1
        if counts[candidate.bucket] == depth:
            return found[: number + 1], True
    return found, False
