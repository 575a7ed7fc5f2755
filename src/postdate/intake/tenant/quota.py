"""Hold tenants to their quotas: counted in the background, or where something seldom is made."""

import time
from typing import Final

from postdate.model.errors import Code, refuse
from postdate.model.quota import Quotas
from postdate.model.setting import Settings
from postdate.store import quota as store
from postdate.store.database import Connection, Database

COUNT_SECONDS: Final = 5.0
SHARE: Final = 20
"""Counting may take a twentieth of the time, however much there is to count."""


class PendingCounts:
    """Counts what is pending, for the tenants that have a quota."""

    def __init__(self, database: Database, quotas: Quotas) -> None:
        self._database = database
        self._quotas = quotas
        self._not_before = 0.0

    async def run_once(self, _: int = 1) -> int:
        """Count once; 0, because the pause is meant."""
        started = time.monotonic()
        if started < self._not_before:
            return 0
        async with self._database.connection() as connection:
            limited = self._quotas.limited(await store.tenants(connection))
        if limited:
            self._quotas.learn(await store.pending(self._database, limited))
        self._not_before = started + SHARE * (time.monotonic() - started)
        return 0


async def check_accounts(connection: Connection, settings: Settings, tenant_id: int) -> None:
    """Refuse an account beyond the quota."""
    most = settings.whole("quota.accounts", tenant_id)
    if most and await store.accounts(connection, tenant_id, most) >= most:
        raise refuse(Code.QUOTA_EXCEEDED, f"The tenant may have {most} accounts.", quota=most)


async def check_schedules(connection: Connection, settings: Settings, tenant_id: int) -> None:
    """Refuse a schedule beyond the quota."""
    most = settings.whole("quota.schedules", tenant_id)
    if most and await store.schedules(connection, tenant_id, most) >= most:
        raise refuse(Code.QUOTA_EXCEEDED, f"The tenant may have {most} schedules.", quota=most)
