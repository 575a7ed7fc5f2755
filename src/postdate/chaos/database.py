"""What only `postdate chaos` asks: what a run has left in the database, and how to disturb it."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec

from postdate.model.ids import BUCKETS
from postdate.store.connection.database import SCHEMA
from postdate.store.connection.query import query
from postdate.store.connection.session import DatabaseSession, connect_alone

_query = partial(query, package="postdate.chaos")

CONNECT_SECONDS: Final = 10.0
READ_SECONDS: Final = 120.0


class AccountEvidence(msgspec.Struct, frozen=True):
    """An account."""

    tenant_id: int
    account_id: str
    balance: int
    held: int
    version: int
    floor: int | None


class EntryEvidence(msgspec.Struct, frozen=True):
    """One leg of a transfer."""

    tenant_id: int
    transfer_id: UUID
    account_id: str
    amount: int
    balance: int
    version: int
    payment_id: UUID | None


class PaymentEvidence(msgspec.Struct, frozen=True):
    """A payment as it was accepted."""

    tenant_id: int
    payment_id: UUID
    from_account: str
    to_account: str
    amount: int
    hold: bool
    due_at: datetime
    schedule_id: UUID | None


class JobEvidence(msgspec.Struct, frozen=True):
    """A job as it was accepted."""

    tenant_id: int
    job_id: UUID
    due_at: datetime
    effective_at: datetime
    schedule_id: UUID | None
    type: str


class OutcomeEvidence(msgspec.Struct, frozen=True):
    """The end of a job or payment."""

    tenant_id: int
    subject: UUID
    status: str
    attempt: int
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime
    transfer_id: UUID | None


class AttemptEvidence(msgspec.Struct, frozen=True):
    """An execution that did not end the matter."""

    tenant_id: int
    subject: UUID
    attempt: int
    status: str
    due_at: datetime
    started_at: datetime
    finished_at: datetime


class TimerEvidence(msgspec.Struct, frozen=True):
    """Something that has not ended."""

    tenant_id: int
    lane_id: int
    subject: UUID
    due_at: datetime
    claimed: bool


class OccurrenceEvidence(msgspec.Struct, frozen=True):
    """An occurrence of a schedule, and the job or payment that it became."""

    tenant_id: int
    schedule_id: UUID
    scheduled_for: datetime
    status: str
    cause: str
    subject: UUID | None


class Snapshot(msgspec.Struct, kw_only=True):
    """Everything that is left, at one instant."""

    tenants: dict[int, str]
    accounts: list[AccountEvidence] = []
    entries: list[EntryEvidence] = []
    payments: list[PaymentEvidence] = []
    jobs: list[JobEvidence] = []
    outcomes: list[OutcomeEvidence] = []
    attempts: list[AttemptEvidence] = []
    timers: list[TimerEvidence] = []
    occurrences: list[OccurrenceEvidence] = []


async def connect(dsn: str) -> DatabaseSession:
    """Open a connection as the superuser of the run's own server."""
    return await connect_alone(dsn, CONNECT_SECONDS, {"search_path": f"{SCHEMA},public"})


async def snapshot(connection: DatabaseSession) -> Snapshot:
    """Read everything at one instant."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        tenants = await connection.fetch(_query("chaos_tenants"))
        return Snapshot(
            tenants={row["tenant_id"]: row["name"] for row in tenants},
            accounts=[AccountEvidence(*row) for row in await _all(connection, "chaos_accounts")],
            entries=[EntryEvidence(*row) for row in await _all(connection, "chaos_entries")],
            payments=[PaymentEvidence(*row) for row in await _all(connection, "chaos_payments")],
            jobs=[JobEvidence(*row) for row in await _all(connection, "chaos_jobs")],
            outcomes=[OutcomeEvidence(*row) for row in await _all(connection, "chaos_outcomes")],
            attempts=[AttemptEvidence(*row) for row in await _all(connection, "chaos_attempts")],
            timers=[TimerEvidence(*row) for row in await _all(connection, "chaos_timers")],
            occurrences=[
                OccurrenceEvidence(*row) for row in await _all(connection, "chaos_occurrences")
            ],
        )


async def _all(connection: DatabaseSession, name: str) -> Sequence[Iterable[Any]]:
    return await connection.fetch(_query(name), timeout=READ_SECONDS)


async def count_open(connection: DatabaseSession) -> int:
    """Count the payments and jobs that have not ended."""
    return int(await connection.fetchval(_query("chaos_open")))


async def end_sessions(connection: DatabaseSession, count: int) -> int:
    """End so many sessions of others, chosen at random; say how many."""
    return int(await connection.fetchval(_query("chaos_end_sessions"), count))


async def hold_rows(connection: DatabaseSession, table: str, count: int) -> int:
    """Lock up to so many rows of a table in every bucket until the transaction ends."""
    name = "chaos_hold_account" if table == "account" else "chaos_hold_timer"
    held = 0
    for bucket in range(BUCKETS):
        held += await connection.fetchval(_query(name), count, bucket)
    return held
