"""Enforce quotas: pending work is counted in the background, accounts and schedules on creation."""

import time
from typing import Final

from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.runtime.shared_read import SharedReads
from postdate.tenant.spec.quota import Quotas
from postdate.tenant.store import quota as store
from postdate.words.error import Code, refuse

COUNT_SECONDS: Final = 5.0
SHARE: Final = 20
"""Counting may take a twentieth of the time, however much there is to count."""


class PendingCounts:
    """Counts what is pending, for the tenants that have a quota."""

    def __init__(
        self, database: Database, quotas: Quotas, reads: SharedReads | None = None
    ) -> None:
        self._database = database
        self._reads = reads or SharedReads(database)
        self._quotas = quotas
        self._not_before = 0.0

    async def run_once(self, _: int = 1) -> int:
        """Count once; return 0, so that the loop always pauses."""
        started = time.monotonic()
        if started < self._not_before:
            return 0
        everyone = await store.tenants(self._reads) if self._quotas.limits_all() else None
        limited = self._quotas.limited(everyone)
        if limited:
            counted = await store.pending(self._database, limited)
            self._quotas.learn(counted)
            async with self._database.connection() as connection:
                await store.remember(connection, limited, counted)
        self._not_before = started + SHARE * (time.monotonic() - started)
        return 0


async def check_accounts(connection: Connection, settings: Settings, tenant_id: int) -> None:
    """Refuse an account beyond the quota."""
    quota = settings.integer("quota.accounts", tenant_id)
    if quota and await store.accounts(connection, tenant_id, quota) >= quota:
        raise refuse(
            Code.QUOTA_EXCEEDED, f"The tenant may have at most {quota} accounts.", quota=quota
        )


async def check_schedules(connection: Connection, settings: Settings, tenant_id: int) -> None:
    """Refuse a schedule beyond the quota."""
    quota = settings.integer("quota.schedules", tenant_id)
    if quota and await store.schedules(connection, tenant_id, quota) >= quota:
        raise refuse(
            Code.QUOTA_EXCEEDED, f"The tenant may have at most {quota} schedules.", quota=quota
        )
