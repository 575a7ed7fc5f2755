"""The buttons of a schedule: create, edit, pause, resume, trigger, backfill, delete."""

from collections import Counter
from functools import partial
from typing import Final

from starlette.responses import Response

from postdate.console.button import Button
from postdate.console.dry_run import DryRun
from postdate.console.form_field import FieldSpec
from postdate.console.money_form import of_account
from postdate.console.operation import ENDPOINT_BY_NAME, Answer, BodyFields, call_endpoint
from postdate.console.page_request import PageRequest
from postdate.console.render import NONE, spoken
from postdate.console.subject import Subject, SubjectFacts
from postdate.core.identity import Scope
from postdate.core.money import money_text
from postdate.http.endpoint import existing
from postdate.job.spec.destination_words import target
from postdate.recurrence.words import in_words
from postdate.schedule.page.pages import NOTES, currencies_of
from postdate.schedule.spec.spec import ScheduleView
from postdate.words.error import RefusedError

SHOWN: Final = 5
PREVIEW: Final = "/new/schedule/preview"
_ACTIONS: Final = {
    "run": "will run",
    "ran_already": "ran already",
    "left_out": "left out",
    "refused": "refused",
}
_RULE: Final[tuple[str | FieldSpec, ...]] = (
    "name",
    "cron",
    "every_seconds",
    "rrule",
    "timezone",
    "start_at",
    "end_at",
    "calendar",
    FieldSpec("roll", label="On a closed day", folded=True),
    FieldSpec("overlap", label="If the run before is still open", folded=True),
    FieldSpec("misfire.policy", label="After an outage", folded=True),
    FieldSpec("dst.gap", label="A time that the clock skips in spring", folded=True),
    FieldSpec("dst.repeated", label="A time that the clock shows twice in autumn", folded=True),
    FieldSpec("jitter_seconds", folded=True),
)
_JOBS: Final = ("webhook", "worker", "queue")
_RULE_NAMES: Final = {one if isinstance(one, str) else one.name for one in _RULE}


async def _read_schedule(request: PageRequest) -> SubjectFacts:
    found = await request.services.schedule.read.find(request.actor, request.uuid("schedule_id"))
    if found is None:
        return []
    rule = in_words(found.cron, found.every_seconds, found.rrule, found.start_at, found.timezone)
    facts: SubjectFacts = [("Name", found.name)] if found.name else []
    facts += [("Rule", f"{rule}, {found.timezone}"), ("Creates", await _created(request, found))]
    facts += [("Next", found.next_due_at)] if found.next_due_at else []
    return [*facts, ("Status", found.status)]


async def _created(request: PageRequest, schedule: ScheduleView) -> str:
    payment, job = schedule.template.payment, schedule.template.job
    if payment is not None:
        accounts = f"from {payment.from_account_id} to {payment.to_account_id}"
        found = await currencies_of(request, [schedule])
        paid = money_text(payment.amount, found.get(payment.from_account_id))
        return f"a payment of {paid} {accounts}"
    return "" if job is None else f"a job for {target(job.destination)}, lane {job.lane}"


def _triggered(_: PageRequest, done: Answer) -> str:
    made = f"payment {done['payment_id']}" if done.get("payment_id") else f"job {done['job_id']}"
    return f"It ran once, as {made}."


async def _rehearse_backfill(request: PageRequest, body: BodyFields) -> DryRun:
    """Let the operation itself say what it would do."""
    schedule_id = request.uuid("schedule_id")
    found = await request.services.schedule.read.find(request.actor, schedule_id)
    schedule = existing(found, "schedule", schedule_id)
    payment = schedule.template.payment
    backfill = ENDPOINT_BY_NAME["backfill_schedule"]
    plan = await call_endpoint(request, backfill, {**body, "dry_run": True})
    occurrences: list[Answer] = plan["occurrences"]
    runs = [one for one in occurrences if one["action"] == "run"]
    counts = Counter(one["action"] for one in occurrences)
    facts = [(_ACTIONS[action].capitalize(), f"{many:,}") for action, many in counts.items()]
    facts = facts or [("In this range", "the rule has no occurrence")]
    if runs and runs[-1].get("due_at"):
        facts.append(("The last of them is due", spoken(runs[-1]["due_at"])))
    if payment is not None and runs:
        known = await currencies_of(request, [schedule])
        total = money_text(payment.amount * len(runs), known.get(payment.from_account_id))
        facts.append(("Money", f"{total} in {len(runs):,} payments"))
    return DryRun(
        count=plan["runs"],
        noun="occurrence",
        facts=facts,
        head=("Scheduled for", "What", "Was", "Due"),
        rows=[_row(one) for one in (runs or occurrences)[:SHOWN]],
        money=payment is not None,
    )


def _row(one: Answer) -> tuple[str, ...]:
    due = spoken(one["due_at"]) if one.get("due_at") else NONE
    was = one.get("status") or ("not recorded" if one.get("due_at") else NONE)
    return (spoken(one["scheduled_for"]), _ACTIONS[one["action"]], was, due)


def _backfilled(_: PageRequest, done: Answer) -> str:
    refused = sum(one["action"] == "refused" for one in done["occurrences"])
    text = f"{done['runs']:,} past occurrences were run, at the schedule's pace."
    return text + (f" {refused:,} were refused: see the occurrences." if refused else "")


async def preview_schedule(request: PageRequest) -> Response:
    """Show the next occurrences of a rule that is not saved, with the marks of DST and calendar."""
    typed = {name: text for name, text in request.form.items() if name in _RULE_NAMES}
    try:
        preview = ENDPOINT_BY_NAME["preview_unsaved_schedule"]
        found = await call_endpoint(request, preview, CREATE.body({}, typed))
    except RefusedError as error:
        blank = not any(request.form.get(name) for name in ("cron", "every_seconds", "rrule"))
        return request.render(
            "_schedule_preview.html", refusal=error.refusal, preview=None, blank=blank
        )
    return request.render("_schedule_preview.html", refusal=None, preview=found, note_words=NOTES)


CREATE: Final = Button(
    "create_schedule",
    currency=of_account("template.payment.from_account_id"),
    means="Each occurrence creates a job or a payment: fill in one of the two.",
    confirm="Create schedule",
    fields=(
        *_RULE,
        FieldSpec("template.job.destination.type", label="A job: what should happen"),
        FieldSpec("template.job.destination.url", label="Job destination URL", only=("webhook",)),
        FieldSpec(
            "template.job.destination.name", label="Job destination name", only=("webhook", "queue")
        ),
        FieldSpec("template.job.lane", only=_JOBS),
        FieldSpec("template.job.payload", only=_JOBS),
        FieldSpec("template.payment.from_account_id", only=("pay",)),
        FieldSpec("template.payment.to_account_id", only=("pay",)),
        FieldSpec("template.payment.amount", only=("pay",)),
    ),
    happens="template.job.destination.type",
    preview=PREVIEW,
    done="Schedule {schedule_id} was created.",
    then="/schedules/{schedule_id}",
)
_OfSchedule = partial(Button, subject=Subject(Scope.SCHEDULES_READ, _read_schedule))

BUTTONS: Final = (
    CREATE,
    _OfSchedule(
        "change_schedule",
        means="The new version applies to every occurrence that is not due yet.",
        confirm="Save as a new version",
        fields=_RULE,
        stored="show_schedule",
        preview=PREVIEW,
        done="Schedule {schedule_id} has a new version.",
    ),
    _OfSchedule(
        "pause_schedule",
        means="Every occurrence from now on is skipped and noted in the book, until it is resumed. "
        "What it has made already continues.",
        fields=(FieldSpec("note", required=True),),
        done="The schedule is paused: each occurrence is skipped and listed as such.",
    ),
    _OfSchedule(
        "resume_schedule",
        means="It continues with its next occurrence. Skipped occurrences stay skipped; its "
        "misfire policy decides about what was due while it was set aside.",
        done="The schedule is active again. Skipped occurrences stay skipped; a backfill can run "
        "them.",
    ),
    _OfSchedule(
        "trigger_schedule",
        label="Run once now",
        title="Run schedule once now",
        means="It runs once, now, even if it is paused. Its rule continues as before.",
        done=_triggered,
    ),
    _OfSchedule(
        "backfill_schedule",
        means="Runs the occurrences of a past time range that have not run, at the schedule's "
        "pace. A dry run comes first.",
        fixed={"dry_run": False},
        rehearse=_rehearse_backfill,
        done=_backfilled,
    ),
    _OfSchedule(
        "delete_schedule",
        means="It ends permanently. What it has created continues, and its occurrences stay "
        "listed.",
        danger=True,
        then="/schedules",
        done="The schedule is deleted; jobs and payments that it created continue.",
    ),
)
