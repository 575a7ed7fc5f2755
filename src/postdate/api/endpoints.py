"""Every endpoint of the API, in the order of the reference."""

from typing import Final

from postdate.api.http.endpoint import AnyEndpoint
from postdate.api.routes import (
    account,
    approval,
    audit,
    calendar,
    change_set,
    dead_letter,
    destination,
    event,
    foresight,
    halt,
    job,
    job_change,
    key,
    lane,
    lease,
    payment,
    payment_change,
    receipt,
    schedule,
    schedule_run,
    setting,
    subscription,
    tenant,
    test_clock,
    whoami,
)

ENDPOINTS: Final[list[AnyEndpoint]] = [
    endpoint
    for module in (
        whoami,
        key,
        audit,
        halt,
        tenant,
        test_clock,
        setting,
        destination,
        account,
        payment,
        payment_change,
        approval,
        job,
        job_change,
        lease,
        event,
        subscription,
        lane,
        dead_letter,
        schedule,
        schedule_run,
        calendar,
        foresight,
        change_set,
        receipt,
    )
    for endpoint in module.ROUTES.endpoints
]
