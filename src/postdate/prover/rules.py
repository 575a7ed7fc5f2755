"""Prove schedules by their rules: the next timer, and the newest part of the book."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from postdate.core.ids import BUCKETS, MIN_ID
from postdate.core.instant import instant_text
from postdate.database.connection import clock
from postdate.database.connection.database import Connection
from postdate.database.connection.off_loop import computed
from postdate.proof.prove import LedgerFinding, Range
from postdate.schedule.spec.expansion import ExpansionProgress, next_due
from postdate.schedule.spec.timeline import Segment
from postdate.schedule.store import schedule as store
from postdate.schedule.store import timeline
from postdate.schedule.store.schedule import ScheduleKey, ScheduleRow
from postdate.scheduler.audit import expected_in_book, missing_from_book
from postdate.scheduler.expansion import progress_of

CHECK: Final = "schedule_follows_rule"

BACK: Final = timedelta(hours=24)
"""How much of the book is compared with the rule; its past was, while it was as new."""

PAGE: Final = 200
"""Schedules read with one statement."""


async def check(connection: Connection, where: Range) -> list[LedgerFinding]:
    """Compare the schedules of some buckets, or of all, with what their rules say."""
    found: list[LedgerFinding] = []
    now = await clock.now(connection)
    buckets = range(BUCKETS) if where.buckets is None else where.buckets
    after = ScheduleKey(min(buckets), 0, MIN_ID)
    while rows := await store.walk(connection, after, PAGE):
        after = rows[-1].key
        here = [r for r in rows if r.bucket in buckets and where.tenant_id in {None, r.tenant_id}]
        found += await _page(connection, here, now)
        beyond = after.bucket > max(buckets)
        if beyond or len(rows) < PAGE or len(found) >= where.limit:
            break
    return found[: where.limit]


async def _page(
    connection: Connection, rows: Sequence[ScheduleRow], now: datetime
) -> list[LedgerFinding]:
    if not rows:
        return []
    begin = [(row, max(now - BACK, row.created_at)) for row in rows]
    held = await timeline.load(connection, begin)
    timers = await store.timers(connection, [row.key for row in rows])
    found = []
    for row, since in begin:
        segments = held[row.schedule_id]
        if isinstance(segments, Exception):
            continue  # the expander sets it aside, and says so
        detail = await _timer(row, segments, timers.get(row.schedule_id), now)
        detail = detail or await _book(connection, row, segments, since)
        if detail is not None:
            found.append(LedgerFinding(CHECK, row.tenant_id, str(row.schedule_id), detail))
    return found


async def _timer(
    row: ScheduleRow, segments: Sequence[Segment], due_at: datetime | None, now: datetime
) -> str | None:
    """Compare a timer in the future; a due one may be in progress."""
    if due_at is None or due_at <= now or row.buffered_for is not None:
        return None
    progress: ExpansionProgress = progress_of(row)
    expected = await computed(None, next_due, segments, progress)
    if expected is None or expected <= now or expected == due_at:
        return None
    return f"its timer stands at {instant_text(due_at)}, its rule says {instant_text(expected)}"


async def _book(
    connection: Connection, row: ScheduleRow, segments: Sequence[Segment], since: datetime
) -> str | None:
    expected = await computed(None, expected_in_book, row, segments, since)
    missing = await missing_from_book(connection, row, expected) if expected else []
    if not missing:
        return None
    first = missing[0][1].scheduled_for
    return f"its book has no row for {instant_text(first)}, nor for {len(missing) - 1} more"
