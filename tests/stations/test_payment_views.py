import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID

from postdate.account.store.account import key_of
from postdate.core.identity import Identity, Scope
from postdate.core.ids import new_id
from postdate.database.connection.database import Connection, Database
from postdate.payment.store import payment as payment_store
from postdate.payment.store.payment import NewPayment
from postdate.payment.view.payment import PaymentViews
from postdate.tenant.store import tenant as tenant_store

T = TypeVar("T")
DUE = datetime(2030, 1, 1, tzinfo=UTC)


class CountedReads(Database):
    """Counts the statements of readers."""

    def __init__(self, database: Database) -> None:
        super().__init__(database.writer, database.reader)
        self.reads = 0

    async def read_statement(self, tenant_id: int, read: Callable[[Connection], Awaitable[T]]) -> T:
        self.reads += 1
        return await super().read_statement(tenant_id, read)


async def _pay(database: Database, tenant_id: int) -> UUID:
    bucket = key_of(tenant_id, "a").bucket
    payment_id = new_id(bucket, database.unix_ms())
    row = NewPayment(bucket, tenant_id, payment_id, "a", "b", 5, DUE, hold=False)
    async with database.write() as connection:
        await payment_store.accept(connection, [row])
    return payment_id


def _who(tenant_id: int, *accounts: str) -> Identity:
    limited = frozenset(accounts) if accounts else None
    return Identity(
        tenant_id=tenant_id, tenant="t", key_id="k", scopes=frozenset({Scope.ADMIN}),
        accounts=limited,
    )  # fmt: skip


async def test_payments_asked_for_at_once_share_a_statement_and_nothing_else(
    database: Database, tenant_id: int
) -> None:
    async with database.write() as connection:
        other_id = await tenant_store.create(connection, f"beside-{tenant_id}")
    assert other_id is not None
    mine, theirs = await _pay(database, tenant_id), await _pay(database, other_id)
    counted = CountedReads(database)
    views = PaymentViews(counted)
    unknown = new_id(0, database.unix_ms())
    asked = [
        (_who(tenant_id), mine, True),
        (_who(other_id), mine, False),
        (_who(other_id), theirs, True),
        (_who(tenant_id), theirs, False),
        (_who(tenant_id, "b"), mine, True),
        (_who(tenant_id, "c"), mine, False),
        (_who(tenant_id), unknown, False),
        (_who(tenant_id), mine, True),
    ]
    seen = await asyncio.gather(*(views.find(who, payment_id) for who, payment_id, _ in asked))
    for (_, payment_id, visible), view in zip(asked, seen, strict=True):
        assert (None if view is None else view.payment_id) == (payment_id if visible else None)
    assert counted.reads == 2  # one for each tenant
