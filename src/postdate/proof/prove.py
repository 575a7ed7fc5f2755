"""Proofs over the whole ledger, in one snapshot."""

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from postdate.core.ids import MAX_ID, MIN_ID
from postdate.database.connection.database import (
    LONG_SECONDS,
    Connection,
    Database,
    lift_time_limits,
)
from postdate.database.connection.error import (
    PermissionDeniedError,
    ServerFaultError,
    TransientError,
)
from postdate.database.connection.query import query
from postdate.database.shard.commits import held_up
from postdate.database.shard.gathered import gathered

CHECKS: Final = (
    "ledger_sums_to_zero",
    "versions_have_no_gaps",
    "balance_is_its_entries",
    "held_is_open_payments",
    "payment_is_open_or_ended",
    "timer_has_payment",
    "payment_moved_once",
    "transfer_has_payment",
    "payment_keeps_currency",
    "refund_is_of_what_was_paid",
    "payment_timer_follows_terms",
    "events_are_legal",
)
"""The proofs of money, in the order in which they are made."""

BUCKET_CHECKS: Final = (
    "balance_follows_entries",
    "held_is_open_payments",
    "payment_is_open_or_ended",
    "job_is_open_or_ended",
    "timer_has_payment",
)
"""The proofs that reconciling makes for one bucket."""

OPEN_CHECKS: Final = (
    "balance_follows_entries",
    "held_is_open_payments",
    "timer_has_payment",
    "payment_timer_follows_terms",
    "timer_has_job",
    "timer_has_subject",
    "job_timer_follows_terms",
    "waiting_job_holds_its_unique_key",
    "unique_key_names_its_job",
    "schedule_follows_book",
    "subscription_position",
)
"""The proofs of a round for each bucket, over all that is open or has changed since the last."""

FACT_CHECKS: Final = (
    "versions_have_no_gaps",
    "payment_is_open_or_ended",
    "payment_moved_once",
    "transfer_has_payment",
    "payment_keeps_currency",
    "refund_is_of_what_was_paid",
    "events_are_legal",
    "adjustment_is_as_recorded",
    "outcome_has_subject",
    "outcome_is_as_recorded",
    "job_is_open_or_ended",
    "idempotency_key_names_its_subject",
    "occurrence_has_subject",
    "subject_has_occurrence",
)
"""The proofs of a round for each bucket over the facts of the last days, and over a share of
the older ones. The sum over a whole ledger is not among them: it follows, for a transfer has one
amount, and both balances are proved to follow from it."""

MORE_CHECKS: Final = (
    "adjustment_is_as_recorded",
    "outcome_has_subject",
    "outcome_is_as_recorded",
    "job_is_open_or_ended",
    "timer_has_job",
    "timer_has_subject",
    "job_timer_follows_terms",
    "waiting_job_holds_its_unique_key",
    "unique_key_names_its_job",
    "idempotency_key_names_its_subject",
    "occurrence_has_subject",
    "subject_has_occurrence",
    "schedule_follows_book",
    "subscription_position",
)
"""The proofs of everything else: jobs, schedules, keys of clients, subscriptions."""

STATE_CHECKS: Final = ("state_is_as_sealed", "state_is_recorded")
"""The proofs that compare rows with the newest sealed event about them; each names a noun."""

UNREADABLE: Final = "values_are_readable"
"""What is found where a proof breaks on a value, such as an amount that is no number."""

_NO_FINDING: Final = (TransientError, ServerFaultError, PermissionDeniedError)
"""Errors that say nothing about the values in the database."""

STATE_NOUNS: Final = (
    "account",
    "approval",
    "attempt",
    "calendar",
    "change_set",
    "destination",
    "halt",
    "key",
    "lane",
    "receipt_key",
    "repair",
    "revision",
    "role",
    "schedule",
    "setting",
    "subscription",
    "tenant",
)

_OF_EVENTS: Final = frozenset(
    {
        "events_are_legal",
        "adjustment_is_as_recorded",
        "outcome_is_as_recorded",
        "payment_timer_follows_terms",
        "job_timer_follows_terms",
        *STATE_CHECKS,
    }
)
"""The proofs that use events or attempts, of which old weeks may be detached by themselves."""


_QUERIES: Final = {
    "ledger_sums_to_zero": "prove_ledger_sums_to_zero",
    "versions_have_no_gaps": "prove_versions_have_no_gaps",
    "balance_is_its_entries": "prove_balance_is_its_entries",
    "balance_follows_entries": "prove_balance_follows_entries",
    "held_is_open_payments": "prove_held_is_open_payments",
    "payment_is_open_or_ended": "prove_payment_is_open_or_ended",
    "timer_has_payment": "prove_timer_has_payment",
    "payment_moved_once": "prove_payment_moved_once",
    "payment_keeps_currency": "prove_payment_keeps_currency",
    "refund_is_of_what_was_paid": "prove_refund_is_of_what_was_paid",
    "events_are_legal": "prove_events_are_legal",
    "payment_timer_follows_terms": "prove_terms_payment_timer_follows_terms",
    "job_timer_follows_terms": "prove_terms_job_timer_follows_terms",
    "waiting_job_holds_its_unique_key": "prove_unique_waiting_job_holds_its_key",
    "unique_key_names_its_job": "prove_unique_key_names_its_job",
    "timer_has_job": "prove_terms_timer_has_job",
    "timer_has_subject": "prove_terms_timer_has_subject",
    "job_is_open_or_ended": "prove_terms_job_is_open_or_ended",
    "outcome_has_subject": "prove_terms_outcome_has_subject",
    "outcome_is_as_recorded": "prove_terms_outcome_is_as_recorded",
    "transfer_has_payment": "prove_terms_transfer_has_payment",
    "idempotency_key_names_its_subject": "prove_terms_idempotency_key_names_its_subject",
    "adjustment_is_as_recorded": "prove_terms_adjustment_is_as_recorded",
    "state_is_as_sealed": "prove_state_is_as_sealed",
    "state_is_recorded": "prove_state_is_recorded",
    "subscription_position": "prove_state_subscription_position",
    "occurrence_has_subject": "prove_book_occurrence_has_subject",
    "subject_has_occurrence": "prove_book_subject_has_occurrence",
    "schedule_follows_book": "prove_book_schedule_follows_book",
}


def state_finding(noun: str) -> str:
    """Name the finding that a row of some kind is not as its newest sealed event left it."""
    return f"{noun}_is_as_sealed"


class LedgerFinding(msgspec.Struct, frozen=True):
    """Something that contradicts a proof."""

    check: str
    tenant_id: int
    subject: str
    detail: str


class KeyedFact(NamedTuple):
    """What was requested under an idempotency key."""

    tenant_id: int
    scope: str
    key: str
    subject: UUID


class Range(msgspec.Struct, frozen=True):
    """What to prove: a tenant, some buckets, how many findings of each kind.

    `floor` is where the history of money begins, `event_floor` where that of events does; facts
    are read below `ceiling`.
    """

    tenant_id: int | None = None
    buckets: Sequence[int] | None = None
    limit: int = 10
    floor: UUID = MIN_ID
    event_floor: UUID = MIN_ID
    ceiling: UUID = MAX_ID

    def between_ids(self, floor: UUID, ceiling: UUID) -> "Range":
        """Return the part of this range between two ids."""
        return msgspec.structs.replace(
            self,
            floor=max(self.floor, floor),
            event_floor=max(self.event_floor, floor),
            ceiling=ceiling,
        )


@asynccontextmanager
async def snapshot(database: Database) -> AsyncIterator[Connection]:
    """Open one snapshot of the whole database."""
    async with database.connection() as connection:
        try:
            if database.sharded:
                async with held_up(database):
                    await _begin(connection, "prove_begin_gathered")
                    seen: Connection = await gathered(connection)
            else:
                await _begin(connection, "prove_begin")
                seen = connection
            yield seen
        finally:
            if not connection.is_closed():
                await connection.execute("ROLLBACK")


async def _begin(connection: Connection, begin: str) -> None:
    await connection.execute(query(begin))
    await connection.execute(query("prove_freely"))
    await lift_time_limits(connection)


async def guard(connection: Connection) -> None:
    """Keep the transaction usable after a proof that fails on a value: see `readable`."""
    await connection.execute("SAVEPOINT proofs")


async def prove_safely(
    connection: Connection, name: str, proof: Awaitable[list[LedgerFinding]]
) -> list[LedgerFinding]:
    """Run a proof; a value that it fails on is a finding and does not hide others."""
    try:
        return await proof
    except _NO_FINDING:
        raise
    except Exception as error:  # noqa: BLE001 - a manipulated value may cause any of them
        await connection.execute("ROLLBACK TO SAVEPOINT proofs")
        detail = f"this proof cannot be made: {error}"
        return [LedgerFinding(UNREADABLE, 0, name, detail)]


async def check(connection: Connection, name: str, where: Range) -> list[LedgerFinding]:
    """Run one proof and return what contradicts it."""
    rows = await connection.fetch(
        query(_QUERIES[name]), *_arguments(name, where), timeout=LONG_SECONDS
    )
    return _findings(name, rows)


async def check_state(connection: Connection, name: str, where: Range) -> list[LedgerFinding]:
    """Compare rows with the newest sealed events about them."""
    rows = await connection.fetch(
        query(_QUERIES[name]), *_arguments(name, where), timeout=LONG_SECONDS
    )
    return [LedgerFinding(state_finding(row[0]), *row[1:]) for row in rows]


def _arguments(name: str, where: Range) -> tuple[object, ...]:
    floor = max(where.floor, where.event_floor) if name in _OF_EVENTS else where.floor
    return where.tenant_id, where.buckets, where.limit, floor, where.ceiling


async def functions(connection: Connection) -> dict[str, list[str]]:
    """Read the bodies of the functions in our schema, by name."""
    rows = await connection.fetch(query("prove_functions"))
    return {row[0]: sorted(row[1]) for row in rows}


async def client_rules(connection: Connection) -> dict[str, Any]:
    """Read the rules that SQL checks by: a schema by its noun, a setting by its name."""
    rows = await connection.fetch(query("prove_client_rules"))
    return {row[0]: msgspec.json.decode(row[1]) for row in rows}


async def asked_for(connection: Connection, where: Range, limit: int) -> list[KeyedFact]:
    """List what was requested under idempotency keys, in the order of ids."""
    asked = (where.tenant_id, where.buckets, limit, where.floor, where.ceiling)
    rows = await connection.fetch(query("prove_terms_asked_for"), *asked, timeout=LONG_SECONDS)
    return [KeyedFact(*row) for row in rows]


async def remember_accounts(connection: Connection, buckets: Sequence[int], floor: UUID) -> None:
    """Remember how far the entries of the accounts of some buckets are proved."""
    await connection.execute(query("prove_account_proved"), buckets, floor, timeout=LONG_SECONDS)


async def overdue(connection: Connection, where: Range, seconds: float) -> list[LedgerFinding]:
    """List the payments of some buckets that have been due for too long and are not settled."""
    rows = await connection.fetch(
        query("prove_overdue"), where.tenant_id, where.buckets, where.limit, seconds
    )
    return _findings("overdue", rows)


async def parked(connection: Connection, where: Range) -> list[LedgerFinding]:
    """List the payments of some buckets that wait for a person."""
    rows = await connection.fetch(
        query("prove_parked"), where.tenant_id, where.buckets, where.limit
    )
    return _findings("dead_lettered", rows)


def _findings(name: str, rows: Sequence[asyncpg.Record]) -> list[LedgerFinding]:
    return [LedgerFinding(name, *row) for row in rows]
