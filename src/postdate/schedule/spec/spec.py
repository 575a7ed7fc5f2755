"""A schedule as a client asks for it and as a client sees it."""

from datetime import date, datetime
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from postdate.core.field import Instant
from postdate.core.shape import shaped
from postdate.recurrence import zone
from postdate.recurrence.calendar import Roll, Weekday
from postdate.recurrence.rule import MAX_EXCLUDED_DATES, Dst, Rule
from postdate.schedule.spec.rule import policies_of
from postdate.schedule.spec.schedule import (
    Definition,
    InsufficientFunds,
    Misfire,
    Overlap,
    Policies,
    Template,
)
from postdate.schedule.spec.warning import ScheduleWarning
from postdate.words.error import RefusedError

EverySeconds = Annotated[int, Meta(ge=1, le=3660 * 86_400)]
MaxRuns = Annotated[int, Meta(ge=1, le=2**31 - 1)]
ExcludeDates = Annotated[tuple[date, ...], Meta(max_length=MAX_EXCLUDED_DATES)]
Jitter = Annotated[int, Meta(ge=0, le=86_400)]
ScheduleName = Annotated[str, Meta(max_length=200)]

MAX_HOLIDAYS: Final = 5000
PREVIEW_DEFAULT: Final = 10
MAX_PREVIEW: Final = 100

RULES: Final = ("cron", "every_seconds", "rrule")
_RULE_FIELDS: Final = Rule.__struct_fields__
_POLICY_FIELDS: Final = Policies.__struct_fields__


class RuleSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of `cron`, `every_seconds` and `rrule`, and policies where wanted."""

    cron: str | None = None
    every_seconds: EverySeconds | None = None
    rrule: str | None = None
    timezone: str = "UTC"
    start_at: Instant | None = None
    end_at: Instant | None = None
    max_runs: MaxRuns | None = None
    exclude_dates: ExcludeDates = ()
    roll: Roll = Roll.NONE
    dst: Dst = Dst()
    misfire: Misfire = Misfire()
    overlap: Overlap = Overlap.ALLOW
    jitter_seconds: Jitter = 0
    insufficient_funds: InsufficientFunds = InsufficientFunds()


class ScheduleSpec(RuleSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule, a template, and policies where wanted."""

    template: Template
    name: ScheduleName = ""
    calendar: str | None = None

    def definition(self) -> Definition:
        """Return the first version."""
        return Definition(
            name=self.name,
            template=self.template,
            rule=Rule(**{name: getattr(self, name) for name in _RULE_FIELDS}),
            policies=Policies(**{name: getattr(self, name) for name in _POLICY_FIELDS}),
        )


class SchedulePatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New values; absent fields stay as they are, and another kind of rule replaces the old one."""

    template: Template | UnsetType = UNSET
    name: ScheduleName | UnsetType = UNSET
    cron: str | UnsetType = UNSET
    every_seconds: EverySeconds | UnsetType = UNSET
    rrule: str | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    start_at: Instant | UnsetType | None = UNSET
    end_at: Instant | UnsetType | None = UNSET
    max_runs: MaxRuns | UnsetType | None = UNSET
    exclude_dates: ExcludeDates | UnsetType = UNSET
    calendar: str | UnsetType | None = UNSET
    roll: Roll | UnsetType = UNSET
    dst: Dst | UnsetType = UNSET
    misfire: Misfire | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    jitter_seconds: Jitter | UnsetType = UNSET
    insufficient_funds: InsufficientFunds | UnsetType = UNSET

    def changes(self) -> dict[str, object]:
        """Return what is to be changed."""
        fields = msgspec.structs.asdict(self)
        return {name: value for name, value in fields.items() if value is not UNSET}

    def applied(self, before: Definition) -> Definition:
        """Return the next version."""
        changes = self.changes()
        if any(name in changes for name in RULES):
            changes = {**dict.fromkeys(RULES), **changes}
        rule = {name: changes[name] for name in _RULE_FIELDS if name in changes}
        policies = {name: changes[name] for name in _POLICY_FIELDS if name in changes}
        return Definition(
            name=before.name if self.name is UNSET else self.name,
            template=before.template if self.template is UNSET else self.template,
            rule=msgspec.structs.replace(before.rule, **rule),
            policies=msgspec.structs.replace(before.policies, **policies),
        )


class InlineCalendar(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A calendar that is not stored."""

    holidays: Annotated[frozenset[date], Meta(max_length=MAX_HOLIDAYS)] = frozenset()
    weekend: Annotated[
        frozenset[Weekday],
        Meta(max_length=6, description="Closed days of the week; 1 is Monday."),
    ] = frozenset({6, 7})


class PreviewSpec(RuleSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule to preview before it is created; `calendar` is a name, or the days themselves."""

    template: Template | None = None
    name: ScheduleName = ""
    calendar: str | InlineCalendar | None = None
    count: Annotated[int, Meta(ge=1, le=MAX_PREVIEW)] = PREVIEW_DEFAULT

    def definition(self) -> Definition:
        """Return the version that would be the first."""
        named = self.calendar if self.calendar is None or isinstance(self.calendar, str) else ""
        rule = {name: getattr(self, name) for name in _RULE_FIELDS}
        return Definition(
            name=self.name,
            template=self.template or Template(),
            rule=Rule(**{**rule, "calendar": named}),
            policies=Policies(**{name: getattr(self, name) for name in _POLICY_FIELDS}),
        )


ScheduleStatus = Literal["ACTIVE", "PAUSED", "SET_ASIDE", "ENDED"]


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule with all of its policies, chosen or not; `next_due_at` includes the jitter."""

    schedule_id: UUID
    version: int
    status: ScheduleStatus
    name: str
    cron: str | None
    every_seconds: int | None
    rrule: str | None
    timezone: str
    start_at: datetime | None
    end_at: datetime | None
    max_runs: int | None
    exclude_dates: tuple[date, ...]
    calendar: str | None
    roll: Roll
    template: Template
    dst: Dst
    misfire: Misfire
    overlap: Overlap
    jitter_seconds: int
    insufficient_funds: InsufficientFunds
    next_due_at: datetime | None
    runs: int
    paused_at: datetime | None
    paused_note: str | None
    last_missed_at: datetime | None
    set_aside_at: datetime | None
    set_aside_error: str | None
    created_at: datetime
    changed_at: datetime
    tzdata: str = zone.VERSION


class AcceptedSchedule(ScheduleView, frozen=True, kw_only=True):
    """A schedule as it was created or changed, with what one should know about it."""

    warnings: list[ScheduleWarning]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a schedule, in addition to its definition."""

    schedule_id: UUID
    version: int
    runs: int
    created_at: datetime
    changed_at: datetime
    next_due_at: datetime | None
    ended: bool = False
    paused_at: datetime | None = None
    paused_note: str | None = None
    missed_at: datetime | None = None
    set_aside_at: datetime | None = None
    set_aside_error: str | None = None


def view(definition: Definition, standing: Standing) -> ScheduleView:
    """Show a schedule as a client sees it."""
    try:
        policies = policies_of(definition)
    except RefusedError:
        # A rule that was accepted once and no longer is: set aside, and shown as it is written.
        policies = definition.policies
    return shaped(
        ScheduleView,
        standing,
        status=_status(standing),
        name=definition.name,
        template=definition.template,
        last_missed_at=standing.missed_at,
        tzdata=zone.VERSION,
        **msgspec.structs.asdict(definition.rule),
        **msgspec.structs.asdict(policies),
    )


def accepted(shown: ScheduleView, warned: list[ScheduleWarning]) -> AcceptedSchedule:
    """Show a schedule after it was created or changed."""
    return AcceptedSchedule(**msgspec.structs.asdict(shown), warnings=warned)


def _status(standing: Standing) -> ScheduleStatus:
    if standing.ended:
        return "ENDED"
    if standing.set_aside_at is not None:
        return "SET_ASIDE"
    return "ACTIVE" if standing.paused_at is None else "PAUSED"
