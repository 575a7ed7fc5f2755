"""Wire the HTTP side: every endpoint and page, and the services behind them."""

from functools import partial

from postdate.account.change.account import Accounts
from postdate.account.change.adjustment import Adjustments
from postdate.account.view.account import AccountViews
from postdate.account.view.statement import StatementViews
from postdate.api.app import create_app
from postdate.api.endpoints import ENDPOINTS
from postdate.api.health import BOTH, Degraded, NotReady
from postdate.api.services import (
    AccountServices,
    DestinationServices,
    ForesightServices,
    JobServices,
    LeaseServices,
    NounServices,
    PaymentServices,
    Services,
)
from postdate.audit.view import AuditViews
from postdate.bulk_action.view import BulkActionViews
from postdate.calendar.change import Calendars
from postdate.calendar.view import CalendarViews
from postdate.change_set.change.change_set import ChangeSets
from postdate.change_set.change.job_operation import JobOperation
from postdate.change_set.change.lane_operation import LaneOperation
from postdate.change_set.change.operation import Operations
from postdate.change_set.change.payment_operation import PaymentOperation
from postdate.change_set.change.schedule_operation import ScheduleOperation
from postdate.change_set.change.tenant_operation import HaltOperation, SettingOperation
from postdate.console.app import console_routes
from postdate.destination.change.destination_test import DestinationTests
from postdate.destination.spec.destination import DestinationType
from postdate.destination.view.destination import DestinationViews
from postdate.event.view import EventViews
from postdate.foresight.view.effect import EffectViews
from postdate.foresight.view.load import LoadViews
from postdate.foresight.view.money import MoneyViews
from postdate.foresight.view.rules import RuleBooks
from postdate.foresight.view.warming import (
    LARGEST_SECONDS,
    MAX_TENANTS,
    POLL_SECONDS,
    MoneyWarming,
    RuleWarming,
)
from postdate.halt.change import Halting
from postdate.halt.view import HaltViews
from postdate.http.gate import Gate
from postdate.http.limit import RequestLimits
from postdate.http.open_request import OpenLimits
from postdate.http.shell import Shell
from postdate.http.trusted_proxy import TrustedProxies, networks
from postdate.intake.create_once import CreateOnce
from postdate.job.change.bulk import JobBulk
from postdate.job.change.change import JobChanges
from postdate.job.change.dead_letter import DeadLetters
from postdate.job.view import JobViews
from postdate.key.authentication.identity import Identities
from postdate.key.change.key import Keys
from postdate.key.change.session import ConsoleSessions
from postdate.key.view import KeyViews
from postdate.lane.view import LaneViews
from postdate.lease.change.renewal import LeaseRenewals
from postdate.lease.change.report import LeaseReports
from postdate.monitor.view import health
from postdate.monitor.view.node import NodeViews
from postdate.monitor.view.overview import OverviewViews
from postdate.node import bulk_action, job, publisher, schedule, test_clock
from postdate.node.initial_key import TENANT
from postdate.node.node import Node
from postdate.node.refusal import translate
from postdate.node.settings import ProcessSettings
from postdate.payment.accept.intake import PaymentIntake
from postdate.payment.change.approval import Approvals
from postdate.payment.change.change import PaymentChanges
from postdate.payment.change.execution import PaymentExecutions
from postdate.payment.change.refund import Refunds
from postdate.payment.view.payment import PaymentViews
from postdate.receipt.view import ReceiptViews
from postdate.runtime.loop import Loop
from postdate.runtime.node import KEY_ROLES
from postdate.search.view import SearchViews
from postdate.secret.receipt_key import ReceiptKeys
from postdate.setting.change import SettingChanges
from postdate.setting.view import SettingViews
from postdate.subscription.view import SubscriptionViews
from postdate.tenant.change.rate_limit import Rates
from postdate.tenant.change.tenant import Tenants
from postdate.tenant.view import TenantViews
from postdate.test_clock.view import TestClockViews


def _warming(node: Node, books: RuleBooks, money: MoneyViews) -> list[Loop]:
    """Return the loops that load rules and payments in advance: the first requests do not wait."""
    database = node.database
    steps = [
        ("rules", RuleWarming(database, books).run_once, POLL_SECONDS),
        ("money", MoneyWarming(database, money).run_once, LARGEST_SECONDS),
    ]
    return [
        Loop(name, step, limit=MAX_TENANTS, poll_seconds=seconds, vital=False)
        for name, step, seconds in steps
    ]


def services(node: Node, identities: Identities) -> Services:
    """Build the services that the endpoints and the pages call."""
    database, runtime, outgoing = node.database, node.runtime, node.outgoing
    accepting, books = job.intake(node), RuleBooks()
    load = LoadViews(database, node.lanes, runtime, books)
    money = MoneyViews(database, books)
    node.loops += _warming(node, books, money)
    halting, bulk = Halting(database, node.halts), JobBulk(database, node.lanes, runtime)
    lanes, schedules = job.lanes(node), schedule.services(node, accepting)
    dead_letters = DeadLetters(database, node.lanes, accepting)
    settings, payments = SettingChanges(database), _payments(node)
    operations = Operations(
        lane=LaneOperation(database, lanes),
        schedule=ScheduleOperation(database, schedules.change),
        halt=HaltOperation(halting),
        setting=SettingOperation(database, settings),
        job=JobOperation(database, bulk, dead_letters),
        payment=PaymentOperation(database, payments.change, payments.intake),
    )
    return Services(
        account=AccountServices(
            change=Accounts(database, runtime),
            adjustment=Adjustments(database),
            read=AccountViews(database),
            statement=StatementViews(database),
        ),
        audit=AuditViews(database),
        bulk_action=NounServices(bulk_action.changes(node), BulkActionViews(database)),
        calendar=NounServices(Calendars(database), CalendarViews(database)),
        change_set=ChangeSets(database, operations),
        dead_letter=dead_letters,
        destination=DestinationServices(
            change=outgoing.destinations,
            test=_destination_tests(node),
            read=DestinationViews(database, node.troubles),
        ),
        event=EventViews(database),
        foresight=ForesightServices(
            effect=EffectViews(load, money), load=load, money=money, settings=runtime
        ),
        halt=NounServices(halting, HaltViews(database)),
        identities=identities,
        job=JobServices(
            intake=accepting,
            change=JobChanges(database, runtime, node.on_accept, outgoing.cipher, node.lanes),
            bulk=bulk,
            read=JobViews(database, node.lanes, outgoing.cipher, node.troubles),
        ),
        key=NounServices(Keys(database, runtime), KeyViews(database)),
        lane=NounServices(lanes, LaneViews(database)),
        lease=_leases(node),
        node=NodeViews(database),
        once=CreateOnce(database, outgoing.cipher),
        operator_tenant=TENANT,
        overdue=node.overdue,
        overview=OverviewViews(database, node.lanes, load, node.troubles),
        payment=payments,
        receipt=ReceiptViews(database, ReceiptKeys(database, outgoing.keyring)),
        schedule=schedules,
        search=SearchViews(database, node.lanes),
        session=ConsoleSessions(database),
        setting=NounServices(settings, SettingViews(database)),
        subscription=NounServices(publisher.intake(node), SubscriptionViews(database)),
        tenant=NounServices(Tenants(database), TenantViews(database)),
        test_clock=NounServices(test_clock.clocks(node, accepting), TestClockViews(database)),
        unwritable=lambda: fault.reason if (fault := node.heartbeat.fault) else None,
        unix_ms=database.unix_ms,
    )


def _payments(node: Node) -> PaymentServices:
    database, runtime, meter = node.database, node.runtime, node.payment_meter
    intake = PaymentIntake(database, runtime, meter, node.quotas, node.safety)
    return PaymentServices(
        intake=intake,
        approval=Approvals(database, meter),
        change=PaymentChanges(database, runtime, meter),
        execution=PaymentExecutions(database, runtime),
        refund=Refunds(database, intake),
        read=PaymentViews(database),
    )


def _leases(node: Node) -> LeaseServices:
    shared = node.database, node.lanes, node.runtime
    cipher, claims = node.outgoing.cipher, job.leases(node)
    freed = partial(job.freed, node, claims)
    return LeaseServices(
        claim=claims,
        report=LeaseReports(*shared, node.tallies["pull"], cipher, freed),
        renewal=LeaseRenewals(*shared, cipher),
    )


def _destination_tests(node: Node) -> DestinationTests:
    return DestinationTests(
        node.database,
        {
            DestinationType.WEBHOOK: node.outgoing.webhook.attempt,
            DestinationType.QUEUE: node.outgoing.queue.attempt,
        },
    )


def gate(node: Node, identities: Identities) -> Gate:
    """Build the checks that every request passes."""
    return Gate(
        authenticate=identities.authenticate,
        internal_token=node.settings.internal_token or None,
        translate=translate,
        pace=Rates(node.database, node.runtime, node.node_id).admit,
        trace=node.tracing.request if node.tracing else None,
        halted=lambda tenant_id, new: node.halts.refuse(
            tenant_id, node.database.unix_ms(), new=new
        ),
        freshness=lambda: node.database.freshness,
        proxies=proxies(node.settings),
        login_throttle=identities.login_throttle,
    )


def build(node: Node, identities: Identities) -> Shell:
    """Make the app of a node: the API, and the console on the same services and checks."""
    made, checks = services(node, identities), gate(node, identities)
    return create_app(
        endpoints=ENDPOINTS,
        services=made,
        gate=checks,
        readiness=lambda: not_ready(node),
        overdue=node.overdue.sentences,
        registry=node.registry,
        extra_routes=console_routes(made, checks),
        limits=RequestLimits(open=_open_limits(node.settings)),
    )


def proxies(settings: ProcessSettings) -> TrustedProxies:
    """Parse the operator's trusted proxies."""
    return TrustedProxies(networks(settings.trusted_proxies))


def _open_limits(settings: ProcessSettings) -> OpenLimits:
    return OpenLimits(
        per_key=settings.open_per_key,
        per_tenant=settings.open_per_tenant,
        per_address=settings.open_per_address,
        # As many connections are left for requests that are answered at once.
        total=settings.connections // 2,
    )


def health_app(node: Node, identities: Identities) -> Shell:
    """Build the app of a process without the API: health and metrics."""
    return create_app(
        endpoints=(),
        services=None,
        gate=Gate(authenticate=identities.authenticate),
        readiness=lambda: not_ready(node),
        overdue=node.overdue.sentences,
        registry=node.registry,
    )


async def not_ready(node: Node) -> list[NotReady]:
    """Return what keeps this node from serving at all, or (degraded) from serving everything.

    It stays in rotation for what it can do: reads while the database cannot be written, everything
    but settling while settlement is stopped, everything but payments while commits are not durable,
    everything else while it looks ahead for longer than expected.
    """
    amiss = await node.health.faults()
    if not amiss:
        opens = not KEY_ROLES.isdisjoint(node.roles)
        key_ids = node.outgoing.keyring.ids if opens else None
        amiss = await health.neglected(node.database, key_ids)
    if (fault := node.heartbeat.fault) and fault.name not in {each.name for each in amiss}:
        amiss = [*amiss, health.write_fault(fault)]
    found = [_shortcoming(each) for each in amiss]
    if "api" in node.roles and (weakness := node.safety.weakness()):
        found.append(Degraded("payments", weakness))
    # Stages that write stop while nothing can be written.
    unwritten = not all(each.writes for each in amiss)
    return found + [
        Degraded(loop.name, why)
        if loop.blocked or unwritten or not loop.vital
        else NotReady(loop.name, why)
        for loop in node.loops
        if (why := loop.stalled())
    ]


def _shortcoming(fault: health.DatabaseFault) -> NotReady:
    goes_on = {"reads": fault.reads, "writes": fault.writes}
    kind = Degraded if fault.serves else NotReady
    return kind(fault.name, fault.reason, [each for each in BOTH if not goes_on[each]])
