"""Wire the intake of schedules, and the loops that expand them."""

from postdate.api.services import ScheduleServices
from postdate.job.accept.intake import JobIntake
from postdate.node import job
from postdate.node.node import Node
from postdate.payment.accept.intake import PaymentIntake
from postdate.runtime.loop import Loop
from postdate.schedule.change.occurrence import OccurrenceIntake
from postdate.schedule.change.occurrence_job import JobOccurrences
from postdate.schedule.change.occurrence_payment import PaymentOccurrences
from postdate.schedule.change.run import ScheduleRuns
from postdate.schedule.change.schedule import Schedules
from postdate.schedule.change.validation import ScheduleCheck
from postdate.schedule.view import ScheduleViews
from postdate.scheduler import audit, expander, recompute
from postdate.scheduler.firer import untraced
from postdate.scheduler.meter import ScheduleMeter


def occurrences(node: Node, accepting: JobIntake | None = None) -> OccurrenceIntake:
    """Build the intake of occurrences."""
    return OccurrenceIntake(
        JobOccurrences(accepting or job.intake(node), job.lanes(node), node.outgoing.allowed),
        PaymentOccurrences(PaymentIntake(node.database, node.runtime), node.runtime),
        node.runtime,
        node.on_accept,
    )


def services(node: Node, accepting: JobIntake) -> ScheduleServices:
    """Build the services for the endpoints and pages of schedules."""
    check = ScheduleCheck(node.runtime, accepting)
    schedules = Schedules(node.database, check, accepting.encryption)
    runs = ScheduleRuns(node.database, occurrences(node, accepting))
    return ScheduleServices(
        change=schedules,
        run=runs,
        read=ScheduleViews(node.database, node.outgoing.cipher),
    )


def loops(node: Node) -> list[Loop]:
    """Make the loops that expand schedules, look after the book and follow the tz data."""
    meter = ScheduleMeter(node.registry)
    follow = node.tracing.expanding if node.tracing else untraced
    expanding = expander.Expander(
        node.database, occurrences(node), meter, node.runtime, follow, node.reads
    )
    auditing = audit.Audit(node.database, node.runtime, meter, node.reads)
    following = recompute.Recompute(node.database, meter)
    loop = Loop(
        "schedules",
        expanding.run_once,
        limit=expander.LIMIT,
        next_due=expanding.next_due,
    )

    def reexamine(_bucket: int, _lane_id: int) -> None:
        expanding.look_everywhere()
        loop.wake()

    node.reexamine["schedule"].append(reexamine)
    return [
        loop,
        Loop("schedule_audit", auditing.step, limit=audit.LIMIT, poll_seconds=audit.POLL_SECONDS),
        Loop("tzdata", following.run_once, limit=1, poll_seconds=recompute.POLL_SECONDS),
    ]
