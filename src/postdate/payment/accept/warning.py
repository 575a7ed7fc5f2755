"""Warn of payments that will fail."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from postdate.audit.spec import SYSTEM
from postdate.database.connection.database import Database
from postdate.event.store.event import record_events
from postdate.foresight.spec.money import FailingPayment
from postdate.foresight.store import warning as store


class PaymentWarnings:
    """Records `payment.will_fail`, once for each payment or schedule within the warning time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record_warnings(
        self, tenant_id: int, failing: Sequence[FailingPayment], hours: float
    ) -> int:
        """Record an event for the first failure of each payment or schedule; return how many."""
        first = {
            subject: each
            for each in reversed(failing)
            if (subject := each.payment_id or each.schedule_id) is not None
        }
        async with self._database.write("payment.warn") as connection:
            known = await store.list_warned(connection, tenant_id, first, timedelta(hours=hours))
            data = {
                subject: msgspec.to_builtins(each)
                for subject, each in first.items()
                if subject not in known
            }
            await record_events(connection, tenant_id, "payment.will_fail", SYSTEM, data)
        return len(data)
