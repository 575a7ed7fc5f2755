"""Move and cancel jobs by a filter, and undo that for jobs that were not changed since."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from postdate.change_set.change.change import ChangeStep, JobItemChanges, RescheduleJobs
from postdate.change_set.change.step_work import StepWork, check_not_executed
from postdate.core.identity import Identity
from postdate.core.status import JobStatus
from postdate.database.connection.database import Connection, Database
from postdate.foresight.spec.hypothesis import Hypothesis, MovedItem
from postdate.intake.create_once import Remember
from postdate.job.change.bulk import CANCELLABLE, WAITING, ChangedCount, JobBulk, JobMoved
from postdate.job.change.dead_letter import ALREADY, MAX_REDRIVE, DeadLetters, Pace
from postdate.job.spec.bulk import JobInstant
from postdate.job.store import job_view
from postdate.job.store.job_change import OpenJob
from postdate.job.store.job_view import JobRow
from postdate.words.error import Code, refuse

ROWS: Final = 1000


class JobOperation:
    """Changes many jobs."""

    def __init__(self, database: Database, bulk: JobBulk, dead_letters: DeadLetters) -> None:
        self._database = database
        self._bulk = bulk
        self._dead_letters = dead_letters

    async def plan(self, actor: Identity, change: JobItemChanges) -> ChangeStep:
        """Fix the jobs that match now."""
        if isinstance(change, RescheduleJobs):
            await self._bulk.check_instant(actor.tenant_id, change.to)
        allowed = WAITING if isinstance(change, RescheduleJobs) else CANCELLABLE
        found = await self._bulk.find(actor.tenant_id, change.filter, allowed)
        return ChangeStep(jobs=list(found.jobs), more=found.more)

    async def suppose(
        self, actor: Identity, change: JobItemChanges, step: ChangeStep, hypothesis: Hypothesis
    ) -> None:
        """Add the new instants of the jobs to the assumptions."""
        to = None
        if isinstance(change, RescheduleJobs):
            to = await self._bulk.check_instant(actor.tenant_id, change.to)
        hypothesis.moved += [
            MovedItem(row.lane_id, row.timer_due_at or row.effective_at, to)
            for row in await self._rows(actor, step.jobs)
            if row.status in WAITING
        ]

    async def make(self, work: StepWork, change: JobItemChanges) -> None:
        """Change the jobs that still wait; each transaction records what it has changed."""
        actor, step = work.actor, work.step
        status = JobStatus.RUNNING if _stops(change) else JobStatus.PENDING
        left = dict.fromkeys((job for job in step.jobs if job not in step.due), status)
        if isinstance(change, RescheduleJobs):
            step.to = step.to or await self._bulk.check_instant(actor.tenant_id, change.to)
            to = JobInstant(run_at=step.to, spread_seconds=change.to.spread_seconds)
            changed = await self._bulk.move_these(
                actor.tenant_id, left, to, actor.key_id, work.note, remember=_moved(work)
            )
        else:
            changed = await self._bulk.cancel_these(
                actor.tenant_id, left, actor.key_id, work.note, _cancelled(work)
            )
        _check_held(changed)
        await work.end(len(step.due) + changed.asked)

    async def check_undo(self, actor: Identity, change: JobItemChanges, step: ChangeStep) -> None:
        """Refuse to move jobs back if one was executed; a cancelled job never is.

        A job that is no longer stored has ended, and may have been executed.
        """
        if isinstance(change, RescheduleJobs):
            rows = await self._rows(actor, list(step.due))
            begun = sum(row.status not in (*WAITING, JobStatus.CANCELLED) for row in rows)
            check_not_executed("jobs", begun, len(step.due) - len(rows))

    async def unmake(self, work: StepWork, change: JobItemChanges) -> None:
        """Move jobs back, or create cancelled ones again."""
        if isinstance(change, RescheduleJobs):
            left = await self._move_back(work, change)
        elif _stops(change):
            left = "the workers of running jobs were asked to stop" if work.step.changed else None
        else:
            left = await self._restore(work)
        await work.end_undone(left)

    async def _move_back(self, work: StepWork, change: RescheduleJobs) -> str | None:
        actor, step = work.actor, work.step

        async def remember(connection: Connection, moved: Sequence[JobMoved]) -> None:
            await work.changed_back(connection, (each.job_id for each in moved))

        found = dict.fromkeys(step.due, JobStatus.PENDING)
        back = {each: JobMoved(each, at, step.revisions[each]) for each, at in step.due.items()}
        changed = await self._bulk.move_these(
            actor.tenant_id,
            found,
            change.to,
            actor.key_id,
            f"{work.note} undone",
            remember=remember,
            back=back,
        )
        _check_held(changed)
        return f"{len(step.due)} jobs were changed or ended by others since" if step.due else None

    async def _restore(self, work: StepWork) -> str | None:
        """Create new jobs for the cancelled ones, each due at the same instant."""
        actor, ids, refused = work.actor, list(work.step.due), 0
        for begin in range(0, len(ids), MAX_REDRIVE):
            made = await self._dead_letters.redrive(
                actor.tenant_id,
                ids[begin : begin + MAX_REDRIVE],
                Pace(),
                actor.key_id,
                f"{work.note} undone",
                work.step.due,
            )
            refused += sum(each.code not in {None, ALREADY} for each in made)
        return f"{refused} jobs could not be created again" if refused else None

    async def _rows(self, actor: Identity, job_ids: Sequence[UUID]) -> list[JobRow]:
        """Read jobs in parts, because 10,000 at once take longer than a statement may."""
        rows: list[JobRow] = []
        for begin in range(0, len(job_ids), ROWS):
            some = job_ids[begin : begin + ROWS]
            async with self._database.read(actor.tenant_id) as connection:
                rows += (await job_view.find(connection, actor.tenant_id, some)).values()
        return rows


def _stops(change: JobItemChanges) -> bool:
    """Return whether a change cancels jobs that run."""
    return change.filter.status is JobStatus.RUNNING


def _check_held(changed: ChangedCount) -> None:
    """Refuse to finish a step while other transactions have locked some of its jobs."""
    if changed.held:
        detail = f"Other transactions have locked {changed.held} of its jobs; try again."
        raise refuse(Code.OVERLOADED, detail, retry_after_seconds=1)


def _moved(work: StepWork) -> Remember[Sequence[JobMoved]]:
    """Record what was moved, in the transaction that moved it."""

    async def remember(connection: Connection, moved: Sequence[JobMoved]) -> None:
        await work.changed(
            connection,
            {each.job_id: each.before for each in moved},
            {each.job_id: each.revision for each in moved},
        )

    return remember


def _cancelled(work: StepWork) -> Remember[Sequence[OpenJob]]:
    """Record what was cancelled, in the transaction that cancelled it."""

    async def remember(connection: Connection, jobs: Sequence[OpenJob]) -> None:
        await work.changed(connection, {job.job_id: job.due_at or job.now for job in jobs})

    return remember
