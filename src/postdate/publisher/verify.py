"""Verify the chains of events against themselves and against what was anchored."""

from collections.abc import Callable, Mapping
from typing import Final, Literal
from uuid import UUID

import msgspec

from postdate.model.chain import GENESIS, Link, link_hash
from postdate.publisher.anchor import Anchors
from postdate.store import seal
from postdate.store.database import Connection, Database
from postdate.store.seal import Head, StoredLink

CHUNK: Final = 2000

Kind = Literal["missing", "changed", "rewritten", "cut_off", "unsealed", "head"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing wrong with a bucket's chain: which link, which event, and what."""

    bucket: int
    seq: int
    kind: Kind
    detail: str
    event_id: UUID | None = None


class Report(msgspec.Struct, kw_only=True):
    """What verifying has found."""

    ok: bool = True
    links: int = 0
    anchored: int = 0
    findings: list[Finding] = []


async def verify(
    database: Database,
    anchors: Mapping[int, Anchors],
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Report:
    """Recompute every chain; `progress` is told how many links are done, of how many."""
    report = Report(findings=[])
    async with database.writer.acquire() as connection:
        heads = await seal.heads(connection)
        total = sum(head.seq for head in heads)
        for head in heads:
            check = _Check(connection, head, anchors.get(head.bucket, Anchors()))
            finding = await check.run(lambda links: progress(report.links + links, total))
            report.links += check.links
            report.anchored += check.anchored
            if finding is not None:
                report.findings.append(await _named(connection, finding))
    report.ok = not report.findings
    return report


async def _named(connection: Connection, finding: Finding) -> Finding:
    """Name the event of a link that is missing, if the event itself is still there."""
    if finding.event_id is not None or finding.kind not in {"missing", "cut_off"}:
        return finding
    event_id = await seal.unsealed(connection, finding.bucket)
    return msgspec.structs.replace(finding, event_id=event_id)


class _Check:
    """One bucket's chain, from its first link on. The first thing that is wrong ends it."""

    def __init__(self, connection: Connection, head: Head, anchors: Anchors) -> None:
        self._connection = connection
        self._head = head
        self._anchors = anchors
        self._hash = GENESIS
        self._good = 0
        self.links = 0
        self.anchored = 0

    async def run(self, progress: Callable[[int], None]) -> Finding | None:
        """Walk the chain; links that were added meanwhile are left for the next time."""
        while self.links < self._head.seq:
            rows = await seal.stored_links(self._connection, self._head.bucket, self.links, CHUNK)
            for row in rows:
                if row.seq > self._head.seq:
                    break
                if finding := self._link(row):
                    return finding
            progress(self.links)
            if len(rows) < CHUNK:
                break
        return self._end() or await self._unsealed()

    def _link(self, row: StoredLink) -> Finding | None:
        expected = self.links + 1
        if row.seq < expected:
            return self._finding(row.seq, "missing", f"Link {row.seq} stands twice.", row)
        if row.seq > expected:
            return self._finding(expected, "missing", f"Link {expected} is missing.")
        if row.time is None:
            return self._finding(row.seq, "missing", "The event of this link is missing.", row)
        digest = link_hash(self._hash, _as_link(row))
        copies = (row.tenant_id, row.type) == (row.event_tenant_id, row.event_type)
        if digest != row.hash or not copies:
            detail = "The link or its event is not what was sealed."
            return self._finding(row.seq, "changed", detail, row)
        self._hash, self.links = digest, row.seq
        return self._anchor(row)

    def _anchor(self, row: StoredLink) -> Finding | None:
        known = self._anchors.get(row.seq)
        if known is None:
            return None
        if known != row.hash.hex():
            first = self._good + 1
            detail = f"Rewritten after it was anchored: the first of it is in {first}..{row.seq}."
            return self._finding(first, "rewritten", detail, row if first == row.seq else None)
        self._good, self.anchored = row.seq, self.anchored + 1
        return None

    def _end(self) -> Finding | None:
        last = self._anchors.last
        if last is not None and last[0] > self.links:
            detail = f"Cut off: links up to {last[0]} were anchored at {last[2].isoformat()}."
            return self._finding(self.links + 1, "cut_off", detail)
        if (self.links, self._hash) != (self._head.seq, self._head.hash):
            detail = f"The chain ends here, but its head says {self._head.seq}."
            return self._finding(self.links + 1, "head", detail)
        return None

    async def _unsealed(self) -> Finding | None:
        event_id = await seal.unsealed(self._connection, self._head.bucket)
        if event_id is None:
            return None
        detail = "This event is in no link: it was slipped in, or its link was taken out."
        return Finding(
            bucket=self._head.bucket, seq=0, kind="unsealed", detail=detail, event_id=event_id
        )

    def _finding(self, seq: int, kind: Kind, detail: str, row: StoredLink | None = None) -> Finding:
        return Finding(
            bucket=self._head.bucket,
            seq=seq,
            kind=kind,
            detail=detail,
            event_id=row.event_id if row else None,
        )


def _as_link(row: StoredLink) -> Link:
    if row.time is None:
        raise ValueError("the event of this link is missing")
    return Link(
        row.bucket,
        row.seq,
        row.tenant_id,
        row.position,
        row.subject,
        row.event_id,
        row.time,
        row.type,
        row.actor,
        row.data,
    )
