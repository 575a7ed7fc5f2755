"""Wire the intake of jobs, the leases of pull workers, and retention."""

from collections.abc import Collection, Mapping
from typing import Final

from postdate.delivery.cancel_call import CancelCalls
from postdate.destination.spec.destination import Destination, Missing, Resolved
from postdate.destination.store.directory import DestinationDirectory
from postdate.job.accept.intake import CheckNames, JobIntake, Named
from postdate.lane.change import Lanes
from postdate.lease.change.lease import LeaseClaims
from postdate.lease.store import FoundLease
from postdate.node.node import Node
from postdate.runtime.loop import Loop
from postdate.runtime.share import BucketShare
from postdate.words.error import Code, Refusal
from postdate.worker import cancel_caller
from postdate.worker.cancel_caller import CancelCaller
from postdate.worker.expirer import EXPIRE_SECONDS, Expirer
from postdate.worker.retention import Retention

EXPIRY_STEPS: Final = 200
RETENTION_STEPS: Final = 50
RETENTION_SECONDS: Final = 60.0


def lanes(node: Node) -> Lanes:
    """Build the service that changes lanes."""
    return Lanes(node.database, node.lanes, node.runtime)


def intake(node: Node) -> JobIntake:
    """Build the intake of jobs; its hints reach the loops of all processes."""
    return JobIntake(
        node.database,
        lanes(node),
        node.runtime,
        allowed=node.outgoing.allowed,
        check_names=names(node.outgoing.directory),
        on_accept=node.on_accept,
        tallies=node.tallies,
        cipher=node.outgoing.cipher,
        quotas=node.quotas,
    )


def leases(node: Node) -> LeaseClaims:
    """Build the service that leases jobs to workers over HTTP; hints from any process wake it."""
    tally, cipher = node.tallies["pull"], node.outgoing.cipher
    claims = LeaseClaims(node.database, node.lanes, node.runtime, tally, cipher)
    node.on_accept.append(lambda lane_id, _: claims.hint(lane_id))
    node.wakeup.listeners.append(claims.hint)
    return claims


def freed(node: Node, claims: LeaseClaims, found: FoundLease) -> None:
    """Let the next job of a key be claimed at once, by a request of this process or another."""
    if claims.freed(found):
        node.wakeup.hint(found.lane_id, 0.0)


def names(directory: DestinationDirectory) -> CheckNames:
    """Build the directory of the destinations that jobs and subscriptions name."""

    async def check(names: Collection[Named]) -> Mapping[Named, Refusal]:
        found = {named: await directory.find(named[0], named[2]) for named in names}
        refusals = {named: _refusal(named, each) for named, each in found.items()}
        return {named: refusal for named, refusal in refusals.items() if refusal}

    return check


def _refusal(named: Named, found: Resolved) -> Refusal | None:
    _, wanted, name = named
    match found:
        case Missing():
            return Refusal(
                Code.UNKNOWN_DESTINATION, f"There is no destination {name}.", "destination.name"
            )
        case Destination(type=real) if real != wanted:
            return Refusal(
                Code.INVALID_FIELD, f"{name} is a {real}, no {wanted}.", "destination.type"
            )
        case _:
            return None


def expiry(node: Node) -> Loop:
    """Return the loop that ends jobs whose time is over."""
    walk = Expirer(node.database, node.lanes, node.runtime, node.tallies, node.node_id, node.reads)
    return Loop("expiry", walk.run_once, limit=EXPIRY_STEPS, poll_seconds=EXPIRE_SECONDS)


def cancel_calls(node: Node) -> Loop:
    """Return the loop that tells receivers of running jobs that these are to be cancelled."""
    notify = CancelCalls(node.outgoing.exchange, node.outgoing.directory.resolve).notify
    caller = CancelCaller(node.database, notify, node.reads)
    return Loop(
        "cancel_calls",
        caller.run_once,
        limit=cancel_caller.MAX_CALLS,
        poll_seconds=cancel_caller.POLL_SECONDS,
    )


def retention(node: Node) -> Loop:
    """Return the loop that removes jobs past their retention."""
    share = BucketShare(node.reads, node.node_id, "worker")
    walk = Retention(node.database, node.runtime, share.refresh)
    return Loop("retention", walk.run_once, limit=RETENTION_STEPS, poll_seconds=RETENTION_SECONDS)
