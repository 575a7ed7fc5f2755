"""`postdate schedule`: what schedules have beside their operations: templates and previews."""

import sys
from functools import partial
from typing import Any, Final

from postdate.cli.ensure import ensure_command
from postdate.cli.noun import find, noun_app
from postdate.cli.operation_command import CommandCall, GivenOptions, Sugar
from postdate.cli.output import UsageError, confirm, progress, show, wants_json
from postdate.cli.remote import send
from postdate.cli.schedule_name import schedule_id_of
from postdate.cli.sugar import PARTLY, TARGET, YES, extra, take_target

RULES: Final = frozenset({"cron", "rrule", "every_seconds"})
PAYMENT: Final = frozenset({"from_account_id", "to_account_id", "amount"})
ID: Final = extra("schedule_id", str | None, "A schedule; without it give a rule.", positional=True)


def _fill(given: GivenOptions, fields: GivenOptions, *, new: bool) -> None:
    """Make the template of what is said about its job or payment."""
    if len(RULES & fields.keys()) > 1:
        raise UsageError("give one of --cron, --rrule and --every-seconds")
    target = take_target(given)
    template: dict[str, Any] = fields.get("template", {})
    if payment := template.get("payment"):
        # A description was taken for that of a job: only the options say which of both it is.
        payment |= template.pop("job", {})
        if not payment.keys() >= PAYMENT:
            raise UsageError("a payment needs --from-account, --to-account and --amount")
    elif target or template or new:
        job = template.setdefault("job", {})
        if target or new:
            job.setdefault("destination", target or {"type": "worker"})
        fields["template"] = template


def _backfill(call: CommandCall, given: GivenOptions) -> None:
    """Count the occurrences, ask for confirmation, then run them."""
    found = call.send(dry_run=True)
    if call.fields.get("dry_run") or not found["runs"]:
        show(found)
        return
    confirm(f"run {found['runs']:,} occurrences", yes=given["yes"])
    with progress("backfilling", None) as step:
        answer = call.send(dry_run=False)
        step(f"{answer['runs']:,} occurrences")
    show(answer)
    if answer["runs"] < found["runs"]:
        sys.exit(PARTLY)


def _preview(call: CommandCall, given: GivenOptions) -> None:
    if (schedule_id := given.get("schedule_id")) is None:
        answer = call.send()
    else:
        asked = {"schedule_id": schedule_id_of(schedule_id), "count": call.fields.get("count")}
        answer = send(_STORED, asked)
    if not wants_json():
        print(f"{answer['words']}, {answer['timezone']}", file=sys.stderr)
        for warning in answer["warnings"]:
            print(f"warning: {warning['detail']}", file=sys.stderr)
    show(answer if wants_json() else answer["occurrences"])


_HIDDEN: Final = frozenset({"destination", "payment.description"})
_NEW: Final = Sugar(adds=TARGET, fill=partial(_fill, new=True), hides=_HIDDEN)
schedule_app = noun_app(
    "schedule",
    {
        "create_schedule": _NEW,
        "change_schedule": Sugar(adds=TARGET, fill=partial(_fill, new=False), hides=_HIDDEN),
        "backfill_schedule": Sugar(adds=(YES,), act=_backfill),
        "preview_schedule": None,
        "preview_unsaved_schedule": Sugar(
            adds=(ID, *TARGET),
            fill=partial(_fill, new=False),
            hides=_HIDDEN,
            act=_preview,
            help="Preview the next occurrences and warnings of a schedule or of a new rule.",
        ),
    },
)
_STORED: Final = find("schedule", "preview_schedule")
_CREATE = find("schedule", "create_schedule")
ensure_command(_CREATE, "schedules", "name", _NEW).add_to(schedule_app, "ensure")
