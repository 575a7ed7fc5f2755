"""Every endpoint of the API, in the order of the reference."""

from typing import Final

from postdate.account import api as account
from postdate.audit import api as audit
from postdate.bulk_action import api as bulk_action
from postdate.calendar import api as calendar
from postdate.change_set.api import change_set
from postdate.destination import api as destination
from postdate.event import api as event
from postdate.foresight import api as foresight
from postdate.halt import api as halt
from postdate.http.endpoint import AnyEndpoint
from postdate.job.api import dead_letter, job, job_change
from postdate.key.api import key, whoami
from postdate.lane import api as lane
from postdate.lease import api as lease
from postdate.payment.api import approval, payment, payment_change
from postdate.receipt import api as receipt
from postdate.schedule.api import schedule, schedule_run
from postdate.setting import api as setting
from postdate.subscription import api as subscription
from postdate.tenant import api as tenant
from postdate.test_clock import api as test_clock

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
        bulk_action,
        receipt,
    )
    for endpoint in module.ROUTES.endpoints
]
