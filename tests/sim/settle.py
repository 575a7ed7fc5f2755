"""Histories of settlers: payments, cancels, a kill switch, a clock that leaps, kills; from a seed.

Real: the settler with its marks, batches and their order, the decisions of the ledger, the retry
ladder, the guard of the clock. Stand-ins: the statements of `settlement.sql` and `account.sql`; the
one for `settlement_pay` decides as the ledger does.
"""

import asyncio
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest import mock
from uuid import UUID

from postdate.account.store.account import Account, key_of
from postdate.core.ids import new_id
from postdate.core.setting.setting import Settings, Stored
from postdate.database.clock_watch import WatchedClock
from postdate.database.connection.error import DatabaseError
from postdate.runtime.clock_guard import LOOK_SECONDS, ClockGuard
from postdate.runtime.loop import Loop
from postdate.settlement.settler import STOPPED, Settler
from sim.loop import wait
from sim.settle_rows import (
    STATEMENTS,
    TENANT,
    Ended,
    Open,
    account_lock,
    account_write,
    end_payment,
    open_payments,
)
from sim.table import TableDatabase, Tables, TableTransaction

ACCOUNTS = ("a", "b", "c")
CALM_SECONDS = 120.0
STEP_SECONDS = 60.0
LEAP_SECONDS = 86_400.0
FAR_SECONDS = 7200.0
"""When those are due that only a leap of the clock could settle before the end."""


class SettlerNode:
    """A settler with its loop; it can be killed."""

    def __init__(self, history: "SettleHistory") -> None:
        tables = history.tables
        self.database = TableDatabase(tables)
        stored = {(0, "payment.retry_seconds"): Stored(0, "payment.retry_seconds", 0.5)}
        self.settings = Settings(stored)
        self._stored = stored
        self.tables = tables
        node_id = UUID(int=random.getrandbits(128))
        self.settler = Settler(self.database, self.settings, node_id, max_batch=2)
        self._guard = ClockGuard(self.database, self.settings, node_clock=tables.true_now)
        self.running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """Compare the clocks before anything else, as every node does."""
        while self._guard._since is None and self._guard.doubt() is None:
            with suppress(DatabaseError):
                await self._guard.run_once()
        settling = Loop("settle", self._step, limit=6, next_due=self.settler.next_due)
        watching = Loop("clock", self._guard.run_once, limit=2, poll_seconds=LOOK_SECONDS)
        await asyncio.gather(settling.run(), watching.run())

    async def _step(self, limit: int) -> int:
        """Load the settings, as every node does each second, and settle."""
        stopped = self.tables.rows.get(("setting", STOPPED))
        more = {} if stopped is None else {(0, STOPPED): Stored(0, STOPPED, stopped[0])}
        self.settings.replace({**self._stored, **more})
        return await self.settler.run_once(limit)

    def kill(self) -> None:
        self.database.dead = True
        self.running.cancel()


class SettleHistory:
    """One run: payments among three accounts, one to three settlers, faults for a while."""

    def __init__(self) -> None:
        self.tables = Tables(random.choice([0.0, 0.02, 0.08]))
        self.problems: list[str] = []
        self.nodes: list[SettlerNode] = []
        self.dues: dict[UUID, datetime] = {}
        self.halted_at: datetime | None = None
        self.silent: list[tuple[datetime, datetime]] = []
        self.leapt = random.random() < 0.4

    async def run(self) -> "SettleHistory":
        tables = self.tables
        now = tables.now()
        tables.rows[("clock",)] = WatchedClock(now, now, now, 0, None)
        for name in ACCOUNTS:
            key = key_of(TENANT, name)
            tables.rows["account", key] = Account(*key, 100, 0, 0, 0, None, None, None)
        for _ in range(random.randint(2, 9)):
            self._add()
        self.nodes = [SettlerNode(self) for _ in range(random.randint(1, 3))]
        await self._disturb()
        tables.trouble, tables.leap = 0.0, 0.0
        await self._lift()
        if not await self._all_ended():
            self.problems.append(f"{self._overdue()} never ended")
        self._look()
        return self

    def _add(self) -> None:
        payer, payee = (key_of(TENANT, name) for name in random.sample(ACCOUNTS, 2))
        payment_id = new_id(payer.bucket, int(self.tables.now().timestamp() * 1000))
        payment_id = UUID(int=payment_id.int >> 62 << 62 | 2 << 62 | random.getrandbits(60))
        amount, account = random.choice([5, 30, 80]), self.tables.rows["account", payer]
        hold = random.random() < 0.6 and account.available >= amount
        if hold:
            account.held += amount
        due = self.tables.now() + timedelta(
            seconds=random.choice([0.0, 0.5, 1.0, 3.0, FAR_SECONDS])
        )
        until = None if random.random() < 0.7 else due + timedelta(seconds=5)
        row = Open(due, payer, payee, amount, hold, None if hold else until)
        self.tables.rows["payment", payment_id] = row
        self.dues[payment_id] = due

    async def _disturb(self) -> None:
        for _ in range(random.randint(0, 5)):
            await wait(random.uniform(0.05, 1.5))
            what = random.choice(["kill", "stranger", "cancel", "halt", "leap", "flicker", "rest"])
            if what == "kill":
                node = random.choice(self.nodes)
                node.kill()
                self.nodes.remove(node)
                self.nodes.append(SettlerNode(self))
            elif what == "stranger":
                asyncio.get_running_loop().create_task(self._stranger())
            elif what == "cancel":
                await self._cancel()
            elif what == "halt":
                await (self._lift() if self.halted_at else self._halt())
            elif what == "rest":
                asyncio.get_running_loop().create_task(self._rest())
            elif self.leapt and what == "leap":
                self.tables.leap = random.choice([0.0, LEAP_SECONDS, -3600.0])
            elif self.leapt:
                await self._flicker()
        await wait(random.uniform(0.0, 1.0))

    async def _flicker(self) -> None:
        """Let the clock leap, return and leap again: some nodes see only some of it."""
        for leap in (LEAP_SECONDS, 0.0, LEAP_SECONDS):
            self.tables.leap = leap
            await wait(random.uniform(0.1, 1.5))

    async def _rest(self) -> None:
        """Stop settlement for a while, as a person does who knows nothing of any clock."""
        if ("setting", STOPPED) in self.tables.rows:
            return
        self.tables.rows["setting", STOPPED] = ("maintenance", "cli")
        await wait(random.uniform(0.1, 4.0))
        found = self.tables.rows.pop(("setting", STOPPED), None)
        if found != ("maintenance", "cli"):
            self.problems.append(f"a person's stop became {found}")

    def _transaction(self) -> TableTransaction:
        return TableTransaction(TableDatabase(self.tables), own=True)

    async def _stranger(self) -> None:
        """Hold accounts for longer than anybody waits, and change nothing."""
        transaction = self._transaction()
        for name in random.sample(ACCOUNTS, 2):
            with suppress(DatabaseError):
                await transaction.lock(("account", key_of(TENANT, name)), 0.0)
        await wait(random.uniform(0.1, 4.0))
        transaction.end(commit=False)

    async def _cancel(self) -> None:
        """Cancel one as intake does: timer, hold and outcome in one commit."""
        if not (known := open_payments(self.tables)):
            return
        payment_id, _ = random.choice(known)
        transaction = self._transaction()
        try:
            await transaction.lock(("payment", payment_id))
            row = transaction.get(("payment", payment_id))
            if row is not None:
                accounts = await account_lock(transaction, [row.payer])
                if row.hold:
                    accounts[row.payer].held -= row.amount
                await account_write(transaction, list(accounts.values()))
                await transaction.put(("payment", payment_id), None)
                await end_payment(transaction, payment_id, "CANCELLED")
        except DatabaseError:
            transaction.end(commit=False)
            return
        transaction.end(commit=True)

    async def _halt(self) -> None:
        """Turn the kill switch; it is acknowledged when whoever had begun has ended."""
        self.tables.rows["halt", TENANT] = True
        before = set(self.tables.sharers)
        while before & self.tables.sharers:
            await wait(0.01)
        self.halted_at = self.tables.true_now()

    async def _lift(self) -> None:
        """Lift it, and bring back what was set aside, when nobody settles."""
        if self.halted_at is not None:
            self.silent.append((self.halted_at, self.tables.true_now()))
        self.halted_at = None
        self.tables.rows.pop(("halt", TENANT), None)
        while self.tables.sharers:
            await wait(0.01)
        for payment_id, row in open_payments(self.tables):
            self.tables.rows["payment", payment_id] = replace(row, aside=False)
        for node in self.nodes:
            node.settler.look_everywhere()

    def _overdue(self) -> int:
        now = self.tables.true_now() + timedelta(seconds=FAR_SECONDS / 2)
        return sum(1 for _, row in open_payments(self.tables) if row.due_at < now)

    async def _all_ended(self) -> bool:
        """Wait for the end, whatever the clock shows."""
        clock = asyncio.get_running_loop().time
        until = clock() + CALM_SECONDS
        while clock() < until:
            if not self._overdue():
                return True
            await wait(0.25)
        return False

    def _look(self) -> None:
        tables = self.tables
        ended: dict[Any, Ended] = {key[1]: row for key, row in tables.of("ended")}
        known = [*ended, *(payment_id for payment_id, _ in open_payments(tables))]
        if sorted(known) != sorted(self.dues):
            self.problems.append("a payment is gone without an end")
        for payment_id, row in ended.items():
            early = (self.dues[payment_id] - row.at).total_seconds()
            if row.status == "COMPLETED" and early > STEP_SECONDS:
                self.problems.append(f"paid {early:.0f} s early")
            if row.status != "CANCELLED" and any(a < row.at < b for a, b in self.silent):
                self.problems.append("settled while the kill switch was on")
        self._look_at_accounts()

    def _look_at_accounts(self) -> None:
        holds = dict.fromkeys(ACCOUNTS, 0)
        for _, row in open_payments(self.tables):
            holds[row.payer.account_id] += row.amount if row.hold else 0
        for name in ACCOUNTS:
            account = self.tables.rows["account", key_of(TENANT, name)]
            legs: dict[Any, int] = {
                key[2]: leg for key, leg in self.tables.of("entry") if key[1] == name
            }
            if sorted(legs) != list(range(1, account.version + 1)):
                self.problems.append(f"{name} has the entries {sorted(legs)}")
            if account.balance != 100 + sum(legs.values()):
                self.problems.append(f"{name} has {account.balance}, its entries say otherwise")
            if account.held != holds[name] or account.balance < account.held:
                self.problems.append(f"{name} holds {account.held} of {account.balance}")


@contextmanager
def simulated_settlement() -> Iterator[None]:
    """Let the tables in memory stand for the statements, and keep the log quiet."""
    quiet = mock.Mock()
    with ExitStack() as stack:
        for module, functions in STATEMENTS.items():
            for name, function in functions.items():
                stack.enter_context(mock.patch.object(module, name, function))
        for where in ("settlement.settler", "runtime.clock_guard", "ledger.locked", "runtime.loop",
                      "runtime.retry"):  # fmt: skip
            with suppress(AttributeError):
                stack.enter_context(mock.patch(f"postdate.{where}.log", quiet))
        yield
