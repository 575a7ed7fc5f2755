"""Schedules: their versions, their progress and their timers."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of
from postdate.core.test_clock import own_lane
from postdate.database.connection.column import compact, filled
from postdate.database.connection.query import Connection, Reader, fetch_all, query
from postdate.recurrence.calendar import Roll
from postdate.recurrence.rule import Rule
from postdate.schedule.spec.schedule import Definition, Policies, Template
from postdate.schedule.spec.timeline import Version
from postdate.timer.timer import LANE_SCHEDULE

T = TypeVar("T")

REMEMBERED: Final = 4096
MAX_VERSIONS: Final = 100
"""How many versions of a schedule, counted from the newest, decide about its past."""

_rule: Final = lru_cache(REMEMBERED)(msgspec.json.Decoder(Rule).decode)
_policies: Final = lru_cache(REMEMBERED)(msgspec.json.Decoder(Policies).decode)
_template: Final = lru_cache(REMEMBERED)(msgspec.json.Decoder(Template).decode)
"""Schedules resemble each other: many share a rule, most share their policies."""


class ScheduleKey(NamedTuple):
    """The key of a schedule."""

    bucket: int
    tenant_id: int
    schedule_id: UUID


class ScheduleRow(msgspec.Struct, frozen=True, gc=False):
    """A schedule as stored, with its current version."""

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
    set_aside_at: datetime | None
    set_aside_error: str | None
    ended_at: datetime | None
    created_at: datetime
    changed_at: datetime
    since: datetime
    name: str
    rule_json: str
    policies_json: str
    template_json: str
    traceparent: str | None

    @property
    def key(self) -> ScheduleKey:
        """Return the key."""
        return ScheduleKey(self.bucket, self.tenant_id, self.schedule_id)

    @property
    def paused(self) -> bool:
        """Return whether it is paused."""
        return self.paused_at is not None and self.resumed_at is None

    @property
    def rolls(self) -> bool:
        """Return whether its calendar moves occurrences; not where the rule cannot be read."""
        try:
            rule = _rule(self.rule_json)
        except msgspec.MsgspecError:
            return False
        return rule.calendar is not None and rule.roll is not Roll.NONE

    @property
    def definition(self) -> Definition:
        """Decode the definition; raise an error of msgspec if that is no longer possible."""
        return _definition(self.name, self.rule_json, self.policies_json, self.template_json)

    @property
    def readable_part(self) -> Definition:
        """Decode the parts that still can be decoded; leave the others empty."""
        rule, _ = _read_or(_rule, self.rule_json, Rule())
        policies, _ = _read_or(_policies, self.policies_json, Policies())
        template, _ = _read_or(_template, self.template_json, Template())
        return Definition(name=self.name, rule=rule, policies=policies, template=template)

    def visible(self, accounts: Collection[str] | None) -> bool:
        """Return whether a key may see it; a key limited to accounts must see its payer."""
        template, is_read = _read_or(_template, self.template_json, Template())
        return template.visible(accounts) if is_read else accounts is None


class StoredVersion(NamedTuple):
    """One version as stored."""

    number: int
    since: datetime
    previous_until: datetime
    name: str
    rule_json: str
    policies_json: str
    template_json: str

    def read(self) -> Version:
        """Decode the version; raise an error of msgspec if that is no longer possible."""
        return Version(
            number=self.number,
            since=self.since,
            previous_until=self.previous_until,
            definition=_definition(*self[3:]),
        )


class Authors(NamedTuple):
    """Who wrote the template of a version, and all people behind what it will execute."""

    template_by: str
    persons: frozenset[str]


def _definition(name: str, rule: str, policies: str, template: str) -> Definition:
    return Definition(
        name=name, rule=_rule(rule), policies=_policies(policies), template=_template(template)
    )


def _read_or(read: Callable[[str], T], text: str, empty: T) -> tuple[T, bool]:
    try:
        return read(text), True
    except msgspec.MsgspecError:
        return empty, False


class SilentSchedule(NamedTuple):
    """A schedule that does not fire when its rule says so, and for how long."""

    bucket: int
    tenant_id: int
    schedule_id: UUID
    seconds: float


class Advance(NamedTuple):
    """The state of a schedule after a step."""

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


async def insert(connection: Connection, key: ScheduleKey, handled: datetime) -> None:
    """Insert a schedule; its first version follows."""
    await connection.execute(query("schedule_insert"), *key, handled)


async def insert_version(
    connection: Connection,
    key: ScheduleKey,
    version: Version,
    actor: str,
    traceparent: str | None,
    *,
    authors: Authors,
) -> None:
    """Insert a version, with the trace of its request if there is one."""
    definition = version.definition
    parts = (definition.rule, definition.policies, definition.template)
    texts = [msgspec.json.encode(part).decode() for part in parts]
    await connection.execute(
        query("schedule_insert_version"),
        *key,
        version.number,
        definition.name,
        *texts,
        actor,
        traceparent,
        authors.template_by,
        sorted(authors.persons),
        version.since,
        version.previous_until,
    )


async def read_authors(connection: Connection, key: ScheduleKey, version: int) -> Authors:
    """Read who is behind a version."""
    row = await connection.fetchrow(query("schedule_read_authors"), *key, version)
    if row is None:
        raise LookupError(f"schedule {key.schedule_id} has no version {version}")
    return Authors(row[0], frozenset(row[1]))


async def lock(connection: Connection, key: ScheduleKey) -> int | None:
    """Lock a schedule, its timer first, and return its version; None if there is no schedule."""
    await connection.fetchval(query("schedule_lock_timer"), key.bucket, key.schedule_id)
    return await connection.fetchval(query("schedule_lock"), *key)


async def load(
    connection: Reader, keys: Sequence[ScheduleKey], *, deleted: bool = False
) -> list[ScheduleRow]:
    """Load schedules; deleted ones only if they are asked for."""
    if not keys:
        return []
    buckets, tenants, ids = zip(*keys, strict=True)
    return await fetch_all(
        connection, ScheduleRow, "schedule_load", compact(buckets), compact(tenants), ids, deleted
    )


async def load_any(connection: Reader, key: ScheduleKey) -> ScheduleRow | None:
    """Load a schedule, even a deleted one."""
    return next(iter(await load(connection, [key], deleted=True)), None)


async def versions(
    connection: Reader, keys: Sequence[ScheduleKey]
) -> dict[UUID, list[StoredVersion]]:
    """Load the newest versions of schedules, the oldest first, without decoding them."""
    if not keys:
        return {}
    columns = zip(*keys, strict=True)
    rows = await connection.fetch(query("schedule_versions"), *columns, MAX_VERSIONS)
    found: dict[UUID, list[StoredVersion]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(StoredVersion(*row[1:]))
    return found


async def running(connection: Connection, subjects: Iterable[UUID]) -> set[UUID]:
    """Return which jobs and payments have not ended."""
    wanted = list(subjects)
    if not wanted:
        return set()
    buckets = [bucket_of(subject) for subject in wanted]
    return {row[0] for row in await connection.fetch(query("schedule_running"), buckets, wanted)}


async def advance(connection: Connection, steps: Sequence[Advance]) -> None:
    """Write the state of schedules after a step."""
    if steps:
        _, tenants, ids, runs, handled, *rest = zip(*steps, strict=True)
        await connection.execute(
            query("schedule_advance"),
            compact(tenants),
            ids,
            runs,
            compact(handled),
            *(filled(column) for column in rest),
        )


async def move_timers(
    connection: Connection, timers: Sequence[tuple[int, UUID, datetime | None]]
) -> None:
    """Move timers to their next instant; None ends a schedule and deletes its timer."""
    moved = [timer[1:] for timer in timers if timer[2] is not None]
    ended = [timer[:2] for timer in timers if timer[2] is None]
    if moved:
        ids, instants = zip(*moved, strict=True)
        await connection.execute(query("schedule_move_timers"), ids, compact(instants))
    if ended:
        await connection.execute(query("schedule_delete_timers"), *zip(*ended, strict=True))


async def put_timer(connection: Connection, key: ScheduleKey, due_at: datetime | None) -> None:
    """Set the timer of a schedule, or remove it."""
    if due_at is None:
        await move_timers(connection, [(key.bucket, key.schedule_id, None)])
    else:
        await connection.execute(
            query("schedule_put_timer"),
            key.bucket,
            key.tenant_id,
            own_lane(LANE_SCHEDULE),
            key.schedule_id,
            due_at,
        )


async def change(
    connection: Connection, key: ScheduleKey, version: int, ended_at: datetime | None
) -> None:
    """Make another version the current one."""
    await connection.execute(query("schedule_change"), *key, version, ended_at)


async def set_aside(connection: Connection, key: ScheduleKey, error: str) -> None:
    """Record why a schedule cannot be expanded, and remove its timer."""
    await connection.execute(query("schedule_set_aside"), *key, error)
    await put_timer(connection, key, None)


async def take_up(connection: Connection, key: ScheduleKey, due_at: datetime) -> None:
    """Clear the error of a schedule that was set aside."""
    await connection.execute(query("schedule_take_up"), *key)
    await put_timer(connection, key, due_at)


async def count_set_aside(connection: Connection, tenant_id: int, max_count: int) -> int:
    """Count a tenant's schedules that were set aside."""
    return await connection.fetchval(query("schedule_count_set_aside"), tenant_id, max_count)


async def pause(connection: Connection, key: ScheduleKey, note: str | None) -> None:
    """Begin a pause."""
    await connection.execute(query("schedule_pause"), *key, note)


async def resume(connection: Connection, key: ScheduleKey) -> None:
    """End a pause."""
    await connection.execute(query("schedule_resume"), *key)


async def delete(connection: Connection, key: ScheduleKey) -> None:
    """Mark a schedule as deleted; its book stays."""
    await connection.execute(query("schedule_delete"), *key)


async def missed(connection: Connection, key: ScheduleKey, at: datetime) -> None:
    """Record when a schedule last missed an occurrence."""
    await connection.execute(query("schedule_missed"), *key, at)


async def timers(connection: Connection, keys: Sequence[ScheduleKey]) -> dict[UUID, datetime]:
    """Return the instants of schedules' timers."""
    if not keys:
        return {}
    columns = [key.bucket for key in keys], [key.schedule_id for key in keys]
    rows = await connection.fetch(query("schedule_timers"), *columns)
    return {row[0]: row[1] for row in rows}


async def put_back(connection: Connection, key: ScheduleKey, at: datetime) -> None:
    """Let a schedule continue from an instant that it has passed already."""
    await connection.execute(query("schedule_put_back"), *key, at)


async def mark_silent(connection: Connection, key: ScheduleKey, since: datetime | None) -> bool:
    """Record since when a schedule has not fired though its rule says so, or that it does.

    False if its tenant is halted.
    """
    return bool(await connection.fetchval(query("schedule_mark_silent"), *key, since))


async def list_silent(reader: Reader, limit: int) -> list[SilentSchedule]:
    """List the schedules that do not fire when their rule says so, the longest silent first."""
    return await fetch_all(reader, SilentSchedule, "schedule_list_silent", limit)


async def walk(connection: Reader, after: ScheduleKey, limit: int) -> list[ScheduleRow]:
    """Return the next schedules that have neither ended by now nor been set aside."""
    return await fetch_all(connection, ScheduleRow, "schedule_walk", *after, limit)


async def tzdata(connection: Connection) -> str | None:
    """Return the release of the tz data that the timers were computed with."""
    return await connection.fetchval(query("schedule_tzdata"))


async def put_tzdata(connection: Connection, version: str) -> None:
    """Record the tz database release in force from now on."""
    await connection.execute(query("schedule_put_tzdata"), version)
