"""Put the HTTP edge together: every endpoint, and the services behind them."""

from postdate.api.app import create_app
from postdate.api.endpoints import ENDPOINTS
from postdate.api.http.limit import Limits
from postdate.api.http.open_request import OpenLimits
from postdate.api.http.shell import Shell
from postdate.api.http.trusted_proxy import TrustedProxies, networks
from postdate.api.routes.health import Degraded, NotReady
from postdate.api.services import Services
from postdate.console.app import console_routes
from postdate.intake.accept.once import Once
from postdate.intake.account.account import Accounts
from postdate.intake.account.adjustment import Adjustments
from postdate.intake.destination.destination_test import Trials
from postdate.intake.job.bulk import JobBulk
from postdate.intake.job.change import JobChanges
from postdate.intake.job.dead_letter import DeadLetters
from postdate.intake.lease.report import LeaseReports
from postdate.intake.payment.accept import Payments
from postdate.intake.payment.approval import Approvals
from postdate.intake.payment.change import PaymentChanges
from postdate.intake.payment.execution import PaymentExecutions
from postdate.intake.tenant.halt import Halting
from postdate.intake.tenant.key import Keys
from postdate.intake.tenant.rate_limit import Rates
from postdate.intake.tenant.setting import SettingChanges
from postdate.intake.tenant.tenant import Tenants
from postdate.model.destination.destination import DestinationType
from postdate.node import console as pages
from postdate.node import job as jobs
from postdate.node import publisher
from postdate.node import schedule as schedule_wiring
from postdate.node.node import Node
from postdate.node.refusal import translate
from postdate.node.settings import Settings
from postdate.views.account import AccountViews
from postdate.views.audit import AuditViews
from postdate.views.authentication.identity import Identities
from postdate.views.destination import DestinationViews
from postdate.views.event import EventViews
from postdate.views.halt import HaltViews
from postdate.views.job import JobViews
from postdate.views.key import KeyViews
from postdate.views.lane import LaneViews
from postdate.views.monitor.health import readiness
from postdate.views.payment import PaymentViews
from postdate.views.schedule import ScheduleViews
from postdate.views.setting import SettingViews
from postdate.views.subscription import SubscriptionViews
from postdate.views.tenant import TenantViews


def services(node: Node, identities: Identities) -> Services:
    """Make what the endpoints call."""
    accepting = jobs.intake(node)
    scheduling = schedule_wiring.services(node, accepting)
    return Services(
        identities=identities,
        once=Once(node.database, node.outgoing.vault),
        tenants=Tenants(node.database),
        tenant_views=TenantViews(node.database),
        keys=Keys(node.database, node.runtime),
        key_views=KeyViews(node.database),
        audit_views=AuditViews(node.database),
        halting=Halting(node.database, node.halts),
        halt_views=HaltViews(node.database),
        settings=SettingChanges(node.database),
        setting_views=SettingViews(node.database),
        destinations=node.outgoing.destinations,
        destination_views=DestinationViews(node.database, node.troubles),
        trials=Trials(
            node.database,
            {
                DestinationType.WEBHOOK: node.outgoing.webhook.attempt,
                DestinationType.QUEUE: node.outgoing.queue.attempt,
            },
        ),
        accounts=Accounts(node.database, node.runtime),
        account_views=AccountViews(node.database),
        adjustments=Adjustments(node.database),
        payments=Payments(
            node.database, node.runtime, node.payment_meter, node.quotas, node.safety
        ),
        payment_views=PaymentViews(node.database),
        payment_changes=PaymentChanges(node.database, node.runtime, node.payment_meter),
        payment_executions=PaymentExecutions(node.database, node.runtime),
        approvals=Approvals(node.database, node.payment_meter),
        jobs=accepting,
        dead_letters=DeadLetters(node.database, node.lanes, accepting),
        job_changes=JobChanges(node.database, node.runtime, node.on_accept, node.outgoing.vault),
        job_bulk=JobBulk(node.database, node.lanes, node.runtime),
        job_views=JobViews(node.database, node.lanes, node.outgoing.vault, node.troubles),
        leases=jobs.leases(node),
        lease_reports=LeaseReports(node.database, node.lanes, node.runtime, node.tallies["pull"]),
        event_views=EventViews(node.database),
        subscriptions=publisher.intake(node),
        subscription_views=SubscriptionViews(node.database),
        lanes=jobs.lanes(node),
        lane_views=LaneViews(node.database),
        schedules=scheduling.schedules,
        schedule_runs=scheduling.runs,
        schedule_views=ScheduleViews(node.database, node.outgoing.vault),
        calendars=scheduling.calendars,
    )


def build(node: Node, identities: Identities) -> Shell:
    """Make the app of a node."""
    made = services(node, identities)
    rates = Rates(node.database, node.runtime, node.node_id)
    return create_app(
        endpoints=ENDPOINTS,
        services=made,
        authenticate=identities.authenticate,
        readiness=lambda: not_ready(node),
        overdue=node.overdue.sentences,
        registry=node.registry,
        internal_token=node.settings.internal_token or None,
        extra_routes=console_routes(pages.services(node, identities, made, rates)),
        translate=translate,
        halted=lambda tenant_id, new: node.halts.refuse(
            tenant_id, node.database.unix_ms(), new=new
        ),
        pace=rates.admit,
        limits=Limits(open=_open_limits(node.settings)),
        proxies=proxies(node.settings),
        knocks=identities.knocks,
        trace=node.tracing.request if node.tracing else None,
        freshness=lambda: node.database.freshness,
    )


def proxies(settings: Settings) -> TrustedProxies:
    """Know the operator's proxies."""
    return TrustedProxies(networks(settings.trusted_proxies))


def _open_limits(settings: Settings) -> OpenLimits:
    return OpenLimits(
        per_key=settings.open_per_key,
        per_tenant=settings.open_per_tenant,
        per_address=settings.open_per_address,
        # As many connections are left for requests that are answered at once.
        total=settings.connections // 2,
    )


def signs(node: Node, identities: Identities) -> Shell:
    """Make the app of a process without the API: how it is, and how it fares."""
    return create_app(
        endpoints=(),
        services=None,
        authenticate=identities.authenticate,
        readiness=lambda: not_ready(node),
        overdue=node.overdue.sentences,
        registry=node.registry,
        internal_token=None,
    )


async def not_ready(node: Node) -> list[NotReady]:
    """List what keeps this node from serving at all, or (degraded) from doing all it should.

    It stays in rotation for what it can do: reads while the database cannot be written, everything
    but settling while settlement is stopped, everything but payments while commits are not durable.
    """
    amiss = await readiness(node.database)
    found = [_told(name, reason, stays=reads) for name, reason, reads in amiss]
    if "api" in node.roles and (weakness := node.safety.weakness()):
        found.append(Degraded("payments", weakness))
    unwritten = any(each.name == "database" for each in amiss)
    # Whoever has to write stands still where nothing can be written.
    return found + [
        _told(loop.name, why, stays=bool(loop.blocked) or unwritten)
        for loop in node.loops
        if (why := loop.stalled())
    ]


def _told(name: str, reason: str, *, stays: bool) -> NotReady:
    return Degraded(name, reason) if stays else NotReady(name, reason)
