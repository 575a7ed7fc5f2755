"""Accept the jobs and payments of occurrences, in the scheduler's transaction."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from postdate.audit.spec import SYSTEM
from postdate.core.ids import bucket_of
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection
from postdate.job.accept.intake import OnAccept
from postdate.job.store import job_cancel, job_change
from postdate.job.store.job_cancel import CANCEL_SECONDS, CancelOrder
from postdate.monitor.store.item_log import items
from postdate.schedule.change.occurrence_job import JobOccurrences
from postdate.schedule.change.occurrence_payment import PaymentOccurrences
from postdate.schedule.spec.firing import Fired, Firing
from postdate.timer.timer import LANE_PAYMENT
from postdate.words.error import Refusal


class OccurrenceIntake:
    """Creates the jobs and payments of occurrences: one outcome for each, in order."""

    def __init__(
        self,
        jobs: JobOccurrences,
        payments: PaymentOccurrences,
        settings: Settings,
        on_accept: Iterable[OnAccept] = (),
    ) -> None:
        self._jobs = jobs
        self._settings = settings
        self._payments = payments
        self._on_accept = on_accept

    async def fire(
        self, connection: Connection, firings: Sequence[Firing], now: datetime
    ) -> list[Fired | Refusal]:
        """Accept the job or payment of each occurrence, in the transaction that writes the book."""
        jobs = [each for each in firings if each.template.job is not None]
        payments = [each for each in firings if each.template.payment is not None]
        made = iter(await self._jobs.accept(connection, jobs, now) if jobs else ())
        paid = iter(await self._payments.accept(connection, payments, now) if payments else ())
        return [next(made if each.template.job else paid) for each in firings]

    async def cancel(self, connection: Connection, running: Sequence[tuple[int, UUID]]) -> None:
        """Cancel jobs, by tenant and id, that the next occurrence replaces; running ones stop."""
        by_bucket: dict[tuple[int, int], list[UUID]] = {}
        for tenant_id, job_id in sorted(running):
            by_bucket.setdefault((tenant_id, bucket_of(job_id)), []).append(job_id)
        for (tenant_id, bucket), job_ids in by_bucket.items():
            locked = await job_change.lock(connection, tenant_id, bucket, job_ids)
            seconds = self._settings.number(CANCEL_SECONDS, tenant_id)
            order = CancelOrder(SYSTEM, seconds, {"reason": "overlap"})
            await job_cancel.cancel(connection, tenant_id, locked, order)

    def announce(self, fired: Iterable[Fired | Refusal]) -> None:
        """After the commit, send hints about lanes with work, and log it."""
        hinted = [each for each in fired if isinstance(each, Fired)]
        made = [each for each in hinted if not each.merged]
        if items.is_enabled("accepted"):
            paid = [each for each in made if each.lane_id == LANE_PAYMENT]
            items.write("payment.accepted", paid, lambda each: {"payment_id": str(each.subject)})
            jobs = [each for each in made if each.lane_id != LANE_PAYMENT]
            items.write("job.accepted", jobs, lambda each: {"job_id": str(each.subject)})
        first: dict[int, float] = {}
        for each in hinted:
            first[each.lane_id] = min(first.get(each.lane_id, each.seconds), each.seconds)
        for lane_id, seconds in first.items():
            for hook in self._on_accept:
                hook(lane_id, seconds)


def of_template(refusal: Refusal, kind: str) -> Refusal:
    """Return a refusal whose field is relative to the template."""
    field = f"template.{kind}.{refusal.field}" if refusal.field else f"template.{kind}"
    return msgspec.structs.replace(refusal, field=field)
