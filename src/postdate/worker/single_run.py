"""Run jobs one at a time: claim one, run its handler, record its outcome.

A test clock runs its jobs in order, one at a time. There are no limits, no
windows and no breakers: what is due at an instant runs at that instant.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.job.spec.outcome import Failed, JobHandler, Outcome, Unknown
from postdate.job.spec.retry import RetryPolicies
from postdate.job.spec.verdict import Keep, Verdict, decide
from postdate.job.store import execution
from postdate.job.store.execution import ClaimedExecution
from postdate.lane.store.lane import Lane
from postdate.secret.payload_encryption import PayloadCipher

log = Log()


@dataclass(slots=True, kw_only=True)
class SingleRuns:
    """Runs due jobs, each to its end before the next begins."""

    database: Database
    node_id: UUID
    settings: Settings
    handlers: Mapping[str, JobHandler]
    cipher: PayloadCipher | None = None
    _policies: RetryPolicies = field(init=False)

    def __post_init__(self) -> None:
        self._policies = RetryPolicies(self.settings)

    async def run_once(self, lane: Lane, bucket: int, low: datetime) -> int:
        """Run the first due job of a bucket's lane; return how many there were."""
        async with self.database.write() as connection:
            taken = await execution.take(
                connection,
                lane,
                bucket,
                self._policies,
                self.cipher,
                low=low,
                limit=1,
                lease_seconds=self.settings.number("worker.lease_seconds", lane.tenant_id),
                claimed_by=self.node_id,
            )
        for each in taken:
            await self._record(each, each.verdict or await self._verdict(each))
        return len(taken)

    async def _verdict(self, claimed: ClaimedExecution) -> Verdict:
        return decide(claimed.facts, await self._outcome(claimed), claimed.claimed_at)

    async def _outcome(self, claimed: ClaimedExecution) -> Outcome:
        delivery = claimed.delivery
        if delivery is None:
            raise RuntimeError("this execution was judged at the claim and must not run")
        kind = delivery.destination["type"]
        handler = self.handlers.get(kind)
        if handler is None:
            return Failed(code="no_handler", error=f"No worker here serves the type {kind}.")
        try:
            return await handler(delivery)
        except Exception as error:
            log.warning("handler.failed", job_id=str(delivery.job_id), exc_info=True)
            return Unknown(code="handler_error", error=f"{type(error).__name__}: {error}")

    async def _record(self, claimed: ClaimedExecution, verdict: Verdict) -> None:
        if isinstance(verdict, Keep):
            await execution.renew(self.database, [(claimed.held, verdict)])
        else:
            await execution.record(self.database, [(claimed.held, verdict)])
