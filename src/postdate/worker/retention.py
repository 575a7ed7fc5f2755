"""Retention: walk all jobs once an hour and remove what ended long enough ago."""

import time
from collections import deque
from typing import Final

from postdate.model.ids import BUCKETS, MIN_ID
from postdate.model.log import Log
from postdate.model.setting.setting import Settings
from postdate.store.connection.database import Database
from postdate.store.idempotency.idempotency import KeyScope
from postdate.store.job import prune
from postdate.store.job.prune import KeyStretch, Stretch
from postdate.store.timer.lane import LaneDirectory

log = Log()

ROUND_SECONDS: Final = 3600.0
"""How long to wait between two walks."""

STEP_ROWS: Final = 500
"""The most jobs of one transaction: some milliseconds."""

KEY_SCOPES: Final = (KeyScope.JOB, KeyScope.REDRIVE)
"""Keys of requests that move no money; those of money are kept forever."""


class Retention:
    """Remembers how far the present walk has come."""

    def __init__(self, database: Database, lanes: LaneDirectory, settings: Settings) -> None:
        self._database = database
        self._lanes = lanes
        self._settings = settings
        self._stretches: deque[Stretch] = deque()
        self._keys: deque[KeyStretch] = deque()
        self._round_at = 0.0

    async def run_once(self, limit: int) -> int:
        """Take up to a number of small steps; fewer means that the walk is over."""
        if not self._stretches and not self._keys:
            if time.monotonic() < self._round_at:
                return 0
            self._plan()
        steps = 0
        while steps < limit and (self._stretches or self._keys):
            if self._stretches:
                await self._prune_jobs(self._stretches.popleft())
            else:
                await self._prune_keys(self._keys.popleft())
            steps += 1
        return steps

    def _plan(self) -> None:
        """Plan a walk over every tenant's buckets, by each tenant's retention."""
        self._round_at = time.monotonic() + ROUND_SECONDS
        for tenant_id, lanes in self._lanes.by_tenant.items():
            days = self._settings.integer("job.retention_days", tenant_id)
            buckets = {bucket for lane in lanes.values() for bucket in lane.buckets}
            if days > 0:
                self._stretches += [Stretch(bucket, tenant_id, days, MIN_ID) for bucket in buckets]
            days = self._settings.integer("job.idempotency_days", tenant_id)
            self._keys += [
                KeyStretch(bucket, tenant_id, scope, days, MIN_ID)
                for bucket in range(BUCKETS)
                for scope in KEY_SCOPES
            ]

    async def _prune_jobs(self, stretch: Stretch) -> None:
        async with self._database.write("purge.jobs") as connection:
            walk = await prune.jobs(connection, stretch, STEP_ROWS)
        if walk.removed:
            log.debug("job.pruned", tenant_id=stretch.tenant_id, count=walk.removed)
        if walk.last is not None:
            self._stretches.appendleft(stretch._replace(after=walk.last))

    async def _prune_keys(self, stretch: KeyStretch) -> None:
        async with self._database.write("purge.keys") as connection:
            last = await prune.keys(connection, stretch, STEP_ROWS)
        if last is not None:
            self._keys.appendleft(stretch._replace(after=last))
