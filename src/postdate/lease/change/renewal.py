"""Renew leases of workers that use HTTP, and keep what they report of their progress."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.event.store.event import record_events
from postdate.job.accept.payload_encryption import PayloadEncryption
from postdate.job.store import progress
from postdate.job.store.progress import LogRow, NewProgress
from postdate.lane.store import permit
from postdate.lane.store.lane import LaneDirectory
from postdate.lane.store.permit import claim_holder
from postdate.lease import store as lease
from postdate.lease.change.report import lost, permit_scopes
from postdate.lease.store import FoundLease
from postdate.secret.payload_encryption import PayloadCipher
from postdate.words.error import RefusedError

LOG_LINES: Final = 500
"""The most lines that are kept of an attempt; older ones are dropped and counted."""

LOG_BYTES: Final = 32 * 1024
"""The most bytes that those lines take."""

_lines: Final = msgspec.json.Decoder(list[str])


class HeldBy(NamedTuple):
    """Who holds which lease, for how many seconds from now, and the key that says so."""

    tenant_id: int
    job_id: UUID
    token: int
    seconds: float
    actor: str


class Renewed(NamedTuple):
    """Until when a lease holds now, and since when its job is to be cancelled, until when."""

    lease_until: datetime
    cancel_requested_at: datetime | None = None
    cancel_deadline: datetime | None = None


class ProgressReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker reports; None leaves a value as it is."""

    percent: float | None = None
    note: str | None = None
    checkpoint: bytes | None = None
    log: Sequence[str] = ()


class LeaseRenewals:
    """Renews leases one by one, each in a transaction; a stale token changes nothing."""

    def __init__(
        self,
        database: Database,
        lanes: LaneDirectory,
        settings: Settings,
        cipher: PayloadCipher | None = None,
    ) -> None:
        self._database = database
        self._lanes = lanes
        self._settings = settings
        self._encryption = PayloadEncryption(settings, cipher)

    async def renew(self, held: HeldBy) -> Renewed:
        """Renew a lease; say whether its job is to be cancelled."""
        async with self._database.write("lease.renew") as connection:
            _, until = await self._held(connection, held)
            return await _renewed(connection, held, until)

    async def report(self, held: HeldBy, report: ProgressReport) -> Renewed:
        """Renew a lease, and keep what its worker reports."""
        async with self._database.write("lease.progress") as connection:
            found, until = await self._held(connection, held)
            await self._encryption.prepare(connection, [held.tenant_id])
            await self._write(connection, held, found.attempt, report)
            return await _renewed(connection, held, until)

    async def _held(self, connection: Connection, held: HeldBy) -> tuple[FoundLease, datetime]:
        """Lock and renew the lease of this token; refuse a stale one."""
        tenant_id, job_id, token, seconds, _ = held
        bucket = bucket_of(job_id)
        found = (await lease.find(connection, bucket, [job_id])).get(job_id)
        if found is not None and (found.tenant_id, found.token) == (tenant_id, token):
            until = await _renew(connection, held)
            if until is not None:
                for scope in await permit_scopes(self._lanes, self._settings, found, connection):
                    await permit.extend(connection, scope, claim_holder(job_id, token), 1, seconds)
                return found, until
        past = await lease.find_end(connection, bucket, tenant_id, job_id)
        raise RefusedError(lost(job_id, exists=past is not None))

    async def _write(
        self, connection: Connection, held: HeldBy, attempt: int, report: ProgressReport
    ) -> None:
        tenant_id, job_id = held.tenant_id, held.job_id
        note = None if report.note is None else report.note.encode()
        new = NewProgress(
            report.percent,
            self._encryption.payload(tenant_id, job_id, note),
            self._encryption.payload(tenant_id, job_id, report.checkpoint),
        )
        await progress.put(connection, tenant_id, job_id, new)
        if report.log:
            await self._append(connection, held, attempt, report.log)
        if self._settings.is_verbose(tenant_id):
            data = {job_id: self._event_data(held, attempt, report)}
            await record_events(connection, tenant_id, "job.progressed", held.actor, data)

    async def _append(
        self, connection: Connection, held: HeldBy, attempt: int, lines: Sequence[str]
    ) -> None:
        """Append lines to the log of an attempt; the oldest make room."""
        tenant_id, job_id = held.tenant_id, held.job_id
        found = await progress.find_log(connection, tenant_id, job_id, attempt)
        kept: list[str] = []
        if found is not None:
            opened = await self._encryption.open(connection, tenant_id, job_id, found.lines)
            kept = _lines.decode(opened or b"[]")
        log = bounded_log([*kept, *lines], 0 if found is None else found.dropped)
        sealed = self._encryption.payload(tenant_id, job_id, log.lines) or b""
        row = LogRow(log.dropped, sealed)
        await progress.put_log(connection, tenant_id, job_id, attempt, row)

    def _event_data(
        self, held: HeldBy, attempt: int, report: ProgressReport
    ) -> dict[str, int | float | str]:
        """Say how far it has come; a note is left out where payloads are encrypted."""
        data: dict[str, int | float | str] = {"attempt": attempt}
        if report.percent is not None:
            data["percent"] = report.percent
        if report.note is not None and not self._encryption.is_enabled(held.tenant_id):
            data["note"] = report.note
        return data


def bounded_log(lines: Sequence[str], dropped: int) -> LogRow:
    """Keep the last lines within the limits, and count the dropped ones."""
    room = LOG_BYTES
    kept: list[str] = []
    for line in reversed(lines[-LOG_LINES:]):
        room -= len(msgspec.json.encode(line)) + 1
        if room < 0:
            break
        kept.append(line)
    kept.reverse()
    return LogRow(dropped + len(lines) - len(kept), msgspec.json.encode(kept))


async def _renew(connection: Connection, held: HeldBy) -> datetime | None:
    """Renew one lease; None if its token is stale. A worker may report and renew at once."""
    bucket, wanted = bucket_of(held.job_id), [(held.job_id, held.token, held.seconds)]
    ends = await lease.renew(connection, bucket, wanted)
    if held.job_id in ends and ends[held.job_id] is None:
        await lease.wait(connection, bucket, held.job_id)
        ends = await lease.renew(connection, bucket, wanted)
    return ends.get(held.job_id)


async def _renewed(connection: Connection, held: HeldBy, until: datetime) -> Renewed:
    row = await progress.find(connection, held.tenant_id, held.job_id)
    if row is None or row.cancel_deadline is None:
        return Renewed(until)
    return Renewed(until, row.cancel_requested_at, row.cancel_deadline)
