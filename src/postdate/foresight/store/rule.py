"""The rules of schedules, for the forecast."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from uuid import UUID

import msgspec

from postdate.database.connection.query import Connection, query
from postdate.schedule.spec.schedule import PaymentTemplate

Fingerprint = tuple[object, ...]
"""What changes whenever a rule, a pause or a calendar does; it begins with the number of rules."""


class ScheduleRule(msgspec.Struct, frozen=True, gc=False):
    """An active schedule: how far it has been expanded, and what its occurrences become."""

    tenant_id: int
    schedule_id: UUID
    handled: datetime
    runs: int
    lane: str | None = None
    destination: str | None = None
    payment: PaymentTemplate | None = None


class StoredRule(msgspec.Struct, frozen=True, gc=False):
    """A schedule with its rule as it is stored."""

    rule_json: str
    policies_json: str
    payment_json: str | None
    schedule: ScheduleRule


async def fingerprints(connection: Connection, tenant_id: int | None) -> dict[int, Fingerprint]:
    """Return the fingerprints of a tenant's rules, or of all tenants', by bucket."""
    rows = await connection.fetch(query("rule_fingerprints"), tenant_id)
    return {bucket: tuple(rest) for bucket, *rest in rows}


async def load(
    connection: Connection, tenant_id: int | None, buckets: Collection[int], bucket_limit: int
) -> dict[int, list[StoredRule]]:
    """Return the rules of some buckets of a tenant, or of all tenants."""
    found: dict[int, list[StoredRule]] = defaultdict(list)
    rows = await connection.fetch(query("rule_list"), tenant_id, list(buckets), bucket_limit)
    for bucket, rule, policies, payment, *schedule in rows:
        found[bucket].append(StoredRule(rule, policies, payment, ScheduleRule(*schedule)))
    return found


async def largest(connection: Connection, min_count: int, limit: int) -> list[int]:
    """Return the tenants with the most schedules, among those with at least a minimum."""
    rows = await connection.fetch(query("rule_largest"), min_count, limit)
    return [row[0] for row in rows]
