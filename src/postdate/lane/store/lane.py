"""Lanes, and what every node remembers of them."""

import itertools
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from postdate.core.limit import Limit
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import UnavailableError
from postdate.database.connection.query import Reader, fetch_all, query
from postdate.lane import spec as lane_model
from postdate.lane.spec import DEFAULT_PRIORITY, KEY_WIDTH, LaneKind, PerKey, key_position

REFRESH_SECONDS: Final = 2.0
"""How long a change made on another node may go unnoticed."""

MAX_FIRST: Final = 1000
"""How many lanes are read at first: the ones changed last. Others are read on demand."""

RELOAD_SECONDS: Final = 60.0
MAX_RELOADED: Final = 50
"""In this time the lanes of each known tenant are read again, if there are at most this many
tenants at a time: a clock set back would hide changes from the quick way.
"""

T = TypeVar("T")


class LaneKey(NamedTuple):
    """What finds a row of a lane."""

    tenant_id: int
    name: str
    kind: LaneKind
    priority: int = DEFAULT_PRIORITY
    keyed: bool = False


class Lane(msgspec.Struct, frozen=True):
    """A lane as stored: the columns of `lane_view`, in its order."""

    lane_id: int
    tenant_id: int
    name: str
    kind: LaneKind
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
    priority: int = DEFAULT_PRIORITY
    keyed: bool = False
    """Whether its jobs have a key."""
    per_key: PerKey | None = None

    @property
    def key_rotation(self) -> PerKey | None:
        """Return what holds for each key of its jobs; a test clock runs them one by one."""
        return self.per_key if self.keyed and not self.test else None

    @property
    def paused(self) -> bool:
        """Return whether nothing of it may start."""
        return self.paused_at is not None

    @property
    def limit(self) -> Limit:
        """Return what limits the starts of its jobs, of both kinds together."""
        return Limit.of(f"lane:{self.tenant_id}/{self.name}", self)

    @property
    def buckets(self) -> tuple[int, ...]:
        """Return the buckets in which its jobs lie."""
        return _buckets(self.tenant_id, self.name, KEY_WIDTH if self.keyed else self.width)

    def buckets_of(self, key: str | None) -> tuple[int, ...]:
        """Return the buckets in which its jobs lie, all or those with one key."""
        return self.buckets if key is None else (self.buckets[key_position(key)],)

    @property
    def key(self) -> LaneKey:
        """Return what finds it."""
        return LaneKey(self.tenant_id, self.name, self.kind, self.priority, self.keyed)


@lru_cache(maxsize=100_000)
def _buckets(tenant_id: int, name: str, width: int) -> tuple[int, ...]:
    return tuple(lane_model.buckets(tenant_id, name, width))


def _lane(*columns: Any) -> Lane:
    lane = Lane(*columns)
    if lane.per_key is None:
        return lane
    return msgspec.structs.replace(lane, per_key=msgspec.convert(lane.per_key, PerKey))


async def clock(reader: Reader) -> datetime:
    """Return the time by which changes are stamped."""
    return await reader.fetchval(query("lane_clock"))


async def newest(reader: Reader, max_count: int) -> list[Lane]:
    """List the lanes that were changed last."""
    return await fetch_all(reader, _lane, "lane_newest", max_count)


async def changed(reader: Reader, since: datetime, tenant_ids: Sequence[int]) -> list[Lane]:
    """List the lanes changed since an instant, or a little before, and all of some tenants."""
    return await fetch_all(reader, _lane, "lane_changed", since, tenant_ids)


async def of_tenants(
    reader: Reader, tenant_ids: Collection[int], lane_ids: Collection[int]
) -> list[Lane]:
    """List the lanes of some tenants, and of those to whom these lanes belong."""
    return await fetch_all(reader, _lane, "lane_of_tenants", list(tenant_ids), list(lane_ids))


async def list_all(reader: Reader) -> list[Lane]:
    """List every lane: there may be very many."""
    return await fetch_all(reader, _lane, "lane_all")


async def count_paused(reader: Reader) -> int:
    """Count the paused lanes."""
    paused: int = await reader.fetchval(query("lane_count_paused"))
    return paused


async def ensure(connection: Connection, names: Iterable[LaneKey]) -> list[Lane]:
    """Create the lanes that are missing; return all rows of these names."""
    wanted = sorted(set(names))
    columns = (list(column) for column in zip(*wanted, strict=True))
    await connection.execute(query("lane_ensure"), *columns)
    return await find(connection, [key[:2] for key in wanted])


async def find(connection: Reader, names: Iterable[tuple[int, str]]) -> list[Lane]:
    """Find all rows of lanes by tenant and name."""
    wanted = sorted(set(names))
    tenants, texts = (list(column) for column in zip(*wanted, strict=True))
    return await fetch_all(connection, _lane, "lane_find", tenants, texts)


async def change_alone(connection: Connection, tenant_id: int) -> None:
    """Lock the lanes of a tenant: no other transaction changes one before our commit."""
    await connection.execute(query("lane_alone"), tenant_id)


async def page(connection: Reader, tenant_id: int, after: str, limit: int) -> list[Lane]:
    """List all rows of a tenant's lanes, of the first names after one."""
    return await fetch_all(connection, _lane, "lane_list", tenant_id, after, limit)


async def count(connection: Connection, tenant_id: int) -> int:
    """Count a tenant's lanes."""
    return await connection.fetchval(query("lane_count"), tenant_id)


async def change(connection: Connection, lane: Lane) -> list[Lane]:
    """Write weight, width and limits, for all rows; a smaller width is not taken."""
    key, limits = (lane.tenant_id, lane.name), (lane.max_running, lane.rate_per_second)
    per_key = None if lane.per_key is None else msgspec.to_builtins(lane.per_key)
    sizes = lane.weight, lane.width
    await connection.execute(query("lane_change"), *key, *sizes, *limits, per_key)
    return await find(connection, [key])


async def pause(
    connection: Connection,
    tenant_id: int,
    name: str,
    *,
    paused: bool,
    note: str | None = None,
    actor: str | None = None,
) -> list[Lane]:
    """Pause or resume all rows of a lane."""
    await connection.execute(query("lane_pause"), tenant_id, name, paused, note, actor)
    return await find(connection, [(tenant_id, name)])


class LaneDirectory:
    """Lanes in memory: of the tenants that were asked for, and in a small system of all.

    What is in memory follows every change; a tenant's lanes are read together.
    """

    def __init__(self, database: Database, reader: Reader | None = None) -> None:
        self._database = database
        self._reader = reader
        self._read_at: tuple[datetime, float] | None = None
        """When changes were last read, by the database's clock and by this node's."""
        self._all = False
        self._loaded: set[int] = set()
        """The tenants whose lanes are all known."""
        self._reload_at = 0.0
        self.by_id: dict[int, Lane] = {}
        self.by_key: dict[LaneKey, Lane] = {}
        self.by_name: dict[tuple[int, str], dict[int, Lane]] = {}
        self.by_tenant: dict[int, dict[int, Lane]] = {}
        """In the order in which they are read again."""

    async def refresh(self, _: int = 1) -> int:
        """Take over what has changed; the step of a loop."""
        now = time.monotonic()
        if self._read_at is None:
            at = await self._read(clock)
            found = await self._read(newest, MAX_FIRST)
            self._all = len(found) < MAX_FIRST
            self._reload_at = now + RELOAD_SECONDS
        else:
            since, before = self._read_at
            found = await self._read(changed, since, self._again())
            # The database's clock went on at least as long; it may have been set forward.
            passed = since + timedelta(seconds=now - before)
            at = max([passed, *(lane.changed_at for lane in found)])
        self.remember(found)
        self._read_at = at, now
        return 0

    def _again(self) -> list[int]:
        """Choose the tenants whose lanes are read again now, whether or not they have changed."""
        now = time.monotonic()
        if now < self._reload_at or not self.by_tenant:
            return []
        tenants = list(itertools.islice(self.by_tenant, MAX_RELOADED))
        for tenant_id in tenants:
            self.by_tenant[tenant_id] = self.by_tenant.pop(tenant_id)
        self._reload_at = now + RELOAD_SECONDS * len(tenants) / len(self.by_tenant)
        return tenants

    async def load(
        self,
        lane_ids: Collection[int] = (),
        tenant_ids: Collection[int] = (),
        reader: Reader | None = None,
    ) -> None:
        """Make sure that these lanes, and all lanes of these tenants, are known if they exist.

        Inside a transaction give its connection as `reader`.
        """
        lanes = [each for each in lane_ids if each not in self.by_id]
        tenants = [each for each in tenant_ids if not (self._all or each in self._loaded)]
        if lanes or tenants:
            if reader is not None:
                found = await of_tenants(reader, tenants, lanes)
            else:
                found = await self._read(of_tenants, tenants, lanes)
            self.remember(found)
            self._loaded.update(tenants, (lane.tenant_id for lane in found))

    async def _read(self, read: Callable[..., Awaitable[T]], *args: Any) -> T:
        if self._reader is not None:
            return await read(self._reader, *args)
        async with self._database.connection() as connection:
            return await read(connection, *args)

    def remember(self, lanes: Sequence[Lane]) -> None:
        """Take over lanes that this node has just seen or changed."""
        for lane in lanes:
            self.by_id[lane.lane_id] = lane
            self.by_key[lane.key] = lane
            self.by_name.setdefault((lane.tenant_id, lane.name), {})[lane.lane_id] = lane
            self.by_tenant.setdefault(lane.tenant_id, {})[lane.lane_id] = lane

    async def of_tenant(self, tenant_id: int, name: str | None = None) -> list[Lane]:
        """Return a tenant's lanes, all of them or those of one name."""
        lanes: Iterable[Lane]
        try:
            await self.load(tenant_ids=[tenant_id])
            lanes = self.by_tenant.get(tenant_id, {}).values()
        except UnavailableError:
            # A replica may answer. It may also be behind, so what it says is not remembered.
            lanes = await of_tenants(self._database.tenant_reader(tenant_id), [tenant_id], [])
        return [lane for lane in lanes if name is None or lane.name == name]

    async def find(self, tenant_id: int, name: str, kind: LaneKind) -> list[Lane]:
        """Return the rows of a lane of one kind, the most urgent first."""
        await self.load(tenant_ids=[tenant_id])
        return sorted(
            (
                each
                for each in self.by_name.get((tenant_id, name), {}).values()
                if each.kind == kind
            ),
            key=lambda lane: (lane.priority, lane.keyed),
        )
