"""A ledger for tests: accounts with money, payments with holds, written straight to the store."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from postdate.account.store import account as account_store
from postdate.account.store import transfer as transfer_store
from postdate.account.store.account import AccountTerms, key_of
from postdate.core.ids import bucket_of, new_id
from postdate.core.setting.setting import Settings, Stored
from postdate.database.connection.database import Database
from postdate.ledger.account import adjustment
from postdate.payment.spec.payment import OnBroken
from postdate.payment.store import payment as payment_store
from postdate.payment.store.payment import NewPayment
from postdate.settlement.settler import MAX_BATCH, Settler

ISSUER = "issuer"


def settings(**values: Any) -> Settings:
    """Settings for tests."""
    return Settings({(0, name): Stored(0, name, value) for name, value in values.items()})


def settler(database: Database, max_batch: int = MAX_BATCH, /, **values: Any) -> Settler:
    return Settler(database, settings(**values), uuid4(), max_batch=max_batch)


async def drain(one: Settler, limit: int = 1000) -> int:
    """Run until nothing is due."""
    total = 0
    while count := await one.run_once(limit):
        total += count
    return total


@dataclass
class DuePayment:
    """A payment to make."""

    payer: str
    payee: str
    amount: int
    due: datetime
    hold: bool = True
    retry_until: datetime | None = None
    payment_id: UUID | None = None
    on_broken: OnBroken | None = None


@dataclass
class Bank:
    """One tenant's ledger."""

    database: Database
    tenant_id: int

    async def now(self) -> datetime:
        at: datetime = await self.database.writer.fetchval("SELECT clock()")
        return at.astimezone(UTC)

    async def open(self, balances: dict[str, int], floor: int | None = 0) -> None:
        """Open accounts and bring money in from the issuer."""
        async with self.database.write() as connection:
            await account_store.create(
                connection, key_of(self.tenant_id, ISSUER), AccountTerms(None)
            )
            for name in balances:
                await account_store.create(
                    connection, key_of(self.tenant_id, name), AccountTerms(floor)
                )
        for name, amount in balances.items():
            if amount:
                await self.adjust(name, amount)

    async def adjust(self, name: str, amount: int) -> None:
        keys = [key_of(self.tenant_id, name), key_of(self.tenant_id, ISSUER)]
        async with self.database.write() as connection:
            accounts = await account_store.lock(connection, keys)
            transfer_id = new_id(keys[0].bucket, self.database.unix_ms())
            account, issuer = (accounts[key] for key in keys)
            for side, leg in ((account, amount), (issuer, -amount)):
                side.balance += leg
                side.version += 1
            await account_store.write(connection, [account, issuer])
            moved = adjustment(account, issuer, transfer_id, amount, "test")
            await transfer_store.insert(connection, [moved])

    async def pay(self, wishes: Sequence[DuePayment]) -> list[UUID]:
        """Schedule payments as intake would: hold, payment, timer, event."""
        made: list[NewPayment] = []
        for wish in wishes:
            bucket = key_of(self.tenant_id, wish.payer).bucket
            made.append(
                NewPayment(
                    bucket,
                    self.tenant_id,
                    wish.payment_id or new_id(bucket, self.database.unix_ms()),
                    wish.payer,
                    wish.payee,
                    wish.amount,
                    wish.due,
                    wish.hold,
                    wish.retry_until,
                    on_broken=wish.on_broken,
                )
            )
        async with self.database.write() as connection:
            keys = [key_of(self.tenant_id, p.from_account) for p in made if p.hold]
            accounts = await account_store.lock(connection, keys)
            for payment, key in zip((p for p in made if p.hold), keys, strict=True):
                accounts[key].held += payment.amount
            await payment_store.accept(connection, made)
            await account_store.write(connection, list(accounts.values()))
        return [p.payment_id for p in made]

    async def due(self, payer: str, payee: str, amount: int, **more: Any) -> UUID:
        """Schedule one payment that is due already."""
        due = await self.now() - timedelta(seconds=more.pop("ago", 1.0))
        return (await self.pay([DuePayment(payer, payee, amount, due, **more)]))[0]

    async def balances(self) -> dict[str, tuple[int, int, int]]:
        """Give (balance, held, version) of every account."""
        rows = await self.database.writer.fetch(
            "SELECT account_id, balance, held, version FROM account WHERE tenant_id = $1",
            self.tenant_id,
        )
        return {r[0]: (r[1], r[2], r[3]) for r in rows}

    async def outcome(self, payment_id: UUID) -> Any:
        return await self.database.writer.fetchrow(
            "SELECT * FROM outcome WHERE bucket = $1 AND subject = $2",
            bucket_of(payment_id),
            payment_id,
        )

    async def timer(self, payment_id: UUID) -> Any:
        return await self.database.writer.fetchrow(
            "SELECT * FROM timer WHERE bucket = $1 AND subject = $2",
            bucket_of(payment_id),
            payment_id,
        )

    async def events(self, payment_id: UUID) -> list[str]:
        rows = await self.database.writer.fetch(
            "SELECT type FROM fact_of_subject($1, $2) ORDER BY time, event_id",
            self.tenant_id,
            payment_id,
        )
        return [r[0] for r in rows]
