"""Warnings of payments that will fail: who is looked at, and who was told already."""

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from postdate.model.ids import bucket_of
from postdate.model.tenant.test_clock import own_lane
from postdate.store.connection.query import Connection, query
from postdate.store.timer.timer import LANE_PAYMENT


async def tenants(connection: Connection, until: datetime, limit: int) -> list[int]:
    """Return the tenants that have payments due before an instant, or schedules of payments."""
    rows = await connection.fetch(query("warning_tenants"), own_lane(LANE_PAYMENT), until, limit)
    return [row[0] for row in rows]


async def list_warned(
    connection: Connection, tenant_id: int, subjects: Collection[UUID], since: timedelta
) -> set[UUID]:
    """Return which of these were told of lately; nobody else tells until the commit."""
    await connection.execute(query("warning_lock"), tenant_id)
    buckets = [bucket_of(subject) for subject in subjects]
    rows = await connection.fetch(
        query("warning_list_warned"), tenant_id, buckets, list(subjects), since
    )
    return {row["subject"] for row in rows}
