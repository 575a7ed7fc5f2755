"""Progress of executions under way: percent, note, checkpoint and lines of log."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of
from postdate.database.connection.query import Connection, Reader, fetch_all, fetch_one, query
from postdate.secret.payload_encryption import MARK, PayloadCipher
from postdate.secret.secret import SecretKeyMissingError


class ProgressRow(msgspec.Struct, frozen=True):
    """How far a job has come, and whether it is to be cancelled."""

    percent: float | None
    note: bytes | None
    updated_at: datetime | None
    cancel_requested_at: datetime | None
    cancel_deadline: datetime | None


class NewProgress(NamedTuple):
    """What a worker reports; None leaves a value as it is."""

    percent: float | None
    note: bytes | None
    checkpoint: bytes | None


class LogRow(msgspec.Struct, frozen=True):
    """The last lines of an attempt's log, and how many older ones are gone."""

    dropped: int
    lines: bytes


class AttemptLogRow(msgspec.Struct, frozen=True):
    """The log of one attempt."""

    attempt: int
    dropped: int
    lines: bytes


async def checkpoints(
    connection: Connection,
    bucket: int,
    tenant_id: int,
    job_ids: Sequence[UUID],
    cipher: PayloadCipher | None,
) -> dict[UUID, bytes | None]:
    """Find the checkpoints that earlier attempts of these jobs recorded; raise without the key."""
    rows = await connection.fetch(query("progress_checkpoints"), bucket, list(job_ids), tenant_id)
    found: dict[UUID, bytes | None] = {}
    for job_id, checkpoint in rows:
        if checkpoint.startswith(MARK) and cipher is None:
            raise SecretKeyMissingError("This node was given no key for encrypted checkpoints.")
        found[job_id] = (
            checkpoint
            if cipher is None
            else await cipher.decrypt(connection, tenant_id, job_id, checkpoint)
        )
    return found


async def find(reader: Reader, tenant_id: int, job_id: UUID) -> ProgressRow | None:
    """Read the progress of a job; None if nothing was reported."""
    where = (bucket_of(job_id), job_id, tenant_id)
    return await fetch_one(reader, ProgressRow, "progress_find", *where)


async def put(connection: Connection, tenant_id: int, job_id: UUID, new: NewProgress) -> None:
    """Write what a worker reports; the caller holds the lock of the job's timer."""
    await connection.execute(query("progress_put"), bucket_of(job_id), tenant_id, job_id, *new)


async def find_log(
    connection: Connection, tenant_id: int, job_id: UUID, attempt: int
) -> LogRow | None:
    """Read the lines of an attempt that is under way."""
    where = (bucket_of(job_id), job_id, attempt, tenant_id)
    return await fetch_one(connection, LogRow, "progress_log_find", *where)


async def put_log(
    connection: Connection, tenant_id: int, job_id: UUID, attempt: int, log: LogRow
) -> None:
    """Write the lines of an attempt; the caller holds the lock of the job's timer."""
    where = (bucket_of(job_id), attempt, tenant_id, job_id)
    await connection.execute(query("progress_log_put"), *where, log.dropped, log.lines)


async def logs(
    reader: Reader, tenant_id: int, job_id: UUID, attempts: Sequence[int]
) -> dict[int, AttemptLogRow]:
    """Read the logs of some attempts at a job."""
    if not attempts:
        return {}
    asked = (bucket_of(job_id), job_id, tenant_id, list(attempts))
    rows = await fetch_all(reader, AttemptLogRow, "progress_logs", *asked)
    return {row.attempt: row for row in rows}
