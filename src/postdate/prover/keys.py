"""Prove that idempotency keys still point to what they created, so that nothing is done twice."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from postdate.core.ids import BUCKETS
from postdate.database.connection.database import Connection
from postdate.intake import store as idempotency
from postdate.intake.store import IdempotencyKey, KeyScope, key_at, key_of
from postdate.proof import prove as store
from postdate.proof.prove import KeyedFact, LedgerFinding, Range

CHECK: Final = "subject_has_idempotency_key"

SCOPES: Final = ("payment", "job", "adjustment")
"""What is asked for under a key that its fact knows; each has its own finding."""

PAGE: Final = 20_000
"""How many facts are read together."""


def finding_of(scope: str) -> str:
    """Return the finding of a lost key."""
    return f"{scope}_has_idempotency_key"


async def check(connection: Connection, where: Range) -> list[LedgerFinding]:
    """Look up the key of each payment, job and adjustment that has one."""
    page = await store.asked_for(connection, where, PAGE)
    found = await _lost(connection, page)
    if len(page) == PAGE:
        found = []
        for bucket in range(BUCKETS) if where.buckets is None else where.buckets:
            found += await _bucket(connection, replace(where, buckets=[bucket]))
    return found[: where.limit]


async def _bucket(connection: Connection, where: Range) -> list[LedgerFinding]:
    found: list[LedgerFinding] = []
    while page := await store.asked_for(connection, where, PAGE):
        found += await _lost(connection, page)
        after = UUID(int=page[-1].subject.int + 1)
        where = where.between_ids(after, where.ceiling)
    return found


async def _lost(connection: Connection, page: Sequence[KeyedFact]) -> list[LedgerFinding]:
    rows = [_key(each) for each in page]
    kept = await idempotency.find(connection, rows)
    return [
        LedgerFinding(
            finding_of(each.scope),
            each.tenant_id,
            str(each.subject),
            f"what is kept under its key {each.key} is gone, or about something else",
        )
        for each, row in zip(page, rows, strict=True)
        if row not in kept or kept[row].subject != each.subject
    ]


def _key(asked: KeyedFact) -> IdempotencyKey:
    """Return the key of a fact: jobs and payments carry its hash, adjustments the key itself."""
    if asked.scope == "adjustment":
        return key_of(asked.tenant_id, KeyScope.ADJUSTMENT, asked.key)
    scope = KeyScope.PAYMENT if asked.scope == "payment" else KeyScope.JOB
    return key_at(asked.tenant_id, scope, UUID(asked.key))
