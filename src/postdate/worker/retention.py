"""Retention: walk old jobs and their keys once an hour and remove what ended long enough ago."""

import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from postdate.core.ids import BUCKETS, MIN_ID
from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.intake.store import KeyScope
from postdate.job.store import prune
from postdate.job.store.prune import KeyStretch, Stretch, TenantSearch
from postdate.runtime.share import EVERY_BUCKET

log = Log()

ROUND_SECONDS: Final = 3600.0
"""How long to wait between two walks."""

STEP_ROWS: Final = 500
"""The most jobs of one transaction: some milliseconds."""

MAX_TENANTS: Final = 100
"""The most tenants that one search finds."""

SEARCHED: Final = (None, KeyScope.JOB, KeyScope.REDRIVE)
"""Jobs, and keys of requests that move no money; those of money are kept forever."""

OwnBuckets = Callable[[], Awaitable[frozenset[int]]]


async def every_bucket() -> frozenset[int]:
    """Return all buckets: no other process walks."""
    return EVERY_BUCKET


class Retention:
    """Remembers how far the present walk has come.

    The walk goes from tenant to tenant that has old jobs or keys, in the buckets that this node
    prefers: the nodes share one walk, and a tenant without jobs costs nothing.
    """

    def __init__(
        self, database: Database, settings: Settings, share: OwnBuckets = every_bucket
    ) -> None:
        self._database = database
        self._settings = settings
        self._share = share
        self._searches: deque[TenantSearch] = deque()
        self._stretches: deque[Stretch | KeyStretch] = deque()
        self._round_at = 0.0

    async def run_once(self, limit: int) -> int:
        """Take up to a number of small steps; fewer means that the walk is over."""
        if not self._stretches and not self._searches:
            if time.monotonic() < self._round_at:
                return 0
            await self._plan()
        steps = 0
        while steps < limit and (self._stretches or self._searches):
            await self._step()
            steps += 1
        return steps

    async def _plan(self) -> None:
        mine = await self._share()
        self._round_at = time.monotonic() + ROUND_SECONDS
        self._searches += [
            TenantSearch(bucket, scope, 0)
            for bucket in range(BUCKETS)
            if bucket in mine
            for scope in SEARCHED
        ]

    async def _step(self) -> None:
        if not self._stretches:
            await self._search(self._searches.popleft())
            return
        stretch = self._stretches.popleft()
        if isinstance(stretch, KeyStretch):
            await self._prune_keys(stretch)
        else:
            await self._prune_jobs(stretch)

    async def _search(self, search: TenantSearch) -> None:
        """Find the next tenants with something old enough to be pruned."""
        async with self._database.connection() as connection:
            tenants = await prune.tenants(connection, search, MAX_TENANTS)
        if len(tenants) == MAX_TENANTS:
            self._searches.appendleft(search._replace(after=tenants[-1]))
        for tenant_id in tenants:
            self._add(search, tenant_id)

    def _add(self, search: TenantSearch, tenant_id: int) -> None:
        """Plan a walk over what a tenant has in a bucket, by the tenant's retention."""
        if search.scope is not None:
            days = self._settings.integer("job.idempotency_days", tenant_id)
            self._stretches.append(KeyStretch(search.bucket, tenant_id, search.scope, days, MIN_ID))
        elif days := self._settings.integer("job.retention_days", tenant_id):
            self._stretches.append(Stretch(search.bucket, tenant_id, days, MIN_ID))

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
            self._stretches.appendleft(stretch._replace(after=last))
