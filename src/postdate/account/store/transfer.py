"""Transfers: one immutable row for each movement of money between two accounts."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of
from postdate.database.connection.query import Connection, Reader, fetch_one, query


class NewTransfer(msgspec.Struct, frozen=True):
    """A transfer about to be inserted, with where both accounts stand after it."""

    bucket: int
    to_bucket: int
    tenant_id: int
    transfer_id: UUID
    amount: int
    from_account: str
    from_balance: int
    from_version: int
    to_account: str
    to_balance: int
    to_version: int
    payment_id: UUID | None
    reason: str | None


class Transfer(NewTransfer, frozen=True):
    """A transfer as stored."""

    created_at: datetime


async def insert(connection: Connection, transfers: Sequence[NewTransfer]) -> None:
    """Insert transfers; the caller has changed both accounts of each."""
    if transfers:
        columns = zip(*(msgspec.structs.astuple(each) for each in transfers), strict=True)
        await connection.execute(query("transfer_insert"), *map(list, columns))


async def of_payment(
    reader: Reader, tenant_id: int, payment_id: UUID, payer: str
) -> Transfer | None:
    """Find the transfer of a completed payment."""
    key = bucket_of(payment_id), tenant_id, payment_id, payer
    return await fetch_one(reader, Transfer, "transfer_of_payment", *key)
