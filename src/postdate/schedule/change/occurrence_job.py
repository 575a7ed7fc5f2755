"""Accept the jobs of occurrences."""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from postdate.core.log import Log
from postdate.database.connection.database import Connection
from postdate.destination.spec.target import Networks
from postdate.intake.idempotency import Refused
from postdate.job.accept import unique as unique_jobs
from postdate.job.accept import validation
from postdate.job.accept.intake import JobIntake
from postdate.job.accept.request import CheckedJob, JobRequest, OccurrenceTime
from postdate.job.accept.validation import LaneOfJob
from postdate.lane.change import Lanes
from postdate.lane.store.lane import Lane, LaneKey
from postdate.schedule.spec.firing import Fired, Firing
from postdate.schedule.spec.schedule import JobTemplate
from postdate.schedule.store.encrypted_template import is_encrypted
from postdate.secret.secret import SecretError, SecretKeyMissingError
from postdate.words.error import Code, Refusal

log = Log()


class JobOccurrences:
    """Accepts jobs that are due at their occurrence, even if that is long past."""

    def __init__(self, jobs: JobIntake, lanes: Lanes, allowed: Networks) -> None:
        self._jobs = jobs
        self._lanes = lanes
        self._allowed = allowed

    async def accept(
        self, connection: Connection, firings: Sequence[Firing], now: datetime
    ) -> list[Fired | Refusal]:
        """Insert one job for each occurrence whose template is still allowed."""
        firings = [await self._opened(connection, each) for each in firings]
        lanes, items = await self._with_lanes(connection, self._checked(firings))
        carrying = {
            item.request.tenant_id
            for item in items
            if not isinstance(item, Refusal) and item.payload is not None
        }
        await self._jobs.encryption.prepare(connection, carrying)
        unique = None
        if self._jobs.strategy.locks(items):
            valid = [item for item in items if not isinstance(item, Refusal)]
            unique = await unique_jobs.lock(connection, valid)
        group = self._jobs.strategy.group(now, {}, lanes, unique)
        results = await self._jobs.pipeline.accept_within(connection, items, group)
        return [
            each.refusal
            if isinstance(each, Refused)
            else Fired(
                each.subject,
                each.job.lane_id,
                (each.job.effective_at - now).total_seconds(),
                each.found is not None,
            )
            for each in results
        ]

    async def _opened(self, connection: Connection, firing: Firing) -> Firing:
        """Return an occurrence with its payload decrypted.

        Raises without the key, so that another node may expand it.
        """
        if not is_encrypted(firing.template):
            return firing
        try:
            template = await self._jobs.encryption.open_template(
                connection, firing.tenant_id, firing.schedule_id, firing.template
            )
        except SecretKeyMissingError:
            raise
        except SecretError as error:
            # A template that cannot be decrypted must not delay the others of its batch.
            log.warning("schedule.sealed", schedule_id=str(firing.schedule_id), error=str(error))
            return firing
        return msgspec.structs.replace(firing, template=template)

    def _checked(self, firings: Sequence[Firing]) -> list[CheckedJob | Refusal]:
        """Check each template once: the store gives equal ones as one object."""
        known: dict[tuple[int, int], CheckedJob | Refusal] = {}
        items: list[CheckedJob | Refusal] = []
        for each in firings:
            key = each.tenant_id, id(each.template)
            if key not in known:
                known[key] = self._check(each)
            item = known[key]
            if not isinstance(item, Refusal):
                item = msgspec.structs.replace(item, request=_request(each, item.request))
            items.append(item)
        return items

    def _check(self, firing: Firing) -> CheckedJob | Refusal:
        if is_encrypted(firing.template):
            return Refusal(Code.UNAVAILABLE, "The payload of the template cannot be opened.")
        spec = _template(firing).spec()
        lane = LaneOfJob(spec.lane, spec.priority, spec.key is not None)
        to = validation.route(firing.tenant_id, lane, spec.destination, self._allowed)
        if isinstance(to, Refusal):
            return to
        return validation.check(JobRequest(tenant_id=firing.tenant_id, spec=spec), to, None)

    async def _with_lanes(
        self, connection: Connection, items: list[CheckedJob | Refusal]
    ) -> tuple[Mapping[LaneKey, Lane], list[CheckedJob | Refusal]]:
        known = self._lanes.directory.by_key
        lane_keys = {each.lane_key for each in items if not isinstance(each, Refusal)}
        missing = {lane_key for lane_key in lane_keys if lane_key not in known}
        if not missing:
            return known, items
        # The directory is not informed yet: this transaction may still fail.
        found, refused = await self._lanes.ensure(connection, missing)
        return ChainMap({lane.key: lane for lane in found}, known), [
            each if isinstance(each, Refusal) else refused.get(each.lane_key, each)
            for each in items
        ]


def _request(firing: Firing, template: JobRequest) -> JobRequest:
    return JobRequest(
        tenant_id=firing.tenant_id,
        spec=template.spec,
        schedule_id=firing.schedule_id,
        traceparent=firing.traceparent,
        occurrence=OccurrenceTime(
            firing.scheduled_for, firing.due_at, _template(firing).expires_after_seconds
        ),
    )


def _template(firing: Firing) -> JobTemplate:
    if firing.template.job is None:
        raise TypeError("not the template of a job")
    return firing.template.job
