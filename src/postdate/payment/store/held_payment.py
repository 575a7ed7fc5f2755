"""Held payments that the database settles itself: taken off the queue, then paid."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from postdate.account.store.account import AccountKey
from postdate.core.ids import bucket_of
from postdate.core.money import MAX_BALANCE
from postdate.core.test_clock import own_lane
from postdate.database.connection.query import Connection, query
from postdate.timer.timer import LANE_PAYMENT


class HeldPayments(msgspec.Struct, frozen=True):
    """Payments that left the queue, a column for each field, in the order of settling.

    The fields are the columns of `settlement_take`. Instants are seconds since `DUE_ORIGIN`.
    """

    at: datetime
    tenants: Sequence[int]
    ids: Sequence[UUID]
    tokens: Sequence[int]
    due_seconds: Sequence[float]
    amounts: Sequence[int]
    payers: Sequence[str]
    payees: Sequence[str]
    payee_buckets: Sequence[int]
    traces: Sequence[str | None]

    def __len__(self) -> int:
        """Return how many payments these are."""
        return len(self.ids)

    def tried(self) -> list[tuple[int, UUID]]:
        """Return bucket and id of each payment that was tried before."""
        tokens = zip(self.ids, self.tokens, strict=True)
        return [(bucket_of(payment_id), payment_id) for payment_id, token in tokens if token]

    def accounts(self) -> set[AccountKey]:
        """Return the accounts that these payments change."""
        payers = map(AccountKey, map(bucket_of, self.ids), self.tenants, self.payers)
        return {*payers, *map(AccountKey, self.payee_buckets, self.tenants, self.payees)}


_NO_COLUMNS: Final[tuple[Sequence[object], ...]] = ((),) * (len(HeldPayments.__struct_fields__) - 1)


async def take(connection: Connection, keys: Iterable[tuple[int, UUID]]) -> HeldPayments | None:
    """Take those of these payments that are still due off the queue, if all of them are held.

    None where one of them needs a decision of its own: then timers were locked and nothing else.
    """
    buckets, subjects = zip(*keys, strict=True)
    [[even, at, *columns]] = await connection.fetch(
        query("settlement_take"), own_lane(LANE_PAYMENT), buckets, subjects
    )
    if not even:
        return None
    return HeldPayments(at, *(_NO_COLUMNS if columns[0] is None else columns))


async def pay(connection: Connection, transfers: Sequence[UUID], actor: str) -> bool:
    """Pay what this transaction has taken; return whether every payment completed.

    If not, the transaction must be rolled back.
    """
    completed: bool = await connection.fetchval(
        query("settlement_pay"), transfers, MAX_BALANCE, actor
    )
    return completed
