"""Reports of workers that use HTTP: completed, failed, released."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of
from postdate.core.setting.setting import Settings
from postdate.database.connection import clock
from postdate.database.connection.database import Database
from postdate.database.connection.query import Reader
from postdate.job.accept.payload_encryption import PayloadEncryption
from postdate.job.spec.outcome import Completed, Failed, Throttled, Unknown
from postdate.job.spec.retry import RetryPolicies
from postdate.job.spec.tally import Tally
from postdate.job.spec.verdict import DONE, End, Facts, Keep, Move, decide
from postdate.job.store import execution, job
from postdate.job.store.execution import HeldLease, Recorded
from postdate.job.store.job import JobKey, LoadedJob
from postdate.lane.store.lane import LaneDirectory
from postdate.lane.store.permit import claim_holder, lane_limits
from postdate.lease import store as lease
from postdate.lease.change.release import LeaseReturns
from postdate.lease.store import FoundLease
from postdate.monitor.store.item_log import write_endings
from postdate.runtime.coalescer import Coalescer
from postdate.secret.payload_encryption import PayloadCipher
from postdate.words.error import Code, Refusal, accepted


class Report(NamedTuple):
    """The end of an execution, as its worker reports it."""

    tenant_id: int
    job_id: UUID
    token: int
    outcome: Completed | Failed | Throttled | Unknown
    actor: str


class Reported(NamedTuple):
    """What follows: the new status, and for a retry in how many seconds."""

    status: str
    retry_in_seconds: float | None = None


LOCKED: Final = Refusal(
    Code.OVERLOADED,
    "Another transaction has locked the job.",
    extra={"retry_after_seconds": 1},
)
"""The answer while a person's change or another claim has the job's timer locked."""


class _Known(NamedTuple):
    """What is needed to decide on reports, read in one statement."""

    now: datetime
    leases: dict[UUID, FoundLease]
    jobs: dict[UUID, LoadedJob]


def no_key(_: FoundLease) -> None:
    """Do nothing about the key of a job that has ended."""


class LeaseReports:
    """Records reports in groups; a stale token changes nothing."""

    def __init__(
        self,
        database: Database,
        lanes: LaneDirectory,
        settings: Settings,
        tally: Tally,
        cipher: PayloadCipher | None = None,
        freed: Callable[[FoundLease], None] = no_key,
    ) -> None:
        self._freed = freed
        self._database = database
        self._lanes = lanes
        self._settings = settings
        self._tally = tally
        self._policies = RetryPolicies(settings)
        self._encryption = PayloadEncryption(settings, cipher)
        self._returns = LeaseReturns(database)
        self._group: Coalescer[Report, Reported | Refusal] = Coalescer(self._commit)

    async def submit(self, report: Report) -> Reported:
        """Record one report together with whatever else has gathered."""
        return accepted(await self._group.submit(report))

    async def _commit(self, reports: Sequence[Report]) -> list[Reported | Refusal]:
        known = await self._read({report.job_id for report in reports})
        await self._encryption.prepare_keys(self._database, {each.tenant_id for each in reports})
        verdicts: dict[Report, End | Move] = {}
        for report in reports:
            verdict = self._verdict(report, known)
            # If a group has two reports on one lease, the first counts.
            if verdict is not None and report.job_id not in {r.job_id for r in verdicts}:
                verdicts[report] = verdict
        done: set[UUID] = set()
        locked: set[UUID] = set()
        for actor in {report.actor for report in verdicts}:
            group = [Recorded(_held(r, known), v) for r, v in verdicts.items() if r.actor == actor]
            written = await execution.record(self._database, group, actor)
            done |= written.done
            locked |= written.locked
        await self._release([known.leases[job_id] for job_id in done])
        for job_id in done:
            self._freed(known.leases[job_id])
        self._tally.recorded(
            [(report.tenant_id, v) for report, v in verdicts.items() if report.job_id in done]
        )
        leases = [known.leases[job_id] for job_id in done]
        ended = {report.job_id: v for report, v in verdicts.items() if report.job_id in done}
        write_endings([(each.subject, each.attempt, ended[each.subject]) for each in leases])
        self._tally.count_attempts(
            [(known.now - each.claimed_at).total_seconds() for each in leases]
        )
        return [
            await self._answer(report, verdicts[report])
            if report in verdicts and report.job_id in done
            else LOCKED
            if report.job_id in locked
            else await self._answer_past(report)
            for report in reports
        ]

    async def _read(self, ids: Iterable[UUID]) -> _Known:
        groups: dict[int, list[UUID]] = defaultdict(list)
        for job_id in ids:
            groups[bucket_of(job_id)].append(job_id)
        async with self._database.write() as connection:
            known = _Known(await clock.now(connection), {}, {})
            for bucket, group in sorted(groups.items()):
                known.leases.update(await lease.find(connection, bucket, group))
            keys = [
                JobKey(bucket_of(f.subject), f.tenant_id, f.subject, f.revision)
                for f in known.leases.values()
            ]
            known.jobs.update(await job.load(connection, keys))
        return known

    def _verdict(self, report: Report, known: _Known) -> End | Move | None:
        """Return the verdict of a report; None if the reporter does not hold the lease."""
        found = known.leases.get(report.job_id)
        loaded = known.jobs.get(report.job_id)
        if found is None or loaded is None:
            return None
        if (found.tenant_id, found.token) != (report.tenant_id, report.token):
            return None
        facts = Facts(
            job_id=report.job_id,
            attempt=found.attempt,
            first_due_at=loaded.effective_at,
            expires_at=loaded.expires_at,
            policy=self._policies.policy_of(loaded.policy_json, report.tenant_id),
        )
        verdict = decide(facts, self._sealed(report), known.now)
        return None if isinstance(verdict, Keep) else verdict

    def _sealed(self, report: Report) -> Completed | Failed | Throttled | Unknown:
        """Encrypt the result, if the tenant has turned encryption on: it may quote the payload."""
        match report.outcome:
            case Completed(response=bytes() as result) as completed:
                kept = self._encryption.payload(report.tenant_id, report.job_id, result)
                return msgspec.structs.replace(completed, response=kept)
            case other:
                return other

    async def _release(self, ended: Sequence[FoundLease]) -> None:
        """Release the slots that leases of limited lanes held."""
        holders: dict[str, list[UUID]] = defaultdict(list)
        for found in ended:
            for scope in await permit_scopes(self._lanes, self._settings, found):
                holders[scope].append(claim_holder(found.subject, found.token))
        await self._returns.drop(holders)

    async def _answer(self, report: Report, verdict: End | Move) -> Reported:
        """Say what follows; the failure of a job that was to be cancelled ends it."""
        if verdict is not DONE and not isinstance(report.outcome, Completed):
            async with self._database.connection() as connection:
                where = bucket_of(report.job_id), report.tenant_id, report.job_id
                past = await lease.find_end(connection, *where)
            if past is not None and past.status == "CANCELLED":
                return Reported("CANCELLED")
        return _answer(verdict)

    async def _answer_past(self, report: Report) -> Reported | Refusal:
        """Answer a report whose lease is gone; a repeated report gets its first answer again."""
        async with self._database.connection() as connection:
            bucket = bucket_of(report.job_id)
            past = await lease.find_end(connection, bucket, report.tenant_id, report.job_id)
        status = "COMPLETED" if isinstance(report.outcome, Completed) else "FAILED"
        if past is not None and (past.token, past.status) == (report.token, status):
            return Reported(status)
        return lost(report.job_id, exists=past is not None)


def _held(report: Report, known: _Known) -> HeldLease:
    return HeldLease(report.job_id, report.token, known.leases[report.job_id].attempt)


def _answer(verdict: End | Move) -> Reported:
    match verdict:
        case End(status=status):
            return Reported(status)
        case Move(seconds=None):
            return Reported("UNKNOWN")
        case Move(seconds=seconds):
            return Reported("PENDING", seconds)


async def permit_scopes(
    lanes: LaneDirectory, settings: Settings, found: FoundLease, reader: Reader | None = None
) -> list[str]:
    """Return the limits of which a worker's lease holds a slot."""
    await lanes.load([found.lane_id], reader=reader)
    lane = lanes.by_id.get(found.lane_id)
    if lane is None or lane.kind != "pull":
        return []
    limits = lane_limits(lane, settings)
    return [limit.scope for limit in limits if limit.max_running is not None]


def lost(job_id: UUID, *, exists: bool) -> Refusal:
    """Refuse a report about a lease that has ended, or about no job at all."""
    if not exists:
        return Refusal(Code.NOT_FOUND, f"There is no job {job_id}.")
    return Refusal(Code.LEASE_LOST, "The lease of this token has ended.", "token")
