"""What an operation of the API is called in the client and on the command line.

Both follow from the name of the operation and its tag; the tables have the exceptions.
"""

from typing import Final

METHODS: Final = {
    "whoami": ("keys", "whoami"),
    "put_setting": ("settings", "set"),
    "rotate_destination_secret": ("destinations", "rotate_secret"),
    "get_signing_secret": ("destinations", "get_signing_secret"),
    "rotate_signing_secret": ("destinations", "rotate_signing_secret"),
    "list_account_entries": ("accounts", "list_entries"),
    "schedule_payments": ("payments", "schedule_many"),
    "list_payment_executions": ("payments", "list_executions"),
    "list_payment_events": ("payments", "list_events"),
    "list_approvals": ("payments", "list_approvals"),
    "create_jobs": ("jobs", "create_many"),
    "list_job_attempts": ("jobs", "list_attempts"),
    "run_job_now": ("jobs", "run_now"),
    "cancel_jobs": ("jobs", "cancel_many"),
    "reschedule_jobs": ("jobs", "reschedule_many"),
    "list_events": ("events", "list"),
    "kill_tenant": ("halts", "kill"),
    "release_tenant": ("halts", "release"),
    "freeze_tenant": ("halts", "freeze"),
    "thaw_tenant": ("halts", "thaw"),
    "claim_jobs": ("leases", "claim"),
    "redrive_dead_letters": ("dead_letters", "redrive"),
    "purge_dead_letters": ("dead_letters", "purge_many"),
    "preview_unsaved_schedule": ("schedules", "preview_unsaved"),
    "list_schedule_occurrences": ("schedules", "list_occurrences"),
    "put_calendar": ("calendars", "put"),
    "show_load": ("foresight", "get_load"),
    "show_money": ("foresight", "get_money"),
    "show_load_of_all": ("foresight", "get_load_of_all"),
    "list_test_clock_entries": ("test_clock", "list_entries"),
}
"""Operations whose method does not follow from their name: group and method."""

GROUPS: Final = {
    "bulk actions": "bulk_actions",
    "change sets": "change_sets",
    "dead letters": "dead_letters",
    "test clock": "test_clock",
}
"""Tags that are not one word."""

SUBSCRIPTIONS: Final = "/subscriptions"

NOUNS: Final = {
    "keys": "key",
    "audit": "audit",
    "halts": "halt",
    "tenants": "tenant",
    "settings": "setting",
    "destinations": "destination",
    "accounts": "account",
    "payments": "payment",
    "jobs": "job",
    "leases": "lease",
    "events": "event",
    "subscriptions": "subscription",
    "lanes": "lane",
    "dead_letters": "dead_letter",
    "schedules": "schedule",
    "calendars": "calendar",
    "foresight": "foresight",
    "receipts": "receipt",
    "change_sets": "change_set",
    "bulk_actions": "bulk_action",
    "test_clock": "test_clock",
}
"""Every group of the client, and what one of its things is called."""

COMMAND_NOUNS: Final = {"events": "events", "test_clock": "clock"}
"""Groups whose commands have another noun."""

COMMANDS: Final = {
    "whoami": "whoami",
    "purge_dead_letters": "dead-letter purge",
    "preview_unsaved_schedule": "schedule preview",
    "get_payment_receipt": "payment receipt",
    "get_job_receipt": "job receipt",
    # `postdate setting` is the operator's: it connects to the database, and sets for all tenants.
    "list_settings": "api list_settings",
    "put_setting": "api put_setting",
    "clear_setting": "api clear_setting",
}
"""Operations whose command does not follow from their method."""


def client_method(name: str, tag: str, path: str) -> tuple[str, str]:
    """Return the group of the client in which an operation is, and the name of its method."""
    if name in METHODS:
        return METHODS[name]
    group = "subscriptions" if path.startswith(SUBSCRIPTIONS) else GROUPS.get(tag, tag)
    if group not in NOUNS:
        raise ValueError(f"the tag {tag} has no group: add it to NOUNS in operation_name.py")
    noun = NOUNS[group].split("_")
    left_out = {*noun, *(f"{word}s" for word in noun), group}
    verb = "_".join(word for word in name.split("_") if word not in left_out)
    return group, {"show": "get"}.get(verb, verb)


def command_noun(group: str) -> str:
    """Return the first word of the commands of a group of the client."""
    return COMMAND_NOUNS.get(group) or NOUNS[group].replace("_", "-")


def command_words(name: str, group: str, method: str) -> str:
    """Return the command of an operation, such as `account entries` for `accounts.list_entries`."""
    if name in COMMANDS:
        return COMMANDS[name]
    verb = method
    for prefix in ("list_", "get_"):
        verb = verb.removeprefix(prefix)
    return f"{command_noun(group)} {verb.replace('_', '-')}"


def option_name(field: str) -> str:
    """Return the option that gives a field of a body or query; `from_` is a word of Python."""
    return f"--{field.removesuffix('_').replace('_', '-')}"
