"""Every form that creates or edits something."""

from dataclasses import replace
from typing import Final

from starlette.responses import Response

from postdate.change_set.page.what_if_forms import WHAT_IF_FORMS
from postdate.console.equivalent_command import ENDPOINT_BY_NAME
from postdate.console.form import Answer, EndpointForm, FormField, call_endpoint, instant_field
from postdate.console.page_request import PageRequest
from postdate.console.switch_forms import SWITCHES
from postdate.core.identity import Scope
from postdate.recurrence.calendar import Roll
from postdate.schedule.page.pages import NOTES
from postdate.schedule.spec.schedule import MisfirePolicy, Overlap
from postdate.words.error import RefusedError

_LIMITS: Final = (
    FormField(
        name="max_running",
        label="Most at once",
        kind="whole",
        hint="how many may run at the same time; no limit if empty",
        nullable=True,
    ),
    FormField(
        name="rate_per_second",
        label="Most per second",
        kind="decimal",
        hint="how many may start in a second; no limit if empty",
        nullable=True,
    ),
)
_DESTINATION: Final = (
    FormField(
        name="destination.type",
        label="Destination",
        kind="choice",
        required=True,
        choices=("webhook", "queue", "worker"),
    ),
    FormField(name="destination.url", label="URL", hint="of a webhook without a name"),
    FormField(name="destination.name", label="Name", hint="of a stored webhook or queue"),
)
_AS_SET: Final = "as the settings say if empty"
_FLOOR: Final = "the lowest that payments may leave; below 0 is a credit line"
_WHEN_HINT: Final = "in UTC; or give a delay"

JOB: Final = EndpointForm(
    path="/new/job",
    operation="create_job",
    method_name="jobs.create",
    title="New job",
    button="Create job",
    means="It runs once, at the instant given, or now if there is none.",
    fields=(
        *_DESTINATION,
        instant_field("run_at", "Run at", _WHEN_HINT),
        FormField(name="delay_seconds", label="Delay in seconds", kind="decimal"),
        FormField(name="lane", label="Lane", hint="default if empty"),
        FormField(name="payload", label="Payload", kind="json", hint="JSON"),
        FormField(name="description", label="Description"),
        FormField(name="timeout_seconds", label="Timeout in seconds", kind="decimal"),
        FormField(name="retry", label="Retry", kind="json", hint=f"JSON; {_AS_SET}"),
        instant_field("expires_at", "Expires"),
        FormField(name="metadata", label="Metadata", kind="json", hint="JSON"),
    ),
    done=("Job {job_id} was accepted.", "/jobs/{job_id}"),
    back="/jobs",
)
JOB_EDIT: Final = EndpointForm(
    path="/jobs/{job_id:uuid}/edit",
    operation="change_job",
    method_name="jobs.change",
    title="Edit job",
    button="Save",
    means="The next attempt uses the new values. A running or finished job cannot be changed.",
    stored="show_job",
    fields=(
        FormField(name="payload", label="Payload", kind="json", hint="JSON"),
        FormField(name="retry", label="Retry", kind="json", hint=f"JSON; {_AS_SET}", nullable=True),
        FormField(
            name="timeout_seconds",
            label="Timeout in seconds",
            kind="decimal",
            hint=_AS_SET,
            nullable=True,
        ),
        instant_field("expires_at", "Expires", nullable=True),
    ),
    done=("Job {job_id} was changed.", "/jobs/{job_id}"),
    back="/jobs/{job_id}",
)
PAYMENT: Final = EndpointForm(
    path="/new/payment",
    operation="schedule_payment",
    method_name="payments.schedule",
    title="New payment",
    button="Schedule payment",
    means="The amount is held now and settled at the due second, unless funding says otherwise.",
    fields=(
        FormField(name="from_account_id", label="From account", required=True),
        FormField(name="to_account_id", label="To account", required=True),
        FormField(
            name="amount", label="Amount", kind="whole", required=True, hint="in minor units"
        ),
        instant_field("scheduled_time", "Due", _WHEN_HINT),
        FormField(name="delay_seconds", label="Delay in seconds", kind="decimal"),
        FormField(name="description", label="Description"),
        FormField(name="funding", label="Funding", kind="choice", choices=("hold", "at_execution")),
    ),
    done=("Payment {payment_id} is scheduled.", "/payments/{payment_id}"),
    back="/payments",
)
ACCOUNT: Final = EndpointForm(
    path="/new/account",
    operation="create_account",
    method_name="accounts.create",
    title="New account",
    button="Create account",
    means="It starts at zero; adjustments and payments add money.",
    fields=(
        FormField(name="account_id", label="Account", hint="one is assigned if empty"),
        FormField(name="floor", label="Floor", kind="whole", hint=_FLOOR),
        FormField(name="max_amount", label="Largest payment", kind="whole"),
        FormField(name="currency", label="Currency", hint="such as EUR; any if empty"),
        FormField(name="note", label="Note"),
    ),
    done=("Account {account_id} was created.", "/accounts/{account_id}"),
    back="/accounts",
)
ACCOUNT_EDIT: Final = EndpointForm(
    path="/accounts/{account_id}/edit",
    operation="change_account",
    method_name="accounts.change",
    title="Edit account",
    button="Save",
    means="A new floor or limit applies to payments that are scheduled from now on.",
    stored="get_account",
    fields=(
        FormField(name="floor", label="Floor", kind="whole", required=True, hint=_FLOOR),
        FormField(name="max_amount", label="Largest payment", kind="whole", nullable=True),
        FormField(name="note", label="Note", nullable=True),
    ),
    done=("Account {account_id} was changed.", "/accounts/{account_id}"),
    back="/accounts/{account_id}",
)


def _made_destination(_: PageRequest, made: Answer) -> tuple[str, str]:
    secret = f" Its secret, shown only now: {made['secret']}" if made.get("secret") else ""
    return f"Destination {made['name']} was created.{secret}", f"/destinations/{made['name']}"


DESTINATION: Final = EndpointForm(
    path="/new/destination",
    operation="create_destination",
    method_name="destinations.create",
    title="New destination",
    button="Create destination",
    means="A named target of jobs and events, with limits, a signature and an off switch.",
    fields=(
        FormField(name="name", label="Name", required=True),
        FormField(
            name="type", label="Type", kind="choice", required=True, choices=("webhook", "queue")
        ),
        FormField(name="url", label="URL", hint="of a webhook"),
        FormField(name="kind", label="Kind of queue", hint="such as nats, amqp, redis"),
        FormField(name="config", label="Settings of the queue", kind="json", hint="JSON"),
        *(replace(one, nullable=False) for one in _LIMITS),
        FormField(
            name="force", label="Create even if the broker cannot be reached", kind="checkbox"
        ),
    ),
    done=_made_destination,
    back="/destinations",
)
DESTINATION_EDIT: Final = EndpointForm(
    path="/destinations/{name}/edit",
    operation="change_destination",
    method_name="destinations.change",
    title="Edit destination",
    button="Save",
    means="Limits apply to calls that start from now on; an empty field means no limit.",
    stored="get_destination",
    fields=(FormField(name="url", label="URL", hint="of a webhook"), *_LIMITS),
    done=("Destination {name} was changed.", "/destinations/{name}"),
    back="/destinations/{name}",
)
SUBSCRIPTION: Final = EndpointForm(
    path="/new/subscription",
    operation="create_subscription",
    method_name="subscriptions.create",
    title="New subscription",
    button="Create subscription",
    means="Events of these types are delivered in order, at least once.",
    fields=(
        FormField(
            name="destination.type",
            label="Destination",
            kind="choice",
            required=True,
            choices=("webhook", "queue"),
        ),
        *_DESTINATION[1:],
        FormField(
            name="types", label="Types", kind="lines", hint="such as payment.*; all if empty"
        ),
        FormField(name="accounts", label="Only these accounts", kind="lines"),
        FormField(name="from", label="From", hint="now, beginning, or an instant"),
    ),
    done=("Subscription {subscription_id} was created.", "/subscriptions"),
    back="/subscriptions",
)
LANE_EDIT: Final = EndpointForm(
    path="/lanes/{lane}/edit",
    operation="change_lane",
    method_name="lanes.change",
    title="Edit lane",
    button="Save",
    means="Limits apply across all nodes; an empty field means no limit. The width can only grow.",
    stored="show_lane",
    fields=(
        FormField(
            name="weight",
            label="Weight",
            kind="whole",
            required=True,
            hint="1 to 100: its share when several lanes have work",
        ),
        FormField(
            name="width",
            label="Width",
            kind="whole",
            required=True,
            hint="1 to 64: over how many buckets it is spread",
        ),
        *_LIMITS,
    ),
    done=("Lane {lane} was changed.", "/lanes"),
    back="/lanes",
)
_RULE: Final = (
    FormField(name="name", label="Name"),
    FormField(name="cron", label="Cron", hint="such as 0 9 * * 1-5; one of these three"),
    FormField(name="every_seconds", label="Every … seconds", kind="whole"),
    FormField(name="rrule", label="RRULE", hint="such as FREQ=MONTHLY;BYMONTHDAY=-1"),
    FormField(name="timezone", label="Time zone", hint="UTC if empty"),
    instant_field("start_at", "Starts"),
    instant_field("end_at", "Ends"),
    FormField(name="calendar", label="Calendar", hint="its name"),
    FormField(name="roll", label="On closed days", kind="choice", choices=tuple(map(str, Roll))),
    FormField(
        name="overlap", label="Overlapping runs", kind="choice", choices=tuple(map(str, Overlap))
    ),
    FormField(
        name="misfire.policy",
        label="Missed runs",
        kind="choice",
        choices=tuple(map(str, MisfirePolicy)),
    ),
    FormField(
        name="jitter_seconds",
        label="Jitter in seconds",
        kind="whole",
        hint="spreads what each occurrence creates over so many seconds",
    ),
)
SCHEDULE: Final = EndpointForm(
    path="/new/schedule",
    operation="create_schedule",
    method_name="schedules.create",
    title="New schedule",
    button="Create schedule",
    means="Each occurrence creates a job or a payment: fill in one of the two.",
    fields=(
        *_RULE,
        FormField(
            name="template.job.destination.type",
            label="Job: destination",
            kind="choice",
            choices=("webhook", "queue", "worker"),
        ),
        FormField(name="template.job.destination.url", label="Job: URL"),
        FormField(name="template.job.destination.name", label="Job: name of the destination"),
        FormField(name="template.job.lane", label="Job: lane"),
        FormField(name="template.job.payload", label="Job: payload", kind="json", hint="JSON"),
        FormField(name="template.payment.from_account_id", label="Payment: from account"),
        FormField(name="template.payment.to_account_id", label="Payment: to account"),
        FormField(name="template.payment.amount", label="Payment: amount", kind="whole"),
    ),
    preview="/new/schedule/preview",
    done=("Schedule {schedule_id} was created.", "/schedules/{schedule_id}"),
    back="/schedules",
)
SCHEDULE_EDIT: Final = EndpointForm(
    path="/schedules/{schedule_id:uuid}/edit",
    operation="change_schedule",
    method_name="schedules.change",
    title="Edit schedule",
    button="Save as a new version",
    means="The new version applies to every occurrence that is not due yet.",
    stored="show_schedule",
    fields=tuple(
        FormField(
            name=one.name,
            label=one.label,
            kind=one.kind,
            hint=one.hint,
            choices=one.choices,
            nullable=one.name in {"start_at", "end_at", "calendar"},
        )
        for one in _RULE
    ),
    preview="/new/schedule/preview",
    done=("Schedule {schedule_id} has a new version.", "/schedules/{schedule_id}"),
    back="/schedules/{schedule_id}",
)
KEY: Final = EndpointForm(
    path="/new/key",
    operation="create_key",
    method_name="keys.create",
    title="New key",
    button="Create key",
    means="The key is shown once. It may do only what its scopes allow.",
    fields=(
        FormField(
            name="scopes",
            label="Scopes",
            kind="lines",
            required=True,
            hint="one a line: " + ", ".join(map(str, Scope)),
        ),
        FormField(name="note", label="What it is for"),
        FormField(name="accounts", label="Only these accounts", kind="lines"),
        FormField(name="max_amount", label="Largest payment", kind="whole"),
        instant_field("expires_at", "Ends"),
    ),
    done=lambda _, made: (
        f"The new key, shown only now: {made['key']} (id {made['key_id']})."
        if made["key"]
        else f"This form was already submitted and created the key {made['key_id']}.",
        "/settings",
    ),
    back="/settings",
)
FORMS: Final = (
    JOB,
    JOB_EDIT,
    PAYMENT,
    ACCOUNT,
    ACCOUNT_EDIT,
    DESTINATION,
    DESTINATION_EDIT,
    SUBSCRIPTION,
    LANE_EDIT,
    SCHEDULE,
    SCHEDULE_EDIT,
    KEY,
    *SWITCHES,
    *WHAT_IF_FORMS,
)


async def preview_schedule(request: PageRequest) -> Response:
    """Show the next occurrences of a rule that is not saved, with the marks of DST and calendar."""
    request.require(Scope.SCHEDULES_READ, "served")
    rule = {field.name for field in _RULE}
    try:
        body = SCHEDULE.body({k: v for k, v in request.form.items() if k in rule})
        found = await call_endpoint(request, ENDPOINT_BY_NAME["preview_unsaved_schedule"], body)
    except RefusedError as error:
        blank = not any(request.form.get(name) for name in ("cron", "every_seconds", "rrule"))
        return request.render(
            "_schedule_preview.html", refusal=error.refusal, preview=None, blank=blank
        )
    return request.render("_schedule_preview.html", refusal=None, preview=found, note_words=NOTES)
