"""Which events are part of the audit: changes by people and programs, not executions."""

from typing import Final

CLI: Final = "cli"
"""The actor of what is done with the operator's commands."""

SYSTEM: Final = "system"
"""The actor of changes that no request caused."""

AUDITED: Final = (
    "tenant.*",
    "key.*",
    "setting.*",
    "lane.*",
    "destination.*",
    "subscription.*",
    "account.*",
    "change_set.created",
    "change_set.applying",
    "change_set.applied",
    "change_set.undoing",
    "change_set.undone",
    "payment.approved",
    "payment.cancelled",
    "payment.restored",
    "payment.rescheduled",
    "payment.repair_requested",
    "payment.repaired",
    "job.cancelled",
    "job.rescheduled",
    "job.changed",
    "job.resolved",
    "job.redriven",
    "job.purged",
    "job.repaired",
    "schedule.created",
    "schedule.changed",
    "schedule.paused",
    "schedule.resumed",
    "schedule.triggered",
    "schedule.backfilled",
    "schedule.deleted",
)

STAMP: Final = "origin"
"""The member of an event's data that says from where; only the auditor sees it."""

_NOUNS: Final = frozenset(
    pattern.removesuffix(".*") for pattern in AUDITED if pattern.endswith(".*")
)
_TYPES: Final = frozenset(AUDITED)
_GROUPED: Final = frozenset({"account.adjusted"})
"""Written for several requests at once: the origin at hand may be a neighbour's, so each brings its
own along.
"""


def audited(kind: str) -> bool:
    """Return whether an event of this type is for the auditor."""
    return kind in _TYPES or kind.partition(".")[0] in _NOUNS


def stamped(kind: str) -> bool:
    """Return whether an event of this type says from where it was caused."""
    return audited(kind) and kind not in _GROUPED


_ROWS: Final = frozenset(
    {
        "account",
        "calendar",
        "change_set",
        "destination",
        "key",
        "lane",
        "receipt_key",
        "schedule",
        "setting",
        "subscription",
        "tenant",
    }
)
_WITNESSED: Final = frozenset(
    {
        "payment.approval_requested",
        "payment.approved",
        "payment.retried",
        "payment.dead_lettered",
        "job.rescheduled",
        "job.changed",
        "job.replaced",
        "job.debounced",
        "job.retried",
        "job.unknown",
    }
)
"""Those of approvals, of revisions, and of attempts."""


def changes_row(kind: str) -> bool:
    """Return whether an event of this type is sealed with the state of its row."""
    return kind in _WITNESSED or kind.partition(".")[0] in _ROWS
