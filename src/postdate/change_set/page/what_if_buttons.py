"""What if: a form for each kind of change, which makes a draft and shows what it would do."""

from functools import partial
from typing import Final

from postdate.change_set.change.change import KINDS, SCOPES
from postdate.console.button import Button
from postdate.console.form_field import FieldSpec
from postdate.core.setting.table import SETTINGS, TenantMay

CHANGE: Final = "changes.0."
"""Where the one change of a form stands in the body."""

_NOTHING_YET: Final = "Nothing is changed before the draft is applied."
_AHEAD: Final = (FieldSpec("note", label="Why"), FieldSpec("until_at", label="Look ahead until"))
_JOBS: Final = (
    FieldSpec(f"{CHANGE}filter.status", hint="both if empty", choices=("PENDING", "READY")),
    f"{CHANGE}filter.lane",
    f"{CHANGE}filter.schedule_id",
    f"{CHANGE}filter.due_after",
    f"{CHANGE}filter.due_before",
)
_PAYMENTS: Final = (
    f"{CHANGE}filter.from_account_id",
    f"{CHANGE}filter.to_account_id",
    f"{CHANGE}filter.schedule_id",
    f"{CHANGE}filter.due_after",
    f"{CHANGE}filter.due_before",
)
_OWN_SETTINGS: Final = tuple(
    sorted(name for name, each in SETTINGS.items() if each.tenant_may is not TenantMay.NOTHING)
)
"""The settings that a tenant may change."""


_Draft = partial(
    Button,
    "create_change_set",
    confirm="See what it would do",
    done="Nothing has been changed: this is a draft, and what it would do.",
    then="/change-sets/{change_set_id}?until={effect[until_at]}",
    back="/what-if",
)


def _what_if(kind: str, title: str, means: str, *fields: str | FieldSpec) -> Button:
    return _Draft(
        at=f"/what-if/{kind.replace('_', '-')}",
        title=f"What if {title}?",
        means=f"{means} {_NOTHING_YET}",
        fields=(*fields, *_AHEAD),
        fixed={f"{CHANGE}type": kind},
        needs=SCOPES[KINDS[kind]],
    )


BUTTONS: Final = (
    _what_if(
        "pause_lane",
        "a lane were paused",
        "No job of the lane would start.",
        f"{CHANGE}lane",
    ),
    _what_if(
        "limit_lane",
        "a lane were slower or faster",
        "The lane would start no more jobs in a second than this; empty is no limit.",
        f"{CHANGE}lane",
        f"{CHANGE}rate_per_second",
    ),
    _what_if(
        "pause_schedule",
        "a schedule were paused",
        "Its occurrences would be skipped.",
        f"{CHANGE}schedule_id",
    ),
    _what_if(
        "change_policy",
        "a schedule were spread, or retried without funds",
        "Its occurrences would be spread over the seconds given, or its payments keep trying.",
        f"{CHANGE}schedule_id",
        f"{CHANGE}jitter_seconds",
        f"{CHANGE}insufficient_funds.policy",
    ),
    _what_if(
        "freeze",
        "everything were frozen for a while",
        "Work that is due in the window would wait until its end.",
        f"{CHANGE}from_at",
        f"{CHANGE}until_at",
    ),
    _what_if(
        "reschedule_jobs",
        "these jobs ran later",
        "The jobs that match now would be due at another time.",
        *_JOBS,
        FieldSpec(f"{CHANGE}to.run_at", label="New time", required=True),
        f"{CHANGE}to.spread_seconds",
    ),
    _what_if(
        "cancel_jobs",
        "these jobs were cancelled",
        "The jobs that match now would end as CANCELLED.",
        *_JOBS,
    ),
    _what_if(
        "reschedule_payments",
        "these payments were made later",
        "The pending payments that match now would be due at another time. Name at least one part "
        "of the filter.",
        *_PAYMENTS,
        FieldSpec(f"{CHANGE}to.scheduled_time", label="New time", required=True),
    ),
    _what_if(
        "cancel_payments",
        "these payments were cancelled",
        "The pending payments that match now would end as CANCELLED, and what they hold be "
        "released. Name at least one part of the filter.",
        *_PAYMENTS,
    ),
    _what_if(
        "put_setting",
        "a setting were changed",
        "The setting would apply to this tenant, within what the operator allows.",
        FieldSpec(f"{CHANGE}name", label="Setting", choices=_OWN_SETTINGS),
        f"{CHANGE}value",
    ),
    _what_if(
        "halt",
        "everything were halted",
        "Nothing of this tenant would start or be settled until the halt is lifted.",
    ),
    _Draft(
        at="/what-if/several",
        title="What if several things changed at once?",
        means=f"At most 20 changes, made in this order. {_NOTHING_YET}",
        fields=("changes", *_AHEAD),
    ),
)
