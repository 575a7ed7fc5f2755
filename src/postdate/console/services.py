"""What the pages call: intake to write, views to read."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from postdate.intake.accept.once import Once
from postdate.intake.account.account import Accounts
from postdate.intake.account.adjustment import Adjustments
from postdate.intake.destination.destination import Destinations
from postdate.intake.destination.destination_test import Trials
from postdate.intake.job.bulk import JobBulk
from postdate.intake.job.change import JobChanges
from postdate.intake.job.dead_letter import DeadLetters
from postdate.intake.job.lane import Lanes
from postdate.intake.payment.approval import Approvals
from postdate.intake.payment.change import PaymentChanges
from postdate.intake.schedule.run import ScheduleRuns
from postdate.intake.schedule.schedule import Schedules
from postdate.intake.subscription.subscription import Subscriptions
from postdate.intake.tenant.key import Keys
from postdate.intake.tenant.setting import SettingChanges
from postdate.model.error import Refusal
from postdate.model.tenant.identity import Identity
from postdate.views.account import AccountViews
from postdate.views.audit import AuditViews
from postdate.views.destination import DestinationViews
from postdate.views.event import EventViews
from postdate.views.find import FindViews
from postdate.views.job import JobViews
from postdate.views.key import KeyViews
from postdate.views.monitor.overview import OverviewViews
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
