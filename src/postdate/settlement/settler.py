"""Settle due payments in batches: look, lock, decide, write, commit; a crash is a rollback."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg
import structlog

from postdate.ledger import batch
from postdate.ledger.settle import Decision, Due, Waits
from postdate.ledger.turn import Turn
from postdate.model.ids import BUCKETS
from postdate.model.setting import Settings
from postdate.settlement import culprit
from postdate.settlement.meter import Meter
from postdate.settlement.places import Places, share
from postdate.settlement.stop import Stop
from postdate.store import halt as halt_store
from postdate.store import node as node_store
from postdate.store import settlement as store
from postdate.store import timer as timer_store
from postdate.store.database import LOST, CommitUnknownError, Connection, Database
from postdate.store.settlement import Candidate, LockedPayment

log = structlog.get_logger()

ROLE: Final = "settlement"
BATCH_MOST: Final = 1000
"""Payments of one commit: few enough that the accounts are locked for well under 100 ms."""

LOOK_MOST: Final = 16 * BATCH_MOST
"""Payments of one look, settled in several commits."""

AT_ONCE: Final = 2
"""Batches under way: while one changes accounts, the next one is locked and prepared."""

TRIES: Final = 4
"""How often a batch is tried at once when the database only faltered."""

SHARE_SECONDS: Final = 2.0
BUSY_SECONDS: Final = 0.01
"""The wait when all that is due is being settled by somebody else."""

_LOOK_LEAST: Final = 16
_TRANSIENT: Final = (
    CommitUnknownError,
    asyncpg.TransactionRollbackError,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,
    *LOST,
)

Key = tuple[int, UUID]
Followed = Callable[[Sequence[Due], Sequence[Decision], float], None]
"""Told, after a commit, what was settled, what became of it, and how long it took."""


def transient(error: Exception) -> bool:
    """Say whether the database faltered, so that the same batch may well succeed next time."""
    # A value that the driver cannot send is the payment's own fault, though it calls it its own.
    return isinstance(error, _TRANSIENT) and not isinstance(error, ValueError)


class Commit(NamedTuple):
    """What one commit did: how many left the queue, and what was settled, in order."""

    left: int
    payments: Sequence[LockedPayment] = ()
    dues: Sequence[Due] = ()
    decisions: Sequence[Decision] = ()
    seconds: float = 0.0


class Settler:
    """One settler; any number of them may run, in any number of processes."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        node_id: UUID,
        meter: Meter | None = None,
        followed: Followed | None = None,
        *,
        batch_most: int = BATCH_MOST,
    ) -> None:
        self._database = database
        self._settings = settings
        self._node_id = node_id
        self._meter = meter or Meter()
        self._followed = followed
        self._batch_most = batch_most
        self._places = Places()
        self._stop = Stop(database, settings)
        self._depth = 0
        self._beyond: datetime | None = None
        self._shared_at = 0.0

    def blocked(self) -> str | None:
        """Say why nothing is settled, or None."""
        return self._stop.reason

    def look_everywhere(self) -> None:
        """Forget what was seen: payments that are long due have come back."""
        self._places.forget()

    async def run_once(self, limit: int = LOOK_MOST) -> int:
        """Settle up to `limit` due payments and say how many left the queue."""
        candidates = await self._look(limit)
        if not candidates:
            self._beyond = None
            return 0
        count = await self._settle_all([(c.bucket, c.subject) for c in candidates])
        # Others are at the head of the queue: look behind them next time.
        self._beyond = candidates[-1].due_at if count == 0 else None
        return count

    async def next_due(self) -> float | None:
        """Give the seconds until the next payment is due, by the database's clock."""
        if self._stop.reason:
            return None
        async with self._database.writer.acquire() as connection:
            heads = await timer_store.heads(connection, self._places.heads())
        seconds = self._places.seconds(heads)
        if seconds is None or self._beyond is None:
            return seconds
        return max(seconds, BUSY_SECONDS)

    async def _look(self, limit: int) -> Sequence[Candidate]:
        self._places.heed(self._settings.floor)
        base = min(limit, limit // BUCKETS + _LOOK_LEAST)
        depth = min(limit, max(base, self._depth))
        async with self._database.writer.acquire() as connection:
            await self._take_share(connection)
            looks = self._places.looks(self._beyond)
            at, found = await store.peek(connection, looks, depth, limit)
            cut = len(found) == limit
            if self._beyond is None and not self._places.saw(at, found, cut=cut):
                at, found = await store.peek(connection, self._places.looks(), depth, limit)
            if await self._stop.holds(connection, at):
                return []
        first = _complete(found, depth)
        # A hot payer has all its payments in one bucket: look deeper next time.
        short = len(first) < len(found)
        self._depth = min(limit, depth * 2) if short else max(base, depth // 2)
        return first

    async def _take_share(self, connection: Connection) -> None:
        now = time.monotonic()
        if now < self._shared_at + SHARE_SECONDS:
            return
        self._shared_at = now
        live = [n.node_id for n in await node_store.live(connection) if ROLE in n.roles]
        self._places.own = share(self._node_id, live)

    async def _settle_all(self, keys: Sequence[Key]) -> int:
        """Settle these in batches that overlap; the first error is raised when all have ended."""
        room, turn = asyncio.Semaphore(AT_ONCE), None
        going: list[asyncio.Task[int | Exception]] = []
        async with asyncio.TaskGroup() as group:
            for first in range(0, len(keys), self._batch_most):
                turn = Turn(turn)
                await room.acquire()
                some = keys[first : first + self._batch_most]
                going.append(group.create_task(self._in_turn(some, turn, room)))
        count = 0
        for each in going:
            match each.result():
                case int(settled):
                    count += settled
                case error:
                    raise error
        return count

    async def _in_turn(
        self, keys: Sequence[Key], turn: Turn, room: asyncio.Semaphore
    ) -> int | Exception:
        """Settle a batch; an error must not stop the others in the middle of theirs."""
        try:
            commits = await self._settle(keys, turn)
        except Exception as error:  # noqa: BLE001 - raised when the others have ended
            return error
        finally:
            # Before anything is counted: the next batch waits for this.
            turn.end()
            room.release()
        for commit in commits:
            self._tell(commit)
        return sum(commit.left for commit in commits)

    async def _settle(self, keys: Sequence[Key], turn: Turn) -> list[Commit]:
        """Settle these; if one of them breaks the batch, find it by halving."""
        try:
            return [await self._patiently(keys, turn)]
        except Exception as error:
            if transient(error):
                raise
            if len(keys) == 1:
                log.exception("payment.broke", payment_id=str(keys[0][1]))
                self._meter.broke()
                left = await culprit.record(self._database, self._settings, keys[0], error)
                return [Commit(left=left)]
            log.warning("settlement.halved", payments=len(keys), error=repr(error))
            middle = len(keys) // 2
            first = await self._settle(keys[:middle], turn)
            return first + await self._settle(keys[middle:], turn)

    async def _patiently(self, keys: Sequence[Key], turn: Turn) -> Commit:
        for left in reversed(range(TRIES)):
            try:
                return await self._once(keys, turn)
            except _TRANSIENT as error:
                # An unknown commit needs no care: where it happened, the timers are gone.
                if not left or not transient(error):
                    raise
                log.info("settlement.again", error=repr(error))
        raise AssertionError("unreachable")

    async def _once(self, keys: Sequence[Key], turn: Turn) -> Commit:
        try:
            return await self._commit(keys, turn, eager=True)
        except (batch.UnevenError, asyncpg.CheckViolationError):
            return await self._commit(keys, turn, eager=False)

    async def _commit(self, keys: Sequence[Key], turn: Turn, *, eager: bool) -> Commit:
        """Settle what may be; what belongs to a tenant that stands still leaves the queue."""
        started = time.monotonic()
        dues: list[Due] = []
        async with self._database.write() as connection:
            payments, held = await store.lock(connection, keys)
            await halt_store.set_aside(connection, held)
            settling = self._settling(connection, dues, turn, eager=eager)
            decisions = await batch.settle(connection, payments, settling)
        left = len(held) + sum(not isinstance(decision, Waits) for decision in decisions)
        return Commit(left, payments, dues, decisions, time.monotonic() - started)

    def _tell(self, commit: Commit) -> None:
        self._meter.settled(commit.payments, commit.dues, commit.decisions, commit.seconds)
        if self._followed is not None:
            self._followed(commit.dues, commit.decisions, commit.seconds)

    def _settling(
        self, connection: Connection, dues: list[Due], turn: Turn, *, eager: bool
    ) -> batch.Settling:
        async def earlier(until: datetime, ours: Sequence[UUID]) -> tuple[datetime, UUID] | None:
            return await store.earlier(connection, self._places.lows(), until, ours)

        return batch.Settling(
            unix_ms=self._database.unix_ms(),
            retry_seconds=self._settings.number("payment.retry_seconds"),
            earlier=earlier,
            dues=dues,
            turn=turn,
            eager=eager,
        )


def _complete(found: Sequence[Candidate], depth: int) -> Sequence[Candidate]:
    """Cut where a bucket may hold more than was looked at, so that the order has no holes."""
    counts: dict[int, int] = {}
    for place, candidate in enumerate(found):
        counts[candidate.bucket] = counts.get(candidate.bucket, 0) + 1
        if counts[candidate.bucket] == depth:
            return found[: place + 1]
    return found
