"""Cancels in a simulation of workers: the statements of `job_cancel` and `job_change`, on rows.

The functions of `job_cancel` are the real ones; each function here stands for a statement.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from postdate.core.status import JobStatus
from postdate.database.connection.query import query
from postdate.job.store.job_change import JobEnd, OpenJob
from sim import rows
from sim.rows import NEVER, Row, State, Transaction


async def fetch(transaction: Transaction, text: str, *args: Any) -> list[tuple[Any, ...]]:
    """Stand for the statements that read or make requests."""
    await transaction.database.step("cancel")
    if text == query("job_cancel_requested"):
        _, ids = args
        return [
            (each, row.lane.tenant_id, "person")
            for each in ids
            if rows._seen(row := transaction.database.world.rows[each], transaction).deadline
        ]
    assert text == query("job_cancel_request")
    _, _, ids, _, seconds = args
    return [_request(transaction, each, seconds) for each in ids]


def _request(transaction: Transaction, job_id: UUID, seconds: float) -> tuple[Any, ...]:
    row, now = transaction.database.world.rows[job_id], transaction.database.world.now()
    was, deadline = rows._seen(row, transaction), now + timedelta(seconds=seconds)
    kept = min(deadline, was.deadline or deadline)
    new = replace(was, asked_at=was.asked_at or now, deadline=kept)
    rows._change(row, transaction, new)
    return job_id, kept, kept != was.deadline


async def execute(transaction: Transaction, text: str, *args: Any) -> None:
    """Stand for job_cancel_settle: rows that others have locked keep what they have."""
    assert text == query("job_cancel_settle")
    for each in args[1]:
        row = transaction.database.world.rows[each]
        if row.owner in {None, transaction}:
            state = rows._seen(row, transaction)
            rows._change(row, transaction, replace(state, deadline=None))


async def lock(
    transaction: Transaction, tenant_id: int, bucket: int, job_ids: Sequence[UUID]
) -> list[OpenJob]:
    """Stand for job_change_lock."""
    del tenant_id, bucket
    await transaction.database.step("lock")
    found = []
    for each in sorted(job_ids):
        row = transaction.database.world.rows[each]
        await rows._locked(row, transaction)
        found += _opened(row, transaction)
    return found


async def lock_free(
    transaction: Transaction, tenant_id: int, bucket: int, job_ids: Sequence[UUID]
) -> tuple[list[OpenJob], list[UUID]]:
    """Stand for job_change_lock_free."""
    del tenant_id, bucket
    await transaction.database.step("lock")
    world = transaction.database.world
    held = [each for each in job_ids if world.rows[each].owner not in {None, transaction}]
    free = [world.rows[each] for each in job_ids if each not in held]
    return [job for row in free for job in _opened(row, transaction)], held


def _opened(row: Row, transaction: Transaction) -> list[OpenJob]:
    state, now = rows._seen(row, transaction), transaction.database.world.now()
    if state.outcome:
        return []
    rows._change(row, transaction, state)
    due = None if state.due_at == NEVER else state.due_at
    number = state.attempt + (state.claimed_at is not None)
    status = _status(state, now)
    where = row.job_id, row.lane.lane_id, due, state.claimed_at, state.ready_at
    return [OpenJob(*where, number, 0, status, now)]


def _status(state: State, now: datetime) -> JobStatus:
    if state.due_at == NEVER:
        return JobStatus.UNKNOWN
    if state.due_at <= now:
        return JobStatus.READY
    return JobStatus.RUNNING if state.claimed_at else JobStatus.PENDING


async def end(transaction: Transaction, tenant_id: int, ends: Sequence[JobEnd]) -> None:
    """Stand for job_change_end."""
    del tenant_id
    await transaction.database.step("end")
    for ending in ends:
        row = transaction.database.world.rows[ending.job_id]
        state = rows._seen(row, transaction)
        assert row.owner is transaction
        assert not state.outcome
        rows._change(row, transaction, replace(state, outcome=ending.status, claimed_at=None))
