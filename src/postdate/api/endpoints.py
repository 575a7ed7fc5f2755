"""Every endpoint of the API, in the order of the reference."""

from typing import Final

from postdate.api.http.endpoint import AnyEndpoint
from postdate.api.routes import (
    account,
    approval,
    audit,
    calendar,
    dead_letter,
    destination,
    event,
    halt,
    job,
    job_change,
    key,
    lane,
    lease,
    payment,
    payment_change,
    schedule,
    schedule_run,
    setting,
    subscription,
    tenant,
    whoami,
)

ENDPOINTS: Final[list[AnyEndpoint]] = [
    *whoami.ENDPOINTS,
    *key.ENDPOINTS,
    *audit.ENDPOINTS,
    *halt.ENDPOINTS,
    *tenant.ENDPOINTS,
    *setting.ENDPOINTS,
    *destination.ENDPOINTS,
    *account.ENDPOINTS,
    *payment.ENDPOINTS,
    *payment_change.ENDPOINTS,
    *approval.ENDPOINTS,
    *job.ENDPOINTS,
    *job_change.ENDPOINTS,
    *lease.ENDPOINTS,
    *event.ENDPOINTS,
    *subscription.ENDPOINTS,
    *lane.ENDPOINTS,
    *dead_letter.ENDPOINTS,
    *schedule.ENDPOINTS,
    *schedule_run.ENDPOINTS,
    *calendar.ENDPOINTS,
]
