"""The buttons of a job: create, edit, run now, reschedule, cancel, resolve, redrive, purge."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from postdate.console.button import Button
from postdate.console.form_field import FieldSpec
from postdate.console.operation import Answer
from postdate.console.page_request import PageRequest
from postdate.console.subject import Subject, SubjectFacts
from postdate.core.identity import Scope
from postdate.job.change.change import CancelAnswer
from postdate.job.spec.destination_words import target
from postdate.words.error import Code, refuse

_CANCELLED: Final[Mapping[CancelAnswer, str]] = {
    "cancel_requested": "Its worker is asked to stop; at the deadline it loses the job.",
    "cancelled_before_claim": "The job is cancelled; it was never tried.",
    "cancelled_after_failure": "The job is cancelled; every attempt so far had failed.",
    "cancelled_in_doubt": (
        "The job is cancelled, but an attempt had no clear answer: it may have taken effect."
    ),
    "stopped_in_flight": (
        "The job is cancelled, but an attempt was running: it may have taken effect."
    ),
}


async def _read_job(request: PageRequest) -> SubjectFacts:
    job_id = request.uuid("job_id")
    job = await request.services.job.read.find(request.actor.tenant_id, job_id)
    if job is None:
        return []
    return [
        *([("Description", job.description)] if job.description else []),
        ("Goes to", target(job.destination)),
        ("Lane", job.lane),
        ("Due", job.due_at),
        ("Status", job.status),
    ]


def _redriven(_: PageRequest, answer: Answer) -> str:
    [done] = answer["outcomes"]
    match done.get("code"):
        case None:
            return f"It was redriven as job {done['job_id']}."
        case "already_redriven":
            return f"It was already redriven as {done['job_id']}; nothing was changed."
        case code:
            raise refuse(Code.CONFLICT, f"It was not redriven: {code}.")


_OfJob = partial(Button, subject=Subject(Scope.JOBS_READ, _read_job))

BUTTONS: Final = (
    Button(
        "create_job",
        means="It runs once, at the instant given, or now if there is none.",
        confirm="Create job",
        fields=(
            FieldSpec("destination.type", label="What should happen"),
            FieldSpec("destination.url", only=("webhook",)),
            FieldSpec("destination.name", only=("webhook", "queue")),
            "run_at",
            FieldSpec("delay_seconds", folded=True),
            "lane",
            FieldSpec("key", folded=True),
            FieldSpec("priority", folded=True),
            "payload",
            "description",
            FieldSpec("unique.key", folded=True),
            FieldSpec("unique.on_conflict", label="If such a job waits", folded=True),
            FieldSpec("timeout_seconds", folded=True),
            FieldSpec("retry", folded=True),
            FieldSpec("expires_at", folded=True),
            FieldSpec("metadata", folded=True),
        ),
        happens="destination.type",
        done="Job {job_id} was accepted.",
        then="/jobs/{job_id}",
    ),
    _OfJob(
        "change_job",
        means="The next attempt uses the new values. A running or finished job cannot be changed.",
        confirm="Save",
        fields=("payload", "retry", "timeout_seconds", "expires_at", "priority"),
        stored="show_job",
        done="Job {job_id} was changed.",
    ),
    _OfJob(
        "run_job_now",
        title="Run job now",
        means="It becomes due immediately; its payload is unchanged.",
        done="The job is due now; a worker starts it as soon as its lane allows.",
    ),
    _OfJob(
        "change_job",
        at="/jobs/{job_id:uuid}/reschedule",
        means="It becomes due at the new time.",
        fields=(FieldSpec("run_at", label="New time", required=True),),
        done="The job is due at {due_at}.",
    ),
    _OfJob(
        "cancel_job",
        confirm="Cancel job",
        means="It ends as CANCELLED and is never attempted again. A running attempt loses its "
        "lease, but what it has done cannot be undone.",
        danger=True,
        done=lambda _, answer: _CANCELLED[answer["result"]],
    ),
    _OfJob(
        "resolve_job",
        at="/jobs/{job_id:uuid}/resolve-completed",
        label="Mark as completed",
        title="Mark job as completed",
        means="You have checked the destination and the effect is there: the job ends as "
        "COMPLETED.",
        fixed={"outcome": "completed"},
        done="The job is marked as COMPLETED.",
    ),
    _OfJob(
        "resolve_job",
        at="/jobs/{job_id:uuid}/resolve-failed",
        label="Mark as failed",
        title="Mark job as failed",
        means="The effect is not there and must not be attempted again: the job ends as FAILED.",
        fixed={"outcome": "failed"},
        done="The job is marked as FAILED.",
    ),
    _OfJob(
        "resolve_job",
        at="/jobs/{job_id:uuid}/resolve-retry",
        label="Try again",
        title="Try job again",
        means="It becomes due now. If the last attempt did reach the destination, it happens "
        "twice.",
        fixed={"outcome": "retry"},
        done="The job is due now.",
    ),
    _OfJob(
        "redrive_dead_letters",
        at="/jobs/{job_id:uuid}/redrive",
        title="Redrive failed job",
        means="A new job with the same payload becomes due immediately and names this one as its "
        "origin. The failed job stays failed; a job can be redriven once.",
        fields=("reason",),
        fixed={"job_ids.0": "{job_id}"},
        done=_redriven,
    ),
    _OfJob(
        "purge_dead_letter",
        at="/jobs/{job_id:uuid}/purge",
        title="Purge failed job",
        means="The failed job and its attempts are removed permanently; its events stay.",
        danger=True,
        then="/dead-letters",
        done="Job {job_id} was purged.",
    ),
)
