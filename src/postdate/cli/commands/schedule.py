"""`postdate schedule`: everyday commands for schedules, through the HTTP API."""

import sys
from typing import Annotated, Any, Final

import cyclopts
from cyclopts import Parameter

from postdate.cli.noun import Noun
from postdate.cli.option_group import ContentOptions, PaymentOptions, RuleOptions, TargetOptions
from postdate.cli.output import UsageError, confirm, progress, show, wants_json
from postdate.cli.remote import (
    PARTLY,
    DryRun,
    Key,
    Lane,
    Limit,
    ScheduleId,
    Yes,
    call,
    parse,
    print_page,
    without_none,
)

schedule_app = cyclopts.App(
    name="schedule", help="Create, preview, change, pause and run schedules."
)
schedules = Noun(schedule_app, "/schedules", "schedule_id", ScheduleId)
schedules.get("Show a schedule with all of its policies.")
schedules.list_of_one(
    "occurrences", "List the book: the result of each occurrence, the newest first."
)
schedules.act("pause", "Pause a schedule: skip its occurrences until it is resumed.", reason="note")
schedules.act("resume", "Resume a schedule that is paused or set aside.")
schedules.delete("Delete a schedule; jobs and payments that it created continue.")


NO_RULE: Final = RuleOptions()
NO_PAYMENT: Final = PaymentOptions()
ANYWHERE: Final = TargetOptions()
EMPTY: Final = ContentOptions()
Name = Annotated[str | None, Parameter(help="What you call it.")]


@schedule_app.command(name="create")
def create(  # noqa: PLR0913 - groups of options, one for each part
    body: Annotated[
        str | None, Parameter(help="The whole body, or the rest of it, as JSON.")
    ] = None,
    *,
    name: Name = None,
    rule: RuleOptions = NO_RULE,
    pays: PaymentOptions = NO_PAYMENT,
    target: TargetOptions = ANYWHERE,
    lane: Lane | None = None,
    content: ContentOptions = EMPTY,
    idempotency_key: Key = None,
) -> None:
    """Create a schedule of jobs, or with --from-account of payments.

    Fields without an option (dst, misfire, retry, …) go into BODY, as for `POST /schedules`.
    """
    asked = _body(body) | without_none(name=name) | rule.body()
    asked.setdefault("template", _template(pays, target, lane, content))
    show(call("POST", "/schedules", asked, idempotency_key=idempotency_key))


@schedule_app.command(name="change")
def change(
    schedule_id: ScheduleId,
    body: Annotated[str | None, Parameter(help="What has no option, as JSON.")] = None,
    *,
    name: Name = None,
    rule: RuleOptions = NO_RULE,
) -> None:
    """Change a schedule; omitted options stay as they are, a new rule replaces the old one."""
    asked = _body(body) | without_none(name=name) | rule.body()
    if not asked:
        raise UsageError("give at least one option to change; see --help")
    show(call("PATCH", f"/schedules/{schedule_id}", asked))


def _body(text: str | None) -> dict[str, Any]:
    found = {} if text is None else parse(text)
    if not isinstance(found, dict):
        raise UsageError("the body is a JSON object")
    return found


def _template(
    pays: PaymentOptions, target: TargetOptions, lane: str | None, content: ContentOptions
) -> dict[str, Any]:
    if (payment := pays.body()) is not None:
        return {"payment": payment | without_none(description=content.description)}
    return {"job": without_none(destination=target.body(), lane=lane) | content.body()}


@schedule_app.command(name="list")
def list_all(
    *,
    missed: Annotated[bool, Parameter(help="Only those that missed an occurrence.")] = False,
    set_aside: Annotated[bool, Parameter(help="Only those that cannot be expanded.")] = False,
    limit: Limit = 20,
) -> None:
    """List schedules; with --missed those that missed an occurrence."""
    print_page("/schedules", "schedules", limit=limit, missed=missed, set_aside=set_aside)


@schedule_app.command(name="preview")
def preview(
    schedule_id: Annotated[
        ScheduleId | None, Parameter(help="A schedule; without it give a rule.")
    ] = None,
    *,
    rule: RuleOptions = NO_RULE,
    body: Annotated[str | None, Parameter(help="What has no option, as JSON.")] = None,
    count: Annotated[int, Parameter(help="How many occurrences.")] = 10,
) -> None:
    """Preview the next occurrences and warnings of a schedule or of a new rule."""
    if schedule_id is not None:
        answer = call("GET", f"/schedules/{schedule_id}/preview?count={count}")
    else:
        answer = call("POST", "/schedules/preview", {"count": count, **_body(body), **rule.body()})
    if not wants_json():
        print(f"{answer['words']}, {answer['timezone']}", file=sys.stderr)
        for warning in answer["warnings"]:
            print(f"warning: {warning['detail']}", file=sys.stderr)
    show(answer if wants_json() else answer["occurrences"])


@schedule_app.command(name="trigger")
def trigger(schedule_id: ScheduleId, *, idempotency_key: Key = None) -> None:
    """Run a schedule once, now."""
    path = f"/schedules/{schedule_id}/trigger"
    show(call("POST", path, idempotency_key=idempotency_key))


@schedule_app.command(name="backfill")
def backfill(
    schedule_id: ScheduleId,
    begin: Annotated[str, Parameter(help="The first instant, such as 2030-01-01T00:00:00Z.")],
    until: Annotated[str, Parameter(help="The instant before which the range ends.")],
    *,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Run the occurrences of a past range that have not run, after confirming their number."""
    path = f"/schedules/{schedule_id}/backfill"
    body = {"from": begin, "until": until}
    found = call("POST", path, {**body, "dry_run": True})
    if dry_run or not found["runs"]:
        show(found)
        return
    confirm(f"run {found['runs']:,} occurrences", yes=yes)
    with progress("backfilling", None) as step:
        answer = call("POST", path, {**body, "dry_run": False})
        step(f"{answer['runs']:,} occurrences")
    show(answer)
    if answer["runs"] < found["runs"]:
        sys.exit(PARTLY)
