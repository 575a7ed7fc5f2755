"""Actions on a schedule: pause, resume, trigger, backfill, delete."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from postdate.console.action import (
    REASON,
    Action,
    DryRun,
    Field,
    MakeDryRun,
    create_once,
    moment_of,
    plan_of,
    reason_of,
)
from postdate.console.equivalent_command import EquivalentCommand
from postdate.console.page_request import PageRequest
from postdate.console.render import NONE
from postdate.core.identity import Scope
from postdate.intake.create_once import Shown
from postdate.schedule.change.run import Triggered

SHOWN: Final = 5
_ACTIONS: Final = {
    "run": "will run",
    "ran_already": "ran already",
    "left_out": "left out",
    "refused": "refused",
}
_FROM: Final = Field(name="from", label="From", kind="datetime-local", hint="in UTC")
_UNTIL: Final = Field(
    name="until", label="Until", kind="datetime-local", hint="in UTC, not included"
)


async def _pause(request: PageRequest) -> str:
    reason = reason_of(request)
    await request.services.schedule.change.pause(request.actor, request.uuid("schedule_id"), reason)
    return "The schedule is paused: each occurrence is skipped and listed as such."


async def _resume(request: PageRequest) -> str:
    await request.services.schedule.change.resume(request.actor, request.uuid("schedule_id"))
    return (
        "The schedule is active again. Skipped occurrences stay skipped; a backfill can run them."
    )


async def _trigger(request: PageRequest) -> str:
    schedule_id, runs = request.uuid("schedule_id"), request.services.schedule.run
    answer = await create_once(
        request,
        "console.trigger",
        {"schedule_id": str(schedule_id)},
        lambda remember: runs.trigger(request.actor, schedule_id, remember=remember),
        lambda triggered: Shown(triggered, triggered),
    )
    done = answer.body_as(Triggered)
    made = f"job {done.job_id}" if done.payment_id is None else f"payment {done.payment_id}"
    return f"It ran once, as {made}."


async def _delete(request: PageRequest) -> str:
    await request.services.schedule.change.delete(request.actor, request.uuid("schedule_id"))
    return "The schedule is deleted; jobs and payments that it created continue."


async def _rehearse_backfill(request: PageRequest, given: Mapping[str, str]) -> DryRun:
    schedule_id = request.uuid("schedule_id")
    span = (moment_of(given, "from"), moment_of(given, "until"))
    plan = await request.services.schedule.run.backfill(
        request.actor, schedule_id, span, dry_run=True
    )
    schedule = await request.services.schedule.read.find(request.actor, schedule_id)
    payment = schedule.template.payment if schedule else None
    runs = [one for one in plan.occurrences if one.action == "run"]
    counts = Counter(one.action for one in plan.occurrences)
    facts = [(_ACTIONS[action].capitalize(), f"{many:,}") for action, many in counts.items()]
    facts = facts or [("In this range", "the rule has no occurrence")]
    if runs and runs[-1].due_at:
        facts.append(("The last of them is due", f"{runs[-1].due_at:%Y-%m-%d %H:%M:%S} UTC"))
    if payment is not None and runs:
        facts.append(("Money", f"{payment.amount * len(runs):,} in {len(runs):,} payments"))
    return DryRun(
        count=plan.runs,
        noun="occurrence",
        facts=facts,
        head=("Scheduled for", "What", "Was", "Due"),
        rows=[
            (one.scheduled_for, _ACTIONS[one.action], one.status or "not recorded", one.due_at)
            if one.due_at
            else (one.scheduled_for, _ACTIONS[one.action], one.status or NONE, NONE)
            for one in (runs or plan.occurrences)[:SHOWN]
        ],
        money=payment is not None,
        plan=span,
    )


async def _backfill(request: PageRequest) -> str:
    schedule_id = request.uuid("schedule_id")
    span = plan_of(request)
    done = await request.services.schedule.run.backfill(
        request.actor, schedule_id, span, dry_run=False
    )
    refused = sum(one.action == "refused" for one in done.occurrences)
    text = f"{done.runs:,} past occurrences were run, at the schedule's pace."
    return text + (f" {refused:,} were refused: see the occurrences." if refused else "")


def _action(
    verb: str,
    button: str,
    means: str,
    does: Callable[[PageRequest], Awaitable[str]],
    same: EquivalentCommand,
    *fields: Field,
    rehearse: MakeDryRun | None = None,
) -> Action:
    return Action(
        path=f"/schedules/{{schedule_id:uuid}}/{verb}",
        scope=Scope.SCHEDULES_WRITE,
        limited="filtered",
        title=f"{button}: schedule",
        button=button,
        means=means,
        back="/schedules" if verb == "delete" else "/schedules/{schedule_id}",
        does=does,
        fields=fields,
        danger=verb in {"pause", "delete"},
        same=same,
        rehearse=rehearse,
    )


ACTIONS: Final = (
    _action(
        "pause",
        "Pause",
        "Every occurrence from now on is skipped and noted in the book, until it is resumed. What "
        "it has made already is resumed.",
        _pause,
        EquivalentCommand(
            operation="pause_schedule",
            method_name="schedules.pause",
            command="schedule pause {schedule_id} --reason {reason}",
            body=lambda typed: {"note": typed["reason"]},
        ),
        REASON,
    ),
    _action(
        "resume",
        "Resume",
        "It continues with its next occurrence. Skipped occurrences stay skipped; its misfire "
        "policy decides about what was due while it was set aside.",
        _resume,
        EquivalentCommand(
            operation="resume_schedule",
            method_name="schedules.resume",
            command="schedule resume {schedule_id}",
        ),
    ),
    _action(
        "trigger",
        "Run once now",
        "It runs once, now, even if it is paused. Its rule continues as before.",
        _trigger,
        EquivalentCommand(
            operation="trigger_schedule",
            method_name="schedules.trigger",
            command="schedule trigger {schedule_id}",
        ),
    ),
    _action(
        "backfill",
        "Backfill",
        "Runs the occurrences of a past time range that have not run, at the schedule's pace. A "
        "dry run comes first.",
        _backfill,
        EquivalentCommand(
            operation="backfill_schedule",
            method_name="schedules.backfill",
            command="schedule backfill {schedule_id} {from} {until} --yes",
            body=lambda typed: {"from": typed["from"], "until": typed["until"], "dry_run": False},
        ),
        _FROM,
        _UNTIL,
        rehearse=_rehearse_backfill,
    ),
    _action(
        "delete",
        "Delete",
        "It ends permanently. What it has created continues, and its occurrences stay listed.",
        _delete,
        EquivalentCommand(
            operation="delete_schedule",
            method_name="schedules.delete",
            command="schedule delete {schedule_id}",
        ),
    ),
)
