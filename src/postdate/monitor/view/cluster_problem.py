"""The problems of the cluster, ranked like those of a tenant, for its operators."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from postdate.monitor.store.vital import AuditRun
from postdate.monitor.view.node import NodeView
from postdate.monitor.view.overview_problem import MAX_NAMED, OverviewProblem, Severity, count
from postdate.monitor.view.problem import overdue_problems
from postdate.runtime.node import KEY_ROLES

AUDITS: Final = {
    "round": ("round of proofs", "/accounts"),
    "prove": ("postdate prove", "/accounts"),
    "reconcile": ("postdate reconcile", "/payments"),
    "verify": ("postdate events verify", "/events"),
}
"""The checks of the books: how each is run, and which page explains its findings."""

NEEDED: Final = {
    "worker": ("jobs for webhooks and queues are not delivered", "stalled"),
    "settlement": ("payments are not settled", "settlement-stopped"),
    "publisher": ("events are not sealed and not delivered", "event-lag"),
}
"""The roles that at least one node must have, what stops without it, and the runbook."""


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the operator's list is made from."""

    audits: Sequence[AuditRun]
    overdue: Sequence[str]
    nodes: Sequence[NodeView]
    now: datetime


def find_cluster_problems(facts: ClusterFacts) -> list[OverviewProblem]:
    """Return every problem, the worst first and the oldest of equals first."""
    found = [
        *_books(facts),
        *overdue_problems(facts.overdue, "/nodes"),
        *_roles(facts),
        *_secret_keys(facts),
        *_silent(facts),
    ]
    return sorted(found, key=lambda each: (each.severity, each.since or facts.now))


def _books(facts: ClusterFacts) -> Iterator[OverviewProblem]:
    for run in facts.audits:
        if run.findings and run.name in AUDITS:
            command, link = AUDITS[run.name]
            yield OverviewProblem(
                severity=Severity.MONEY,
                text=f"{command} reported {count(run.findings, 'finding')}.",
                cause="Rows of the books were changed by hand, or there is a bug.",
                link=link,
                help="Run it again for details",
                runbook="balance",
            )


def _roles(facts: ClusterFacts) -> Iterator[OverviewProblem]:
    alive = {role for node in facts.nodes if not node.silent for role in node.roles}
    for role, (stands_still, runbook) in NEEDED.items():
        if role not in alive:
            yield OverviewProblem(
                severity=Severity.MONEY if role == "settlement" else Severity.STOPPED,
                text=f"No node with the role {role} is alive.",
                cause="None was started, or all have stopped or cannot reach the database.",
                holds_up=f"For all tenants, {stands_still}.",
                link="/nodes",
                help="See the nodes",
                runbook=runbook,
            )


def _secret_keys(facts: ClusterFacts) -> Iterator[OverviewProblem]:
    """Name the nodes that cannot open what others have encrypted."""
    live = [node for node in facts.nodes if not node.silent]
    lacking = [node for node in live if node.lacks]
    for node in lacking[:MAX_NAMED]:
        others = [each for each in live if not each.lacks and not KEY_ROLES.isdisjoint(each.roles)]
        served = all(any(role in each.roles for each in others) for role in _key_roles(node))
        yield OverviewProblem(
            severity=Severity.FAILING if served else Severity.STOPPED,
            text=f"Node {node.name} lacks the secret key {', '.join(node.lacks)}.",
            cause="It was started with another POSTDATE_SECRET_KEY than the nodes that encrypted.",
            since=node.started_at,
            holds_up="It leaves what needs the key to the others."
            if served
            else "No other node of its roles has the key: what needs it waits, and jobs fail when "
            "they expire.",
            link=f"/nodes/{node.node_id}",
            help="See the node",
            runbook="secret-key",
        )
    if len(lacking) > MAX_NAMED:
        yield OverviewProblem(
            severity=Severity.FAILING,
            text=f"{count(len(lacking) - MAX_NAMED, 'more node')} without the secret key.",
            link="/nodes",
            help="See them",
            runbook="secret-key",
        )


def _key_roles(node: NodeView) -> frozenset[str]:
    return KEY_ROLES.intersection(node.roles)


def _silent(facts: ClusterFacts) -> Iterator[OverviewProblem]:
    silent = [node for node in facts.nodes if node.silent]
    for node in silent[:MAX_NAMED]:
        yield OverviewProblem(
            severity=Severity.FAILING,
            text=f"Node {node.name} has stopped reporting.",
            cause="It ended without signing off, or cannot reach the database.",
            since=node.seen_at,
            holds_up="Other nodes take over its jobs when their leases end.",
            link=f"/nodes/{node.node_id}",
            help="See its last calls",
            runbook="stalled",
        )
    if len(silent) > MAX_NAMED:
        yield OverviewProblem(
            severity=Severity.FAILING,
            text=f"{count(len(silent) - MAX_NAMED, 'more node')} silent.",
            link="/nodes",
            help="See them",
        )
