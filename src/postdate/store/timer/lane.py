"""Lanes, and what every node remembers of them."""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Final

import msgspec

from postdate.model import lane as lane_model
from postdate.model.lane import Kind
from postdate.store.connection.database import Connection, Database
from postdate.store.connection.query import Reader, fetch_all, query
from postdate.store.timer.timer import LONG_AGO

REFRESH_SECONDS: Final = 2.0
"""How long a change made on another node may go unnoticed."""

RELOAD_SECONDS: Final = 60.0
"""How often every lane is read again: a clock set back would hide changes from the quick way."""

LaneKey = tuple[int, str, Kind]
"""Tenant, name and kind: what finds a lane."""


class Lane(msgspec.Struct, frozen=True):
    """A lane as stored."""

    lane_id: int
    tenant_id: int
    name: str
    kind: Kind
    weight: int
    width: int
    max_running: int | None
    rate_per_second: float | None
    paused_at: datetime | None
    paused_note: str | None
    paused_by: str | None
    created_at: datetime
    changed_at: datetime
    test: bool = False

    @property
    def paused(self) -> bool:
        """Return whether nothing of it may start."""
        return self.paused_at is not None

    @property
    def buckets(self) -> tuple[int, ...]:
        """Return the buckets in which its jobs lie."""
        return _buckets(self.lane_id, self.width)


@cache
def _buckets(lane_id: int, width: int) -> tuple[int, ...]:
    return tuple(lane_model.buckets(lane_id, width))


async def changed(reader: Reader, since: datetime) -> list[Lane]:
    """List the lanes changed since an instant, or a little before."""
    return await fetch_all(reader, Lane, "lane_changed", since)


async def ensure(connection: Connection, names: Iterable[LaneKey]) -> list[Lane]:
    """Create the lanes that are missing; return all of these names, of either kind."""
    wanted = sorted(set(names))
    tenants, names, kinds = (list(column) for column in zip(*wanted, strict=True))
    await connection.execute(query("lane_ensure"), tenants, names, kinds)
    return await find(connection, [(tenant_id, name) for tenant_id, name, _ in wanted])


async def find(connection: Reader, names: Iterable[tuple[int, str]]) -> list[Lane]:
    """Find lanes by tenant and name, of either kind."""
    wanted = sorted(set(names))
    tenants, texts = (list(column) for column in zip(*wanted, strict=True))
    return await fetch_all(connection, Lane, "lane_find", tenants, texts)


async def change_alone(connection: Connection, tenant_id: int) -> None:
    """Lock the lanes of a tenant: nobody else changes one before our commit."""
    await connection.execute(query("lane_alone"), tenant_id)


async def page(connection: Reader, tenant_id: int, after: str, limit: int) -> list[Lane]:
    """List a tenant's lanes by name; both kinds of a name count."""
    return await fetch_all(connection, Lane, "lane_list", tenant_id, after, limit)


async def count(connection: Connection, tenant_id: int) -> int:
    """Count a tenant's lanes."""
    return await connection.fetchval(query("lane_count"), tenant_id)


async def change(connection: Connection, lane: Lane) -> list[Lane]:
    """Write weight, width and limits, for both kinds; a smaller width is not taken."""
    return await fetch_all(
        connection,
        Lane,
        "lane_change",
        lane.tenant_id,
        lane.name,
        lane.weight,
        lane.width,
        lane.max_running,
        lane.rate_per_second,
    )


async def pause(
    connection: Connection,
    tenant_id: int,
    name: str,
    *,
    paused: bool,
    note: str | None = None,
    actor: str | None = None,
) -> list[Lane]:
    """Pause or resume both kinds of a lane."""
    return await fetch_all(connection, Lane, "lane_pause", tenant_id, name, paused, note, actor)


class LaneDirectory:
    """Every lane, in memory: read whole at first, then only what has changed."""

    def __init__(self, database: Database, reader: Reader | None = None) -> None:
        self._database = database
        self._reader = reader
        self._since = LONG_AGO
        self._reload_at = 0.0
        self.by_id: dict[int, Lane] = {}
        self.by_place: dict[LaneKey, Lane] = {}
        self.by_tenant: dict[int, dict[int, Lane]] = {}

    async def refresh(self, _: int = 1) -> int:
        """Take over what has changed; the step of a loop."""
        now = time.monotonic()
        if now >= self._reload_at:
            self._since, self._reload_at = LONG_AGO, now + RELOAD_SECONDS
        found = await self._changed()
        self.remember(found)
        self._since = max([self._since, *(lane.changed_at for lane in found)])
        return 0

    async def _changed(self) -> list[Lane]:
        if self._reader is not None:
            return await changed(self._reader, self._since)
        async with self._database.connection() as connection:
            return await changed(connection, self._since)

    def remember(self, lanes: Sequence[Lane]) -> None:
        """Take over lanes that this node has just seen or changed."""
        for lane in lanes:
            self.by_id[lane.lane_id] = lane
            self.by_place[lane.tenant_id, lane.name, lane.kind] = lane
            self.by_tenant.setdefault(lane.tenant_id, {})[lane.lane_id] = lane

    def list_live(self) -> list[Lane]:
        """Return the lanes of all tenants but those in test mode."""
        return [lane for lane in self.by_id.values() if not lane.test]

    def of_tenant(self, tenant_id: int, name: str | None = None) -> list[Lane]:
        """Return a tenant's lanes, all of them or those of one name."""
        lanes = self.by_tenant.get(tenant_id, {}).values()
        return [lane for lane in lanes if name is None or lane.name == name]
