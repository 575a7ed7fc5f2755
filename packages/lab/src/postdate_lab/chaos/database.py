"""What only `postdate chaos` asks: what a run has left in the database, and how to disturb it."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.core.ids import BUCKETS
from postdate.database.connection.database import SCHEMA
from postdate.database.connection.query import query
from postdate.database.connection.session import DatabaseSession, connect_alone

_query = partial(query, package="postdate_lab.chaos")

CONNECT_SECONDS: Final = 10.0
PAGE: Final = 5000
"""How many rows are read at a time."""


class AccountEvidence(msgspec.Struct, frozen=True, array_like=True):
    """An account."""

    tenant_id: int
    account_id: str
    balance: int
    held: int
    version: int
    floor: int | None


class EntryEvidence(NamedTuple):
    """One side of a transfer."""

    tenant_id: int
    account_id: str
    amount: int
    balance: int
    version: int


class TransferEvidence(msgspec.Struct, frozen=True, array_like=True):
    """Money that moved."""

    tenant_id: int
    transfer_id: UUID
    payment_id: UUID | None
    amount: int
    from_account: str
    from_balance: int
    from_version: int
    to_account: str
    to_balance: int
    to_version: int

    @property
    def entries(self) -> tuple[EntryEvidence, EntryEvidence]:
        """Return both sides."""
        payer = self.from_account, -self.amount, self.from_balance, self.from_version
        payee = self.to_account, self.amount, self.to_balance, self.to_version
        return EntryEvidence(self.tenant_id, *payer), EntryEvidence(self.tenant_id, *payee)


class PaymentEvidence(msgspec.Struct, frozen=True, array_like=True):
    """A payment as it was accepted."""

    tenant_id: int
    payment_id: UUID
    from_account: str
    to_account: str
    amount: int
    hold: bool
    due_at: datetime
    schedule_id: UUID | None


class JobEvidence(msgspec.Struct, frozen=True, array_like=True):
    """A job as it was accepted."""

    tenant_id: int
    job_id: UUID
    due_at: datetime
    effective_at: datetime
    schedule_id: UUID | None
    type: str


class OutcomeEvidence(msgspec.Struct, frozen=True, array_like=True):
    """The end of a job or payment."""

    tenant_id: int
    subject: UUID
    status: str
    attempt: int
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime
    transfer_id: UUID | None


class AttemptEvidence(msgspec.Struct, frozen=True, array_like=True):
    """An execution that did not end the matter."""

    tenant_id: int
    subject: UUID
    attempt: int
    status: str
    due_at: datetime
    started_at: datetime
    finished_at: datetime


class TimerEvidence(msgspec.Struct, frozen=True, array_like=True):
    """Something that has not ended."""

    tenant_id: int
    lane_id: int
    subject: UUID
    due_at: datetime
    claimed: bool


class OccurrenceEvidence(msgspec.Struct, frozen=True, array_like=True):
    """An occurrence of a schedule, and the job or payment that it became."""

    tenant_id: int
    schedule_id: UUID
    scheduled_for: datetime
    status: str
    cause: str
    subject: UUID | None


class Snapshot(msgspec.Struct, kw_only=True):
    """Everything that is left of a tenant, at one instant."""

    accounts: list[AccountEvidence] = []
    transfers: list[TransferEvidence] = []
    payments: list[PaymentEvidence] = []
    jobs: list[JobEvidence] = []
    outcomes: list[OutcomeEvidence] = []
    attempts: list[AttemptEvidence] = []
    timers: list[TimerEvidence] = []
    occurrences: list[OccurrenceEvidence] = []


_TABLES: Final[dict[str, type[msgspec.Struct]]] = {
    "chaos_accounts": AccountEvidence,
    "chaos_transfers": TransferEvidence,
    "chaos_payments": PaymentEvidence,
    "chaos_jobs": JobEvidence,
    "chaos_outcomes": OutcomeEvidence,
    "chaos_attempts": AttemptEvidence,
    "chaos_timers": TimerEvidence,
    "chaos_occurrences": OccurrenceEvidence,
}


async def connect(dsn: str) -> DatabaseSession:
    """Open a connection as the superuser of the run's own server."""
    return await connect_alone(dsn, CONNECT_SECONDS, {"search_path": f"{SCHEMA},public"})


def columns() -> dict[str, tuple[str, ...]]:
    """Return the columns of each table that is written, for whoever reads the files."""
    return {asked: kind.__struct_fields__ for asked, kind in _TABLES.items()}


async def write_snapshot(connection: DatabaseSession, directory: Path) -> None:
    """Write everything that is left, at one instant, into a folder for each tenant.

    Rows are read in pages and written as they come, so that memory does not grow with the run.
    """
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        rows = await connection.fetch(_query("chaos_tenants"))
        names = {row["tenant_id"]: row["name"] for row in rows}
        for name in names.values():
            (directory / name).mkdir(parents=True, exist_ok=True)
        for asked in _TABLES:
            with ExitStack() as stack:
                files: dict[int, IO[bytes]] = {}
                for tenant_id, name in names.items():
                    path = directory / name / f"{asked}.jsonl"
                    files[tenant_id] = stack.enter_context(path.open("wb"))
                async for row in connection.cursor(_query(asked), prefetch=PAGE):
                    files[row["tenant_id"]].write(msgspec.json.encode(tuple(row)) + b"\n")


def read_snapshot(directory: Path) -> Snapshot:
    """Read what is left of a tenant."""
    found: dict[str, Any] = {
        asked.removeprefix("chaos_"): list(_rows(directory / f"{asked}.jsonl", kind))
        for asked, kind in _TABLES.items()
    }
    return Snapshot(**found)


def _rows(path: Path, kind: type[msgspec.Struct]) -> Iterator[msgspec.Struct]:
    decode = msgspec.json.Decoder(kind).decode
    with path.open("rb") as file:
        yield from map(decode, file)


async def count_open(connection: DatabaseSession) -> dict[str, int]:
    """Count the payments and jobs of each tenant that have not ended."""
    return {row["name"]: row["open"] for row in await connection.fetch(_query("chaos_open"))}


async def count_links(connection: DatabaseSession) -> int:
    """Count the sealed events of all tenants."""
    return int(await connection.fetchval(_query("chaos_links")))


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
