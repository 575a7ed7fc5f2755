"""Subscriptions: who receives which events, and their positions."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

import msgspec

from postdate.core.ids import MIN_ID, bucket_of
from postdate.core.test_clock import own_lane
from postdate.database.connection.query import Connection, Reader, fetch_all, fetch_one, query
from postdate.http.page import encode_cursor
from postdate.subscription.spec import SubscriptionStatus, SubscriptionView
from postdate.timer.timer import LANE_EVENT


class NewSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription about to be inserted."""

    tenant_id: int
    subscription_id: UUID
    destination: dict[str, Any]
    types: list[str]
    patterns: list[str]
    accounts: list[str] | None
    position: int


class LeasedSubscription(msgspec.Struct, frozen=True):
    """A subscription whose lease was just taken."""

    tenant_id: int
    tenant: str
    destination: dict[str, Any]
    patterns: list[str]
    accounts: list[str] | None
    position: int
    version: int
    failures: int
    failing_seconds: float | None
    paused: bool


class DeliveryProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a delivery: everything up to a position, and the error that stopped it there.

    Having to wait for a permit, for example, is neither a failure nor a success.
    """

    position: int
    delivered: bool
    error: str | None = None
    counts: bool = True


class Lag(msgspec.Struct, frozen=True):
    """The state of the subscriptions of all tenants."""

    paused: int
    failing: int
    events: int


async def insert(connection: Connection, new: NewSubscription) -> None:
    """Insert a subscription."""
    bucket, values = bucket_of(new.subscription_id), msgspec.structs.astuple(new)
    await connection.execute(query("subscription_insert"), bucket, *values)


async def count(connection: Connection, tenant_id: int) -> int:
    """Count the subscriptions of a tenant."""
    return await connection.fetchval(query("subscription_count"), tenant_id)


def _key(tenant_id: int, subscription_id: UUID) -> tuple[int, int, UUID]:
    return bucket_of(subscription_id), tenant_id, subscription_id


async def delete(connection: Connection, tenant_id: int, subscription_id: UUID) -> bool:
    """Delete a subscription; return whether there was one."""
    done: str = await connection.execute(
        query("subscription_delete"), *_key(tenant_id, subscription_id)
    )
    return done != "DELETE 0"


async def pause(connection: Connection, tenant_id: int, subscription_id: UUID, note: str) -> bool:
    """Pause a subscription; return whether it was running."""
    key = _key(tenant_id, subscription_id)
    return await connection.fetchval(query("subscription_pause"), *key, note) is not None


async def resume(connection: Connection, tenant_id: int, subscription_id: UUID) -> bool:
    """Resume a subscription; return whether it was paused."""
    key = _key(tenant_id, subscription_id)
    return await connection.fetchval(query("subscription_resume"), *key) is not None


async def replay(
    connection: Connection, tenant_id: int, subscription_id: UUID, position: int
) -> bool | None:
    """Move a subscription to another position; return whether it is running, None if not found."""
    return await connection.fetchval(
        query("subscription_replay"), *_key(tenant_id, subscription_id), position
    )


async def start(connection: Connection, tenant_id: int, subscription_id: UUID) -> None:
    """Make a subscription due now."""
    bucket = bucket_of(subscription_id)
    await connection.execute(
        query("subscription_start"), bucket, tenant_id, own_lane(LANE_EVENT), subscription_id
    )


async def stop(connection: Connection, subscription_id: UUID) -> None:
    """Delete the timer; a delivery in progress then changes nothing."""
    bucket = bucket_of(subscription_id)
    await connection.execute(
        query("subscription_stop"), bucket, subscription_id, own_lane(LANE_EVENT)
    )


async def wake(connection: Connection, recorded: Collection[tuple[int, str]]) -> None:
    """Create timers for subscriptions that may match these (tenant, type) pairs."""
    tenants, types = [tenant_id for tenant_id, _ in recorded], [kind for _, kind in recorded]
    await connection.execute(query("subscription_wake"), tenants, types, LANE_EVENT)


async def load(
    connection: Connection, subscription_id: UUID, token: int
) -> LeasedSubscription | None:
    """Return the subscription of a lease, if both still exist."""
    return await fetch_one(
        connection,
        LeasedSubscription,
        "subscription_load",
        bucket_of(subscription_id),
        subscription_id,
        token,
    )


async def advance(
    connection: Connection,
    held: LeasedSubscription,
    subscription_id: UUID,
    token: int,
    progress: DeliveryProgress,
) -> int | None:
    """Record what was delivered; return the failures in a row, or None if the lease is lost."""
    return await connection.fetchval(
        query("subscription_advance"),
        *_key(held.tenant_id, subscription_id),
        token,
        held.version,
        progress.position,
        progress.error,
        progress.delivered,
        progress.counts,
    )


async def release_if_idle(
    connection: Connection, tenant_id: int, subscription_id: UUID, token: int, position: int
) -> bool:
    """End the lease if there is nothing after this position; return whether there is nothing."""
    return await connection.fetchval(
        query("subscription_release_if_idle"), *_key(tenant_id, subscription_id), token, position
    )


async def page(
    connection: Reader, tenant_id: int, after: UUID, limit: int, only: UUID | None = None
) -> list[SubscriptionView]:
    """List a tenant's subscriptions, oldest first, or give only one of them."""
    return await fetch_all(connection, _view, "subscription_page", tenant_id, after, limit, only)


def _view(
    subscription_id: UUID,
    status: str,
    destination: dict[str, Any],
    types: list[str],
    accounts: list[str] | None,
    position: int,
    *others: Any,
) -> SubscriptionView:
    where = destination, types, accounts, encode_cursor(position)
    return SubscriptionView(subscription_id, SubscriptionStatus(status), *where, *others)


async def find(
    connection: Reader, tenant_id: int, subscription_id: UUID
) -> SubscriptionView | None:
    """Find one subscription."""
    return next(iter(await page(connection, tenant_id, MIN_ID, 1, subscription_id)), None)


async def lag(connection: Connection) -> Lag:
    """Return the lag of the subscriptions of all tenants."""
    row = await connection.fetchrow(query("subscription_lag"))
    return Lag(*row) if row else Lag(0, 0, 0)
