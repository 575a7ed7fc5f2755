"""Find the jobs of a page at a bounded cost."""

from collections.abc import Sequence
from datetime import MINYEAR, UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.core.ids import BUCKETS, MAX_ID, MIN_ID
from postdate.database.connection.page_query import with_rows
from postdate.database.connection.query import Reader, query
from postdate.job.store.job_view import JobRow
from postdate.lane.store.lane import Lane

SCAN_ROWS: Final = 200
"""How many rows of a bucket one page reads when a filter may drop most of them."""

SHORT_ROWS: Final = 8
"""A first walk is this long and a quarter of the page: enough where buckets are alike."""

OPEN: Final = frozenset({"PENDING", "READY", "RUNNING", "UNKNOWN"})
"""The statuses of jobs with a timer; a list of such jobs is in the order of their instants."""

EVER: Final = "infinity"
NEVER: Final = "-infinity"
ALL_BUCKETS: Final = list(range(BUCKETS))


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs of a tenant; `lanes` None means all of them."""

    tenant_id: int
    status: str | None = None
    lanes: Sequence[Lane] | None = None
    schedule_id: UUID | None = None
    due_after: datetime | None = None
    due_before: datetime | None = None
    code: str | None = None
    """Why it failed; only of final jobs, and of those of a schedule."""
    text: str | None = None
    """Part of its description, a key of its metadata, `key=value`, or the end of its id."""
    unique: str | None = None
    """Its unique key."""
    destination: str | None = None
    """The name of its destination."""
    key: str | None = None
    """Its key; `lanes` are then those of jobs with a key."""

    @property
    def by_timer(self) -> bool:
        """Return whether these jobs are found by their timers, the soonest first."""
        return self.status in OPEN and self.schedule_id is None and self.unique is None

    @property
    def from_text(self) -> str:
        """Return the lower bound as PostgreSQL reads it."""
        return _text(self.due_after) if self.due_after else NEVER

    @property
    def until_text(self) -> str:
        """Return the upper bound as PostgreSQL reads it."""
        return _text(self.due_before) if self.due_before else EVER

    @property
    def buckets(self) -> list[int]:
        """Return the buckets that can hold these jobs."""
        if self.lanes is None:
            return ALL_BUCKETS
        return sorted({bucket for lane in self.lanes for bucket in lane.buckets_of(self.key)})


def narrowed(lanes: Sequence[Lane], key: str | None, priority: int | None) -> list[Lane]:
    """Return the rows of lanes in which jobs with this key and this priority wait."""
    return [
        lane for lane in lanes if priority in {None, lane.priority} and (key is None or lane.keyed)
    ]


class Position(msgspec.Struct, frozen=True):
    """Where a page ended: an id, and for open jobs the instant too ('infinity' is one)."""

    job_id: UUID
    due_at: str | None = None


class FoundJobs(msgspec.Struct, frozen=True):
    """The jobs of a page, where the next page begins, and their rows if requested."""

    job_ids: list[UUID]
    following: Position | None
    rows: Sequence[JobRow] = ()


async def page(
    connection: Reader,
    wanted: Filter,
    own: Sequence[Lane],
    after: Position | None,
    limit: int,
    *,
    rows: bool = False,
) -> FoundJobs:
    """Find the jobs of a page, with their rows if wanted; `own` are all lanes of the tenant.

    A short scan of each bucket usually fills the page; only otherwise a long scan follows.
    """
    ask = _Walk(connection, wanted, own, after, limit, rows)
    walk = ask.by_age
    if wanted.by_timer:
        walk = ask.open
    scan = _scan(wanted, limit)
    short = min(scan, SHORT_ROWS + limit // 4)
    found = await walk(short)
    if len(found.job_ids) == limit or found.following is None or short == scan:
        return found
    return await walk(scan)


_READ: Final = "job_read($1, buckets, ids, first_id, last_id, false)"


class _Answer(NamedTuple):
    """What a list query found, with rows if requested."""

    listed: Sequence[Any]
    rows: Sequence[JobRow]


class _Walk(msgspec.Struct, frozen=True):
    """The parameters of a page, independent of the length of the scan."""

    connection: Reader
    wanted: Filter
    own: Sequence[Lane]
    after: Position | None
    limit: int
    rows: bool

    async def _ask(self, name: str, columns: str, *values: object) -> _Answer:
        """Run a list query; its rows follow the columns of the list."""
        if not self.rows:
            return _Answer(await self.connection.fetch(query(name), *values), [])
        text = with_rows(query(name), columns, _READ, "job_id")
        rows = await self.connection.fetch(text, *values)
        first = columns.count(",") + 1
        return _Answer(rows, [JobRow(*row[first:]) for row in rows if row[first] is not None])

    async def open(self, scan: int) -> FoundJobs:
        """Find jobs that are not final, the earliest due first."""
        wanted, after = self.wanted, self.after
        lanes = self.own if wanted.lanes is None else wanted.lanes
        lane_buckets = [
            (bucket, lane.lane_id) for lane in lanes for bucket in lane.buckets_of(wanted.key)
        ]
        if not lane_buckets:
            return FoundJobs([], None)
        listed, found = await self._ask(
            "job_list_open",
            "subject, due_at, is_edge",
            wanted.tenant_id,
            *map(list, zip(*lane_buckets, strict=True)),
            wanted.status,
            wanted.from_text,
            wanted.until_text,
            (after and after.due_at) or NEVER,
            after.job_id if after else MIN_ID,
            scan,
            self.limit,
            wanted.text,
            wanted.destination,
            wanted.key,
        )
        shown = [Position(row[0], row[1]) for row in listed if not row[2]]
        ends = (Position(row[0], row[1]) for row in listed if row[2])
        return _found(shown, next(ends, None), self.limit, found)

    async def by_age(self, scan: int) -> FoundJobs:
        """Find jobs by their age, the newest first: final ones, all, those of a schedule or key."""
        wanted = self.wanted
        more: list[object] = []
        last: list[object] = []
        name = "job_list_recent"
        if wanted.unique is not None:
            name, more = "job_list_unique", [wanted.unique, wanted.code]
            last = [wanted.schedule_id]
        elif wanted.schedule_id is not None:
            name, more = "job_list_schedule", [wanted.schedule_id, wanted.code]
        elif wanted.status in {"FAILED", "CANCELLED"}:
            name, more = "job_list_ended", [wanted.code]
        listed, found = await self._ask(
            name,
            "subject, is_edge",
            wanted.tenant_id,
            wanted.buckets,
            None if wanted.lanes is None else [lane.lane_id for lane in wanted.lanes],
            wanted.status,
            wanted.from_text,
            wanted.until_text,
            self.after.job_id if self.after else MAX_ID,
            scan,
            self.limit,
            *more,
            wanted.text,
            wanted.destination,
            wanted.key,
            *last,
        )
        shown = [Position(row[0]) for row in listed if not row[1]]
        edge = next((Position(row[0]) for row in listed if row[1]), None)
        return _found(shown, edge, self.limit, found)


def _scan(wanted: Filter, limit: int) -> int:
    """Return the maximum scan of each bucket: further if the filter leaves many out."""
    if wanted.by_timer:
        named = any(each is not None for each in (wanted.text, wanted.destination, wanted.key))
        passes_over = wanted.status == "RUNNING" or named
        return max(SCAN_ROWS, limit + 1) if passes_over else limit + 1
    plain = Filter(tenant_id=wanted.tenant_id, unique=wanted.unique)
    if wanted.unique is None:
        plain = Filter(tenant_id=wanted.tenant_id, schedule_id=wanted.schedule_id)
    if wanted == plain:
        return limit + 1
    ended = (
        wanted.schedule_id is None
        and wanted.unique is None
        and wanted.status in {"FAILED", "CANCELLED"}
    )
    if ended and wanted == msgspec.structs.replace(plain, status=wanted.status):
        return 2 * (limit + 1)  # an index knows the status; only payments are passed over
    return max(SCAN_ROWS, limit + 1)


def _found(
    shown: list[Position], edge: Position | None, limit: int, rows: Sequence[JobRow]
) -> FoundJobs:
    following = shown[-1] if len(shown) >= limit else edge
    return FoundJobs([position.job_id for position in shown], following, rows)


class LaneCount(msgspec.Struct, frozen=True):
    """Ready, pending, running and doubtful jobs of a lane; lower bounds if `capped`."""

    lane_id: int
    ready: int
    pending: int
    running: int
    in_doubt: int
    capped: bool


async def count(connection: Reader, lanes: Sequence[Lane], max_count: int) -> dict[int, LaneCount]:
    """Count the open jobs of lanes, up to a limit in each of their buckets."""
    lane_buckets = [(bucket, lane.lane_id) for lane in lanes for bucket in lane.buckets]
    if not lane_buckets:
        return {}
    columns = map(list, zip(*lane_buckets, strict=True))
    rows = await connection.fetch(query("job_list_count"), *columns, max_count)
    return {row["lane_id"]: LaneCount(*row) for row in rows}


class WaitingCount(msgspec.Struct, frozen=True):
    """Ready and pending jobs of a target; lower bounds if `capped`."""

    target: str
    ready: int
    pending: int
    capped: bool

    @property
    def waiting(self) -> int:
        """Count both."""
        return self.ready + self.pending


async def count_waiting(
    connection: Reader, tenant_id: int, lanes: Sequence[Lane], max_count: int
) -> dict[str, WaitingCount]:
    """Count the jobs that wait by target, up to a limit in each bucket of these lanes."""
    lane_buckets = [
        (bucket, lane.lane_id) for lane in lanes if lane.kind == "push" for bucket in lane.buckets
    ]
    if not lane_buckets:
        return {}
    columns = map(list, zip(*lane_buckets, strict=True))
    rows = await connection.fetch(query("job_list_waiting"), tenant_id, *columns, max_count)
    return {row["target"]: WaitingCount(*row) for row in rows}


def _text(at: datetime) -> str:
    """Format an instant for PostgreSQL, which rejects some zone offsets that clients may send."""
    try:
        return at.astimezone(UTC).isoformat()
    except OverflowError:
        return EVER if at.year > MINYEAR else NEVER
