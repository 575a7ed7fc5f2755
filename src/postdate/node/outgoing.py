"""The parts that deliver webhooks and messages: one guard, pool and directory for all roles."""

from dataclasses import dataclass
from functools import partial
from uuid import UUID

from postdate.core.setting.setting import Settings as RuntimeSettings
from postdate.database.connection.database import Database
from postdate.delivery.broker import Permitted
from postdate.delivery.broker_connections import BrokerConnections
from postdate.delivery.guard import Guard
from postdate.delivery.http_exchange import HttpExchange
from postdate.delivery.queue import QueueHandler
from postdate.delivery.webhook import WebhookHandler
from postdate.destination.change.destination import Destinations
from postdate.destination.spec.broker_url import kafka_brokers
from postdate.destination.spec.target import Networks, networks
from postdate.destination.store.directory import DestinationDirectory
from postdate.job.accept.payload_encryption import PayloadEncryption
from postdate.node import keyring
from postdate.node.settings import ProcessSettings
from postdate.secret.payload_encryption import PayloadCipher
from postdate.secret.secret import Keyring


@dataclass(slots=True, frozen=True)
class Outgoing:
    """The parts of delivery that roles share."""

    allowed: Networks
    keyring: Keyring
    cipher: PayloadCipher
    exchange: HttpExchange
    directory: DestinationDirectory
    destinations: Destinations
    webhook: WebhookHandler
    queue: QueueHandler
    connections: BrokerConnections

    async def close(self) -> None:
        """Close every connection."""
        await self.connections.close()
        await self.exchange.close()


def build(settings: ProcessSettings, database: Database, runtime: RuntimeSettings) -> Outgoing:
    """Wire the guard, the directory and the handler together."""
    allowed = networks(settings.allow_private_targets)
    keys = keyring.load(settings)
    directory = DestinationDirectory(database, keys)
    guard = Guard(allowed)
    permitted = Permitted(allowed, kafka_brokers(settings.kafka_brokers))
    connections = BrokerConnections(guard, permitted)
    queue = QueueHandler(directory.resolve, connections)
    destinations = Destinations(
        database,
        keys,
        runtime,
        allowed,
        changed=directory.forget,
        queues={name: partial(connections.check, name) for name in connections.kinds},
        reach=connections.try_out,
    )
    exchange = HttpExchange(guard)
    cipher = PayloadCipher(keys)
    encryption = PayloadEncryption(runtime, cipher)

    async def seal(tenant_id: int, job_id: UUID, answer: bytes) -> bytes:
        await encryption.prepare_keys(database, [tenant_id])
        return encryption.payload(tenant_id, job_id, answer) or b""

    webhook = WebhookHandler(exchange, directory.resolve, destinations.disable, runtime, seal)
    return Outgoing(
        allowed=allowed,
        keyring=keys,
        cipher=cipher,
        exchange=exchange,
        directory=directory,
        destinations=destinations,
        webhook=webhook,
        queue=queue,
        connections=connections,
    )
