"""Every model of the API. Written by `make docs` from the endpoints."""

from postdate.client.models.accounts import *
from postdate.client.models.audit import *
from postdate.client.models.calendars import *
from postdate.client.models.change_sets import *
from postdate.client.models.dead_letters import *
from postdate.client.models.destinations import *
from postdate.client.models.events import *
from postdate.client.models.foresight import *
from postdate.client.models.halts import *
from postdate.client.models.jobs import *
from postdate.client.models.keys import *
from postdate.client.models.lanes import *
from postdate.client.models.leases import *
from postdate.client.models.payments import *
from postdate.client.models.receipts import *
from postdate.client.models.schedules import *
from postdate.client.models.settings import *
from postdate.client.models.shared import *
from postdate.client.models.subscriptions import *
from postdate.client.models.tenants import *
from postdate.client.models.test_clock import *
