"""What the endpoints and the pages call, by noun: intake to change, views to read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from postdate.account.change.account import Accounts
from postdate.account.change.adjustment import Adjustments
from postdate.account.view.account import AccountViews
from postdate.account.view.statement import StatementViews
from postdate.audit.view import AuditViews
from postdate.bulk_action.change.bulk_action import BulkActions
from postdate.bulk_action.view import BulkActionViews
from postdate.calendar.change import Calendars
from postdate.calendar.view import CalendarViews
from postdate.change_set.change.change_set import ChangeSets
from postdate.core.setting.setting import Settings
from postdate.destination.change.destination import Destinations
from postdate.destination.change.destination_test import DestinationTests
from postdate.destination.view.destination import DestinationViews
from postdate.event.view import EventViews
from postdate.foresight.view.effect import EffectViews
from postdate.foresight.view.load import LoadViews
from postdate.foresight.view.money import MoneyView, MoneyViews
from postdate.halt.change import Halting
from postdate.halt.view import HaltViews
from postdate.intake.create_once import CreateOnce
from postdate.job.accept.intake import JobIntake
from postdate.job.change.bulk import JobBulk
from postdate.job.change.change import JobChanges
from postdate.job.change.dead_letter import DeadLetters
from postdate.job.view import JobViews
from postdate.key.authentication.identity import Identities
from postdate.key.change.key import Keys
from postdate.key.change.session import ConsoleSessions
from postdate.key.view import KeyViews
from postdate.lane.change import Lanes
from postdate.lane.view import LaneViews
from postdate.lease.change.lease import LeaseClaims
from postdate.lease.change.renewal import LeaseRenewals
from postdate.lease.change.report import LeaseReports
from postdate.monitor.view.node import NodeViews
from postdate.monitor.view.overdue import OverdueWatch
from postdate.monitor.view.overview import OverviewViews
from postdate.payment.accept.intake import PaymentIntake
from postdate.payment.change.approval import Approvals
from postdate.payment.change.change import PaymentChanges
from postdate.payment.change.execution import PaymentExecutions
from postdate.payment.change.refund import Refunds
from postdate.payment.view.payment import PaymentViews
from postdate.receipt.view import ReceiptViews
from postdate.schedule.change.run import ScheduleRuns
from postdate.schedule.change.schedule import Schedules
from postdate.schedule.view import ScheduleViews
from postdate.search.view import SearchViews
from postdate.setting.change import SettingChanges
from postdate.setting.view import SettingViews
from postdate.subscription.change import Subscriptions
from postdate.subscription.view import SubscriptionViews
from postdate.tenant.change.tenant import Tenants
from postdate.tenant.view import TenantViews
from postdate.test_clock.change.test_clock import TestClocks
from postdate.test_clock.view import TestClockViews

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
    statement: StatementViews


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
    renewal: LeaseRenewals


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
    """Schedules, and their runs by hand."""

    change: Schedules
    run: ScheduleRuns
    read: ScheduleViews


@dataclass(slots=True, frozen=True, kw_only=True)
class Services:
    """Everything an endpoint or a page may call; made once in a process, shared by both."""

    account: AccountServices
    audit: AuditViews
    bulk_action: NounServices[BulkActions, BulkActionViews]
    calendar: NounServices[Calendars, CalendarViews]
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
    unwritable: Callable[[], str | None] = lambda: None
    """Why nothing can be written to the database; None while it can."""
    unix_ms: Callable[[], int]
    """The time of the database in milliseconds."""
