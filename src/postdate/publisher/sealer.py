"""Seal committed events: one gapless, hash-chained order for each bucket."""

from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from postdate.model.activity import COUNTED, KEEP_SECONDS, SLOT_SECONDS
from postdate.model.chain import Link, link_hash
from postdate.model.ids import BUCKETS
from postdate.publisher.meter import PublisherMeter
from postdate.store import activity, seal, subscription
from postdate.store.database import Connection, Database
from postdate.store.seal import Chain, Committed, Head

CHUNK: Final = 2000
"""How many events are in memory at a time; a window may hold any number."""

BEHIND: Final = 100_000
"""A bucket this many transactions behind is sealed by itself, not sorted among the others."""

POLL_SECONDS: Final = 0.2


class Sealer:
    """Seals what has become visible since each bucket's last snapshot.

    All buckets are sealed together, in the order of time: a tenant's positions then follow what
    caused what, across subjects too. Only the order within a subject is promised, though: it also
    holds when several nodes meet, and when a long backlog is sealed bucket by bucket.
    """

    def __init__(
        self,
        database: Database,
        meter: PublisherMeter,
        *,
        behind: int = BEHIND,
        sealed: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._meter = meter
        self._behind = behind
        self._sealed = sealed
        self._seen = ""

    async def run_once(self, limit: int) -> int:
        """Seal everything there is, `limit` events at a time; give how many that were."""
        buckets = set(await self._news())
        count = 0
        while buckets:
            async with self._database.write() as connection:
                chains = self._choose(await seal.lock(connection, range(BUCKETS)), buckets)
                written = await _write(connection, chains, limit) if chains else None
            buckets -= {chain.bucket for chain in chains} or buckets
            if written is not None:
                self._meter.sealed(written.count, written.longest)
                self._sealed()
                count += written.count
        return count

    def _choose(self, chains: Sequence[Chain], news: set[int]) -> Sequence[Chain]:
        """Take all chains together, unless one of those with news is far behind."""
        late = [c for c in chains if c.bucket in news and c.transactions > self._behind]
        return [max(late, key=lambda chain: chain.transactions)] if late else chains

    async def _news(self) -> list[int]:
        """Ask which buckets to look at; nothing can be new where no transaction has ended."""
        async with self._database.writer.acquire() as connection:
            seen = await seal.snapshot(connection)
            if seen == self._seen:
                return []
            buckets = await seal.news(connection)
        # While there is news another pass must look again, whoever seals it.
        self._seen = "" if buckets else seen
        return buckets


async def _write(connection: Connection, chains: Sequence[Chain], chunk: int) -> "_Writer | None":
    writer: _Writer | None = None
    async for events in seal.read(connection, chains, chunk):
        if writer is None:
            taken = await _count(connection, chains, events, chunk)
            writer = _Writer(chains, await seal.advance(connection, taken))
        await seal.insert(connection, writer.links(events))
    if writer is not None:
        await seal.move(connection, chains, writer.heads)
        await subscription.wake(connection, writer.told)
        await activity.count(connection, writer.counted)
    return writer


async def _count(
    connection: Connection, chains: Sequence[Chain], first: Sequence[Committed], chunk: int
) -> Mapping[int, int]:
    """Count each tenant's events: positions are taken at once, in the order of the tenants."""
    if len(first) < chunk:
        return Tally(event.tenant_id for event in first)
    return await seal.count(connection, chains)


class _Writer:
    """Gives every event of a window its places and links it to the one before."""

    def __init__(self, chains: Sequence[Chain], positions: dict[int, int]) -> None:
        self.heads = {chain.bucket: Head(chain.bucket, chain.seq, chain.hash) for chain in chains}
        self.count = 0
        self.longest = 0.0
        self.told: set[tuple[int, str]] = set()
        self.counted: Tally[activity.Counted] = Tally()
        self._now = chains[0].looked_at
        self._positions = positions

    def links(self, events: Sequence[Committed]) -> list[tuple[Link, bytes]]:
        """Link the next events of the window."""
        self.count += len(events)
        self.told.update((event.tenant_id, event.type) for event in events)
        self._tally(events)
        oldest = min(event.time for event in events)
        self.longest = max(self.longest, (self._now - oldest).total_seconds())
        return [self._link(event) for event in events]

    def _tally(self, events: Sequence[Committed]) -> None:
        """Count what the overview tells of, in the slot in which it happened."""
        oldest = self._now.timestamp() - KEEP_SECONDS
        for event in events:
            place = COUNTED.get(event.type)
            if place is not None and (at := event.time.timestamp()) > oldest:
                self.counted[event.tenant_id, int(at) // SLOT_SECONDS, place] += 1

    def _link(self, event: Committed) -> tuple[Link, bytes]:
        head = self.heads[event.bucket]
        position = self._positions[event.tenant_id] = self._positions[event.tenant_id] + 1
        link = Link(
            event.bucket,
            head.seq + 1,
            event.tenant_id,
            position,
            event.subject,
            event.event_id,
            event.time,
            event.type,
            event.actor,
            event.data,
        )
        digest = link_hash(head.hash, link)
        self.heads[event.bucket] = Head(event.bucket, link.seq, digest)
        return link, digest
