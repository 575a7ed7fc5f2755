"""Seal events: move them from the outbox into the chains of their tenants."""

import time
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from postdate.audit.spec import audited
from postdate.core.failpoint import reach
from postdate.core.ids import BUCKETS, floor_id, new_id
from postdate.core.log import Log
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import LockNotAvailableError
from postdate.event.spec.chain import DIGEST_BYTES, SealContent, seal_hash
from postdate.event.store import seal
from postdate.event.store.seal import Chain, NewSeal, Placed, Waiting
from postdate.monitor.spec.activity import COUNTED, KEEP_SECONDS, SLOT_SECONDS
from postdate.monitor.store import activity
from postdate.publisher.meter import PublisherMeter
from postdate.runtime.low_water import LowWaterMark
from postdate.runtime.shared_read import SharedReads
from postdate.subscription import store as subscription

log = Log()

PER_BUCKET: Final = 500
"""Maximum number of events of a bucket that one transaction seals."""

SEAL_LIMIT: Final = 1000
"""The most events of one seal: reading one of them reads no more than that."""

REST_SECONDS: Final = 0.2
"""Minimum time between two seals, in which events gather."""

ACTIVE_SECONDS: Final = 5.0
"""How long after a seal the outbox is polled this often: others write into it without a hint."""

NOWHERE: Final = 1 << 62
"""Behind every position: what is not sealed yet."""

LATE: Final = timedelta(seconds=120)
"""How far back each scan goes: longer than any transaction of ours may take to commit."""

WHOLE_SECONDS: Final = 60.0
"""How often the whole outbox is scanned, for events that were committed even later than that."""

AROUND_SECONDS: Final = 60.0
"""How long locked rows of the outbox are skipped without waiting first."""


class Sealer:
    """Seals what is committed, in the order of time.

    A tenant's positions then follow causality, even across subjects. Only the order within a
    subject is guaranteed, though: it also holds when several nodes seal at once.
    """

    def __init__(
        self,
        database: Database,
        meter: PublisherMeter,
        *,
        sealed: Callable[[], None] = lambda: None,
        reads: SharedReads | None = None,
    ) -> None:
        self._reads = reads or SharedReads(database)
        self._database = database
        self._meter = meter
        self._sealed = sealed
        self._active_until = 0.0
        self._mark = LowWaterMark(margin=LATE, full_seconds=WHOLE_SECONDS)
        self._held: set[int] = set()
        self._around_until = 0.0

    async def run_once(self, limit: int = PER_BUCKET) -> int:
        """Seal all waiting events, up to `limit` of each bucket at a time; return how many."""
        if self._held:
            async with self._database.connection() as connection:
                self._held = await seal.locked_chains(connection, self._held)
        low = self._mark.current(time.monotonic())
        found, now = await seal.waiting(self._reads, low)
        count = 0
        while found:
            taken = await self._seal(low, limit, now)
            if not taken:  # another node is sealing what there is
                return count
            events = sum(map(len, taken))
            self._meter.sealed(events, (now - taken[0].time).total_seconds())
            self._sealed()
            count += events
            self._active_until = time.monotonic() + ACTIVE_SECONDS
            found = events >= limit or len(taken) >= seal.MAX_ROWS
        if not self._held:
            self._mark.learn_empty_below(now, now)
        return count

    async def next_due(self) -> float | None:
        """Return when to poll again: soon if something was just sealed, else on the next tick."""
        return REST_SECONDS if time.monotonic() < self._active_until else None

    async def _seal(self, low: datetime, limit: int, now: datetime) -> list[Waiting]:
        """Seal once; leave out tenants whose chain is locked until it is free."""
        while True:
            tenants: set[int] = set()
            around = time.monotonic() < self._around_until
            try:
                async with self._database.write("seal") as connection:
                    taken = await seal.take(connection, low, limit, self._held, around=around)
                    tenants |= {row.tenant_id for row in taken}
                    if taken:
                        reach("seal.taken")
                        await _write(connection, taken, now)
            except LockNotAvailableError:
                if not tenants and not around:
                    log.warning("seal.outbox_held")
                    self._around_until = time.monotonic() + AROUND_SECONDS
                    continue
                async with self._database.connection() as connection:
                    held = await seal.locked_chains(connection, tenants)
                if not held:
                    raise
                log.warning("seal.held", tenant_ids=sorted(held))
                self._held |= held
            else:
                return taken

    def look_everywhere(self) -> None:
        """Scan the whole outbox next time, because something waits behind the mark."""
        self._mark.forget()


class UnsealedEvents(NamedTuple):
    """Events of one tenant in the order to seal, column by column."""

    types: list[str]
    subjects: list[UUID]
    # None where the event has the id of its subject.
    events: list[UUID | None]
    digests: bytes

    def part(self, begin: int, end: int) -> "UnsealedEvents":
        """Return some of them."""
        return UnsealedEvents(
            self.types[begin:end],
            self.subjects[begin:end],
            self.events[begin:end],
            self.digests[begin * DIGEST_BYTES : end * DIGEST_BYTES],
        )

    def without(self, numbers: Collection[int]) -> "UnsealedEvents":
        """Return all events except these."""
        left = [n for n in range(len(self.subjects)) if n not in numbers]
        return UnsealedEvents(
            [self.types[n] for n in left],
            [self.subjects[n] for n in left],
            [self.events[n] for n in left],
            b"".join(self.part(n, n + 1).digests for n in left),
        )


def _in_order(rows: Sequence[Waiting]) -> UnsealedEvents:
    types: list[str] = []
    subjects: list[UUID] = []
    events: list[UUID | None] = []
    for row in rows:
        types += row.types if len(row.types) == len(row) else row.types * len(row)
        subjects += row.subjects
        events += [None] * len(row) if row.events is None else row.events
    unsealed = UnsealedEvents(types, subjects, events, b"".join(row.digests for row in rows))
    return unsealed if len(set(subjects)) == len(subjects) else _once(unsealed)


def _once(unsealed: UnsealedEvents) -> UnsealedEvents:
    """Drop rows that are in the outbox twice, after they were copied by hand."""
    digests = (unsealed.part(n, n + 1).digests for n in range(len(unsealed.subjects)))
    known = dict(zip(zip(*unsealed[:3], strict=True), digests, strict=True))
    types, subjects, events = map(list, zip(*known, strict=True))
    return UnsealedEvents(types, subjects, events, b"".join(known.values()))


async def _never_sealed(
    connection: Connection, tenant_id: int, unsealed: UnsealedEvents, now: datetime
) -> UnsealedEvents:
    """Drop late events that are already sealed, after they were inserted again by hand.

    A recent copy is sealed twice, and `events verify` reports it.
    """
    bound = floor_id(int((now - LATE).timestamp() * 1000))
    addresses = enumerate(zip(unsealed.subjects, unsealed.events, strict=True))
    late = [
        Placed(NOWHERE + number, subject, event_id or subject)
        for number, (subject, event_id) in addresses
        if (event_id or subject) < bound
    ]
    if not late:
        return unsealed
    known = await seal.repeated(connection, tenant_id, late, now)
    if not known:
        return unsealed
    log.warning("seal.repeated", tenant_id=tenant_id, events=len(known))
    return unsealed.without({position - NOWHERE for position in known})


async def _write(connection: Connection, taken: Sequence[Waiting], now: datetime) -> None:
    rows: dict[int, list[Waiting]] = defaultdict(list)
    for row in taken:
        rows[row.tenant_id].append(row)
    by_tenant: dict[int, UnsealedEvents] = {}
    for tenant_id in sorted(rows):
        unsealed = await _never_sealed(connection, tenant_id, _in_order(rows[tenant_id]), now)
        if unsealed.subjects:
            by_tenant[tenant_id] = unsealed
    counts = {tenant_id: len(unsealed.subjects) for tenant_id, unsealed in by_tenant.items()}
    chains = await seal.advance(connection, counts)
    sealed_at = max(now, taken[-1].time)
    # Not what this node makes of the time: after a leap of the clock the ids of seals would be
    # older than their events, where no reader searches for them.
    unix_ms = int(now.timestamp() * 1000)
    seals = [
        each
        for tenant_id, unsealed in by_tenant.items()
        for each in _seals(chains[tenant_id], unsealed, sealed_at, unix_ms)
    ]
    await seal.insert(connection, seals)
    await seal.move(connection, {each.content.tenant_id: each.hash for each in seals})
    await subscription.wake(
        connection, {(row.tenant_id, kind) for row in taken for kind in row.types}
    )
    await activity.count(connection, _tally(taken, now))


def _seals(
    chain: Chain, unsealed: UnsealedEvents, sealed_at: datetime, unix_ms: int
) -> Iterator[NewSeal]:
    """Append the events of one tenant to its chain."""
    position, previous = chain.position + 1, chain.hash
    for begin in range(0, len(unsealed.subjects), SEAL_LIMIT):
        part = unsealed.part(begin, begin + SEAL_LIMIT)
        content = _content(chain.tenant_id, position, sealed_at, part)
        digest = seal_hash(previous, content)
        yield NewSeal(
            seal_id=new_id(chain.tenant_id % BUCKETS, unix_ms),
            decision=any(map(audited, content.types)),
            content=content,
            previous=previous,
            hash=digest,
        )
        position, previous = position + len(part.subjects), digest


def _content(
    tenant_id: int, position: int, sealed_at: datetime, unsealed: UnsealedEvents
) -> SealContent:
    types = {name: number for number, name in enumerate(dict.fromkeys(unsealed.types), 1)}
    return SealContent(
        tenant_id=tenant_id,
        position=position,
        sealed_at=sealed_at,
        types=list(types),
        kinds=[types[each] for each in unsealed.types],
        subjects=unsealed.subjects,
        events=unsealed.events,
        digests=unsealed.digests,
    )


def _tally(taken: Sequence[Waiting], now: datetime) -> Mapping[activity.Counted, int]:
    """Count activity for the overview, in the slot in which it happened."""
    counted: Tally[activity.Counted] = Tally()
    oldest = now.timestamp() - KEEP_SECONDS
    for row in taken:
        at, each = row.time.timestamp(), len(row) // len(row.types)
        for kind in row.types if at > oldest else ():
            column = COUNTED.get(kind)
            if column is not None:
                counted[row.tenant_id, int(at) // SLOT_SECONDS, column] += each
    return counted
