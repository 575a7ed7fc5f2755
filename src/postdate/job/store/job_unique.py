"""Unique keys: rows that name the newest job under each key, locked while a job is accepted."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

from postdate.core.ids import BUCKETS, bucket_of
from postdate.database.connection.driver_id import id_of_bytes
from postdate.database.connection.query import Connection, query
from postdate.intake.store import HASH_BYTES


class UniqueSlot(NamedTuple):
    """Where the row of a unique key is; the order of these tuples is the order of locking."""

    bucket: int
    tenant_id: int
    hash: UUID


def slot_of(tenant_id: int, key: str) -> UniqueSlot:
    """Return where the row of a tenant's unique key is; SQL counts alike in `job_unique_hash`."""
    digest = sha256(f"unique/{tenant_id}/{key}".encode()).digest()
    return UniqueSlot(digest[0] % BUCKETS, tenant_id, id_of_bytes(digest[:HASH_BYTES]))


def slot_at(tenant_id: int, found: UUID) -> UniqueSlot:
    """Return where the row of a unique key with this hash is."""
    return UniqueSlot(found.bytes[0] % BUCKETS, tenant_id, found)


async def lock(
    connection: Connection, slots: Iterable[UniqueSlot]
) -> dict[UniqueSlot, UUID | None]:
    """Lock the rows of unique keys, one bucket after the other; return the job that each names."""
    by_bucket: defaultdict[int, list[UniqueSlot]] = defaultdict(list)
    for slot in sorted(set(slots)):
        by_bucket[slot.bucket].append(slot)
    found: dict[UniqueSlot, UUID | None] = {}
    for bucket, group in by_bucket.items():
        _, tenants, hashes = zip(*group, strict=True)
        rows = await connection.fetch(query("job_unique_lock"), bucket, tenants, hashes)
        found |= {UniqueSlot(bucket, row[0], row[1]): row[2] for row in rows}
    return found


async def name(connection: Connection, jobs: Mapping[UniqueSlot, UUID | None]) -> None:
    """Name the jobs that hold these keys from now on; None names no job."""
    if jobs:
        rows = [(*slot, job_id) for slot, job_id in jobs.items()]
        await connection.execute(query("job_unique_name"), *zip(*rows, strict=True))


async def drop(connection: Connection, slots: Iterable[UniqueSlot]) -> None:
    """Remove rows that were made for jobs that were then refused."""
    vain = list(slots)
    if vain:
        await connection.execute(query("job_unique_drop"), *zip(*vain, strict=True))


async def waits(connection: Connection, tenant_id: int, job_id: UUID) -> bool:
    """Return whether a job waits, after its timer is locked."""
    row = await connection.fetchrow(query("job_unique_waits"), bucket_of(job_id), tenant_id, job_id)
    return row is not None
