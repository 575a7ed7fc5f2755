"""The loops that each role of a process runs."""

from collections.abc import Callable, Mapping
from typing import Final

from postdate.node import bulk_action, publisher, schedule, settlement, worker
from postdate.node.node import Node
from postdate.runtime.loop import Loop

STAGES: Final[Mapping[str, Callable[[Node], list[Loop]]]] = {
    "worker": lambda node: [
        *worker.loops(node),
        *schedule.loops(node),
        bulk_action.loop(node),
    ],
    "settlement": settlement.loops,
    "publisher": publisher.loops,
}
"""A role's loops: `api`, `worker`, `settlement`, `publisher`."""


def loops(node: Node) -> list[Loop]:
    """Make the loops of every role that this node has."""
    return [loop for role in node.roles if role in STAGES for loop in STAGES[role](node)]
