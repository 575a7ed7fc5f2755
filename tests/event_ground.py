"""What the tests of events share: make events, seal them, look at the chains."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from prometheus_client import CollectorRegistry

from postdate.model.chain import GENESIS, Link, link_hash
from postdate.model.ids import bucket_of, new_id
from postdate.publisher.meter import PublisherMeter
from postdate.publisher.sealer import Sealer
from postdate.store import event as event_store
from postdate.store.database import Connection, Database
from postdate.store.event import NewEvent


def sealer(database: Database, **options: Any) -> Sealer:
    return Sealer(database, PublisherMeter(CollectorRegistry()), **options)


def new_event(
    database: Database,
    tenant_id: int,
    subject: UUID,
    kind: str = "job.accepted",
    data: dict[str, Any] | None = None,
) -> NewEvent:
    bucket = bucket_of(subject)
    event_id = new_id(bucket, database.unix_ms())
    return NewEvent(bucket, tenant_id, subject, event_id, kind, "system", data)


async def tell(connection: Connection, *events: NewEvent) -> None:
    await event_store.insert(connection, events)


async def emit(database: Database, *events: NewEvent) -> None:
    async with database.write() as connection:
        await tell(connection, *events)


def subjects(database: Database, count: int) -> list[UUID]:
    return [new_id(n % 64, database.unix_ms()) for n in range(count)]


async def seal_all(database: Database, chunk: int = 64, **options: Any) -> int:
    return await sealer(database, **options).run_once(chunk)


async def links(database: Database) -> list[tuple[Link, bytes]]:
    """Read every link with what its event says now."""
    rows = await database.writer.fetch(
        "SELECT s.bucket, s.seq, s.tenant_id, s.position, s.subject, s.event_id, e.time, s.type, "
        "e.actor, e.data::text, s.hash FROM event_seal s "
        "JOIN event e USING (bucket, subject, event_id) ORDER BY s.bucket, s.seq"
    )
    return [(Link(*tuple(row)[:-1]), row["hash"]) for row in rows]


async def check_chains(database: Database) -> list[Link]:
    """Check that every event is linked once, without gaps, and that the hashes hold."""
    found = await links(database)
    assert len(found) == await database.writer.fetchval("SELECT count(*) FROM event")
    heads: dict[int, tuple[int, bytes]] = defaultdict(lambda: (0, GENESIS))
    positions: dict[int, list[int]] = defaultdict(list)
    for link, digest in found:
        seq, before = heads[link.bucket]
        assert link.seq == seq + 1
        assert digest == link_hash(before, link)
        heads[link.bucket] = link.seq, digest
        positions[link.tenant_id].append(link.position)
    for taken in positions.values():
        assert sorted(taken) == list(range(1, len(taken) + 1))
    stored = await database.writer.fetch("SELECT bucket, seq, hash FROM event_chain WHERE seq > 0")
    assert {row["bucket"]: (row["seq"], row["hash"]) for row in stored} == heads
    return [link for link, _ in found]


def of_subject(found: Sequence[Link], subject: UUID) -> list[str]:
    """Give the types of a subject's events in the order of their positions."""
    mine = sorted((link for link in found if link.subject == subject), key=lambda k: k.position)
    return [link.type for link in mine]
