"""Print the answer of an operation: a list by its columns, what was done, or the thing itself."""

import sys
from collections.abc import Mapping
from typing import Any, Final, get_args, get_origin

import msgspec

from postdate.cli.output import show
from postdate.client.operation import Operation

COLUMNS: Final = {
    "Job": ("job_id", "status", "lane", "due_at", "attempt", "code"),
    "Attempt": ("attempt", "status", "started_at", "finished_at", "code", "error"),
    "Payment": (
        "payment_id", "status", "amount", "from_account_id", "to_account_id", "scheduled_time",
    ),
    "PaymentEvent": ("time", "type", "actor", "data"),
    "Execution": ("attempt", "status", "started_at", "finished_at", "error_code", "error_message"),
    "Entry": ("version", "type", "amount", "balance", "created_at", "payment_id"),
    "Schedule": ("schedule_id", "status", "name", "cron", "every_seconds", "rrule", "timezone"),
    "Occurrence": ("scheduled_for", "status", "cause", "job_id", "payment_id", "code"),
    "Event": ("time", "type", "subject", "actor"),
    "BulkAction": ("bulk_action_id", "status", "operation", "position", "total", "done"),
    "BulkItem": ("item_id", "outcome", "new_job_id"),
    "ChangeSet": ("change_set_id", "status", "note", "created_at"),
    "AuditEntry": ("sequence", "time", "type", "subject", "actor"),
}  # fmt: skip
"""The columns of lists whose nouns declare none, the ones that matter most first.

The last give way to the terminal. A noun on the kernel names its columns in its declaration.
"""

CURSOR: Final = "next_cursor"


def show_answer(operation: Operation, given: Mapping[str, Any], answer: Any) -> None:
    """Print an answer in the chosen format."""
    if answer is None:
        parts = {name: given[name] for name in operation.signature.parameters if name in given}
        show({**parts, done(operation.name): True})
        return
    lists = lists_of(operation)
    if not lists:
        show(answer)
        return
    # Where one account is shown, its currency is that of every row.
    shared = {"currency": answer["currency"]} if answer.get("currency") else {}
    rows = [{**row, **shared} for name in lists for row in answer.get(name, ())]
    listed = [kind for name, kind in lists.items() if answer.get(name)]
    show(rows, columns=operation.columns or (columns_of(listed[0]) if listed else ()))
    if answer.get(CURSOR) and sys.stdout.isatty() and operation.takes("cursor"):
        print(f"there is more: --cursor {answer[CURSOR]}", file=sys.stderr)


def columns_of(kind: type) -> tuple[str, ...]:
    """Return the columns of a list whose noun does not declare them itself."""
    return COLUMNS.get(kind.__name__, ())


def lists_of(operation: Operation) -> dict[str, Any]:
    """Return the lists in the answer of an operation that lists, with the type of their items."""
    if not operation.name.startswith("list_"):
        return {}
    fields = msgspec.structs.fields(operation.returns)
    return {each.encode_name: kind for each in fields if (kind := _item(each.type))}


def _item(kind: Any) -> Any:
    """Return the struct that each item of a list is."""
    [inner, *_] = get_args(kind) or (None,)
    is_struct = isinstance(inner, type) and issubclass(inner, msgspec.Struct)
    return inner if get_origin(kind) is list and is_struct else None


def done(operation: str) -> str:
    """Say that what an operation without an answer does was done: `delete_lane` is `deleted`."""
    verb = operation.partition("_")[0]
    return f"{verb}d" if verb.endswith("e") else f"{verb}ed"
