"""Watch for payments that will fail: forecast every tenant, count them, and record warnings."""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.database.connection import clock
from postdate.database.connection.database import Database
from postdate.foresight.spec.money import FailingPayment
from postdate.foresight.store import warning as store
from postdate.foresight.view.money import MoneyViews
from postdate.words.error import RefusedError

log = Log()

POLL_SECONDS: Final = 30.0
ROUND_SECONDS: Final = 300.0
"""How often every tenant is checked; a node waits a minute before its first round."""

FIRST_SECONDS: Final = 60.0
MAX_TENANTS: Final = 1000
"""How many tenants one round checks."""

SETTING: Final = "foresight.warn_hours"
MAX_HOURS: Final = 8760

RecordWarnings = Callable[[int, Sequence[FailingPayment], float], Awaitable[int]]
"""Record the payments of a tenant that will fail soon; return the number of new ones."""


def will_fail_gauge(registry: CollectorRegistry) -> Gauge:
    """Return the metric of the last round."""
    return Gauge(
        "postdate_payment_will_fail",
        "Payments that will fail within foresight.warn_hours, as of the last forecast.",
        registry=registry,
    )


class MoneyWatch:
    """Forecasts all tenants periodically."""

    def __init__(
        self,
        registry: CollectorRegistry,
        database: Database,
        settings: Settings,
        money: MoneyViews,
        record: RecordWarnings,
    ) -> None:
        self._database = database
        self._settings = settings
        self._money = money
        self._record = record
        self._next = time.monotonic() + FIRST_SECONDS
        self._gauge = will_fail_gauge(registry)

    async def step(self, _: int = 1) -> int:
        """Run a round if it is time."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + ROUND_SECONDS
            await self.run_once()
        return 0

    async def run_once(self) -> int:
        """Forecast every tenant; return how many payments will fail."""
        async with self._database.connection() as connection:
            now = await clock.now(connection)
            until = now + timedelta(hours=MAX_HOURS)
            tenants = await store.tenants(connection, until, MAX_TENANTS)
        total = 0
        for tenant_id in tenants:
            try:
                total += await self._look(tenant_id, now)
            except RefusedError as error:  # its own questions are being computed
                log.debug("foresight.not_now", tenant_id=tenant_id, error=str(error))
        self._gauge.set(total)
        return total

    async def _look(self, tenant_id: int, now: datetime) -> int:
        hours = self._settings.number(SETTING, tenant_id=tenant_id)
        if hours <= 0:
            return 0
        found = await self._money.project(tenant_id, now + timedelta(hours=hours))
        if found is None or not found.failing_count:
            return 0
        if await self._record(tenant_id, found.failing, hours):
            log.warning("payment.will_fail", tenant_id=tenant_id, count=found.failing_count)
        return found.failing_count
