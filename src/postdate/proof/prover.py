"""Prove in the background, a bucket at a time, round after round: alert, never repair."""

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Final
from uuid import UUID

import structlog

from postdate.ledger.prove import OVERDUE_SECONDS, whole
from postdate.model.event.chain import GENESIS
from postdate.model.ids import BUCKETS, floor_id
from postdate.model.setting.setting import Settings
from postdate.proof import rules
from postdate.proof.checker import chain_finding
from postdate.proof.meter import ProofMeter
from postdate.publisher.anchor import Anchors
from postdate.publisher.verify import ChainCheck
from postdate.store.connection.database import Connection, Database
from postdate.store.event import seal
from postdate.store.event.seal import Chain
from postdate.store.operate import vital
from postdate.store.proof import proof as proof_store
from postdate.store.proof import prove as store
from postdate.store.proof.proof import ProvedChain
from postdate.store.proof.prove import RECENT_CHECKS, ROUND_CHECKS, STATE_CHECKS, Finding, Range

log = structlog.get_logger()

LOOK_SECONDS: Final = 15.0
"""How often a node asks whose turn it is, at the most."""

RECENT_MS: Final = 8 * 24 * 3600 * 1000
"""How far back facts are looked at one by one; the chain's own walk goes back to its start."""

EVENTS_MOST: Final = 50_000
"""How many sealed events of one tenant a step compares at the most."""

WALK_LEAST: Final = 500
"""How many a step goes over once more at the least."""


class Prover:
    """Takes its turn among all nodes; each round goes over every bucket."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        meter: ProofMeter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._settings = settings
        self._meter = meter or ProofMeter()
        self._clock = clock
        self._ask_at = 0.0
        self._found: dict[int, Counter[str]] = {}

    @property
    def _pause(self) -> float:
        return self._settings.number("proof.round_seconds") / BUCKETS

    async def run_once(self, _: int = 1) -> int:
        """Prove the next bucket if it is time; 0, because the pause after it is meant."""
        if self._clock() < self._ask_at:
            return 0
        self._ask_at = self._clock() + min(self._pause, LOOK_SECONDS)
        async with self._database.write() as connection:
            turn = await proof_store.take(connection, self._pause)
        if turn is not None:
            await self.prove_bucket(turn.bucket)
            if turn.bucket == BUCKETS - 1:
                await self._end_round(turn.seconds)
        return 0

    async def prove_bucket(self, bucket: int) -> list[Finding]:
        """Make the proofs of one bucket and go on with its chains."""
        began = self._clock()
        async with store.snapshot(self._database) as connection:
            where = await whole(connection, bucket=bucket)
            found = await self._tables(connection, where)
        async with self._database.write() as connection:
            await store.remember_accounts(connection, bucket, where.floor)
        events, broken = await self._chains(bucket)
        found += broken
        for finding in found:
            log.error(
                "proof.found",
                finding=finding.check,
                tenant_id=finding.tenant_id,
                subject=finding.subject,
                detail=finding.detail,
            )
        self._found[bucket] = Counter(finding.check for finding in found)
        self._meter.proved(self._clock() - began, events)
        self._meter.found(sum(self._found.values(), Counter()))
        return found

    async def _tables(self, connection: Connection, where: Range) -> list[Finding]:
        recent = floor_id(self._database.unix_ms() - RECENT_MS)
        newer = Range(
            where.tenant_id,
            where.bucket,
            where.most,
            max(where.floor, recent),
            max(where.event_floor, recent),
        )
        bucket = where.bucket
        found = await store.overdue(connection, where, OVERDUE_SECONDS)
        found += await store.parked(connection, where)
        for name in ROUND_CHECKS:
            found += await store.check(connection, name, where)
        for name in RECENT_CHECKS:
            found += await store.check(connection, name, newer)
        for name in STATE_CHECKS:
            found += await store.check_state(connection, name, where)
        return found + await rules.check(connection, Range(bucket=bucket))

    async def _chains(self, bucket: int) -> tuple[int, list[Finding]]:
        """Prove what was sealed since the last time, and go over some of the rest once more."""
        found: list[Finding] = []
        events = 0
        async with self._database.connection() as connection:
            floor = await seal.floor(connection, "event")
            starts = await seal.starts(connection)
            for chain in await proof_store.chains(connection, bucket):
                tenant_id = chain.end.tenant_id
                start = starts.get(tenant_id) or Chain(tenant_id, 0, GENESIS)
                count, broken = await self._chain(connection, chain, start, floor)
                events += count
                found += broken
        return events, found

    async def _chain(
        self, connection: Connection, chain: ProvedChain, start: Chain, floor: UUID
    ) -> tuple[int, list[Finding]]:
        proved = _later(chain.proved, start)
        if chain.end.position < proved.position:
            detail = f"position {chain.end.position}: it was proved up to {proved.position}"
            subject = str(chain.end.position)
            return 0, [Finding("chain_cut_off", chain.end.tenant_id, subject, detail)]
        new = ChainCheck(connection, chain.end, Anchors(), floor, proved)
        broken = await new.run(limit=EVENTS_MOST)
        old = ChainCheck(connection, new.proved, Anchors(), floor, _later(chain.walked, start))
        broken = broken or await old.run(limit=self._share(new.proved.position))
        if broken is not None:
            return new.events + old.events, [chain_finding(broken)]
        walked = start if old.proved.position >= new.proved.position else old.proved
        if (new.proved, walked) != (chain.proved, chain.walked):
            await proof_store.remember(connection, new.proved, walked)
        return new.events + old.events, []

    def _share(self, events: int) -> int:
        """Say how many of a chain's events a round goes over once more, to be through in time."""
        part = self._settings.number("proof.round_seconds") / self._settings.number(
            "proof.full_seconds"
        )
        return max(WALK_LEAST, math.ceil(events * part))

    async def _end_round(self, seconds: float) -> None:
        findings = sum(sum(found.values()) for found in self._found.values())
        async with self._database.write() as connection:
            await vital.audited(connection, "round", seconds, findings)
        log.info("proof.round", seconds=round(seconds, 1), findings=findings)


def _later(known: Chain | None, start: Chain) -> Chain:
    """Go on from what is known, unless that part was detached since."""
    return start if known is None or known.position < start.position else known
