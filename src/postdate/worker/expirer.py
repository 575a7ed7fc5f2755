"""Expire: end due jobs whose time is over, and remove what is left of the rates of keys."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from postdate.core.ids import BUCKETS
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.job.spec.retry import RetryPolicies
from postdate.job.spec.tally import Tally
from postdate.job.store import job_cancel
from postdate.job.store.expiry import end_expired
from postdate.lane.store import lane_key
from postdate.lane.store.lane import LaneDirectory
from postdate.monitor.store.item_log import write_endings
from postdate.runtime.shared_read import SharedReads
from postdate.timer import timer

EXPIRE_SECONDS: Final = 1.8
"""How often due jobs are searched for expired ones."""

LATE_SECONDS: Final = 0.5
"""How late the first timer of a lane must be: what is quickly claimed need not be searched."""

MAX_LANES: Final = 50
"""The most lanes of a bucket that one step searches; the next step goes on after them."""

MAX_LOOKS: Final = 20
"""Maximum number of reads of one lane bucket in a step."""

MAX_CANCELLED: Final = 500
"""The most jobs that one step ends at the deadline of their cancel."""

SWEPT_BUCKETS: Final = 8
"""Of how many buckets one step removes the rates of keys that have recovered."""

FIRST_LANE: Final = 15
LAST_LANE: Final = 2**31 - 1


async def end_cancelled(database: Database, due: Mapping[int, Sequence[UUID]]) -> None:
    """End jobs, by bucket, whose workers did not stop by the deadline of a cancel."""
    for bucket, job_ids in due.items():
        async with database.near.write("job.cancel_overdue") as connection:
            await job_cancel.end_overdue(connection, bucket, job_ids)


class Expirer:
    """Walks the lanes that have due jobs; remembers per bucket after which lane to go on."""

    def __init__(
        self,
        database: Database,
        lanes: LaneDirectory,
        settings: Settings,
        tallies: Mapping[str, Tally],
        node_id: UUID,
        reads: SharedReads | None = None,
    ) -> None:
        self._database = database
        self._lanes = lanes
        self._settings = settings
        self._tallies = tallies
        self._node_id = node_id
        self._reads = reads or SharedReads(database)
        self._policies = RetryPolicies(settings)
        self._after = [FIRST_LANE] * BUCKETS
        self._swept = 0

    async def run_once(self, limit: int) -> int:
        """Search up to `limit` lane buckets with late jobs; return 0, to rest afterwards."""
        await self._end_cancelled()
        await self._sweep_keys()
        gaps = [(bucket, after, LAST_LANE) for bucket, after in enumerate(self._after)]
        heads = await timer.lanes(self._reads, gaps, MAX_LANES)
        self._after = [FIRST_LANE] * BUCKETS
        for bucket in range(BUCKETS):
            found = [head.lane_id for head in heads if head.bucket == bucket]
            if len(found) >= MAX_LANES:
                self._after[bucket] = max(found)
        late = [head for head in heads if head.seconds < -LATE_SECONDS][:limit]
        await self._lanes.load({head.lane_id for head in late})
        for head in late:
            await self._expire(head.bucket, head.lane_id)
        return 0

    async def _end_cancelled(self) -> None:
        due = await job_cancel.due(self._reads, MAX_CANCELLED)
        await end_cancelled(self._database, due)

    async def _sweep_keys(self) -> None:
        """Remove the rates of keys that have recovered, some buckets at a time."""
        buckets = [(self._swept + n) % BUCKETS for n in range(SWEPT_BUCKETS)]
        self._swept = buckets[-1] + 1
        for bucket in buckets:
            async with self._database.near.write() as connection:
                await lane_key.sweep(connection, bucket)

    async def _expire(self, bucket: int, lane_id: int) -> None:
        lane = self._lanes.by_id.get(lane_id)
        if lane is None or lane.test:
            return
        low = self._settings.floor
        for _ in range(MAX_LOOKS):
            step = await end_expired(
                self._database, lane, bucket, self._policies, self._node_id, low
            )
            self._tallies[lane.kind].recorded(
                [(lane.tenant_id, verdict) for _, verdict in step.ended]
            )
            write_endings((held.job_id, held.attempt, end) for held, end in step.ended)
            if step.after is None or step.after == low:
                return
            low = step.after
