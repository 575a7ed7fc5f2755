"""The queue handler as a process has it, for a broker on this machine."""

from collections.abc import Mapping
from typing import Any

from postdate.core.limit import Limit
from postdate.delivery.broker import Permitted
from postdate.delivery.broker_connections import BrokerConnections
from postdate.delivery.guard import Guard
from postdate.delivery.queue import QueueHandler
from postdate.destination.spec.broker_url import kafka_brokers
from postdate.destination.spec.destination import Destination, DestinationType, Missing, Resolved
from postdate.destination.spec.target import networks


def connections(allowed: str = "127.0.0.0/8", kafka: str = "") -> BrokerConnections:
    permitted = Permitted(networks(allowed), kafka_brokers(kafka))
    return BrokerConnections(Guard(networks(allowed)), permitted)


def queue_to(
    kind: str, config: Mapping[str, Any], allowed: str = "127.0.0.0/8", kafka: str = ""
) -> QueueHandler:
    async def resolve(tenant_id: int, name: str | None) -> Resolved:
        if name != "q":
            return Missing()
        return Destination(
            tenant_id=tenant_id,
            name="q",
            type=DestinationType.QUEUE,
            limit=Limit("destination:q"),
            kind=kind,
            config=dict(config),
        )

    return QueueHandler(resolve, connections(allowed, kafka))
