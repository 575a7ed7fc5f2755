"""Every command: the module that has it, and what it does. Only that of the one that runs loads."""

from typing import Final

NOUN_HELP: Final = {
    "job": "Create, show, change and wait for jobs.",
    "payment": "Schedule, show, change and approve payments.",
    "account": "Create, ensure, show, adjust, freeze and close accounts.",
    "schedule": "Create, ensure, preview, change, pause and run schedules.",
    "lane": "Create, ensure, change, pause and resume lanes, the queues of jobs.",
    "destination": "Create, ensure, change, test, disable and delete destinations.",
    "subscription": "Create, pause, resume and replay subscriptions to events.",
    "dead-letter": "List, redrive and purge permanently failed jobs.",
    "calendar": "Put, show and delete business calendars.",
    "events": "List, follow and verify events.",
    "receipt": "Verify receipts, and manage the keys that sign them.",
    "change-set": "Preview, apply and undo sets of changes.",
    "bulk-action": "Follow and stop what is done to many jobs or schedules.",
    "foresight": "Forecast load and money.",
    "halt": "Stop and release your tenant: kill switch and freeze windows.",
    "lease": "Claim jobs of a lane and report on them, as a worker does.",
    "clock": "Show and advance the clock of a tenant in test mode.",
    "key": "Issue, list, rotate and revoke API keys.",
    "audit": "List who changed what, for a tenant or for all.",
}
"""The nouns whose commands call the server, everyday ones first."""

OWN: Final = {
    "job": "job:job_app",
    "payment": "payment:payment_app",
    "account": "account:account_app",
    "schedule": "schedule:schedule_app",
    "destination": "destination:destination_app",
    "lane": "lane:lane_app",
    "subscription": "subscription:subscription_app",
    "dead-letter": "dead_letter:dead_letter_app",
    "events": "event:events_app",
    "receipt": "receipt:receipt_app",
    "clock": "clock:clock_app",
    "key": "key:key_app",
    "audit": "audit:audit_app",
}
"""The nouns that have more than their operations."""

OTHERS: Final = {
    "api": ("api:api", "Call an operation of the API by its name in /schema, such as list_halts."),
    "status": ("status:status", "Show the server that is used here, and whether it is ready."),
    "whoami": ("status:whoami", "Show the tenant and scopes of the key that is used here."),
    "doctor": ("doctor:doctor", "Say what is wrong here, and what to do about it."),
    "top": ("top:top", "Show rates, lateness, backlog, failures and lanes, live."),
    "open": ("desktop:open_page", "Open an object in the console; in a pipe, print its address."),
    "demo": ("demo:demo", "Fill a tenant with demo accounts, payments, schedules and failures."),
    "relay": ("relay:relay", "Send the rows of an outbox in another database."),
    "worker": ("worker:worker", "Run an application as a worker, until it is told to end."),
    "mcp": ("mcp:mcp", "Offer the API to an assistant that speaks MCP."),
    "simulate": ("simulate:simulate", "Compute how late a spike would run on a fleet."),
    "size": ("size:size_load", "Compute the disk, WAL and memory that a load needs."),
    "completion": ("desktop:completion", "Print a completion script for a shell."),
    "migrate": ("migrate:migrate", "Bring the schema up to date."),
    "tenant": ("tenant:tenant_app", "Create, list and stop tenants."),
    "role": ("role:role_app", "Give a program a login of the embedded database."),
    "setting": ("setting:setting_app", "Change run-time settings without a restart."),
    "node": ("node:node_app", "List the processes of the cluster."),
    "settlement": ("settlement:settlement_app", "Stop and resume settlement on every node."),
    "secret": ("secret:secret_app", "Generate and rotate the key that encrypts secrets."),
    "history": ("history:history_app", "List, detach, drop and repair weeks of history."),
    "restore": ("restore:restore_app", "After a restore: hold back what may have run."),
    "prove": ("prove:prove", "Compare all tables with the sealed chain and each other."),
    "reconcile": ("prove:reconcile", "Find lost or overdue payments and balances that differ."),
    "bench": ("lab:bench", "Measure Postdate; needs the distribution postdate-lab."),
    "chaos": ("lab:chaos", "Break Postdate on purpose; needs the distribution postdate-lab."),
}
"""Commands that are no nouns of the API, or the operator's, and what each does."""

HELP: Final = {**NOUN_HELP, **{name: text for name, (_, text) in OTHERS.items()}}
"""What the list of commands says of each, without loading it."""

LAB: Final = {"bench": "bench:bench_app", "chaos": "chaos:chaos"}
"""Commands of the distribution postdate-lab, where it is installed."""


def command_modules(*, lab: bool) -> dict[str, str]:
    """Return every command with the place to import it from, in the order of the help."""
    found = {noun: f"postdate.cli.noun:{noun.replace('-', '_')}_app" for noun in NOUN_HELP}
    own = OWN | {name: place for name, (place, _) in OTHERS.items()}
    found |= {name: f"postdate.cli.commands.{place}" for name, place in own.items()}
    if lab:
        found |= {name: f"postdate_lab.commands.{place}" for name, place in LAB.items()}
    return found
