"""Stand-ins for the statements of the expander, on the tables in memory.

A schedule is ("schedule", id), its versions ("version", id, number), its timer ("timer", id); a row
of the book is ("book", id, occurrence id), and what it became ("job", id).
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from postdate.calendar import store as calendar_store
from postdate.core.ids import bucket_of
from postdate.database.connection import clock
from postdate.database.connection.error import UniqueViolationError
from postdate.event.store import event as event_store
from postdate.schedule.store import occurrence, schedule, schedule_due
from postdate.schedule.store.occurrence import NewOccurrence, OccurrenceKey, Relabel
from postdate.schedule.store.schedule import Advance, ScheduleKey, ScheduleRow, StoredVersion
from postdate.schedule.store.schedule_due import DueFilter, DueTimer
from postdate.timer import timer
from postdate.timer.timer import Head
from sim.table import Tables, TableTransaction, database_of

TENANT = 1
TimerMove = tuple[int, UUID, datetime | None]


def _due(tables: Tables, bucket: int, low: datetime) -> list[tuple[datetime, UUID]]:
    rows = [(at, schedule_id) for schedule_id, at in _timers(tables) if at >= low]
    return sorted((at, key) for at, key in rows if bucket_of(key) == bucket)


def _timers(tables: Tables) -> Iterator[tuple[UUID, datetime]]:
    return ((key[1], row) for key, row in tables.of("timer") if isinstance(key[1], UUID))


async def heads(reader: Any, places: Sequence[tuple[int, int, datetime]]) -> list[Head]:
    """Stand for timer_heads."""
    database = database_of(reader)
    await database.step("heads")
    tables, found = database.tables, []
    lows = {bucket: (lane, low) for bucket, lane, low in places}
    for bucket in {bucket_of(key) for key, _ in _timers(tables)}:
        lane, low = lows[bucket]
        for at, _ in _due(tables, bucket, low)[:1]:
            found.append(Head(bucket, lane, at, (at - tables.now()).total_seconds()))
    return found


async def take(transaction: TableTransaction, wanted: DueFilter) -> list[DueTimer]:
    """Stand for schedule_due: whoever is at a timer keeps it."""
    await transaction.database.step("take")
    tables, found = transaction.tables, []
    for at, key in _due(tables, wanted.bucket, wanted.low):
        left_out = key in wanted.without or (wanted.only is not None and key not in wanted.only)
        if at > tables.now() or left_out or not transaction.free(("timer", key)):
            continue
        await transaction.lock(("timer", key))
        found.append(DueTimer(TENANT, key, at, tables.now()))
    return found[: wanted.limit]


async def lock(transaction: TableTransaction, key: ScheduleKey) -> int | None:
    """Stand for schedule_lock_timer and schedule_lock."""
    await transaction.database.step("lock")
    await transaction.lock(("timer", key.schedule_id))
    await transaction.lock(("schedule", key.schedule_id))
    row = transaction.get(("schedule", key.schedule_id))
    return None if row is None else int(row.version)


async def load(transaction: TableTransaction, keys: Sequence[ScheduleKey]) -> list[ScheduleRow]:
    """Stand for schedule_load."""
    await transaction.database.step("load")
    found = [transaction.get(("schedule", key.schedule_id)) for key in keys]
    return [row for row in found if row is not None]


async def versions(
    transaction: TableTransaction, keys: Sequence[ScheduleKey]
) -> dict[UUID, list[StoredVersion]]:
    """Stand for schedule_versions."""
    found: dict[UUID, list[StoredVersion]] = {}
    for key in keys:
        newest = transaction.get(("schedule", key.schedule_id)).version
        every = (transaction.get(("version", key[2], n)) for n in range(1, newest + 1))
        found[key.schedule_id] = list(every)
    return found


async def running(transaction: TableTransaction, subjects: Iterable[UUID]) -> set[UUID]:
    """Stand for schedule_running."""
    wanted = list(subjects)
    return {each for each in wanted if transaction.get(("job", each)).ended_at is None}


async def advance(transaction: TableTransaction, steps: Sequence[Advance]) -> None:
    """Stand for schedule_advance."""
    await transaction.database.step("advance")
    for each in steps:
        row = transaction.get(("schedule", each.schedule_id))
        fields = each._asdict()
        for name in ("bucket", "tenant_id", "schedule_id"):
            del fields[name]
        for name in ("last_id", "missed_at"):
            fields[name] = fields[name] or getattr(row, name)
        changed = msgspec.structs.replace(row, **fields)
        await transaction.put(("schedule", each.schedule_id), changed)


async def move_timers(transaction: TableTransaction, timers: Sequence[TimerMove]) -> None:
    """Stand for schedule_move_timers and schedule_delete_timers."""
    await transaction.database.step("move")
    for _, key, due_at in timers:
        await transaction.put(("timer", key), due_at)


async def put_timer(
    transaction: TableTransaction, key: ScheduleKey, due_at: datetime | None
) -> None:
    """Stand for schedule_put_timer."""
    await move_timers(transaction, [(key.bucket, key.schedule_id, due_at)])


async def timers(
    transaction: TableTransaction, keys: Sequence[ScheduleKey]
) -> dict[UUID, datetime]:
    """Stand for schedule_timers."""
    found = {key.schedule_id: transaction.get(("timer", key.schedule_id)) for key in keys}
    return {key: at for key, at in found.items() if at is not None}


async def change(
    transaction: TableTransaction, key: ScheduleKey, version: int, ended_at: datetime | None
) -> None:
    """Stand for schedule_change: the version that holds is loaded with its schedule."""
    stored = transaction.get(("version", key.schedule_id, version))
    row = transaction.get(("schedule", key.schedule_id))
    changed = msgspec.structs.replace(
        row, version=version, ended_at=ended_at, since=stored.since, rule_json=stored.rule_json,
        policies_json=stored.policies_json, template_json=stored.template_json,
    )  # fmt: skip
    await transaction.put(("schedule", key.schedule_id), changed)


async def set_aside(transaction: TableTransaction, key: ScheduleKey, _: str) -> None:
    """Stand for schedule_set_aside, which is never right here: no rule is broken."""
    transaction.tables.faults["set aside"] += 1
    await put_timer(transaction, key, None)


async def insert(transaction: TableTransaction, rows: Sequence[NewOccurrence]) -> None:
    """Stand for occurrence_insert."""
    await transaction.database.step("book")
    for each in rows:
        key = ("book", each.schedule_id, each.occurrence_id)
        if transaction.get(key) is not None:
            raise UniqueViolationError("occurrence_pkey")
        await transaction.put(key, each)


async def relabel(transaction: TableTransaction, rows: Sequence[Relabel]) -> None:
    """Stand for occurrence_relabel."""
    for each in rows:
        key = ("book", each.schedule_id, each.occurrence_id)
        label = {"status": each.status, "kind": each.kind, "subject": each.subject}
        await transaction.put(key, transaction.get(key)._replace(**label))


async def find(
    transaction: TableTransaction, keys: Sequence[OccurrenceKey]
) -> dict[tuple[UUID, UUID], str]:
    """Stand for occurrence_find."""
    await transaction.database.step("find")
    found = {key[2:]: transaction.get(("book", *key[2:])) for key in keys}
    return {key: row.status for key, row in found.items() if row is not None}


async def now(transaction: TableTransaction) -> datetime:
    """Stand for schedule_now."""
    return transaction.tables.now()


async def none(*_: Any) -> dict[Any, Any]:
    """Stand for calendars: nobody has one."""
    return {}


async def event(transaction: TableTransaction, *_: Any) -> None:
    """Stand for what is told."""
    await transaction.database.step("event")


STATEMENTS: dict[Any, dict[str, Any]] = {
    schedule: {"lock": lock, "load": load, "versions": versions, "running": running,
               "advance": advance, "move_timers": move_timers, "put_timer": put_timer,
               "timers": timers, "change": change, "set_aside": set_aside},
    occurrence: {"insert": insert, "relabel": relabel, "find": find},
    schedule_due: {"take": take}, clock: {"now": now}, timer: {"heads": heads},
    calendar_store: {"current": none, "versions": none}, event_store: {"insert": event},
}  # fmt: skip
