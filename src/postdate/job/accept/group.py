"""Decide on a group of jobs, and write the accepted ones in one statement."""

import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.core.ids import BUCKETS
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection
from postdate.database.connection.driver_id import new_ids, tailed_id
from postdate.intake.idempotency import OK, KeyedRequest, kept_under
from postdate.intake.pipeline import AcceptGroup
from postdate.intake.store import IdempotencyKey, IdempotencyRow, id_tail
from postdate.job.accept import validation
from postdate.job.accept.payload_encryption import PayloadEncryption
from postdate.job.accept.request import AcceptedJob, CheckedJob
from postdate.job.accept.unique import Holder, UniqueJobs
from postdate.job.accept.validation import DueWindow
from postdate.job.spec.job import encode_unique
from postdate.job.store import job as job_store
from postdate.job.store.job import NewJob
from postdate.job.store.job_change import Revision
from postdate.lane.spec import key_id, key_position
from postdate.lane.store.lane import Lane, LaneKey
from postdate.tenant.spec.quota import Quotas
from postdate.words.error import Refusal

_NOWHERE: Final = (0, 0)


class JobRules(NamedTuple):
    """What all groups share: settings, quotas, how payloads are encrypted, and the time for ids."""

    settings: Settings
    quotas: Quotas
    encryption: PayloadEncryption
    unix_ms: int


class _TenantRules(NamedTuple):
    """A tenant's settings for its jobs, read once per group."""

    window: DueWindow
    quota: bool


class JobGroup(AcceptGroup[CheckedJob, AcceptedJob]):
    """Collects, item by item, the rows to be written."""

    def __init__(
        self,
        now: datetime,
        known: Mapping[IdempotencyKey, IdempotencyRow],
        lanes: Mapping[LaneKey, Lane],
        rules: JobRules,
        unique: UniqueJobs | None = None,
    ) -> None:
        super().__init__(now, known)
        self._unique = unique
        self.jobs: list[NewJob] = []
        self._rules = rules
        self._lanes = lanes
        self._placed: list[tuple[int, int]] = []
        self._ids: list[UUID] = []
        self._tenants: dict[int, _TenantRules] = {}
        self._limited = False
        self._delays: dict[tuple[int, float | None], tuple[datetime, datetime] | Refusal] = {}

    def begin(self, items: Sequence[CheckedJob | Refusal]) -> None:
        """Choose a bucket for each, and an id for each that comes without a key.

        A batch is shared out from a random bucket on. Neighbours share a bucket, so that inserting
        them walks each index in one direction.
        """
        start, count = random.randrange(BUCKETS), len(items)
        last: LaneKey | None = None
        for number, item in enumerate(items):
            if isinstance(item, Refusal):
                self._placed.append(_NOWHERE)
                continue
            if (
                item.lane_key is not last
            ):  # most jobs of a batch share a lane key, as the same object
                last = item.lane_key
                self._limited = self._limited or self._tenant(last[0]).quota
                lane = self._lanes[last]
                lane_id, own, width = lane.lane_id, lane.buckets, len(lane.buckets)
            key = item.request.spec.key
            place = start + number * width // count if key is None else key_position(key)
            self._placed.append((lane_id, own[place % width]))
        if any(not isinstance(each, Refusal) and each.keyed is None for each in items):
            self._ids = new_ids([bucket for _, bucket in self._placed], self._rules.unix_ms)

    def limit(self, item: CheckedJob) -> Refusal | None:
        """Hold a tenant to its quota."""
        merges = self._unique is not None and self._unique.holder(item) is not None
        if self._limited and self._counts(item) and not merges:
            return self._rules.quotas.check_room(item.request.tenant_id, "jobs")
        return None

    def _counts(self, item: CheckedJob) -> bool:
        """Return whether a quota applies to a job; it does not to jobs of schedules."""
        return item.request.occurrence is None and self._tenant(item.request.tenant_id).quota

    def _tenant(self, tenant_id: int) -> _TenantRules:
        known = self._tenants.get(tenant_id)
        if known is None:
            known = self._tenants[tenant_id] = _TenantRules(
                validation.window(self._rules.settings, tenant_id),
                self._rules.quotas.limits(tenant_id, "jobs"),
            )
        return known

    def decide(self, number: int, item: CheckedJob) -> AcceptedJob | Refusal:
        """Decide when a job is due, and make its row or merge it into the job that waits."""
        if self._unique is not None:
            holder = self._unique.holder(item)
            if holder is not None:
                return self._merge(self._unique, item, holder)
        lane_id, bucket = self._placed[number]
        if item.keyed is None:
            job_id = self._ids[number]
        else:
            tail = id_tail(item.keyed.key, item.keyed.fingerprint)
            job_id = tailed_id(bucket, self._rules.unix_ms, tail)
        times = self._times(item, job_id)
        if isinstance(times, Refusal):
            return times
        job = new_job(item, (job_id, lane_id), times)
        self.jobs.append(job)
        if self._limited and self._counts(item):
            self._rules.quotas.count(item.request.tenant_id, "jobs")
        made = AcceptedJob(job, item.request, self.now)
        if self._unique is not None:
            self._unique.hold(item, made)
        return made

    def _merge(self, unique: UniqueJobs, item: CheckedJob, holder: Holder) -> AcceptedJob | Refusal:
        """Merge a request into the job that waits under its unique key."""
        job_id = holder.view.job_id
        times = self._times(item, job_id)
        if isinstance(times, Refusal):
            return times
        job = new_job(item, (job_id, holder.lane_id), times)
        asked = Revision(
            job_id=job_id,
            revision=holder.view.revision + 1,
            due_at=job.due_at,
            effective_at=job.effective_at,
            expires_at=job.expires_at,
            policy=job.policy,
            lane_id=holder.lane_id,
            has_payload=True,
            payload=job.payload,
            content_type=job.content_type,
            payload_ref=job.payload_ref,
        )
        view = unique.merge(item, holder, asked, self.now)
        if isinstance(view, Refusal):
            return view
        found = msgspec.structs.replace(view, deduplicated=True)
        due = found.next_attempt_at or found.effective_at
        job = msgspec.structs.replace(job, effective_at=due)
        return AcceptedJob(job, item.request, self.now, found=found, status=OK)

    def row(self, request: KeyedRequest, made: AcceptedJob) -> IdempotencyRow:
        """Return the row of a key; it keeps the answer where the request made no job."""
        if made.found is not None:
            return kept_under(request, made.found, self.now)
        return IdempotencyRow(request.key, request.fingerprint, made.subject, self.now)

    def _times(self, item: CheckedJob, job_id: UUID) -> tuple[datetime, datetime] | Refusal:
        request = item.request
        spec, tenant_id = request.spec, request.tenant_id
        if request.occurrence is not None:
            return request.occurrence.scheduled_for, max(request.occurrence.due_at, self.now)
        plain = spec.run_at is None and spec.spread_seconds is None and spec.expires_at is None
        plain = plain and spec.unique is None
        # Most jobs of a batch give a delay, often the same one: it is checked once.
        known = self._delays.get((tenant_id, spec.delay_seconds)) if plain else None
        if known is not None:
            return known
        window = self._tenant(tenant_id).window
        times = validation.times(spec, self.now, window, request.schedule_id or job_id)
        if plain:
            self._delays[tenant_id, spec.delay_seconds] = times
        return times

    async def write(self, connection: Connection) -> None:
        """Insert jobs with timers, addresses in the outbox, and keys."""
        if self.jobs or self.keys:
            jobs = self._rules.encryption.jobs(self.jobs)
            await job_store.accept(connection, jobs, self.now, self.keys)
        if self._unique is not None:
            await self._unique.write(connection, self._rules.encryption)


def new_job(item: CheckedJob, where: tuple[UUID, int], times: tuple[datetime, datetime]) -> NewJob:
    """Return the row of a job from its id and lane, and its nominal and effective instants."""
    request, spec, (job_id, lane_id) = item.request, item.request.spec, where
    expires_at = spec.expires_at
    if request.occurrence is not None and request.occurrence.expires_after_seconds is not None:
        expires_at = times[1] + timedelta(seconds=request.occurrence.expires_after_seconds)
    return NewJob(
        job_id,
        request.tenant_id,
        lane_id,
        times[0],
        times[1],
        expires_at,
        item.destination,
        item.policy,
        item.payload,
        item.content_type,
        spec.payload_ref,
        spec.spread_seconds,
        item.metadata,
        spec.description,
        request.schedule_id,
        request.origin_id,
        request.traceparent,
        request.actor,
        item.keyed.key.hash if item.keyed is not None and request.key is not None else None,
        None if spec.unique is None else encode_unique(spec.unique),
        spec.key,
        None if spec.key is None else key_id(request.tenant_id, spec.lane, spec.key),
    )
