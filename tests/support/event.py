"""What the tests of events share: make events, seal them, look at the chains."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from prometheus_client import CollectorRegistry

from postdate.core.ids import new_id
from postdate.database.connection.database import Connection, Database
from postdate.event.spec.chain import GENESIS, seal_hash
from postdate.event.store import event as event_store
from postdate.event.store import seal
from postdate.event.store.event import NewEvent
from postdate.event.store.seal import StoredSeal
from postdate.publisher.meter import PublisherMeter
from postdate.publisher.sealer import Sealer


def sealer(database: Database, **options: Any) -> Sealer:
    return Sealer(database, PublisherMeter(CollectorRegistry()), **options)


def new_event(
    tenant_id: int,
    subject: UUID,
    kind: str = "job.accepted",
    data: dict[str, Any] | None = None,
) -> NewEvent:
    return NewEvent(tenant_id, subject, kind, "system", data)


async def tell(connection: Connection, *events: NewEvent) -> list[UUID]:
    return await event_store.insert(connection, events)


async def emit(database: Database, *events: NewEvent) -> list[UUID]:
    async with database.write() as connection:
        return await tell(connection, *events)


def subjects(database: Database, count: int) -> list[UUID]:
    return [new_id(n % 64, database.unix_ms()) for n in range(count)]


async def seal_all(database: Database, chunk: int = 64, **options: Any) -> int:
    return await sealer(database, **options).run_once(chunk)


@dataclass(frozen=True)
class Link:
    """An event in its place in its tenant's chain."""

    tenant_id: int
    position: int
    subject: UUID
    event_id: UUID
    type: str


async def seals(database: Database) -> list[StoredSeal]:
    """Read every seal, by tenant and position."""
    async with database.connection() as connection:
        chains = await seal.chains(connection)
        found = [await seal.stored(connection, chain.tenant_id, 0, 10_000) for chain in chains]
    return [each for stored in found for each in stored]


def links_of(stored: StoredSeal) -> list[Link]:
    content = stored.content
    return [
        Link(
            content.tenant_id,
            content.position + number,
            content.subjects[number],
            content.events[number] or content.subjects[number],
            content.types[kind - 1],
        )
        for number, kind in enumerate(content.kinds)
    ]


async def check_chains(database: Database) -> list[Link]:
    """Check that every event is sealed once, without gaps, and that the hashes hold."""
    found: list[Link] = []
    ends: dict[int, tuple[int, bytes]] = defaultdict(lambda: (0, GENESIS))
    for stored in await seals(database):
        content = stored.content
        position, before = ends[content.tenant_id]
        assert content.position == position + 1
        assert stored.previous == before
        assert stored.hash == seal_hash(before, content)
        assert b"".join(each or b"" for each in stored.now) == content.digests
        ends[content.tenant_id] = position + len(content.kinds), stored.hash
        found += links_of(stored)
    rows = await database.writer.fetch(
        "SELECT event_id FROM event UNION ALL SELECT job_id FROM job "
        "UNION ALL SELECT payment_id FROM payment "
        "UNION ALL SELECT coalesce(transfer_id, outcome_event_id(subject, finished_at)) "
        "FROM outcome WHERE actor IS NOT NULL OR transfer_id IS NOT NULL"
    )
    assert sorted(row["event_id"] for row in rows) == sorted(link.event_id for link in found)
    async with database.connection() as connection:
        chains = await seal.chains(connection)
    assert {chain.tenant_id: (chain.position, chain.hash) for chain in chains} == ends
    return found


def of_subject(found: Sequence[Link], subject: UUID) -> list[str]:
    """Give the types of a subject's events in the order of their positions."""
    mine = sorted((link for link in found if link.subject == subject), key=lambda k: k.position)
    return [link.type for link in mine]
