"""Unique keys: at most one waiting job holds each; a second request is merged into it."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of
from postdate.core.instant import instant_text
from postdate.core.status import JobStatus
from postdate.database.connection.database import Connection
from postdate.event.store import event
from postdate.event.store.event import NewEvent
from postdate.job.accept.payload_encryption import PayloadEncryption
from postdate.job.accept.request import AcceptedJob, CheckedJob
from postdate.job.spec.job import OnConflict, Unique
from postdate.job.spec.view import JobView
from postdate.job.store import job_change, job_unique, job_view
from postdate.job.store.job_change import JobMove, Revision
from postdate.job.store.job_unique import UniqueSlot, slot_of
from postdate.job.view import show
from postdate.timer import lost_timer
from postdate.timer.lost_timer import LostTimer
from postdate.words.error import Code, Refusal

Times = tuple[datetime, datetime]
"""The nominal and the effective instant of a request."""


class Holder(NamedTuple):
    """The waiting job that holds a unique key, as it is and as its client sees it."""

    lane_id: int
    policy: str | None
    view: JobView
    lost: bool = False
    """Whether it has lost its timer: it waits until it is put back or cancelled."""


class _Change(NamedTuple):
    """A revision of a waiting job, and the event about it."""

    revision: Revision
    event: NewEvent


class UniqueJobs:
    """The unique keys of one group: who holds them, and what the group changes about that."""

    def __init__(
        self,
        locked: Mapping[UniqueSlot, UUID | None],
        holders: Mapping[UniqueSlot, Holder],
    ) -> None:
        self._vain = {slot for slot, job_id in locked.items() if job_id is None}
        self._holders = dict(holders)
        self._named: dict[UniqueSlot, UUID] = {}
        self._changes: list[_Change] = []

    def holder(self, item: CheckedJob) -> Holder | None:
        """Return the waiting job that holds the unique key of a request."""
        slot = unique_slot(item)
        return None if slot is None else self._holders.get(slot)

    def hold(self, item: CheckedJob, made: AcceptedJob) -> None:
        """Let a new job hold its unique key."""
        slot = unique_slot(item)
        if slot is not None:
            self._named[slot] = made.subject
            self._holders[slot] = Holder(made.job.lane_id, made.job.policy, made.body)

    def merge(
        self, item: CheckedJob, holder: Holder, asked: Revision, now: datetime
    ) -> JobView | Refusal:
        """Carry out what a request says about a waiting job; return that job as it is now.

        `asked` is the revision that the request describes.
        """
        if holder.lost:
            lost = LostTimer(item.request.tenant_id, asked.job_id, "job")
            return lost_timer.is_lost(lost).refusal
        rule = _rule(item)
        match rule.on_conflict:
            case OnConflict.KEEP:
                return holder.view
            case OnConflict.REPLACE:
                wrong = _fixed(item, holder)
                return wrong or self._revise(item, holder, asked, "job.replaced", now)
            case OnConflict.DEBOUNCE:
                moved = _debounced(rule, holder, asked, now)
                if moved is None:
                    return holder.view
                return self._revise(item, holder, moved, "job.debounced", now)

    def _revise(
        self, item: CheckedJob, holder: Holder, revision: Revision, kind: str, now: datetime
    ) -> JobView:
        """Note a revision of a waiting job, and return the job as it is with it."""
        request = item.request
        data: dict[str, Any] = {
            "due_at": instant_text(revision.due_at),
            "revision": revision.revision,
        }
        record = NewEvent(request.tenant_id, revision.job_id, kind, request.actor, data)
        self._changes.append(_Change(revision, record))
        spec, shown = request.spec, {}
        if revision.has_payload:
            shown = {
                "retry": spec.retry,
                "timeout_seconds": spec.timeout_seconds,
                "content_type": revision.content_type,
                "payload_ref": revision.payload_ref,
            }
        view = msgspec.structs.replace(
            holder.view,
            status=JobStatus.READY if revision.effective_at <= now else JobStatus.PENDING,
            revision=revision.revision,
            due_at=revision.due_at,
            effective_at=revision.effective_at,
            next_attempt_at=revision.effective_at,
            expires_at=revision.expires_at,
            waiting_for=None,
            jobs_before=None,
            **shown,
        )
        slot = unique_slot(item)
        if slot is not None:
            self._holders[slot] = Holder(holder.lane_id, revision.policy, view)
        return view

    async def write(self, connection: Connection, encryption: PayloadEncryption) -> None:
        """Write the revisions and what they move, and name the new jobs under their keys."""
        moves: dict[UUID, JobMove] = {}
        for revision, record in self._changes:
            sealed = encryption.payload(record.tenant_id, revision.job_id, revision.payload)
            await job_change.revise(
                connection, record.tenant_id, [revision._replace(payload=sealed)]
            )
            # The event seals the revisions as they are with this one.
            await event.insert(connection, [record])
            moves[revision.job_id] = JobMove(
                revision.job_id, revision.effective_at, revision.revision
            )
        await job_change.move(connection, list(moves.values()))
        await job_unique.name(connection, self._named)
        await job_unique.drop(connection, self._vain - self._named.keys())


def unique_slot(item: CheckedJob) -> UniqueSlot | None:
    """Return where the row of a request's unique key is."""
    unique = item.request.spec.unique
    return None if unique is None else slot_of(item.request.tenant_id, unique.key)


async def lock(connection: Connection, items: Sequence[CheckedJob]) -> UniqueJobs | None:
    """Lock the unique keys of a group, then the timers of the jobs that wait under them."""
    slots = {slot for item in items if (slot := unique_slot(item)) is not None}
    if not slots:
        return None
    locked = await job_unique.lock(connection, slots)
    named = {job_id: slot for slot, job_id in locked.items() if job_id is not None}
    holders: dict[UniqueSlot, Holder] = {}
    ordered = sorted(named, key=lambda each: (bucket_of(each), named[each].tenant_id, each))
    by_place = groupby(ordered, lambda each: (bucket_of(each), named[each].tenant_id))
    for (bucket, tenant_id), group in by_place:
        job_ids = list(group)
        await job_change.lock(connection, tenant_id, bucket, job_ids)
        rows = await job_view.find(connection, tenant_id, job_ids)
        for job_id, row in rows.items():
            # A lease that has run out counts as running: its worker may still be alive.
            if row.claimed_at is None and (row.timer_due_at is not None or row.is_lost):
                holders[named[job_id]] = Holder(row.lane_id, row.policy, show(row), row.is_lost)
    return UniqueJobs(locked, holders)


def _rule(item: CheckedJob) -> Unique:
    unique = item.request.spec.unique
    if unique is None:
        raise TypeError("a job without a unique key holds none")
    return unique


def _fixed(item: CheckedJob, holder: Holder) -> Refusal | None:
    """Refuse to replace a job by one for another lane, destination or key: they are for good."""
    spec, view = item.request.spec, holder.view
    for field, other in (
        ("lane", spec.lane != view.lane),
        ("destination", _elsewhere(item, view)),
        ("key", spec.key != view.key),
    ):
        if other:
            detail = f"The job that waits under this unique key has another {field}."
            more = {"job_id": str(view.job_id), "current_status": str(view.status)}
            return Refusal(Code.CONFLICT, detail, field, extra=more)
    return None


def _elsewhere(item: CheckedJob, view: JobView) -> bool:
    return item.request.spec.destination != view.destination


def _debounced(rule: Unique, holder: Holder, asked: Revision, now: datetime) -> Revision | None:
    """Return the revision that moves a waiting job, at most to the end of its delay; or none."""
    view = holder.view
    last = view.created_at + timedelta(seconds=rule.max_delay_seconds or 0)
    effective = max(min(asked.effective_at, last), now)
    due = view.next_attempt_at or view.effective_at
    if effective == due or max(due, effective) <= now:
        return None
    return asked._replace(
        due_at=min(asked.due_at, last),
        effective_at=effective,
        policy=holder.policy,
        has_payload=False,
        payload=None,
        content_type=None,
        payload_ref=None,
    )
