"""Warnings of payments that will fail: which tenants to check, and which were warned already."""

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from postdate.core.ids import bucket_of
from postdate.core.test_clock import own_lane
from postdate.database.connection.query import Connection, query
from postdate.timer.timer import LANE_PAYMENT


async def tenants(connection: Connection, until: datetime, limit: int) -> list[int]:
    """Return the tenants that have payments due before an instant, or schedules of payments."""
    rows = await connection.fetch(query("warning_tenants"), own_lane(LANE_PAYMENT), until, limit)
    return [row[0] for row in rows]


async def list_warned(
    connection: Connection, tenant_id: int, subjects: Collection[UUID], since: timedelta
) -> set[UUID]:
    """Return which subjects were warned of recently, and lock out other nodes until the commit."""
    await connection.execute(query("warning_lock"), tenant_id)
    buckets = [bucket_of(subject) for subject in subjects]
    rows = await connection.fetch(
        query("warning_list_warned"), tenant_id, buckets, list(subjects), since
    )
    return {row["subject"] for row in rows}
