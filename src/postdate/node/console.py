"""Put the console together: it shares the API's services and adds its own views."""

from postdate.api.services import Services
from postdate.console.services import ConsoleServices
from postdate.intake.tenant.rate_limit import Rates
from postdate.node.first_start import TENANT
from postdate.node.node import Node
from postdate.node.refusal import translate
from postdate.views.authentication.identity import Identities
from postdate.views.find import FindViews
from postdate.views.monitor.overview import OverviewViews


def services(node: Node, identities: Identities, shared: Services, rates: Rates) -> ConsoleServices:
    """Make what the pages call."""
    return ConsoleServices(
        authenticate=identities.authenticate,
        pace=rates.admit,
        translate=translate,
        unix_ms=node.database.unix_ms,
        halted=lambda tenant_id: node.halts.refuse(tenant_id, node.database.unix_ms(), new=False),
        operator_tenant=TENANT,
        accounts=shared.accounts,
        account_views=shared.account_views,
        adjustments=shared.adjustments,
        approvals=shared.approvals,
        audit_views=shared.audit_views,
        dead_letters=shared.dead_letters,
        destinations=shared.destinations,
        destination_views=shared.destination_views,
        event_views=shared.event_views,
        find_views=FindViews(node.database),
        job_bulk=shared.job_bulk,
        job_changes=shared.job_changes,
        job_views=shared.job_views,
        keys=shared.keys,
        key_views=shared.key_views,
        lanes=shared.lanes,
        lane_names=lambda tenant_id: {lane.name for lane in node.lanes.of_tenant(tenant_id)},
        once=shared.once,
        overdue=node.overdue.sentences,
        overview=OverviewViews(node.database, node.lanes),
        payment_changes=shared.payment_changes,
        payment_views=shared.payment_views,
        schedules=shared.schedules,
        schedule_runs=shared.schedule_runs,
        schedule_views=shared.schedule_views,
        settings=shared.settings,
        setting_views=shared.setting_views,
        subscriptions=shared.subscriptions,
        subscription_views=shared.subscription_views,
        trials=shared.trials,
    )
