"""What the endpoints and the pages call, by noun: intake to change, views to read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from postdate.intake.accept.create_once import CreateOnce
from postdate.intake.account.account import Accounts
from postdate.intake.account.adjustment import Adjustments
from postdate.intake.change_set.change_set import ChangeSets
from postdate.intake.destination.destination import Destinations
from postdate.intake.destination.destination_test import DestinationTests
from postdate.intake.job.accept import JobIntake
from postdate.intake.job.bulk import JobBulk
from postdate.intake.job.change import JobChanges
from postdate.intake.job.dead_letter import DeadLetters
from postdate.intake.job.lane import Lanes
from postdate.intake.lease.lease import LeaseClaims
from postdate.intake.lease.report import LeaseReports
from postdate.intake.payment.accept import PaymentIntake
from postdate.intake.payment.approval import Approvals
from postdate.intake.payment.change import PaymentChanges
from postdate.intake.payment.execution import PaymentExecutions
from postdate.intake.payment.refund import Refunds
from postdate.intake.schedule.calendar import Calendars
from postdate.intake.schedule.run import ScheduleRuns
from postdate.intake.schedule.schedule import Schedules
from postdate.intake.subscription.subscription import Subscriptions
from postdate.intake.tenant.halt import Halting
from postdate.intake.tenant.key import Keys
from postdate.intake.tenant.session import ConsoleSessions
from postdate.intake.tenant.setting import SettingChanges
from postdate.intake.tenant.tenant import Tenants
from postdate.intake.tenant.test_clock import TestClocks
from postdate.model.setting.setting import Settings
from postdate.views.account import AccountViews
from postdate.views.audit import AuditViews
from postdate.views.authentication.identity import Identities
from postdate.views.destination import DestinationViews
from postdate.views.event import EventViews
from postdate.views.foresight.effect import EffectViews
from postdate.views.foresight.load import LoadViews
from postdate.views.foresight.money import MoneyView, MoneyViews
from postdate.views.halt import HaltViews
from postdate.views.job import JobViews
from postdate.views.key import KeyViews
from postdate.views.lane import LaneViews
from postdate.views.monitor.overdue import OverdueWatch
from postdate.views.monitor.overview import OverviewViews
from postdate.views.node import NodeViews
from postdate.views.payment import PaymentViews
from postdate.views.receipt import ReceiptViews
from postdate.views.schedule import ScheduleViews
from postdate.views.search import SearchViews
from postdate.views.setting import SettingViews
from postdate.views.subscription import SubscriptionViews
from postdate.views.tenant import TenantViews
from postdate.views.test_clock import TestClockViews

C = TypeVar("C")
R = TypeVar("R")


@dataclass(slots=True, frozen=True)
class NounServices(Generic[C, R]):
    """What changes a noun, and what reads it."""

    change: C
    read: R


@dataclass(slots=True, frozen=True, kw_only=True)
class AccountServices:
    """Accounts and their adjustments."""

    change: Accounts
    adjustment: Adjustments
    read: AccountViews


@dataclass(slots=True, frozen=True, kw_only=True)
class DestinationServices:
    """Destinations, and the test that sends one event to a destination."""

    change: Destinations
    test: DestinationTests
    read: DestinationViews


@dataclass(slots=True, frozen=True, kw_only=True)
class ForesightServices:
    """What will be: load and money ahead."""

    effect: EffectViews
    load: LoadViews
    money: MoneyViews
    settings: Settings

    async def will_fail(self, tenant_id: int) -> MoneyView | None:
        """Return what will fail within the tenant's warning time."""
        hours = self.settings.number("foresight.warn_hours", tenant_id=tenant_id)
        return await self.money.soon(tenant_id, hours)


@dataclass(slots=True, frozen=True, kw_only=True)
class JobServices:
    """Jobs: accepted, changed one by one or by a filter, read."""

    intake: JobIntake
    change: JobChanges
    bulk: JobBulk
    read: JobViews


@dataclass(slots=True, frozen=True, kw_only=True)
class LeaseServices:
    """Leases of workers that claim their jobs over HTTP."""

    claim: LeaseClaims
    report: LeaseReports


@dataclass(slots=True, frozen=True, kw_only=True)
class PaymentServices:
    """Payments: accepted, approved, changed, executed on request, refunded, read."""

    intake: PaymentIntake
    approval: Approvals
    change: PaymentChanges
    execution: PaymentExecutions
    refund: Refunds
    read: PaymentViews


@dataclass(slots=True, frozen=True, kw_only=True)
class ScheduleServices:
    """Schedules, their runs by hand, and the calendars they follow."""

    change: Schedules
    run: ScheduleRuns
    calendar: Calendars
    read: ScheduleViews


@dataclass(slots=True, frozen=True, kw_only=True)
class Services:
    """Everything an endpoint or a page may call; made once in a process, shared by both."""

    account: AccountServices
    audit: AuditViews
    change_set: ChangeSets
    dead_letter: DeadLetters
    destination: DestinationServices
    event: EventViews
    foresight: ForesightServices
    halt: NounServices[Halting, HaltViews]
    identities: Identities
    job: JobServices
    key: NounServices[Keys, KeyViews]
    lane: NounServices[Lanes, LaneViews]
    lease: LeaseServices
    node: NodeViews
    once: CreateOnce
    operator_tenant: str
    """The tenant whose admins run the cluster, and see what is not about one tenant."""
    overdue: OverdueWatch
    overview: OverviewViews
    payment: PaymentServices
    receipt: ReceiptViews
    schedule: ScheduleServices
    search: SearchViews
    session: ConsoleSessions
    setting: NounServices[SettingChanges, SettingViews]
    subscription: NounServices[Subscriptions, SubscriptionViews]
    tenant: NounServices[Tenants, TenantViews]
    test_clock: NounServices[TestClocks, TestClockViews]
    unix_ms: Callable[[], int]
    """The time of the database in milliseconds."""
