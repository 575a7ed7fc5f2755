"""What if: a form for each kind of change, which makes a draft and shows what it would do."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from postdate.change_set.change.change import KINDS, SCOPES
from postdate.console.form import Answer, EndpointForm, FormField, instant_field
from postdate.console.page_request import PageRequest
from postdate.core.setting.table import SETTINGS, TenantMay

CHANGE: Final = "changes.0."
"""Where the one change of a form stands in the body."""

_NOTE: Final = FormField(name="note", label="Why", hint="kept with the draft")
_AHEAD: Final = instant_field("until_at", "Look ahead until", "in UTC; one day if empty")
_LANE: Final = FormField(name=f"{CHANGE}lane", label="Lane", required=True)
_SCHEDULE: Final = FormField(
    name=f"{CHANGE}schedule_id", label="Schedule", required=True, hint="its id"
)
_FILTER: Final = (
    FormField(
        name=f"{CHANGE}filter.status",
        label="Status",
        kind="choice",
        choices=("PENDING", "READY"),
        hint="both if empty",
    ),
    FormField(name=f"{CHANGE}filter.lane", label="Lane", hint="any if empty"),
    FormField(name=f"{CHANGE}filter.schedule_id", label="Schedule", hint="its id; any if empty"),
    instant_field(f"{CHANGE}filter.due_after", "Due from"),
    instant_field(f"{CHANGE}filter.due_before", "Due before"),
)
_PAYMENTS: Final = (
    FormField(name=f"{CHANGE}filter.from_account_id", label="From account", hint="any if empty"),
    FormField(name=f"{CHANGE}filter.to_account_id", label="To account", hint="any if empty"),
    FormField(name=f"{CHANGE}filter.schedule_id", label="Schedule", hint="its id; any if empty"),
    instant_field(f"{CHANGE}filter.due_after", "Due after"),
    instant_field(f"{CHANGE}filter.due_before", "Due before"),
)
_OWN_SETTINGS: Final = tuple(
    sorted(name for name, each in SETTINGS.items() if each.tenant_may is not TenantMay.NOTHING)
)
"""Those that a tenant may set."""


def _drafted(_: PageRequest, made: Answer) -> tuple[str, str]:
    return (
        "Nothing has been changed: this is a draft, and what it would do.",
        f"/change-sets/{made['change_set_id']}?{urlencode({'until': made['effect']['until_at']})}",
    )


def _form(kind: str, title: str, means: str, *fields: FormField) -> EndpointForm:
    return EndpointForm(
        path=f"/what-if/{kind.replace('_', '-')}",
        operation="create_change_set",
        method_name="change_sets.create",
        title=title,
        button="See what it would do",
        means=f"{means} Nothing is changed before the draft is applied.",
        fields=(*fields, _NOTE, _AHEAD),
        fixed={f"{CHANGE}type": kind},
        needs=SCOPES[KINDS[kind]],
        done=_drafted,
        back="/what-if",
    )


WHAT_IF: Final = (
    _form(
        "pause_lane",
        "What if a lane were paused?",
        "No job of the lane would start.",
        _LANE,
    ),
    _form(
        "limit_lane",
        "What if a lane were slower or faster?",
        "The lane would start no more jobs in a second than this.",
        _LANE,
        FormField(
            name=f"{CHANGE}rate_per_second",
            label="Most per second",
            kind="decimal",
            hint="no limit if empty",
            nullable=True,
        ),
    ),
    _form(
        "pause_schedule",
        "What if a schedule were paused?",
        "Its occurrences would be skipped.",
        _SCHEDULE,
    ),
    _form(
        "change_policy",
        "What if a schedule were spread, or retried without funds?",
        "Its occurrences would be spread over the seconds given, or its payments keep trying.",
        _SCHEDULE,
        FormField(name=f"{CHANGE}jitter_seconds", label="Spread over seconds", kind="whole"),
        FormField(
            name=f"{CHANGE}insufficient_funds.policy",
            label="Payment without funds",
            kind="choice",
            choices=("fail", "retry"),
        ),
    ),
    _form(
        "freeze",
        "What if everything were frozen for a while?",
        "Work that is due in the window would wait until its end.",
        instant_field(f"{CHANGE}from_at", "From", "in UTC; now if empty"),
        instant_field(f"{CHANGE}until_at", "Until", required=True),
    ),
    _form(
        "reschedule_jobs",
        "What if these jobs ran later?",
        "The jobs that match now would be due at another time.",
        *_FILTER,
        instant_field(f"{CHANGE}to.run_at", "New time", required=True),
        FormField(
            name=f"{CHANGE}to.spread_seconds",
            label="Spread over seconds",
            kind="whole",
            hint="all at that time if empty",
        ),
    ),
    _form(
        "cancel_jobs",
        "What if these jobs were cancelled?",
        "The jobs that match now would end as CANCELLED.",
        *_FILTER,
    ),
    _form(
        "reschedule_payments",
        "What if these payments were made later?",
        "The pending payments that match now would be due at another time. Name at least one part "
        "of the filter.",
        *_PAYMENTS,
        instant_field(f"{CHANGE}to.scheduled_time", "New time", required=True),
    ),
    _form(
        "cancel_payments",
        "What if these payments were cancelled?",
        "The pending payments that match now would end as CANCELLED, and what they hold be "
        "released. Name at least one part of the filter.",
        *_PAYMENTS,
    ),
    _form(
        "put_setting",
        "What if a setting were changed?",
        "The setting would apply to this tenant, within what the operator allows.",
        FormField(
            name=f"{CHANGE}name",
            label="Setting",
            kind="choice",
            choices=_OWN_SETTINGS,
            required=True,
        ),
        FormField(name=f"{CHANGE}value", label="Value", kind="scalar", required=True),
    ),
    _form(
        "halt",
        "What if everything were halted?",
        "Nothing of this tenant would start or be settled until the halt is lifted.",
    ),
)
SEVERAL: Final = EndpointForm(
    path="/what-if/several",
    operation="create_change_set",
    method_name="change_sets.create",
    title="What if several things changed at once?",
    button="See what it would do",
    means="At most 20 changes, made in this order. Nothing is changed before the draft is applied.",
    fields=(
        FormField(
            name="changes",
            label="Changes",
            kind="json",
            required=True,
            hint='a JSON list, such as [{"type": "pause_lane", "lane": "mail"}]',
        ),
        _NOTE,
        _AHEAD,
    ),
    done=_drafted,
    back="/what-if",
)
WHAT_IF_FORMS: Final = (*WHAT_IF, SEVERAL)


def job_filter_query(given: Mapping[str, Any]) -> str:
    """Return the query by which a list of jobs fills in the filter of a form."""
    names = {"schedule": "schedule_id"}
    return urlencode(
        {
            f"{CHANGE}filter.{names.get(name, name)}": str(value)
            for name, value in given.items()
            if value
        }
    )
