"""What the client calls things: the API's own words, made unique and short."""

from typing import Final

from postdate.http.endpoint import AnyEndpoint

SPECIAL: Final = {
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
    "test_clock": "test_clock",
}
"""Every group of the client, and what one of its things is called."""

MODELS: Final = {
    "postdate.job.spec.job.Webhook": "WebhookDestination",
    "postdate.job.spec.job.Queue": "QueueDestination",
    "postdate.job.spec.job.Worker": "WorkerDestination",
    "Scheduled": "ScheduledPayment",
    "Adjusted": "AdjustedAccount",
    "Executed": "ExecutedPayment",
    "Book": "OccurrenceList",
    "DestinationTestResult": "DestinationTrial",
    "Status": "OccurrenceStatus",
    "Waiting": "WaitingPayment",
    "WaitingList": "ApprovalList",
    "CloudEvent": "Event",
    "ComingView": "ComingOccurrence",
    "AcceptedSchedule": "AcceptedSchedule",
    "Code": "ProblemCode",
    "RenewView": "RenewedLease",
    "CancelledJobResult": "CancelledJobEffect",
    "ReportView": "LeaseReport",
    "JobBatchItem": "BatchJob",
    "CreatedKey": "NewKey",
    "KeyedOrder": "BatchPayment",
    "AdvanceView": "AdvancedClock",
    "TestClockView": "ClockState",
}
"""Models whose name in the API's code says too little beside all the others."""

WORDS: Final = {"from": "from_"}
"""Fields that are words of Python."""


def place(endpoint: AnyEndpoint) -> tuple[str, str]:
    """Say in which group an operation stands, and what its method is called."""
    name = endpoint.handler.__name__
    if name in SPECIAL:
        return SPECIAL[name]
    group = GROUPS.get(endpoint.tag, endpoint.tag)
    if endpoint.path.startswith(SUBSCRIPTIONS):
        group = "subscriptions"
    if group not in NOUNS:
        raise ValueError(f"the tag {endpoint.tag} has no group: add it to NOUNS in sdk/names.py")
    words = [word for word in name.split("_") if word not in {*NOUNS[group].split("_"), group}]
    words = [word for word in words if word not in {part + "s" for part in NOUNS[group].split("_")}]
    verb = "_".join(words)
    return group, {"show": "get"}.get(verb, verb)


def model(kind: type) -> str:
    """Name a model of the API in the client."""
    full = f"{kind.__module__}.{kind.__qualname__}"
    return MODELS.get(full) or MODELS.get(kind.__name__) or kind.__name__.removesuffix("View")


def identifier(name: str) -> str:
    """Name a field in Python."""
    return WORDS.get(name, name)
