"""The jobs of occurrences."""

import random
from collections import ChainMap
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from postdate.intake.job import validation as job_rules
from postdate.intake.job.lane import Lanes
from postdate.intake.job.payload_encryption import Seals
from postdate.intake.job.validation import Draft
from postdate.model.destination.target import Networks
from postdate.model.error import Code, Refusal
from postdate.model.ids import BUCKETS, new_ids
from postdate.model.job.job import JobSpec
from postdate.model.log import Log
from postdate.model.schedule.firing import Fired, Firing
from postdate.model.schedule.schedule import JobTemplate
from postdate.store.connection.database import Connection, Database
from postdate.store.job import job as job_store
from postdate.store.job.job import NewJob
from postdate.store.schedule.encrypted_template import is_encrypted
from postdate.store.secret.secret import SecretError
from postdate.store.timer.lane import Lane, LaneKey

log = Log()


class JobFirings:
    """Insert jobs that are due at their occurrence, however long ago that was."""

    def __init__(self, database: Database, lanes: Lanes, allowed: Networks, seals: Seals) -> None:
        self._database = database
        self._seals = seals
        self._lanes = lanes
        self._allowed = allowed

    async def fire(
        self, connection: Connection, firings: Sequence[Firing], now: datetime
    ) -> list[Fired | Refusal]:
        """Insert one job for each of these, where its template is still allowed."""
        firings = [await self._opened(connection, each) for each in firings]
        specs, drafts = self._drafts(firings)
        lanes, drafts = await self._with_lanes(connection, drafts)
        ids = self._ids(drafts, lanes)
        jobs: list[NewJob] = []
        results: list[Fired | Refusal] = []
        for number, (each, draft) in enumerate(zip(firings, drafts, strict=True)):
            if isinstance(draft, Refusal):
                results.append(draft)
                continue
            lane_id = lanes[draft.place].lane_id
            job = _job(each, specs[number], draft, (ids[number], lane_id), now)
            jobs.append(job)
            results.append(Fired(job.job_id, lane_id, (job.effective_at - now).total_seconds()))
        if jobs:
            carrying = {job.tenant_id for job in jobs if job.payload is not None}
            await self._seals.prepare(connection, carrying)
            await job_store.insert(connection, self._seals.jobs(jobs), now)
        return results

    async def _opened(self, connection: Connection, firing: Firing) -> Firing:
        """Give an occurrence its payload as it came, where its template is sealed."""
        if not is_encrypted(firing.template):
            return firing
        try:
            template = await self._seals.open_template(
                connection, firing.tenant_id, firing.schedule_id, firing.template
            )
        except SecretError as error:
            # One template that cannot be opened must not hold up the others of its batch.
            log.warning("schedule.sealed", schedule_id=str(firing.schedule_id), error=str(error))
            return firing
        return msgspec.structs.replace(firing, template=template)

    def _drafts(self, firings: Sequence[Firing]) -> tuple[list[JobSpec], list[Draft | Refusal]]:
        """Check each template once: the store gives equal ones as one object."""
        known: dict[tuple[int, int], tuple[JobSpec, Draft | Refusal]] = {}
        for each in firings:
            key = each.tenant_id, id(each.template)
            if key not in known:
                spec = _template(each).spec()
                known[key] = spec, self._draft(each, spec)
        found = [known[each.tenant_id, id(each.template)] for each in firings]
        return [spec for spec, _ in found], [draft for _, draft in found]

    def _draft(self, firing: Firing, spec: JobSpec) -> Draft | Refusal:
        if is_encrypted(firing.template):
            return Refusal(Code.UNAVAILABLE, "The payload of the template cannot be opened.")
        to = job_rules.route(firing.tenant_id, spec.lane, spec.destination, self._allowed)
        return to if isinstance(to, Refusal) else job_rules.draft(spec, to)

    async def _with_lanes(
        self, connection: Connection, drafts: list[Draft | Refusal]
    ) -> tuple[Mapping[LaneKey, Lane], list[Draft | Refusal]]:
        known = self._lanes.directory.by_place
        places = {each.place for each in drafts if not isinstance(each, Refusal)}
        missing = {place for place in places if place not in known}
        if not missing:
            return known, drafts
        # Not told to the directory: this transaction may yet fail.
        found, refused = await self._lanes.ensure(connection, missing)
        made = {(lane.tenant_id, lane.name, lane.kind): lane for lane in found}
        return ChainMap(made, known), [
            each if isinstance(each, Refusal) else refused.get(each.place, each) for each in drafts
        ]

    def _ids(self, drafts: Sequence[Draft | Refusal], lanes: Mapping[LaneKey, Lane]) -> list[UUID]:
        turn = random.randrange(BUCKETS)
        buckets = []
        for number, draft in enumerate(drafts, turn):
            own = (0,) if isinstance(draft, Refusal) else lanes[draft.place].buckets
            buckets.append(own[number % len(own)])
        return new_ids(buckets, self._database.unix_ms())


def _job(
    firing: Firing, spec: JobSpec, draft: Draft, where: tuple[UUID, int], now: datetime
) -> NewJob:
    job_id, lane_id = where
    effective = max(firing.due_at, now)
    after = _template(firing).expires_after_seconds
    return NewJob(
        job_id=job_id,
        tenant_id=firing.tenant_id,
        lane_id=lane_id,
        # The nominal instant: with the schedule it is the idempotency key of the delivery.
        due_at=firing.scheduled_for,
        effective_at=effective,
        expires_at=None if after is None else effective + timedelta(seconds=after),
        destination=draft.destination,
        policy=draft.policy,
        payload=draft.payload,
        content_type=draft.content_type,
        payload_ref=spec.payload_ref,
        metadata=draft.metadata,
        description=spec.description,
        schedule_id=firing.schedule_id,
        traceparent=firing.traceparent,
        actor="system",
    )


def _template(firing: Firing) -> JobTemplate:
    if firing.template.job is None:
        raise TypeError("not the template of a job")
    return firing.template.job
