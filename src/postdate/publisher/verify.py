"""Verify the chains of all tenants against themselves, the events, and what was anchored."""

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final, Literal
from uuid import UUID

import msgspec

from postdate.audit.spec import audited
from postdate.core.ids import floor_id
from postdate.core.instant import instant_text
from postdate.database.connection.database import Connection, Database
from postdate.event.spec.chain import DIGEST_BYTES, GENESIS, SealContent, seal_hash
from postdate.event.store import seal
from postdate.event.store.seal import Chain, Placed, StoredSeal, Unsealed
from postdate.proof.prove import snapshot
from postdate.publisher.anchor import Anchors

CHUNK_EVENTS: Final = 1000
MAX_SEALS: Final = 100
"""Maximum numbers of events and seals that are read at a time: each is looked up, and a statement
that looks up ten thousand of them times out on a busy machine."""

JOB_FACTS: Final = frozenset({"job.accepted", "job.completed", "job.failed"})
"""Types whose fact goes when its job is pruned."""

GENESIS_ID: Final = UUID(int=0)

MAX_FINDINGS: Final = 10
"""How many changed or missing events of one chain are named."""

MAX_UNSEALED: Final = 1000
"""How many unsealed events are searched for, over all tenants."""

UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What is raised on a seal that holds no such values as ours do: a type or subject of NULL."""

LOST: Final = frozenset({"missing", "cut_off"})
"""Kinds of which, where a whole seal is gone, the events count as unsealed."""

LATE: Final = timedelta(seconds=120)
"""An event sealed later than this after its creation is looked up individually."""

SLIPPED_IN: Final = "This event is in no seal: it was slipped in, or its seal was taken out."
SECOND_SEAL: Final = "A second seal stands at this position: it was inserted by hand."
SEALED_BEFORE: Final = "This event was sealed before: it was put into the outbox again by hand."

ChainFindingKind = Literal[
    "missing", "changed", "rewritten", "cut_off", "unsealed", "repeated", "head"
]


class ChainFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong with a tenant's chain: at which position, which event, and what."""

    tenant_id: int
    position: int
    kind: ChainFindingKind
    detail: str
    event_id: UUID | None = None


class ChainReport(msgspec.Struct, kw_only=True):
    """What verifying has found; `links` counts the events that hold."""

    ok: bool = True
    links: int = 0
    anchored: int = 0
    findings: list[ChainFinding] = []


async def verify(
    database: Database,
    anchors: Mapping[int, Anchors],
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> ChainReport:
    """Recompute every chain; `progress` is told how many events are done, of how many."""
    # All shards are read in one snapshot: a row that only one of them shows yet would be a finding.
    look = snapshot(database) if database.sharded else database.connection()
    async with look as connection:
        return await verify_on(connection, anchors, progress)


async def verify_on(
    connection: Connection,
    anchors: Mapping[int, Anchors],
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    tenant_id: int | None = None,
) -> ChainReport:
    """Recompute every chain, or that of one tenant, over a connection of the caller."""
    report = ChainReport(findings=[])
    chains = await seal.chains(connection)
    chains += [
        Chain(each, 0, GENESIS)
        for each in sorted(set(anchors) - {chain.tenant_id for chain in chains})
    ]
    if tenant_id is not None:
        chains = [chain for chain in chains if chain.tenant_id == tenant_id]
    floors = await seal.floor(connection, "event"), await seal.floor(connection, "seal")
    starts = await seal.starts(connection)
    total = sum(chain.position for chain in chains)
    for chain in chains:
        known = anchors.get(chain.tenant_id, Anchors())
        check = ChainCheck(connection, chain, known, floors[0], starts.get(chain.tenant_id))
        report.findings += await check.run(lambda done: progress(report.links + done, total))
        report.links += check.events
        report.anchored += check.anchored
    part = seal.FactWindow(tenant_id=tenant_id, since=floors[1])
    unsealed = await seal.unsealed(connection, part, MAX_UNSEALED)
    report.findings = _with_unsealed(report.findings, unsealed)
    report.ok = not report.findings
    return report


def _with_unsealed(
    findings: list[ChainFinding], unsealed: Sequence[Unsealed]
) -> list[ChainFinding]:
    """Report missing events of seals, and events inserted beside a valid chain."""
    lost = [each for each in findings if each.event_id is None and each.kind in LOST]
    broken = {each.tenant_id for each in lost}
    first = {each.tenant_id: each.event_id for each in reversed(unsealed)}
    named = [
        msgspec.structs.replace(finding, event_id=first.get(finding.tenant_id))
        if finding in lost
        else finding
        for finding in findings
    ]
    count = Tally[int]()
    for tenant_id, event_id in unsealed:
        count[tenant_id] += 1
        if tenant_id not in broken and count[tenant_id] <= MAX_FINDINGS:
            named.append(slipped_in(tenant_id, event_id))
    return named


def slipped_in(tenant_id: int, event_id: UUID) -> ChainFinding:
    """Return the finding of an event that is in no seal."""
    return ChainFinding(
        tenant_id=tenant_id, position=0, kind="unsealed", detail=SLIPPED_IN, event_id=event_id
    )


def _placed(content: SealContent) -> Iterator[Placed]:
    """Return the events of a seal with their positions."""
    addresses = zip(content.subjects, content.events, strict=True)
    for position, (subject, event_id) in enumerate(addresses, content.position):
        yield Placed(position, subject, event_id or subject)


class ChainCheck:
    """One tenant's chain, from its start or from what is proved.

    A changed or missing event is reported, and the walk continues: the seals hold its digest. A
    seal that does not match ends the walk.
    """

    def __init__(
        self,
        connection: Connection,
        chain: Chain,
        anchors: Anchors,
        event_floor: UUID,
        start: Chain | None = None,
    ) -> None:
        self._connection = connection
        self._chain = chain
        self._anchors = anchors
        self._event_floor = event_floor
        self._pruned_below = GENESIS_ID
        self._upto, self._hash = (0, GENESIS) if start is None else (start.position, start.hash)
        self._good = self._upto
        self._named: list[ChainFinding] = []
        self.events = 0
        self.anchored = 0

    @property
    def proved(self) -> Chain:
        """Return how far the chain is valid."""
        return Chain(self._chain.tenant_id, self._upto, self._hash)

    async def run(
        self, progress: Callable[[int], None] = lambda _: None, limit: int | None = None
    ) -> list[ChainFinding]:
        """Walk the chain; leave seals that were added meanwhile for the next time.

        With a limit it ends after that many events.
        """
        try:
            broken = await self._walk(progress, limit)
        except UNREADABLE as error:
            detail = f"A seal from here on cannot be read: {error}."
            broken = self._finding(self._upto + 1, "changed", detail)
        return self._named + ([broken] if broken is not None else [])

    async def _walk(
        self, progress: Callable[[int], None], limit: int | None
    ) -> ChainFinding | None:
        self._pruned_below = await seal.pruned(self._connection, self._chain.tenant_id)
        seals = 1
        while self._upto < self._chain.position:
            before, after = self.events, self._upto
            rows = await seal.stored(self._connection, self._chain.tenant_id, after, seals)
            known = [row for row in rows if row.content.position <= self._chain.position]
            for row in known:
                if finding := self._seal(row, await self._purged(row)):
                    return finding
            if finding := await self._stray(after, known):
                return finding
            await self._name_repeated(known)
            progress(self.events)
            if limit is not None and self.events >= limit and self._upto < self._chain.position:
                return None
            if len(rows) < seals:
                break
            seals = min(MAX_SEALS, max(1, CHUNK_EVENTS * seals // max(1, self.events - before)))
        return self._end()

    async def _purged(self, row: StoredSeal) -> set[UUID]:
        """Return which jobs of a seal were purged, according to their events."""
        gone = {
            subject
            for subject, now in zip(row.content.subjects, row.now, strict=True)
            if now is None and subject >= self._pruned_below
        }
        if not gone:
            return gone
        return await seal.purged(self._connection, self._chain.tenant_id, gone)

    def _seal(self, row: StoredSeal, purged: set[UUID]) -> ChainFinding | None:
        first = row.content.position
        if first <= self._upto:
            return self._finding(first, "repeated", SECOND_SEAL)
        if first != self._upto + 1:
            return self._finding(self._upto + 1, "missing", f"Seal {self._upto + 1} is missing.")
        self._contents(row, purged)
        digest = seal_hash(self._hash, row.content)
        if (digest, row.previous) != (row.hash, self._hash):
            return self._finding(first, "changed", "The seal is not what was sealed.")
        if row.decision != any(map(audited, row.content.types)):
            detail = "The seal is marked wrongly, so that the audit misses its decisions."
            return self._finding(first, "changed", detail)
        self._hash, self._upto = digest, first + len(row.content.kinds) - 1
        self.events += len(row.content.kinds)
        return self._anchor()

    async def _stray(self, after: int, rows: Sequence[StoredSeal]) -> ChainFinding | None:
        """Find seals that are not part of the chain but that readers would show."""
        tenant_id = self._chain.tenant_id
        found = await seal.first_positions(self._connection, tenant_id, after, self._upto)
        stray = Tally(found) - Tally(row.content.position for row in rows)
        return self._finding(min(stray), "repeated", SECOND_SEAL) if stray else None

    async def _name_repeated(self, rows: Sequence[StoredSeal]) -> None:
        """Report events that an earlier seal holds; search late ones separately."""
        events = [each for row in rows for each in _placed(row.content)]
        if not events:
            return
        sealed_at = rows[0].content.sealed_at
        bound = floor_id(int((sealed_at - LATE).timestamp() * 1000))
        late = [each for each in events if each.event_id < bound]
        soon = [each for each in events if each.event_id >= bound]
        found: dict[int, UUID] = {}
        for some in filter(None, (late, soon)):
            tenant_id = self._chain.tenant_id
            found |= await seal.repeated(self._connection, tenant_id, some, sealed_at)
        for position, event_id in sorted(found.items())[: MAX_FINDINGS - len(self._named)]:
            self._named.append(self._finding(position, "repeated", SEALED_BEFORE, event_id))

    def _contents(self, row: StoredSeal, purged: set[UUID]) -> None:
        """Compare what the events of a seal say now with what was sealed."""
        digests = row.content.digests
        for number, now in enumerate(row.now):
            sealed = digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]
            event_id = row.content.events[number] or row.content.subjects[number]
            if now == sealed or (now is None and self._excused(row.content, number, purged)):
                continue
            gone = now is None
            detail = "This event is missing." if gone else "This event is not what was sealed."
            kind: ChainFindingKind = "missing" if gone else "changed"
            position = row.content.position + number
            if len(self._named) < MAX_FINDINGS:
                self._named.append(self._finding(position, kind, detail, event_id))

    def _excused(self, content: SealContent, number: int, purged: set[UUID]) -> bool:
        """Return whether a fact may be gone: detached with its week, or a job pruned or purged."""
        subject = content.subjects[number]
        if (content.events[number] or subject) < self._event_floor:
            return True
        pruned = subject < self._pruned_below or subject in purged
        return pruned and content.types[content.kinds[number] - 1] in JOB_FACTS

    def _anchor(self) -> ChainFinding | None:
        known = self._anchors.find(self._upto)
        if known is None:
            return None
        if known != self._hash.hex():
            first = self._good + 1
            detail = (
                f"Rewritten after it was anchored: the first of it is in {first}..{self._upto}."
            )
            return self._finding(first, "rewritten", detail)
        self._good, self.anchored = self._upto, self.anchored + 1
        return None

    def _end(self) -> ChainFinding | None:
        last = self._anchors.last
        if last is not None and last[0] > self._upto:
            detail = f"Cut off: events up to {last[0]} were anchored at {instant_text(last[2])}."
            return self._finding(self._upto + 1, "cut_off", detail)
        if (self._upto, self._hash) != (self._chain.position, self._chain.hash):
            detail = f"The chain ends here, but its head says {self._chain.position}."
            return self._finding(self._upto + 1, "head", detail)
        return None

    def _finding(
        self, position: int, kind: ChainFindingKind, detail: str, event_id: UUID | None = None
    ) -> ChainFinding:
        return ChainFinding(
            tenant_id=self._chain.tenant_id,
            position=position,
            kind=kind,
            detail=detail,
            event_id=event_id,
        )
