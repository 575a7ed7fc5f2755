"""What a receipt is made of: the facts of a job or payment, each with the seal that holds it."""

from collections.abc import Collection
from uuid import UUID

import msgspec

from postdate.database.connection.query import Reader, query
from postdate.event.spec.chain import SealContent
from postdate.event.store.seal import content_of


class SealedFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact as bytes, and its place in a seal; None where it is not sealed yet, or was pruned."""

    type: str
    event_id: UUID
    offset: int | None
    record: bytes | None
    seal: tuple[SealContent, bytes, bytes] | None
    """With the hash of the seal before it, and its own."""


async def facts(
    reader: Reader, tenant_id: int, subject: UUID, ends: Collection[str]
) -> list[SealedFact]:
    """Return the first fact of a job or payment and what ended it."""
    rows = await reader.fetch(query("receipt_facts"), tenant_id, subject, list(ends))
    return [
        SealedFact(
            type=row["type"],
            event_id=row["event_id"],
            offset=row["seal_offset"],
            record=row["record"],
            seal=None
            if row["seal_offset"] is None
            else (
                content_of(tenant_id, row),
                row["previous"],
                row["hash"],
            ),
        )
        for row in rows
    ]
