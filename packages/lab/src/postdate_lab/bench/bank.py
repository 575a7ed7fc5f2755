"""A ledger to measure on: a tenant with accounts full of money, and payments made by the set."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar

from postdate.account.store.account import AccountKey
from postdate.database.connection import clock
from postdate.intake.idempotency import Refused
from postdate.ledger.prove import prove
from postdate.payment.accept.intake import MAX_BATCH, PaymentIntake
from postdate.payment.accept.request import PaymentRequest
from postdate.payment.spec.payment import PaymentOrder
from postdate_lab.bench import payment_database as store
from postdate_lab.bench.payment_database import Due, PaymentLateness, Shape
from postdate_lab.bench.testbed import Testbed, admin

BALANCE: Final = 10**9
LONG_DUE: Final = timedelta(minutes=10)
DRAIN_SECONDS: Final = 600

Party = TypeVar("Party")


def pairs(names: Sequence[Party], count: int, *, hot: bool) -> list[tuple[Party, Party]]:
    """Throw who pays whom: any other account, or always the first."""
    payers = random.choices(names[1:], k=count)
    if hot:
        return [(payer, names[0]) for payer in payers]
    others = random.choices(names[1:], k=count)
    return [(a, b) for a, b in zip(payers, others, strict=True) if a != b]


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

    def requests(self, count: int, delay_seconds: int) -> list[list[PaymentRequest]]:
        """Make payments between any two accounts, in batches as large as one call takes."""
        orders = [
            PaymentOrder(from_account_id=a, to_account_id=b, amount=1, delay_seconds=delay_seconds)
            for a, b in pairs(self.names, count, hot=False)
        ]
        found = [PaymentRequest(order, f"{number}") for number, order in enumerate(orders)]
        return [found[first : first + MAX_BATCH] for first in range(0, len(found), MAX_BATCH)]

    async def accept(self, batches: Sequence[Sequence[PaymentRequest]]) -> None:
        """Have payments accepted by the intake, one batch after the other."""
        node = self.testbed.node
        intake = PaymentIntake(node.database, node.runtime)
        for batch in batches:
            answers = await intake.accept(admin(self.tenant_id, self.tenant), batch)
            if any(isinstance(answer, Refused) for answer in answers):
                raise RuntimeError("a payment was refused")

    async def count_endings(self) -> PaymentLateness:
        """Sum up the results of the payments."""
        async with self.testbed.superuser() as connection:
            return await store.lateness(connection, self.tenant_id)

    async def drained(self, count: int) -> PaymentLateness:
        """Wait for a while until a number of payments have ended; sum up their results."""
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
