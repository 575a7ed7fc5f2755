"""What the endpoints call: intake to write, views to read."""

from dataclasses import dataclass

from postdate.intake.accept.once import Once
from postdate.intake.account.account import Accounts
from postdate.intake.account.adjustment import Adjustments
from postdate.intake.destination.destination import Destinations
from postdate.intake.destination.destination_test import Trials
from postdate.intake.job.accept import JobIntake
from postdate.intake.job.bulk import JobBulk
from postdate.intake.job.change import JobChanges
from postdate.intake.job.dead_letter import DeadLetters
from postdate.intake.job.lane import Lanes
from postdate.intake.lease.lease import LeaseClaims
from postdate.intake.lease.report import LeaseReports
from postdate.intake.payment.accept import Payments
from postdate.intake.payment.approval import Approvals
from postdate.intake.payment.change import PaymentChanges
from postdate.intake.payment.execution import PaymentExecutions
from postdate.intake.schedule.calendar import Calendars
from postdate.intake.schedule.run import ScheduleRuns
from postdate.intake.schedule.schedule import Schedules
from postdate.intake.subscription.subscription import Subscriptions
from postdate.intake.tenant.halt import Halting
from postdate.intake.tenant.key import Keys
from postdate.intake.tenant.setting import SettingChanges
from postdate.intake.tenant.tenant import Tenants
from postdate.views.account import AccountViews
from postdate.views.audit import AuditViews
from postdate.views.authentication.identity import Identities
from postdate.views.destination import DestinationViews
from postdate.views.event import EventViews
from postdate.views.halt import HaltViews
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
