"""Actions on a job: run now, reschedule, cancel, resolve, redrive."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from postdate.console.action import Action, Field, moment_of
from postdate.console.equivalent_command import EquivalentCommand
from postdate.console.page_request import PageRequest
from postdate.core.identity import Scope
from postdate.job.change.change import CancelResult, JobPatch, Resolution
from postdate.job.change.dead_letter import Pace
from postdate.words.error import Code, refuse

WHEN: Final = Field(name="at", label="New time", kind="datetime-local", hint="in UTC")
"""The field of everything that moves something to another instant."""

_CANCELLED: Final[Mapping[CancelResult, str]] = {
    "cancelled_before_claim": "The job is cancelled; it was never tried.",
    "cancelled_after_failure": "The job is cancelled; every attempt so far had failed.",
    "cancelled_in_doubt": (
        "The job is cancelled, but an attempt had no clear answer: it may have taken effect."
    ),
    "stopped_in_flight": (
        "The job is cancelled, but an attempt was running: it may have taken effect."
    ),
}


async def _run_now(request: PageRequest) -> str:
    job_id = request.uuid("job_id")
    await request.services.job.change.run_now(request.actor.tenant_id, job_id, request.actor.key_id)
    return "The job is due now; a worker starts it as soon as its lane allows."


async def _reschedule(request: PageRequest) -> str:
    job_id = request.uuid("job_id")
    at = moment_of(request.form, "at")
    patch = JobPatch(run_at=at)
    await request.services.job.change.patch(
        request.actor.tenant_id, job_id, patch, request.actor.key_id
    )
    return f"The job is due at {at:%Y-%m-%d %H:%M:%S} UTC."


async def _cancel(request: PageRequest) -> str:
    job_id = request.uuid("job_id")
    result = await request.services.job.change.cancel(
        request.actor.tenant_id, job_id, request.actor.key_id
    )
    return _CANCELLED[result]


def _resolving(resolution: Resolution, done: str) -> Callable[[PageRequest], Awaitable[str]]:
    async def does(request: PageRequest) -> str:
        job_id = request.uuid("job_id")
        changes = request.services.job.change
        await changes.resolve(request.actor.tenant_id, job_id, resolution, request.actor.key_id)
        return done

    return does


async def _redrive(request: PageRequest) -> str:
    job_id = request.uuid("job_id")
    done = await request.services.dead_letter.redrive(
        request.actor.tenant_id, [job_id], Pace(), request.actor.key_id
    )
    match done[0].code:
        case None:
            return f"It was redriven as job {done[0].job_id}."
        case "already_redriven":
            return f"It was already redriven as {done[0].job_id}; nothing was changed."
        case code:
            raise refuse(Code.CONFLICT, f"It was not redriven: {code}.")


def _action(
    verb: str,
    button: str,
    means: str,
    does: Callable[[PageRequest], Awaitable[str]],
    same: EquivalentCommand,
    *fields: Field,
) -> Action:
    return Action(
        path=f"/jobs/{{job_id:uuid}}/{verb}",
        scope=Scope.JOBS_WRITE,
        title=f"{button}: job",
        button=button,
        means=means,
        back="/jobs/{job_id}",
        does=does,
        fields=fields,
        danger=verb == "cancel",
        same=same,
    )


def _resolve(outcome: Resolution) -> EquivalentCommand:
    return EquivalentCommand(
        operation="resolve_job",
        method_name="jobs.resolve",
        command=f"job resolve {{job_id}} {outcome}",
        body=lambda _: {"outcome": outcome},
    )


ACTIONS: Final = (
    _action(
        "run-now",
        "Run now",
        "It becomes due immediately; its payload is unchanged.",
        _run_now,
        EquivalentCommand(
            operation="run_job_now", method_name="jobs.run_now", command="job run-now {job_id}"
        ),
    ),
    _action(
        "reschedule",
        "Reschedule",
        "It becomes due at the new time.",
        _reschedule,
        EquivalentCommand(
            operation="change_job",
            method_name="jobs.change",
            command="job reschedule {job_id} --run-at {at}",
            body=lambda typed: {"run_at": typed["at"]},
        ),
        WHEN,
    ),
    _action(
        "cancel",
        "Cancel job",
        "It ends as CANCELLED and is never attempted again. A running attempt loses its lease, but "
        "what it has done cannot be undone.",
        _cancel,
        EquivalentCommand(
            operation="cancel_job", method_name="jobs.cancel", command="job cancel {job_id}"
        ),
    ),
    _action(
        "resolve-completed",
        "Mark as completed",
        "You have checked the destination and the effect is there: the job ends as COMPLETED.",
        _resolving("completed", "The job is marked as COMPLETED."),
        _resolve("completed"),
    ),
    _action(
        "resolve-failed",
        "Mark as failed",
        "The effect is not there and must not be attempted again: the job ends as FAILED.",
        _resolving("failed", "The job is marked as FAILED."),
        _resolve("failed"),
    ),
    _action(
        "resolve-retry",
        "Try again",
        "It becomes due now. If the last attempt did reach the destination, it happens twice.",
        _resolving("retry", "The job is due now."),
        _resolve("retry"),
    ),
    _action(
        "redrive",
        "Redrive",
        "A new job with the same payload becomes due immediately and names this one as its origin. "
        "The failed job stays failed; a job can be redriven once.",
        _redrive,
        EquivalentCommand(
            operation="redrive_dead_letters",
            method_name="dead_letters.redrive",
            command="dead-letter redrive {job_id}",
            body=lambda typed: {"job_ids": [typed["job_id"]]},
        ),
    ),
)
