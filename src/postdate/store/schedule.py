"""Schedules: their versions, where each stands, and their timers."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.model.ids import bucket_of
from postdate.model.schedule import Definition, Policies, Rule, Template
from postdate.store.column import filled, same
from postdate.store.database import Connection
from postdate.store.query import query
from postdate.store.timer import LANE_SCHEDULE

REMEMBERED: Final = 4096

_rule: Final = lru_cache(REMEMBERED)(msgspec.json.Decoder(Rule).decode)
_policies: Final = lru_cache(REMEMBERED)(msgspec.json.Decoder(Policies).decode)
_template: Final = lru_cache(REMEMBERED)(msgspec.json.Decoder(Template).decode)
"""Schedules resemble each other: many share a rule, most share their policies."""


class ScheduleKey(NamedTuple):
    """Where a schedule lies."""

    bucket: int
    tenant_id: int
    schedule_id: UUID


class ScheduleRow(msgspec.Struct, frozen=True, gc=False):
    """A schedule as stored, with the version that holds now."""

    bucket: int
    tenant_id: int
    schedule_id: UUID
    version: int
    runs: int
    handled: datetime
    buffered_for: datetime | None
    last_id: UUID | None
    paused_at: datetime | None
    resumed_at: datetime | None
    paused_note: str | None
    missed_at: datetime | None
    ended_at: datetime | None
    created_at: datetime
    changed_at: datetime
    version_at: datetime
    name: str
    rule_json: str
    policies_json: str
    template_json: str
    traceparent: str | None

    @property
    def key(self) -> ScheduleKey:
        """Give where it lies."""
        return ScheduleKey(self.bucket, self.tenant_id, self.schedule_id)

    @property
    def paused(self) -> bool:
        """Say whether a pause lasts."""
        return self.paused_at is not None and self.resumed_at is None

    @property
    def definition(self) -> Definition:
        """Give what was asked for."""
        return Definition(
            name=self.name,
            rule=_rule(self.rule_json),
            policies=_policies(self.policies_json),
            template=_template(self.template_json),
        )


class DueTimer(NamedTuple):
    """A due timer that this transaction has locked, and the time at which it was found due."""

    tenant_id: int
    schedule_id: UUID
    due_at: datetime
    at: datetime


class Advance(NamedTuple):
    """Where a schedule stands after a step."""

    bucket: int
    tenant_id: int
    schedule_id: UUID
    runs: int
    handled: datetime
    buffered_for: datetime | None
    last_id: UUID | None
    missed_at: datetime | None
    ended_at: datetime | None


def key_of(tenant_id: int, schedule_id: UUID) -> ScheduleKey:
    """Make the key of a tenant's schedule."""
    return ScheduleKey(bucket_of(schedule_id), tenant_id, schedule_id)


async def now(connection: Connection) -> datetime:
    """Ask the database for its time."""
    found: datetime = await connection.fetchval(query("schedule_now"))
    return found


async def insert(connection: Connection, key: ScheduleKey, handled: datetime) -> None:
    """Insert a schedule; its first version follows."""
    await connection.execute(query("schedule_insert"), *key, handled)


async def insert_version(
    connection: Connection,
    key: ScheduleKey,
    version: int,
    definition: Definition,
    actor: str,
    traceparent: str | None,
) -> None:
    """Insert a version, with the request that asked for it where somebody follows that."""
    parts = (definition.rule, definition.policies, definition.template)
    texts = [msgspec.json.encode(part).decode() for part in parts]
    await connection.execute(
        query("schedule_insert_version"),
        *key,
        version,
        definition.name,
        *texts,
        actor,
        traceparent,
    )


async def due(connection: Connection, bucket: int, low: datetime, limit: int) -> list[DueTimer]:
    """Lock the first due timers of a bucket that nobody else is at."""
    rows = await connection.fetch(query("schedule_due"), bucket, LANE_SCHEDULE, low, limit)
    return [DueTimer(*row) for row in rows]


async def lock(connection: Connection, key: ScheduleKey) -> int | None:
    """Lock a schedule, its timer first, and give its version; None when there is none."""
    await connection.fetchval(query("schedule_lock_timer"), key.bucket, key.schedule_id)
    version: int | None = await connection.fetchval(query("schedule_lock"), *key)
    return version


async def load(connection: Connection, keys: Sequence[ScheduleKey]) -> list[ScheduleRow]:
    """Load schedules; deleted ones are left out."""
    if not keys:
        return []
    buckets, tenants, ids = zip(*keys, strict=True)
    rows = await connection.fetch(query("schedule_load"), same(buckets), same(tenants), ids)
    return [ScheduleRow(*row) for row in rows]


async def running(connection: Connection, subjects: Iterable[UUID]) -> set[UUID]:
    """Tell which jobs and payments have not ended."""
    wanted = list(subjects)
    if not wanted:
        return set()
    buckets = [bucket_of(subject) for subject in wanted]
    return {row[0] for row in await connection.fetch(query("schedule_running"), buckets, wanted)}


async def advance(connection: Connection, steps: Sequence[Advance]) -> None:
    """Write where schedules stand after a step."""
    if steps:
        _, tenants, ids, runs, handled, *rest = zip(*steps, strict=True)
        await connection.execute(
            query("schedule_advance"),
            same(tenants),
            ids,
            runs,
            same(handled),
            *(filled(column) for column in rest),
        )


async def move_timers(
    connection: Connection, timers: Sequence[tuple[int, UUID, datetime | None]]
) -> None:
    """Move timers to their next instant; None ends a schedule and takes its timer away."""
    moved = [timer[1:] for timer in timers if timer[2] is not None]
    ended = [timer[:2] for timer in timers if timer[2] is None]
    if moved:
        ids, instants = zip(*moved, strict=True)
        await connection.execute(query("schedule_move_timers"), ids, same(instants))
    if ended:
        await connection.execute(query("schedule_delete_timers"), *zip(*ended, strict=True))


async def put_timer(connection: Connection, key: ScheduleKey, due_at: datetime | None) -> None:
    """Give a schedule a timer, or take it away."""
    if due_at is None:
        await move_timers(connection, [(key.bucket, key.schedule_id, None)])
    else:
        await connection.execute(
            query("schedule_put_timer"),
            key.bucket,
            key.tenant_id,
            LANE_SCHEDULE,
            key.schedule_id,
            due_at,
        )


async def change(
    connection: Connection,
    key: ScheduleKey,
    version: int,
    handled: datetime,
    ended_at: datetime | None,
) -> None:
    """Let another version hold from an instant on."""
    await connection.execute(query("schedule_change"), *key, version, handled, ended_at)


async def pause(connection: Connection, key: ScheduleKey, note: str | None) -> None:
    """Begin a pause."""
    await connection.execute(query("schedule_pause"), *key, note)


async def resume(connection: Connection, key: ScheduleKey) -> None:
    """End a pause."""
    await connection.execute(query("schedule_resume"), *key)


async def delete(connection: Connection, key: ScheduleKey) -> None:
    """Hide a schedule for ever; its book stays."""
    await connection.execute(query("schedule_delete"), *key)


async def missed(connection: Connection, key: ScheduleKey, at: datetime) -> None:
    """Note when a schedule last missed an occurrence."""
    await connection.execute(query("schedule_missed"), *key, at)


async def page(
    connection: Connection, tenant_id: int, after: UUID, limit: int, *, missed: bool
) -> list[ScheduleRow]:
    """List a tenant's schedules, all or only those that missed an occurrence."""
    rows = await connection.fetch(query("schedule_page"), tenant_id, after, limit, missed)
    return [ScheduleRow(*row) for row in rows]


async def timers(connection: Connection, keys: Sequence[ScheduleKey]) -> dict[UUID, datetime]:
    """Give the instants of schedules' timers."""
    if not keys:
        return {}
    columns = [key.bucket for key in keys], [key.schedule_id for key in keys]
    rows = await connection.fetch(query("schedule_timers"), *columns)
    return {row[0]: row[1] for row in rows}


async def walk(
    connection: Connection, bucket: int, after: tuple[int, UUID], limit: int
) -> list[ScheduleRow]:
    """Go through every schedule of a bucket that has not ended."""
    rows = await connection.fetch(query("schedule_walk"), bucket, *after, limit)
    return [ScheduleRow(*row) for row in rows]


async def tzdata(connection: Connection) -> str | None:
    """Give the release of the tz data that the timers were computed with."""
    found: str | None = await connection.fetchval(query("schedule_tzdata"))
    return found


async def put_tzdata(connection: Connection, version: str) -> None:
    """Note the release that holds from now on."""
    await connection.execute(query("schedule_put_tzdata"), version)
