"""`postdate job`: what jobs have beside their operations: targets, waits and changes of many."""

import sys
from functools import partial
from typing import Final

from postdate.cli.job_watch import watch_command
from postdate.cli.noun import find, noun_app
from postdate.cli.operation_command import CommandCall, GivenOptions, OperationCommand, Sugar
from postdate.cli.option import read_json
from postdate.cli.output import UsageError, ask, asks, confirm, progress, show
from postdate.cli.sugar import PARTLY, TARGET, WHEN, YES, take_target, take_time, wait_command
from postdate.task.duration import seconds_of

TIMES: Final = frozenset({"run_at", "delay_seconds"})


def _fill_new(given: GivenOptions, fields: GivenOptions) -> None:
    if not given and not fields:
        _ask(given, fields)
    take_time(given, fields, "run_at", needed=False)
    if target := take_target(given):
        fields["destination"] = target
    fields.setdefault("destination", {"type": "worker"})


def _ask(given: GivenOptions, fields: GivenOptions) -> None:
    """Ask a person what the job is; a program has to say it."""
    if not asks():
        raise UsageError("say what the job is: --url, --destination, --queue or --lane; see --help")
    given["url"] = ask("URL to call (empty: a worker of a lane takes it)")
    if given["url"] is None:
        fields["lane"] = ask("Lane (empty: default)") or "default"
    if (payload := ask("Payload, as JSON (empty: none)")) is not None:
        fields["payload"] = read_json(payload)
    if (delay := ask("Due in, such as 5m (empty: now)")) is not None:
        try:
            given["in_"] = seconds_of(delay)
        except ValueError as error:
            raise UsageError(str(error)) from error


def _change_by_filter(verb: str, call: CommandCall, given: GivenOptions) -> None:
    """Count the jobs, ask for confirmation, then change them call by call."""
    found = call.send(dry_run=True)
    count = sum(found["matched"].values())
    if call.fields.get("dry_run") or not count:
        show(found)
        return
    more = " and more" if found["more"] else ""
    confirm(f"{verb} {count:,} jobs{more}", yes=given["yes"])
    matched, changed = 0, 0
    with progress(f"{verb} jobs", None) as step:
        while True:
            answer = call.send(dry_run=False)
            matched += sum(answer["matched"].values())
            changed += answer["changed"]
            step(f"{changed:,} jobs")
            if not answer["more"] or not answer["changed"]:
                break
    show({"matched": matched, "changed": changed})
    if changed < matched:
        sys.exit(PARTLY)


def _need_filter(_: GivenOptions, fields: GivenOptions) -> None:
    if not fields.get("filter"):
        raise UsageError("give a filter: --lane, --status, --schedule-id, --due-after, …")


def _need_filter_and_time(given: GivenOptions, fields: GivenOptions) -> None:
    _need_filter(given, fields)
    take_time(given, fields.setdefault("to", {}), "run_at", needed=True)


job_app = noun_app(
    "job",
    {
        "create_job": Sugar(
            adds=(*TARGET, *WHEN), fill=_fill_new, hides=frozenset({"destination"})
        ),
        "cancel_jobs": Sugar(
            adds=(YES,), fill=_need_filter, act=partial(_change_by_filter, "cancel")
        ),
        "reschedule_jobs": Sugar(
            adds=(*WHEN, YES),
            fill=_need_filter_and_time,
            act=partial(_change_by_filter, "reschedule"),
        ),
    },
)
_CHANGE = find("job", "change_job")
OperationCommand(
    _CHANGE,
    Sugar(
        hides=frozenset(_CHANGE.signature.parameters) - TIMES - {"job_id"},
        adds=WHEN,
        fill=lambda given, fields: take_time(given, fields, "run_at", needed=True),
        help="Reschedule a job that has not started.",
    ),
).add_to(job_app, "reschedule")
wait_command(find("job", "show_job"), find("job", "list_jobs"), "job").add_to(job_app, "wait")
watch_command(find("job", "show_job")).add_to(job_app, "watch")
