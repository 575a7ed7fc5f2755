"""Deliver events to subscriptions, each separately, so that none delays another."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from postdate.audit.spec import SYSTEM
from postdate.core.failpoint import reach
from postdate.core.ids import BUCKETS, bucket_of
from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.core.test_clock import own_lane
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import CommitUnknownError, UnavailableError
from postdate.event.spec.event import EventFilter, EventPage, Sealed
from postdate.event.store import seal
from postdate.event.store.event import record_event
from postdate.job.spec.outcome import JobHandler
from postdate.lease import store as lease
from postdate.lease.store import LeaseMove
from postdate.publisher.event_batch import DeliveryStop, EventBatch
from postdate.publisher.meter import PublisherMeter
from postdate.runtime.retry import Backoff
from postdate.runtime.shared_read import SharedReads
from postdate.runtime.under_way import UnderWay
from postdate.subscription import store as subscription
from postdate.subscription.store import DeliveryProgress, LeasedSubscription
from postdate.timer import timer
from postdate.timer.timer import LANE_EVENT, LONG_AGO

log = Log()

LEASE_SECONDS: Final = 30.0
"""Longer than a batch may begin deliveries plus the longest one of them."""

AT_ONCE: Final = 64
"""How many subscriptions a node serves at a time."""

PAGE: Final = 250
LAG_SECONDS: Final = 15.0
"""How often the lag of all subscriptions is measured."""

FIRST_RETRY_SECONDS: Final = 1.0
PAUSED: Final = "subscription.paused"


class Deliverer:
    """Claims subscriptions that have something to send and serves each until it has caught up."""

    def __init__(  # noqa: PLR0913 - every part is injected here, by name
        self,
        database: Database,
        handlers: Mapping[str, JobHandler],
        settings: Settings,
        node_id: UUID,
        meter: PublisherMeter,
        *,
        freed: Callable[[], None] = lambda: None,
        followed: bool = False,
        reads: SharedReads | None = None,
    ) -> None:
        self._followed = followed
        self._reads = reads or SharedReads(database)
        self._database = database
        self._handlers = handlers
        self._settings = settings
        self._node_id = node_id
        self._meter = meter
        self._freed = freed
        self._serving = UnderWay()
        self._next: float | None = None

    async def run_once(self, limit: int) -> int:
        """Claim up to `limit` due subscriptions and begin to serve them; return how many."""
        free = min(limit, AT_ONCE - len(self._serving))
        claimed = 0
        for head in await self._heads():
            if head.seconds > 0 or claimed >= free:
                continue
            async with self._database.write("publish.claim") as connection:
                claims = await lease.claim(
                    connection,
                    (head.bucket, own_lane(LANE_EVENT)),
                    head.due_at,
                    free - claimed,
                    LEASE_SECONDS,
                    self._node_id,
                )
            claimed += len(claims)
            for claim in claims:
                self._serving.start(self._serve(claim.subject, claim.token), self._freed)
        return claimed

    async def _heads(self) -> list[timer.Head]:
        looks = [(bucket, own_lane(LANE_EVENT), LONG_AGO) for bucket in range(BUCKETS)]
        heads = await timer.heads(self._reads, looks)
        self._next = min((head.seconds for head in heads if head.seconds > 0), default=None)
        return heads

    async def next_due(self) -> float | None:
        """Return in how many seconds the next subscription is due, by the last scan."""
        return self._next

    async def drain(self) -> None:
        """Wait until what is being served has ended."""
        await self._serving.join()

    async def _serve(self, subscription_id: UUID, token: int) -> None:
        try:
            service = _Service(self._database, self._settings, self._meter, subscription_id, token)
            await service.run(self._handlers, followed=self._followed)
        except (CommitUnknownError, UnavailableError) as error:
            # The lease expires, and another node continues from what is stored.
            log.warning("subscription.broken_off", id=str(subscription_id), error=str(error))
        except Exception:
            log.exception("subscription.failed", id=str(subscription_id))


class LagWatch:
    """Measures the lag of the subscriptions."""

    def __init__(self, database: Database, meter: PublisherMeter) -> None:
        self._database = database
        self._meter = meter

    async def run_once(self, _: int) -> int:
        """Measure once; every node of this role reports the same."""
        async with self._database.connection() as connection:
            lag = await subscription.lag(connection)
        self._meter.lag(events=lag.events, failing=lag.failing, paused=lag.paused)
        return 0


class _Service:
    """One lease of one subscription."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        meter: PublisherMeter,
        subscription_id: UUID,
        token: int,
    ) -> None:
        self._database = database
        self._settings = settings
        self._meter = meter
        self._id = subscription_id
        self._token = token

    async def run(self, handlers: Mapping[str, JobHandler], *, followed: bool) -> None:
        """Serve until there is nothing left, something fails, or the lease is lost."""
        while True:
            async with self._database.connection() as connection:
                held = await subscription.load(connection, self._id, self._token)
                if held is None or held.paused:
                    return
                wanted = EventFilter(patterns=held.patterns, accounts=held.accounts)
                page = await seal.read_after(
                    connection, held.tenant_id, wanted, held.position, PAGE
                )
                parents = await _parents(connection, held, page.events) if followed else {}
            kind = str(held.destination.get("type"))
            handler = handlers.get(kind)
            if handler is None:
                stop = DeliveryStop(error=f"this node has no way to reach a {kind}", seconds=60.0)
                await self._record(
                    held, DeliveryProgress(position=held.position, delivered=False), stop
                )
                return
            timeout = self._settings.number("event.timeout_seconds", held.tenant_id)
            batch = EventBatch(held, self._token, handler, timeout, parents)
            if not await self._deliver(held, batch, page):
                return

    async def _deliver(self, held: LeasedSubscription, batch: EventBatch, page: EventPage) -> bool:
        """Deliver one page; return whether to continue."""
        # After a failure one event is sent alone first, so that the others are not sent in vain.
        width = 1 if held.failures else self._settings.integer("event.concurrency", held.tenant_id)
        events = page.events[:1] if held.failures else page.events
        stop = await batch.run(events, width)
        reach("publish.delivered")
        end = events[0].position if held.failures and events else page.position
        reached = batch.delivered_position(events, end)
        self._meter.delivered(batch.delivered, failed=stop is not None)
        progress = DeliveryProgress(position=reached, delivered=batch.delivered > 0)
        return await self._record(held, progress, stop)

    async def _record(
        self, held: LeasedSubscription, progress: DeliveryProgress, stop: DeliveryStop | None
    ) -> bool:
        """Record the progress and when to continue; return whether to continue immediately."""
        if stop is not None:
            progress = msgspec.structs.replace(progress, error=stop.error, counts=stop.counts)
        async with self._database.write("publish.record") as connection:
            failures = await subscription.advance(connection, held, self._id, self._token, progress)
            if failures is None:
                return False
            if stop is None:
                return not await self._rest(connection, held, progress.position)
            if stop.for_good or self._too_old(held):
                await self._pause(connection, held, stop)
                return False
            seconds = max(stop.seconds, self._backoff(held, failures) if stop.counts else 0.0)
            bucket = bucket_of(self._id)
            await lease.move(connection, bucket, [LeaseMove(self._id, self._token, seconds)])
        return False

    async def _rest(self, connection: Connection, held: LeasedSubscription, position: int) -> bool:
        if await subscription.release_if_idle(
            connection, held.tenant_id, self._id, self._token, position
        ):
            return True
        renewed = await lease.renew(
            connection, bucket_of(self._id), [(self._id, self._token, LEASE_SECONDS)]
        )
        return renewed.get(self._id) is None

    async def _pause(
        self, connection: Connection, held: LeasedSubscription, stop: DeliveryStop
    ) -> None:
        await subscription.pause(connection, held.tenant_id, self._id, stop.error)
        await subscription.stop(connection, self._id)
        data = {"note": stop.error}
        await record_event(connection, (held.tenant_id, self._id), PAUSED, SYSTEM, data)
        log.warning("subscription.paused", id=str(self._id), reason=stop.error)

    def _too_old(self, held: LeasedSubscription) -> bool:
        max_seconds = self._settings.number("event.max_age_seconds", held.tenant_id)
        return held.failing_seconds is not None and held.failing_seconds > max_seconds

    def _backoff(self, held: LeasedSubscription, failures: int) -> float:
        max_seconds = self._settings.number("event.max_seconds", held.tenant_id)
        return Backoff(FIRST_RETRY_SECONDS, max_seconds).pause(failures)


async def _parents(
    connection: Connection, held: LeasedSubscription, events: Sequence[Sealed]
) -> Mapping[UUID, str]:
    """Find the traces of the subjects of these events."""
    return await seal.traceparents(connection, held.tenant_id, {event.subject for event in events})
