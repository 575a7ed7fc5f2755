"""What the endpoints call: intake to write, views to read."""

from dataclasses import dataclass

from postdate.intake.account import Accounts
from postdate.intake.adjustment import Adjustments
from postdate.intake.approval import Approvals
from postdate.intake.calendar import Calendars
from postdate.intake.dead_letter import DeadLetters
from postdate.intake.destination import Destinations
from postdate.intake.halt import Halting
from postdate.intake.job import JobIntake
from postdate.intake.job_bulk import JobBulk
from postdate.intake.job_change import JobChanges
from postdate.intake.key import Keys
from postdate.intake.lane import Lanes
from postdate.intake.lease import LeaseClaims
from postdate.intake.lease_report import LeaseReports
from postdate.intake.once import Once
from postdate.intake.payment import Payments
from postdate.intake.payment_change import PaymentChanges
from postdate.intake.payment_execution import PaymentExecutions
from postdate.intake.schedule import Schedules
from postdate.intake.schedule_run import ScheduleRuns
from postdate.intake.setting import SettingChanges
from postdate.intake.subscription import Subscriptions
from postdate.intake.tenant import Tenants
from postdate.intake.trial import Trials
from postdate.views.account import AccountViews
from postdate.views.audit import AuditViews
from postdate.views.destination import DestinationViews
from postdate.views.event import EventViews
from postdate.views.halt import HaltViews
from postdate.views.identity import Identities
from postdate.views.job import JobViews
from postdate.views.key import KeyViews
from postdate.views.lane import LaneViews
from postdate.views.payment import PaymentViews
from postdate.views.schedule import ScheduleViews
from postdate.views.setting import SettingViews
from postdate.views.subscription import SubscriptionViews
from postdate.views.tenant import TenantViews


@dataclass(slots=True, frozen=True, kw_only=True)
class Services:
    """One field a service; the CLI makes them, handlers take them from their call."""

    identities: Identities
    once: Once
    tenants: Tenants
    tenant_views: TenantViews
    keys: Keys
    key_views: KeyViews
    audit_views: AuditViews
    halting: Halting
    halt_views: HaltViews
    settings: SettingChanges
    setting_views: SettingViews
    destinations: Destinations
    destination_views: DestinationViews
    trials: Trials
    accounts: Accounts
    account_views: AccountViews
    adjustments: Adjustments
    payments: Payments
    payment_views: PaymentViews
    payment_changes: PaymentChanges
    payment_executions: PaymentExecutions
    approvals: Approvals
    jobs: JobIntake
    job_changes: JobChanges
    job_bulk: JobBulk
    job_views: JobViews
    leases: LeaseClaims
    lease_reports: LeaseReports
    event_views: EventViews
    subscriptions: Subscriptions
    subscription_views: SubscriptionViews
    dead_letters: DeadLetters
    lanes: Lanes
    lane_views: LaneViews
    schedules: Schedules
    schedule_runs: ScheduleRuns
    schedule_views: ScheduleViews
    calendars: Calendars
