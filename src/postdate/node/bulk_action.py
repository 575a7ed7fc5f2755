"""Wire bulk actions: their services, and the loop that works them off."""

from postdate.bulk_action.change.bulk_action import BulkActions
from postdate.bulk_action.change.item_change import ItemChanges
from postdate.bulk_action.change.work_off import POLL_SECONDS, BulkWorker
from postdate.bulk_action.view import BulkActionViews
from postdate.job.change.bulk import JobBulk
from postdate.job.change.dead_letter import DeadLetters
from postdate.job.view import JobViews
from postdate.node import job, schedule
from postdate.node.node import Node
from postdate.runtime.loop import Loop

AT_ONCE = 1
"""A step does one piece: the bulk actions take turns."""


def changes(node: Node) -> BulkActions:
    """Build the service that begins and stops bulk actions."""
    return BulkActions(node.database, BulkActionViews(node.database))


def worker(node: Node) -> BulkWorker:
    """Build what works bulk actions off."""
    accepting = job.intake(node)
    items = ItemChanges(
        JobBulk(node.database, node.lanes, node.runtime),
        JobViews(node.database, node.lanes),
        DeadLetters(node.database, node.lanes, accepting),
        schedule.services(node, accepting).change,
    )
    return BulkWorker(node.database, items, node.halts)


def loop(node: Node) -> Loop:
    """Return the loop that works bulk actions off."""
    return Loop(
        "bulk_actions",
        worker(node).run_once,
        limit=AT_ONCE,
        poll_seconds=POLL_SECONDS,
        vital=False,
    )
