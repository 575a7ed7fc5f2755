"""Histories of sealers: events that commit late, several nodes, kills; from a seed.

Real: the sealer with its marks, its way around locked chains, and the hashes. Stand-ins: the
statements of `seal.sql`.
"""

import asyncio
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any
from unittest import mock
from uuid import UUID

from prometheus_client import CollectorRegistry

from postdate.core.ids import floor_id
from postdate.event.spec.chain import GENESIS, seal_hash
from postdate.event.store import seal
from postdate.event.store.seal import Chain, NewSeal, Placed, Waiting
from postdate.monitor.store import activity
from postdate.publisher.meter import PublisherMeter
from postdate.publisher.sealer import LATE, Sealer
from postdate.runtime.loop import Loop
from postdate.subscription import store as subscription
from sim.loop import wait
from sim.table import TableDatabase, Tables, TableTransaction, database_of

TENANTS = (1, 2)
CALM_SECONDS = 200.0
"""Longer than the look at the whole outbox is away, and the way around what was locked."""


def _outbox(tables: Tables, low: datetime) -> list[Waiting]:
    rows = [row for _, row in tables.of("outbox") if row.time >= low]
    return sorted(rows, key=lambda row: (row.time, row.subjects[0]))


async def waiting(reader: Any, low: datetime) -> tuple[bool, datetime]:
    """Stand for seal_waiting."""
    database = database_of(reader)
    await database.step("waiting")
    return bool(_outbox(database.tables, low)), database.tables.now()


async def take(
    transaction: TableTransaction, low: datetime, per_bucket: int, without: Collection[int] = (),
    *, around: bool = False,
) -> list[Waiting]:  # fmt: skip
    """Stand for seal_take: one sealer at a time, others wait; then what is left of the outbox."""
    await transaction.database.step("take")
    await transaction.lock(("outbox_lock",))
    taken = []
    for row in _outbox(transaction.tables, low)[:per_bucket]:
        key = ("outbox", row.subjects[0])
        if row.tenant_id in without or (around and not transaction.free(key)):
            continue
        await transaction.put(key, None)
        taken.append(row)
    return taken


async def held(transaction: TableTransaction, tenant_ids: Collection[int]) -> set[int]:
    """Stand for seal_known and seal_free."""
    await transaction.database.step("held")
    return {each for each in tenant_ids if not transaction.free(("chain", each))}


async def advance(transaction: TableTransaction, events: Mapping[int, int]) -> dict[int, Chain]:
    """Stand for seal_advance."""
    await transaction.database.step("advance")
    found = {}
    for tenant_id, count in events.items():
        key = ("chain", tenant_id)
        await transaction.lock(key)
        position, digest = transaction.get(key) or (0, GENESIS)
        await transaction.put(key, (position + count, digest))
        found[tenant_id] = Chain(tenant_id, position, digest)
    return found


async def insert(transaction: TableTransaction, seals: Sequence[NewSeal]) -> None:
    """Stand for seal_insert."""
    await transaction.database.step("insert")
    for each in seals:
        key = ("seal", each.content.tenant_id, each.content.position)
        if transaction.get(key) is not None:
            raise RuntimeError("two seals at one position")
        await transaction.put(key, each)


async def move(transaction: TableTransaction, hashes: Mapping[int, bytes]) -> None:
    """Stand for seal_move."""
    for tenant_id, digest in hashes.items():
        position, _ = transaction.get(("chain", tenant_id))
        await transaction.put(("chain", tenant_id), (position, digest))


async def repeated(
    transaction: TableTransaction, tenant_id: int, events: Collection[Placed], before: datetime
) -> dict[int, UUID]:
    """Stand for seal_repeated."""
    del before
    await transaction.database.step("repeated")
    sealed = {
        subject
        for key, row in transaction.tables.of("seal")
        if key[1] == tenant_id
        for subject in row.content.subjects
    }
    return {each.position: each.event_id for each in events if each.subject in sealed}


async def nothing(transaction: TableTransaction, *_: Any) -> None:
    """Stand for what wakes subscriptions and counts."""
    await transaction.database.step("history")


STATEMENTS: dict[Any, dict[str, Any]] = {
    seal: {"waiting": waiting, "take": take, "locked_chains": held, "advance": advance,
           "insert": insert, "move": move, "repeated": repeated},
    subscription: {"wake": nothing}, activity: {"count": nothing},
}  # fmt: skip


class SealerNode:
    """A sealer with its loop; it can be killed."""

    def __init__(self, tables: Tables) -> None:
        self.database = TableDatabase(tables)
        sealer = Sealer(self.database, PublisherMeter(CollectorRegistry()))
        loop = Loop("seal", sealer.run_once, limit=4, next_due=sealer.next_due)
        self.running = asyncio.create_task(loop.run())

    def kill(self) -> None:
        self.database.dead = True
        self.running.cancel()


class SealHistory:
    """One run: events of two tenants, one to three sealers, faults for a while."""

    def __init__(self) -> None:
        self.tables = Tables(random.choice([0.0, 0.02, 0.08]))
        self.problems: list[str] = []
        self.events: set[UUID] = set()
        self.writing: set[asyncio.Task[None]] = set()

    async def run(self) -> "SealHistory":
        nodes = [SealerNode(self.tables) for _ in range(random.randint(1, 3))]
        for _ in range(random.randint(2, 12)):
            self._start(self._record())
            await wait(random.uniform(0.0, 0.7))
            drawn = random.random()
            if drawn < 0.15:
                nodes.pop(0).kill()
                nodes.append(SealerNode(self.tables))
            elif drawn < 0.3:
                self._start(self._stranger())
        await asyncio.gather(*self.writing)
        self.tables.trouble = 0.0
        await self._copy()
        until = asyncio.get_running_loop().time() + CALM_SECONDS
        while any(self.tables.of("outbox")) and asyncio.get_running_loop().time() < until:
            await wait(0.5)
        await wait(2.0)
        self._look()
        return self

    def _start(self, work: Any) -> None:
        writing = asyncio.create_task(work)
        self.writing.add(writing)
        writing.add_done_callback(self.writing.discard)

    async def _record(self) -> None:
        """Record some events in a transaction that may take long, or is rolled back."""
        at = self.tables.now()
        first = floor_id(int(at.timestamp() * 1000)).int
        ids = [UUID(int=first + random.getrandbits(64)) for _ in range(random.randint(1, 3))]
        row = Waiting(random.choice(TENANTS), at, ["job.accepted"], ids, None, bytes(32 * len(ids)))
        await wait(random.choice([0.0, 0.01, 1.0, 18.0]))
        if random.random() < 0.9:
            self.events.update(ids)
            self.tables.rows["outbox", ids[0]] = row

    async def _copy(self) -> None:
        """Put into the outbox again what was sealed, long after."""
        if random.random() < 0.2:
            await wait(LATE.total_seconds() + 10.0)
            for _, row in list(self.tables.of("seal"))[:1]:
                content = row.content
                again = Waiting(content.tenant_id, self.tables.now(), ["job.accepted"],
                                content.subjects, None, content.digests)  # fmt: skip
                self.tables.rows["outbox", content.subjects[0]] = again
                self.tables.faults["copied"] += 1

    async def _stranger(self) -> None:
        """Hold a chain, or a row of the outbox, for longer than anybody waits."""
        transaction = TableTransaction(TableDatabase(self.tables), own=True)
        keys = [("chain", each) for each in TENANTS] + [key for key, _ in self.tables.of("outbox")]
        key = random.choice(keys)
        if transaction.free(key):
            await transaction.lock(key)
            await wait(random.uniform(0.5, 6.0))
        transaction.end(commit=False)

    def _look(self) -> None:
        sealed: list[UUID] = []
        for tenant_id in TENANTS:
            position, before = 0, GENESIS
            found = [row for key, row in self.tables.of("seal") if key[1] == tenant_id]
            for each in sorted(found, key=lambda row: row.content.position):
                content = each.content
                if content.position != position + 1 or each.previous != before:
                    self.problems.append(f"the chain of {tenant_id} breaks at {content.position}")
                if each.hash != seal_hash(before, content):
                    self.problems.append(f"the hash of {tenant_id} at {content.position} is wrong")
                position, before = position + len(content.kinds), each.hash
                sealed += content.subjects
            if self.tables.rows.get(("chain", tenant_id), (0, GENESIS)) != (position, before):
                self.problems.append(f"the end of the chain of {tenant_id} is not its last seal")
        if sorted(sealed) != sorted(self.events):
            self.problems.append(f"{len(self.events)} events, {len(sealed)} sealed")


@contextmanager
def simulated_sealing() -> Iterator[None]:
    """Let the tables in memory stand for the statements, and keep the log quiet."""
    with ExitStack() as stack:
        for module, functions in STATEMENTS.items():
            for name, function in functions.items():
                stack.enter_context(mock.patch.object(module, name, function))
        for where in ("publisher.sealer", "runtime.loop"):
            stack.enter_context(mock.patch(f"postdate.{where}.log", mock.Mock()))
        yield
