"""Prove continuously in the background, one bucket at a time: alert, never repair."""

import math
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from postdate.core.ids import BUCKETS
from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.database.shard import commits
from postdate.ledger.prove import attached_range
from postdate.monitor.store import history as history_store
from postdate.monitor.store import vital
from postdate.proof import proof as proof_store
from postdate.proof import prove as store
from postdate.proof.prove import LedgerFinding
from postdate.prover.meter import ProofMeter
from postdate.prover.round import FactsShare, prove_chains, prove_tables, windows

log = Log()

LOOK_SECONDS: Final = 15.0
"""How often a node may ask for the next bucket."""


class Prover:
    """Shares the rounds with all nodes; each round covers every bucket."""

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
        """Prove the next bucket if it is time; return 0, so that the loop pauses."""
        if self._clock() < self._ask_at:
            return 0
        self._ask_at = self._clock() + min(self._pause, LOOK_SECONDS)
        async with self._database.write() as connection:
            share = await proof_store.take(connection, self._pause)
        if share is not None:
            await self.prove_bucket(share.bucket, share.round)
            if share.bucket == BUCKETS - 1:
                await self._end_round(share.seconds)
        return 0

    async def prove_bucket(self, bucket: int, number: int = 0) -> list[LedgerFinding]:
        """Run the proofs of one bucket in this round, and continue with its chains."""
        began = self._clock()
        share = FactsShare(number, self._rounds)
        async with store.snapshot(self._database) as connection:
            where = await attached_range(connection, buckets=[bucket])
            oldest_ms = await history_store.oldest_ms(connection)
            looked_at = windows(oldest_ms, self._database.unix_ms(), share)
            found = await prove_tables(connection, where, looked_at)
        async with self._database.write() as connection:
            await store.remember_accounts(connection, [bucket], where.floor)
        async with self._database.connection() as connection:
            events, broken = await prove_chains(
                connection, [bucket], self._walk, partial(commits.wait_complete, self._database)
            )
        found += broken
        self._report(bucket, found)
        self._meter.proved(self._clock() - began, events)
        self._meter.show_findings(sum(self._found.values(), Counter()))
        return found

    def _report(self, bucket: int, found: list[LedgerFinding]) -> None:
        for finding in found:
            log.error(
                "proof.found",
                finding=finding.check,
                tenant_id=finding.tenant_id,
                subject=finding.subject,
                detail=finding.detail,
            )
        self._found[bucket] = Counter(finding.check for finding in found)

    @property
    def _rounds(self) -> int:
        """Return in how many rounds everything is proved again."""
        full = self._settings.number("proof.full_seconds")
        return max(1, math.floor(full / self._settings.number("proof.round_seconds")))

    def _walk(self, events: int) -> int:
        """Return how many of a chain's events a round proves again, to finish in time."""
        return math.ceil(events / self._rounds)

    async def _end_round(self, seconds: float) -> None:
        findings = sum(sum(found.values()) for found in self._found.values())
        async with self._database.write() as connection:
            await vital.audited(connection, "round", seconds, findings)
        log.info("proof.round", seconds=round(seconds, 1), findings=findings)
