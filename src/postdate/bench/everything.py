"""`postdate bench --all`: every arm in one run, one suite after the other."""

from dataclasses import replace
from pathlib import Path

from postdate.bench import event, job, payment, pending, schedule
from postdate.bench.testbed import Measure


async def run(*, quick: bool, pgledger: Path | None) -> dict[str, list[Measure]]:
    """Measure jobs, payments, pending timers, schedules and events; return the figures by suite."""
    payments = replace(payment.QUICK if quick else payment.PaymentPlan(), pgledger=pgledger)
    return {
        "jobs": await job.run(job.QUICK if quick else job.JobPlan(), []),
        "payments": await payment.run(payments, []),
        "pending": await pending.run(pending.QUICK if quick else pending.PendingPlan()),
        "schedules": await schedule.run(schedule.QUICK if quick else schedule.SchedulePlan(), []),
        "events": await event.run(event.QUICK if quick else event.EventPlan(), []),
    }
