"""The columns of each list in a table; JSON output has all fields."""

from typing import Final

COLUMNS: Final = {
    "jobs": ("job_id", "status", "lane", "due_at", "attempt", "code"),
    "attempts": ("attempt", "status", "started_at", "finished_at", "code", "error"),
    "payments": (
        "payment_id", "status", "amount", "from_account_id", "to_account_id", "scheduled_time",
    ),
    "accounts": ("account_id", "balance", "held", "available", "currency", "frozen_at", "note"),
    "entries": ("version", "type", "amount", "balance", "created_at", "payment_id"),
    "schedules": ("schedule_id", "status", "name", "cron", "every_seconds", "rrule", "timezone"),
    "occurrences": ("scheduled_for", "status", "cause", "job_id", "payment_id", "code"),
    "lanes": ("lane", "kind", "status", "pending", "max_running", "rate_per_second"),
    "destinations": ("name", "type", "status", "url", "max_running", "rate_per_second"),
    "subscriptions": ("subscription_id", "status", "types", "lag"),
    "events": ("time", "type", "subject", "actor"),
    "calendars": ("name", "weekend", "holidays", "changed_at"),
}  # fmt: skip
"""The columns of each list, the ones that matter most first: the last give way to the terminal."""

FEWEST: Final = 3
"""With fewer columns than these, one thing is printed below the other instead."""
