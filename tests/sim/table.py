"""A database made of memory: rows by key, locks, transactions that commit, roll back or hang.

What others see of a row is what was last committed; a transaction sees its own changes, and has
locked what it has changed. The statements of the stages have stand-ins beside their histories.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from postdate.database.connection.clock_belief import ClockBelief
from postdate.database.connection.database import Database
from postdate.database.connection.error import (
    CommitUnknownError,
    LockNotAvailableError,
    UnavailableError,
)
from postdate.database.connection.shard_map import ShardMap
from sim.loop import wait

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
Key = tuple[Hashable, ...]


class Tables:
    """Everything that is committed, who has what locked, the clock, and how often things break."""

    def __init__(self, trouble: float) -> None:
        self.trouble = trouble
        self.rows: dict[Key, Any] = {}
        self.locks: dict[Key, TableTransaction] = {}
        self.sharers: set[TableTransaction] = set()
        self.faults: Counter[str] = Counter()
        self.leap = 0.0
        self.graves: list[asyncio.Future[None]] = []

    def true_now(self) -> datetime:
        """The time that everybody's watch shows."""
        return EPOCH + timedelta(seconds=asyncio.get_running_loop().time())

    def now(self) -> datetime:
        """The time as the database has it: somebody may have set its clock."""
        return self.true_now() + timedelta(seconds=self.leap)

    def of(self, kind: str) -> Iterator[tuple[Key, Any]]:
        return ((key, row) for key, row in list(self.rows.items()) if key[0] == kind)

    async def grave(self) -> None:
        """Keep what belongs to a killed node where nobody hears of it."""
        self.graves.append(asyncio.get_running_loop().create_future())
        await self.graves[-1]


class TableTransaction:
    """What stands for a connection; outside of a transaction each statement is its own."""

    def __init__(self, database: "TableDatabase", *, own: bool) -> None:
        self.database = database
        self.tables = database.tables
        self._own = own
        self._patience = 2.0
        self._changed: dict[Key, Any] = {}

    def get(self, key: Key) -> Any:
        return self._changed[key] if key in self._changed else self.tables.rows.get(key)

    def free(self, key: Key) -> bool:
        return self.tables.locks.get(key, self) is self

    async def execute(self, setting: str) -> None:
        """Stand for a shorter time-out of locks, which is all that is ever set."""
        await self.database.step(setting)
        self._patience = 0.1

    async def lock(self, key: Key, seconds: float | None = None) -> None:
        """Wait for whoever has a row, as long as the lock time-out lets us."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (self._patience if seconds is None else seconds)
        while not self.free(key):
            if loop.time() > until:
                raise LockNotAvailableError("canceling statement due to lock timeout")
            await wait(0.02)
        self.tables.locks[key] = self

    async def put(self, key: Key, row: Any) -> None:
        """Write a row, or delete it by None; a statement of its own is committed at once."""
        await self.lock(key)
        self._changed[key] = row
        if not self._own:
            self.end(commit=True)

    def end(self, *, commit: bool) -> None:
        if commit:
            self.tables.rows.update(self._changed)
            for key in [key for key, row in self._changed.items() if row is None]:
                del self.tables.rows[key]
        self._changed = {}
        self.tables.sharers.discard(self)
        for key in [key for key, owner in self.tables.locks.items() if owner is self]:
            del self.tables.locks[key]


class TableDatabase(Database):
    """One node's way to the tables: slow, sometimes broken, and gone when the node is."""

    sharded = False

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.near = self
        self.belief = ClockBelief(asyncio.get_running_loop().time)
        self.shard_map = ShardMap()
        self.dead = False
        self.bounds_transactions = True

    def now(self) -> datetime:
        """The time as `clock()` shows it to this node."""
        return self.belief.shown(self.tables.now())

    def unix_ms(self) -> int:
        return int(self.tables.now().timestamp() * 1000)

    async def step(self, name: str) -> None:
        await wait(random.uniform(0.0002, 0.005))
        if self.dead:
            await self.tables.grave()
        if random.random() < self.tables.trouble:
            self.tables.faults[name] += 1
            raise UnavailableError(f"lost at {name}")

    @asynccontextmanager
    async def connection(self, seconds: float = 0.0) -> AsyncIterator[Any]:
        del seconds
        await self.step("acquire")
        yield TableTransaction(self, own=False)

    @asynccontextmanager
    async def write(self, failpoint: str = "") -> AsyncIterator[Any]:
        del failpoint
        transaction = TableTransaction(self, own=True)
        await self.step("begin")
        try:
            yield transaction
        except BaseException:
            transaction.end(commit=False)
            raise
        if self.dead:
            transaction.end(commit=False)
            await self.tables.grave()
        self._commit(transaction)

    def _commit(self, transaction: TableTransaction) -> None:
        if random.random() >= self.tables.trouble:
            transaction.end(commit=True)
            return
        way = random.choice(["done", "late", "never"])
        self.tables.faults[f"commit {way}"] += 1
        later = asyncio.get_running_loop().call_later
        if way == "done":
            transaction.end(commit=True)
        else:  # it is still on its way, and keeps its locks until it arrives or is given up
            seconds = random.uniform(0.01, 1.5)
            later(seconds, lambda: transaction.end(commit=way == "late"))
        raise CommitUnknownError(f"the answer was lost, {way}")


def database_of(reader: Any) -> TableDatabase:
    """Give the database behind a connection, or behind shared reads."""
    found: TableDatabase = reader.database
    return found
