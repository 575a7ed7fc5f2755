"""A ledger to measure on: a tenant with accounts full of money, and payments made by the set."""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from postdate.bench import payment_database as store
from postdate.bench.payment_database import Due, PaymentLateness, Shape
from postdate.bench.testbed import Testbed
from postdate.ledger.prove import prove
from postdate.store.account.account import AccountKey
from postdate.store.connection import clock

BALANCE: Final = 10**9
LONG_DUE: Final = timedelta(minutes=10)
DRAIN_SECONDS: Final = 600


@dataclass(slots=True, frozen=True)
class Bank:
    """One tenant's ledger. Its first account is the hot one and never pays."""

    testbed: Testbed
    tenant_id: int
    tenant: str
    keys: list[AccountKey]

    @property
    def names(self) -> list[str]:
        """Return the names of the accounts."""
        return [key.account_id for key in self.keys]

    async def now(self) -> datetime:
        """Ask the database for its time."""
        async with self.testbed.node.database.connection() as connection:
            return await clock.now(connection)

    async def fill(self, count: int, shape: Shape = "spread", due: Due | None = None) -> None:
        """Make open payments, due for a while already unless told otherwise."""
        if due is None:
            due = Due(await self.now() - LONG_DUE, timedelta(milliseconds=1))
        async with self.testbed.superuser() as connection:
            await store.fill(connection, self.keys, count, due, shape, 2 * BALANCE)
        await self.testbed.settle()

    async def count_endings(self) -> PaymentLateness:
        """Sum up what became of the payments."""
        async with self.testbed.superuser() as connection:
            return await store.lateness(connection, self.tenant_id)

    async def drained(self, count: int) -> PaymentLateness:
        """Wait until so many have ended, at most for a while; sum up what became of them."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while True:
            ended = await self.count_endings()
            if ended.ended >= count or time.monotonic() > deadline:
                return ended
            await asyncio.sleep(0.5)

    async def prove(self) -> None:
        """Prove the ledger; a figure of a wrong one would be worth nothing."""
        proof = await prove(self.testbed.node.database, self.tenant_id)
        if proof.findings:
            raise RuntimeError(f"the ledger is wrong: {proof.findings[0]}")


async def open_bank(testbed: Testbed, accounts: int) -> Bank:
    """Open a ledger with so many accounts that pay and one that is only paid."""
    tenant_id, tenant = await testbed.tenant()
    names = ["hot", *(f"account-{number:06d}" for number in range(accounts))]
    async with testbed.superuser() as connection:
        keys = await store.open_accounts(connection, tenant_id, names, BALANCE)
    return Bank(testbed, tenant_id, tenant, keys)
