"""Wire the publisher's loops and the intake of subscriptions."""

from postdate.node import job
from postdate.node.anchor import anchor_path
from postdate.node.node import Node
from postdate.publisher.anchor import ANCHOR_SECONDS, Anchorer, AnchorFile
from postdate.publisher.deliverer import AT_ONCE, LAG_SECONDS, Deliverer, LagWatch
from postdate.publisher.meter import PublisherMeter
from postdate.publisher.sealer import PER_BUCKET, REST_SECONDS, Sealer
from postdate.runtime.loop import Loop
from postdate.subscription.change import Subscriptions


def intake(node: Node) -> Subscriptions:
    """Build the intake of subscriptions; it wakes the loop that delivers."""
    return Subscriptions(
        node.database,
        node.runtime,
        allowed=node.outgoing.allowed,
        check_names=job.names(node.outgoing.directory),
        started=node.deliverable.send,
    )


def loops(node: Node) -> list[Loop]:
    """Make the loops of the publisher's role."""
    meter = PublisherMeter(node.registry)
    sealer = Sealer(node.database, meter, sealed=node.deliverable.send, reads=node.reads)
    deliverer = Deliverer(
        node.database,
        {
            "webhook": node.publishing("webhook", node.outgoing.webhook.deliver),
            "queue": node.publishing("queue", node.outgoing.queue.deliver),
        },
        node.runtime,
        node.node_id,
        meter,
        freed=node.deliverable.send,
        followed=node.tracing is not None,
        reads=node.reads,
    )
    lag = LagWatch(node.database, meter)
    anchorer = Anchorer(node.database, AnchorFile(anchor_path(node.settings)))
    node.reexamine["event"].append(lambda *_: sealer.look_everywhere())
    node.reexamine["delivery"].append(lambda *_: node.deliverable.send())
    sealing = Loop(
        "seal",
        sealer.run_once,
        limit=PER_BUCKET,
        next_due=sealer.next_due,
        rest_seconds=REST_SECONDS,
    )
    node.database.on_commit.append(sealing.wake)
    return [
        sealing,
        Loop(
            "deliver",
            deliverer.run_once,
            limit=AT_ONCE,
            next_due=deliverer.next_due,
            woken_by=node.deliverable,
            finish=deliverer.drain,
        ),
        Loop("lag", lag.run_once, limit=1, poll_seconds=LAG_SECONDS),
        Loop(
            "anchor",
            anchorer.run_once,
            limit=1,
            poll_seconds=ANCHOR_SECONDS,
            finish=anchorer.finish,
        ),
    ]
