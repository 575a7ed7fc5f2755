"""What the pages call: intake to write, views to read."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from postdate.intake.account import Accounts
from postdate.intake.adjustment import Adjustments
from postdate.intake.approval import Approvals
from postdate.intake.dead_letter import DeadLetters
from postdate.intake.destination import Destinations
from postdate.intake.job_bulk import JobBulk
from postdate.intake.job_change import JobChanges
from postdate.intake.key import Keys
from postdate.intake.lane import Lanes
from postdate.intake.once import Once
from postdate.intake.payment_change import PaymentChanges
from postdate.intake.schedule import Schedules
from postdate.intake.schedule_run import ScheduleRuns
from postdate.intake.setting import SettingChanges
from postdate.intake.subscription import Subscriptions
from postdate.intake.trial import Trials
from postdate.model.errors import Refusal
from postdate.model.identity import Identity
from postdate.views.account import AccountViews
from postdate.views.audit import AuditViews
from postdate.views.destination import DestinationViews
from postdate.views.event import EventViews
from postdate.views.find import FindViews
from postdate.views.job import JobViews
from postdate.views.key import KeyViews
from postdate.views.overview import OverviewViews
from postdate.views.payment import PaymentViews
from postdate.views.schedule import ScheduleViews
from postdate.views.setting import SettingViews
from postdate.views.subscription import SubscriptionViews


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsoleServices:
    """One field a service; the CLI makes them, and shares with the API those that group."""

    authenticate: Callable[[str], Awaitable[Identity | None]]
    pace: Callable[[Identity], Awaitable[Mapping[str, str]]]
    translate: Callable[[Exception], Refusal | None]
    unix_ms: Callable[[], int]
    halted: Callable[[int], Refusal | None]
    operator_tenant: str
    """The tenant whose admins run the cluster, and see what is not about one tenant."""
    accounts: Accounts
    account_views: AccountViews
    adjustments: Adjustments
    approvals: Approvals
    audit_views: AuditViews
    dead_letters: DeadLetters
    destinations: Destinations
    destination_views: DestinationViews
    event_views: EventViews
    find_views: FindViews
    job_bulk: JobBulk
    job_changes: JobChanges
    job_views: JobViews
    keys: Keys
    key_views: KeyViews
    lanes: Lanes
    lane_names: Callable[[int], Collection[str]]
    once: Once
    overdue: Callable[[int], Sequence[str]]
    overview: OverviewViews
    payment_changes: PaymentChanges
    payment_views: PaymentViews
    schedules: Schedules
    schedule_runs: ScheduleRuns
    schedule_views: ScheduleViews
    settings: SettingChanges
    setting_views: SettingViews
    subscriptions: Subscriptions
    subscription_views: SubscriptionViews
    trials: Trials
