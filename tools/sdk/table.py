"""The table of operations: which method, command and example each has."""

import re
from collections.abc import Mapping
from typing import Final

from sdk.operations import Operation
from sdk.source import described

PAGE: Final = "docs/reference/client.md"
_EXAMPLE: Final = re.compile(r"\b(?:client|asking)\.(\w+)\.(\w+)\(")

COMMANDS: Final = {
    "create_key": "key create", "list_keys": "key list", "revoke_key": "key revoke",
    "rotate_key": "key rotate", "list_audit": "audit", "list_halts": "tenant halts",
    "kill_tenant": "tenant kill", "release_tenant": "tenant release",
    "freeze_tenant": "tenant freeze", "thaw_tenant": "tenant thaw",
    "create_tenant": "tenant create", "list_tenants": "tenant list",
    "list_settings": "setting list", "put_setting": "setting set", "clear_setting": "setting clear",
    "create_destination": "destination create", "list_destinations": "destination list",
    "get_destination": "destination get", "change_destination": "destination change",
    "delete_destination": "destination delete",
    "rotate_destination_secret": "destination rotate-secret",
    "disable_destination": "destination disable", "enable_destination": "destination enable",
    "test_destination": "destination test", "create_account": "account create",
    "list_accounts": "account list", "get_account": "account get",
    "change_account": "account change", "freeze_account": "account freeze",
    "unfreeze_account": "account unfreeze", "close_account": "account close",
    "list_account_entries": "account entries", "adjust_account": "account adjust",
    "schedule_payment": "payment schedule", "list_payments": "payment list",
    "get_payment": "payment get", "list_payment_executions": "payment executions",
    "list_payment_events": "payment events", "cancel_payment": "payment cancel",
    "reschedule_payment": "payment reschedule", "list_approvals": "payment approvals",
    "approve_payment": "payment approve", "refuse_payment": "payment refuse",
    "create_job": "job create", "list_jobs": "job list", "show_job": "job get",
    "list_job_attempts": "job attempts", "change_job": "job change", "cancel_job": "job cancel",
    "run_job_now": "job run-now", "resolve_job": "job resolve", "cancel_jobs": "job cancel-many",
    "reschedule_jobs": "job reschedule-many", "list_events": "events list",
    "create_subscription": "subscription create", "list_subscriptions": "subscription list",
    "show_subscription": "subscription get", "change_subscription": "subscription pause",
    "delete_subscription": "subscription delete", "replay_subscription": "subscription replay",
    "list_lanes": "lane list", "show_lane": "lane get", "change_lane": "lane change",
    "pause_lane": "lane pause", "resume_lane": "lane resume",
    "list_dead_letters": "dead-letter list", "redrive_dead_letters": "dead-letter redrive",
    "purge_dead_letters": "dead-letter purge", "create_schedule": "schedule create",
    "preview_unsaved_schedule": "schedule preview", "list_schedules": "schedule list",
    "show_schedule": "schedule get", "change_schedule": "schedule change",
    "delete_schedule": "schedule delete", "pause_schedule": "schedule pause",
    "resume_schedule": "schedule resume", "trigger_schedule": "schedule trigger",
    "backfill_schedule": "schedule backfill", "preview_schedule": "schedule preview",
    "list_schedule_occurrences": "schedule occurrences", "put_calendar": "calendar put",
    "list_calendars": "calendar list", "show_calendar": "calendar get",
    "delete_calendar": "calendar delete", "get_test_clock": "clock show",
    "advance_test_clock": "clock advance", "list_test_clock_entries": "clock entries",
    "create_change_set": "change-set create", "list_change_sets": "change-set list",
    "get_change_set": "change-set get", "apply_change_set": "change-set apply",
    "list_change_set_items": "change-set items",
    "undo_change_set": "change-set undo", "get_payment_receipt": "payment receipt",
    "get_job_receipt": "job receipt", "list_receipt_keys": "receipt keys",
}  # fmt: skip
"""The commands of their own; the others are called by `postdate api NAME`."""


def command(each: Operation) -> str:
    """Give the command that does what an operation does."""
    name = each.endpoint.handler.__name__
    return COMMANDS.get(name, f"api {name}")


def examples(page: str) -> set[tuple[str, str]]:
    """Find the calls that the page shows."""
    return {(group, name) for group, name in _EXAMPLE.findall(page)}


def table(tree: Mapping[str, str]) -> str:
    """Write the table of operations."""
    found, _ = described()
    shown = examples(tree.get(PAGE, ""))
    lines = ["| operation | sync, async | command | example |", "|---|---|---|---|"]
    for each in found:
        route = f"`{each.endpoint.method} {each.endpoint.path.replace(':uuid}', '}')}`"
        example = "yes" if (each.group, each.name) in shown else "none"
        method = f"`client.{each.group}.{each.name}`"
        lines.append(f"| {route} | {method} | `postdate {command(each)}` | {example} |")
    return "\n".join(lines)
