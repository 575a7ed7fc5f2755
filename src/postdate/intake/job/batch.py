"""Decide about a set of jobs: what one transaction writes, and what each of them is answered."""

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.intake.accept.idempotency import Replay, judge
from postdate.intake.job import validation as job_rules
from postdate.intake.job.payload_encryption import Seals
from postdate.intake.job.validation import Draft, Window
from postdate.model.error import Refusal
from postdate.model.ids import BUCKETS
from postdate.model.job.job import JobSpec
from postdate.model.job.view import JobView
from postdate.model.setting.setting import Settings
from postdate.model.status import JobStatus
from postdate.model.tenant.quota import Quotas
from postdate.store.connection.driver_id import new_ids
from postdate.store.idempotency.idempotency import Kept, Key, key_of
from postdate.store.job.job import NewJob
from postdate.store.timer.lane import Lane, LaneKey

OnAccept = Callable[[int, float], None]
"""Told, after a commit, a lane and in how many seconds something of it is due."""

SCOPE: Final = "job"
CREATED: Final = 201


class Ask(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One job asked for, by whom, and under which key."""

    tenant_id: int
    spec: JobSpec
    actor: str = "system"
    key: str | None = None
    schedule_id: UUID | None = None
    origin_id: UUID | None = None
    traceparent: str | None = None


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """A job that was taken in."""

    job: NewJob
    ask: Ask
    created_at: datetime

    def view(self) -> JobView:
        """Show it as a client sees it; the payload is the client's own and left out."""
        job, spec = self.job, self.ask.spec
        ready = job.effective_at <= self.created_at
        return JobView(
            job_id=job.job_id,
            status=JobStatus.READY if ready else JobStatus.PENDING,
            lane=spec.lane,
            destination=spec.destination,
            due_at=job.due_at,
            effective_at=job.effective_at,
            created_at=self.created_at,
            next_attempt_at=job.effective_at,
            expires_at=spec.expires_at,
            retry=spec.retry,
            timeout_seconds=spec.timeout_seconds,
            spread_seconds=spec.spread_seconds,
            content_type=job.content_type,
            payload_ref=spec.payload_ref,
            metadata=spec.metadata,
            description=spec.description,
            schedule_id=self.ask.schedule_id,
            origin_id=self.ask.origin_id,
        )


Result = Accepted | Replay | Refusal


_NOWHERE: Final = (0, 0)


class _Rules(NamedTuple):
    """What a tenant's settings say of its jobs."""

    window: Window
    quota: bool


class Batch:
    """Gathers, item by item, what is to be written."""

    def __init__(
        self,
        lanes: Mapping[LaneKey, Lane],
        settings: Settings,
        now: datetime,
        known: Mapping[Key, Kept],
        seals: Seals,
        quotas: Quotas,
    ) -> None:
        self._quotas = quotas
        self._seals = seals
        self.jobs: list[NewJob] = []
        self.kept: list[Kept] = []
        self._now = now
        self._known = dict(known)
        self._lanes = lanes
        self._settings = settings
        self._rules: dict[int, _Rules] = {}
        self._delays: dict[tuple[int, float | None], tuple[datetime, datetime] | Refusal] = {}

    def decide(
        self, asks: Sequence[Ask], drafts: Sequence[Draft | Refusal], unix_ms: int
    ) -> list[Result]:
        """Decide about all of them, in order: a key may come twice."""
        placed = self._placed(drafts)
        ids = new_ids([to[1] for to in placed], unix_ms)
        results: list[Result] = []
        for ask, draft, (lane_id, _), job_id in zip(asks, drafts, placed, ids, strict=True):
            if isinstance(draft, Refusal):
                results.append(draft)
                continue
            result = self._add(ask, draft, lane_id, job_id)
            results.append(result)
            if isinstance(result, Accepted):
                self.jobs.append(result.job)
        return results

    def _placed(self, drafts: Sequence[Draft | Refusal]) -> list[tuple[int, int]]:
        """Find lane and bucket of each: a batch is shared out from a random bucket on.

        Neighbours share a bucket, so that inserting them walks each index in one direction.
        """
        turn, count = random.randrange(BUCKETS), len(drafts)
        found: list[tuple[int, int]] = []
        last: LaneKey | None = None
        for number, draft in enumerate(drafts):
            if isinstance(draft, Refusal):
                found.append(_NOWHERE)
                continue
            if draft.place is not last:  # most jobs of a batch share a place, the very object
                last = draft.place
                lane = self._lanes[last]
                lane_id, own, width = lane.lane_id, lane.buckets, len(lane.buckets)
            found.append((lane_id, own[(turn + number * width // count) % width]))
        return found

    def _add(self, ask: Ask, draft: Draft, lane_id: int, job_id: UUID) -> Result:
        key = None
        if ask.key is not None:
            key = key_of(ask.tenant_id, SCOPE, ask.key)
            if key in self._known:
                return judge(self._known[key], self._seals.canonical(ask.tenant_id, ask.spec))
        rules = self._rules.get(ask.tenant_id) or self._learn(ask.tenant_id)
        job = self._job(ask, draft, (job_id, lane_id), rules)
        if isinstance(job, Refusal):
            return job
        if rules.quota and (refusal := self._quotas.take(ask.tenant_id, "jobs")):
            return refusal
        accepted = Accepted(job, ask, self._now)
        if key is not None:
            self._keep(key, accepted)
        return accepted

    def _learn(self, tenant_id: int) -> _Rules:
        """Read what a tenant's settings say, once for all of its jobs."""
        window = job_rules.window(self._settings, tenant_id)
        rules = self._rules[tenant_id] = _Rules(window, self._quotas.limits(tenant_id, "jobs"))
        return rules

    def _job(
        self, ask: Ask, draft: Draft, where: tuple[UUID, int], rules: _Rules
    ) -> NewJob | Refusal:
        spec, tenant_id, (job_id, lane_id) = ask.spec, ask.tenant_id, where
        seed = ask.schedule_id or job_id
        if spec.run_at is None and spec.spread_seconds is None and spec.expires_at is None:
            # Most jobs of a batch say how far off they are, and often the same: decided once.
            delay = (tenant_id, spec.delay_seconds)
            instants = self._delays.get(delay)
            if instants is None:
                instants = job_rules.times(spec, self._now, rules.window, seed)
                self._delays[delay] = instants
        else:
            instants = job_rules.times(spec, self._now, rules.window, seed)
        if isinstance(instants, Refusal):
            return instants
        return NewJob(
            job_id,
            tenant_id,
            lane_id,
            instants[0],
            instants[1],
            spec.expires_at,
            draft.destination,
            draft.policy,
            draft.payload,
            draft.content_type,
            spec.payload_ref,
            spec.spread_seconds,
            draft.metadata,
            spec.description,
            ask.schedule_id,
            ask.origin_id,
            ask.traceparent,
            ask.actor,
            ask.key,
        )

    def _keep(self, key: Key, accepted: Accepted) -> None:
        kept = Kept(
            *key,
            subject=accepted.job.job_id,
            status=CREATED,
            request=self._seals.canonical(accepted.ask.tenant_id, accepted.ask.spec),
            response=msgspec.json.encode(accepted.view()),
        )
        self.kept.append(kept)
        self._known[key] = kept
