"""`postdate dead-letter`: redrive and purge many, after counting them."""

import sys
from typing import Any, Final

from postdate.cli.noun import noun_app
from postdate.cli.operation_command import CommandCall, GivenOptions, Sugar
from postdate.cli.output import UsageError, confirm, progress, show
from postdate.cli.sugar import PARTLY, YES, extra

PAYMENTS: Final = extra(
    "payments", bool, "List payments that wait for a person.", default=False, negative=()
)


def _fill_list(given: GivenOptions, fields: GivenOptions) -> None:
    if given.pop("payments"):
        fields["type"] = "payment"


def _need_choice(_: GivenOptions, fields: GivenOptions) -> None:
    if bool(fields.get("job_ids")) == bool(fields.get("filter")):
        raise UsageError("give ids of jobs, or a filter: --lane, --schedule-id, --due-after, …")


def _redrive(call: CommandCall, given: GivenOptions) -> None:
    dry = call.fields.get("dry_run", False)
    if dry or "filter" in call.fields:
        report = _pages(call, "counting", "redriven", dry_run=True)
        if dry or not report["redriven"]:
            show(report)
            return
        confirm(f"redrive {report['redriven']:,} jobs", yes=given["yes"])
    report = _pages(call, "redriving", "redriven")
    show(report)
    if report["redriven"] < len(report["outcomes"]):
        sys.exit(PARTLY)


def _purge(call: CommandCall, given: GivenOptions) -> None:
    report = _pages(call, "counting", "purged", dry_run=True)
    if not call.fields.get("dry_run") and report["purged"]:
        confirm(f"purge {report['purged']:,} jobs permanently", yes=given["yes"])
        report = _pages(call, "purging", "purged")
    show({"purged": report["purged"]})


def _pages(call: CommandCall, label: str, counted: str, **more: Any) -> dict[str, Any]:
    """Repeat a call with its cursor until the filter is exhausted."""
    count, outcomes, cursor = 0, [], None
    with progress(label, None) as step:
        while True:
            page = call.send(cursor=cursor, **more)
            count += page[counted]
            outcomes += page.get("outcomes", [])
            step(f"{count:,} jobs")
            cursor = page["next_cursor"]
            if cursor is None:
                return {counted: count, "outcomes": outcomes}


def _of_many(act: Any) -> Sugar:
    return Sugar(
        adds=(YES,),
        fill=_need_choice,
        hides=frozenset({"cursor"}),
        positional=frozenset({"job_ids"}),
        act=act,
    )


dead_letter_app = noun_app(
    "dead-letter",
    {
        "list_dead_letters": Sugar(adds=(PAYMENTS,), fill=_fill_list),
        "redrive_dead_letters": _of_many(_redrive),
        "purge_dead_letters": _of_many(_purge),
        # `purge JOB_ID` is the same with one id.
        "purge_dead_letter": None,
    },
)
