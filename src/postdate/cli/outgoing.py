"""What leaves the building from this process: one guard, one pool, one directory for all roles."""

from dataclasses import dataclass
from functools import partial

from postdate.cli import keyring
from postdate.cli.settings import Settings
from postdate.delivery.broker import Permitted
from postdate.delivery.connections import Connections
from postdate.delivery.exchange import Exchange
from postdate.delivery.guard import Guard
from postdate.delivery.queue import Queue
from postdate.delivery.webhook import Webhook
from postdate.intake.destination.destination import Destinations
from postdate.model.destination.broker_url import kafka_brokers
from postdate.model.destination.target import Networks, networks
from postdate.model.setting.setting import Settings as RuntimeSettings
from postdate.store.connection.database import Database
from postdate.store.destination.directory import DestinationDirectory
from postdate.store.secret.payload_encryption import Vault


@dataclass(slots=True, frozen=True)
class Outgoing:
    """The parts of delivery that roles share."""

    allowed: Networks
    vault: Vault
    exchange: Exchange
    directory: DestinationDirectory
    destinations: Destinations
    webhook: Webhook
    queue: Queue
    connections: Connections

    async def close(self) -> None:
        """Close every connection."""
        await self.connections.close()
        await self.exchange.close()


def build(settings: Settings, database: Database, runtime: RuntimeSettings) -> Outgoing:
    """Wire the guard, the directory and the handler together."""
    allowed = networks(settings.allow_private_targets)
    keys = keyring.load(settings)
    directory = DestinationDirectory(database, keys)
    guard = Guard(allowed)
    permitted = Permitted(allowed, kafka_brokers(settings.kafka_brokers))
    connections = Connections(guard, permitted)
    queue = Queue(directory.resolve, connections)
    destinations = Destinations(
        database,
        keys,
        runtime,
        allowed,
        changed=directory.forget,
        queues={name: partial(connections.check, name) for name in connections.kinds},
        reach=connections.try_out,
    )
    exchange = Exchange(guard)
    webhook = Webhook(exchange, directory.resolve, destinations.disable, runtime)
    return Outgoing(
        allowed, Vault(keys), exchange, directory, destinations, webhook, queue, connections
    )
