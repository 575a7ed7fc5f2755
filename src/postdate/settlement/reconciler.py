"""Reconcile in the background, a bucket at a time: alert, never repair."""

from collections import Counter
from typing import Final

import structlog

from postdate.ledger.prove import reconcile
from postdate.model.ids import BUCKETS, floor_id
from postdate.settlement.meter import Meter
from postdate.store.database import Database

log = structlog.get_logger()

BUCKET_SECONDS: Final = 15.0
"""The pause between two buckets: all of them take a quarter of an hour."""

RECENT_MS: Final = 8 * 24 * 3600 * 1000
"""How far back payments are looked at one by one; `postdate reconcile` looks at all."""


class Reconciler:
    """Goes round the buckets for ever."""

    def __init__(self, database: Database, meter: Meter | None = None) -> None:
        self._database = database
        self._bucket = 0
        self._found: dict[int, Counter[str]] = {}
        self._meter = meter or Meter()

    async def run_once(self, _: int = 1) -> int:
        """Reconcile the next bucket; 0, because the pause after it is meant."""
        bucket, self._bucket = self._bucket, (self._bucket + 1) % BUCKETS
        since = floor_id(self._database.unix_ms() - RECENT_MS)
        found = await reconcile(self._database, bucket, since=since)
        for finding in found:
            log.error(
                "reconcile.found",
                check=finding.check,
                tenant_id=finding.tenant_id,
                subject=finding.subject,
                detail=finding.detail,
            )
        self._found[bucket] = Counter(finding.check for finding in found)
        self._meter.reconciled(sum(self._found.values(), Counter()))
        return 0
