"""Executions: claim and load jobs, and record their outcomes."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from postdate.audit.spec import SYSTEM
from postdate.core import any_json
from postdate.core.ids import bucket_of
from postdate.core.instant import instant_text
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import LockNotAvailableError
from postdate.event.store import event
from postdate.event.store.event import NewEvent
from postdate.job.spec.outcome import Delivery
from postdate.job.spec.retry import Policy, RetryPolicies
from postdate.job.spec.verdict import (
    DONE,
    JOB_MISSING,
    End,
    Facts,
    Keep,
    Move,
    event_data,
    event_type,
    judge,
)
from postdate.job.store import job, job_cancel, progress
from postdate.job.store.job import JobKey, LoadedJob
from postdate.lane.store.lane import Lane
from postdate.lease import store as lease
from postdate.lease.store import Attempt, Endings, LeaseMove, MovedTimer, TakenJob
from postdate.secret.payload_encryption import MARK, PayloadCipher
from postdate.secret.secret import SecretKeyMissingError

V = TypeVar("V")


class HeldLease(NamedTuple):
    """Who writes: the job, the token of the lease, and the number of the attempt."""

    job_id: UUID
    token: int
    attempt: int


_held: Final[Callable[[tuple[UUID, int, int]], HeldLease]] = partial(tuple.__new__, HeldLease)


class ClaimedExecution(msgspec.Struct, frozen=True, gc=False):
    """A claimed job. `delivery` is None when the verdict is already known: it must not run."""

    held: HeldLease
    ready_at: datetime
    late_seconds: float
    policy: Policy
    first_due_at: datetime | None
    expires_at: datetime | None
    delivery: Delivery | None
    verdict: End | Move | None
    lost: bool = False
    """Whether the lease before this one ran out."""

    @property
    def claimed_at(self) -> datetime:
        """Return the instant of the claim, by the database's clock."""
        return self.ready_at + timedelta(seconds=self.late_seconds)

    @property
    def facts(self) -> Facts:
        """Return the facts for a verdict; a plain success needs none."""
        return Facts(
            job_id=self.held.job_id,
            attempt=self.held.attempt,
            first_due_at=self.first_due_at or self.ready_at,
            expires_at=self.expires_at,
            policy=self.policy,
        )


class Recorded(NamedTuple):
    """A verdict to be recorded."""

    held: HeldLease
    verdict: End | Move


async def take(
    connection: Connection,
    lane: Lane,
    bucket: int,
    policies: RetryPolicies,
    cipher: PayloadCipher | None = None,
    *,
    opened: bool = True,
    **wanted: Any,
) -> list[ClaimedExecution]:
    """Claim due jobs of one bucket's lane and load them, inside the caller's transaction.

    `wanted` is what `store.lease.take` takes: low, limit, lease_seconds, claimed_by. Payloads are
    decrypted unless `opened` is False.
    """
    taken = await lease.take(connection, bucket, lane, **wanted)
    again = [each.subject for each in taken if each.again]
    if [each for each in taken if each.lost_at is not None]:
        await lease.record_lost(connection, bucket, lane.tenant_id, taken)
    if again:
        gone = await job_cancel.end_requested(connection, bucket, again, claimed_anew=True)
        taken = [each for each in taken if each.subject not in gone] if gone else taken
    revised = [each for each in taken if each.revision]
    if revised:
        taken = await _revise(connection, bucket, lane, taken, revised)
    if opened and [each for each in taken if each.payload and each.payload.startswith(MARK)]:
        taken = await _opened(connection, lane.tenant_id, taken, cipher)
    judged = [_judged(each, lane, policies) for each in taken]
    if opened and again:
        left = await progress.checkpoints(connection, bucket, lane.tenant_id, again, cipher)
        judged = [_resumed(each, left.get(each.held.job_id)) for each in judged]
    if policies.settings.is_verbose(lane.tenant_id):
        begun = {
            each.held.job_id: {"attempt": each.held.attempt} for each in judged if each.delivery
        }
        await event.record_events(connection, lane.tenant_id, "job.claimed", SYSTEM, begun)
    return judged


async def _opened(
    connection: Connection, tenant_id: int, taken: list[TakenJob], cipher: PayloadCipher | None
) -> list[TakenJob]:
    """Decrypt payloads; raise without the key, so that another node claims the jobs."""
    if cipher is None:
        raise SecretKeyMissingError("This node was given no key for encrypted payloads.")
    return [
        each._replace(
            payload=await cipher.decrypt(connection, tenant_id, each.subject, each.payload)
        )
        for each in taken
    ]


def _resumed(claimed: ClaimedExecution, checkpoint: bytes | None) -> ClaimedExecution:
    if checkpoint is None or claimed.delivery is None:
        return claimed
    delivery = msgspec.structs.replace(claimed.delivery, checkpoint=checkpoint)
    return msgspec.structs.replace(claimed, delivery=delivery)


async def _revise(
    connection: Connection,
    bucket: int,
    lane: Lane,
    taken: list[TakenJob],
    revised: Sequence[TakenJob],
) -> list[TakenJob]:
    """Apply what was changed before execution."""
    keys = [JobKey(bucket, lane.tenant_id, each.subject, each.revision) for each in revised]
    jobs = await job.load(connection, keys)
    return [_revised(each, jobs.get(each.subject)) for each in taken]


def _revised(taken: TakenJob, loaded: LoadedJob | None) -> TakenJob:
    if loaded is None:
        return taken
    return taken._replace(
        first_due_at=loaded.effective_at,
        expires_at=loaded.expires_at,
        policy=loaded.policy_json,
        payload=loaded.payload,
        content_type=loaded.content_type,
        payload_ref=loaded.payload_ref,
    )


def _judged(taken: TakenJob, lane: Lane, policies: RetryPolicies) -> ClaimedExecution:
    """Decide on a claimed job, and build what its handler gets.

    This runs for every job: values are unpacked once and passed by position, which costs a third of
    the same by name.
    """
    # fmt: off
    (
        subject, token, attempt, _, ready_at, late_seconds, lost_at, _, _, first_due_at,
        expires_at, destination, policy_text, payload, content_type, payload_ref, metadata,
        schedule_id, scheduled_for, origin_id, traceparent, _,
    ) = taken
    policy = policies.policy_of(policy_text, lane.tenant_id)
    # The usual case, in which there is nothing to decide: the first attempt, in time.
    usual = attempt == 1 and expires_at is None and first_due_at is None
    young = destination is not None and late_seconds <= policy.max_age_seconds
    verdict = None if usual and young else _verdict(taken, policy)
    delivery = None if verdict is not None else Delivery(
        subject, token, attempt, lane.tenant_id, lane.name, _decoded(destination or ""), ready_at,
        policy.timeout_seconds, policy.max_attempts, payload, content_type, payload_ref,
        None if metadata is None else _decoded(metadata), traceparent, schedule_id, scheduled_for,
        None, origin_id,
    )
    return ClaimedExecution(
        _held((subject, token, attempt)), ready_at, late_seconds, policy, first_due_at,
        expires_at, delivery, verdict, lost_at is not None,
    )
    # fmt: on


def _verdict(taken: TakenJob, policy: Policy) -> End | Move | None:
    if taken.destination is None:
        error = "Its description is gone."
        return End(status="FAILED", code=JOB_MISSING, error=error, tried=False)
    facts = Facts(
        job_id=taken.subject,
        attempt=taken.attempt,
        first_due_at=taken.first_due_at or taken.ready_at,
        expires_at=taken.expires_at,
        policy=policy,
        lost=taken.lost_at is not None,
    )
    return judge(facts, taken.ready_at + timedelta(seconds=taken.late_seconds))


@lru_cache(maxsize=8192)
def _decoded(text: str) -> dict[str, Any]:
    found: dict[str, Any] = any_json.decode(text)
    return found


class Written(NamedTuple):
    """Which verdicts were recorded; those in neither set had lost their lease."""

    done: set[UUID]
    # Another transaction has locked the timer: nothing was written, the lease may still be held.
    locked: set[UUID]


async def record(
    database: Database,
    verdicts: Sequence[tuple[HeldLease, End | Move]],
    reporter: str | None = None,
    *,
    in_doubt: bool = False,
) -> Written:
    """Record verdicts whose lease is still held; a foreign lock delays only its own job.

    `reporter` is the key of the worker that reported them, where it was one outside. `in_doubt`
    says that the claim itself may still be about to commit: its leases cannot be seen yet.

    Ends and moves are two transactions: each then locks its timers in one order, so that writers
    cannot deadlock.
    """
    verdicts = await job_cancel.spare_failures(database, verdicts)
    ends = [(held, verdict) for held, verdict in verdicts if isinstance(verdict, End)]
    moves = [(held, verdict) for held, verdict in verdicts if isinstance(verdict, Move)]
    written = Written(set(), set())
    if ends:
        write_ends = partial(end, reporter=reporter)
        await _record(database, ends, write_ends, written, in_doubt=in_doubt)
    if moves:
        write_moves = partial(move, actor=reporter or SYSTEM)
        await _record(database, moves, write_moves, written, in_doubt=in_doubt)
    return written


async def _record(
    database: Database,
    verdicts: Sequence[tuple[HeldLease, V]],
    write: Callable[[Connection, Sequence[tuple[HeldLease, V]]], Awaitable[list[UUID]]],
    written: Written,
    *,
    in_doubt: bool,
) -> None:
    """Record all verdicts; if a lock takes too long, only those whose timers are free."""
    if not in_doubt:
        with suppress(LockNotAvailableError):
            async with database.near.write("record") as connection:
                done = await write(connection, verdicts)
            written.done.update(done)
            return
    async with database.near.write("record.around_locked") as connection:
        locked: set[UUID] = set()
        for bucket, group in _by_bucket(verdicts):
            locked |= await lease.lock(connection, bucket, [held.job_id for held, _ in group])
        free = [each for each in verdicts if each[0].job_id not in locked]
        done = await write(connection, free)
    written.done.update(done)
    written.locked.update(locked)


async def renew(
    database: Database, keeps: Sequence[tuple[HeldLease, Keep]]
) -> dict[UUID, datetime | None]:
    """Renew leases for some seconds; return the new ends of those still held.

    None stands for a lease that could not be renewed: another transaction has locked its timer.
    """
    found: dict[UUID, datetime | None] = {}
    async with database.near.write("renew") as connection:
        for bucket, group in _by_bucket(keeps):
            held = [(holder.job_id, holder.token, keep.seconds) for holder, keep in group]
            found |= await lease.renew(connection, bucket, held)
    return found


async def end(
    connection: Connection, ends: Sequence[tuple[HeldLease, End]], reporter: str | None
) -> list[UUID]:
    """End jobs, bucket by bucket; return those whose token still held."""
    done: list[UUID] = []
    actor, reported = reporter or SYSTEM, reporter is not None
    for bucket, group in _by_bucket(ends):
        done += await lease.end(connection, bucket, _endings(group), actor, reported=reported)
    return done


def _endings(group: Sequence[tuple[HeldLease, End]]) -> Endings:
    held, verdicts = zip(*group, strict=True)
    subjects, tokens, attempts = zip(*held, strict=True)
    if attempts.count(1) == len(attempts) and verdicts.count(DONE) == len(verdicts):
        verdicts = verdicts[:1]  # the usual case: one verdict speaks for all
    return Endings(
        subjects=subjects,
        tokens=tokens,
        statuses=[verdict.status for verdict in verdicts],
        http_statuses=[verdict.http_status for verdict in verdicts],
        codes=[verdict.code for verdict in verdicts],
        errors=[verdict.error for verdict in verdicts],
        responses=[verdict.response for verdict in verdicts],
        untried=[None if verdict.tried else True for verdict in verdicts],
        unknown=[verdict.unknown or None for verdict in verdicts],
    )


async def move(
    connection: Connection, moves: Sequence[tuple[HeldLease, Move]], actor: str
) -> list[UUID]:
    """Move jobs to their next instant; return those whose token still held."""
    done: list[UUID] = []
    events: list[NewEvent] = []
    requested: list[tuple[int, list[UUID]]] = []
    for bucket, group in _by_bucket(moves):
        wanted = {held.job_id: (held, verdict) for held, verdict in group}
        moving = [
            LeaseMove(held.job_id, held.token, verdict.seconds, verdict.tried is not None)
            for held, verdict in group
        ]
        moved = await lease.move(connection, bucket, moving)
        pairs = [(was, *wanted[was.subject]) for was in moved]
        tried = [_attempt(*pair) for pair in pairs if pair[2].tried is not None]
        await lease.attempt(connection, bucket, tried)
        requested += [(bucket, [was.subject for was in moved])] if moved else []
        events += [e for pair in pairs if (e := _event(*pair, actor))]
        done += [was.subject for was in moved]
    await event.insert(connection, events)
    for bucket, subjects in requested:
        await job_cancel.end_requested(connection, bucket, subjects)
    return done


def _attempt(was: MovedTimer, held: HeldLease, verdict: Move) -> Attempt:
    return Attempt(
        was.tenant_id,
        was.subject,
        held.attempt,
        str(verdict.tried),
        was.ready_at,
        was.claimed_at,
        was.retry_at,
        verdict.http_status,
        verdict.code or "",
        verdict.error,
        verdict.response,
        was.claimed_by,
    )


def _event(was: MovedTimer, held: HeldLease, verdict: Move, actor: str) -> NewEvent | None:
    kind = event_type(verdict)
    if kind is None:
        return None
    data = event_data(verdict, held.attempt) or {}
    if was.retry_at is not None:
        data["retry_at"] = instant_text(was.retry_at)
    return NewEvent(was.tenant_id, was.subject, kind, actor, data)


def _by_bucket(rows: Iterable[tuple[HeldLease, V]]) -> list[tuple[int, list[tuple[HeldLease, V]]]]:
    """Return the rows of each bucket, both in the one order of locking."""
    groups: dict[int, list[tuple[HeldLease, V]]] = defaultdict(list)
    for row in sorted(rows, key=_job_bytes):
        groups[bucket_of(row[0].job_id)].append(row)
    return sorted(groups.items())


def _job_bytes(row: tuple[HeldLease, Any]) -> bytes:
    return row[0].job_id.bytes
