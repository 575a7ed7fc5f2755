"""Histories of expanders: schedules that tick, pauses, other policies, clocks; from a seed.

Real: the expander with its marks, batches and decisions, the versions that hold, and how a change
sets the timer. Stand-ins: the statements (`sim/expand_rows.py`), and what makes jobs.
"""

import asyncio
import random
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from unittest import mock
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of, tailed_id
from postdate.database.connection.error import DatabaseError
from postdate.recurrence.rule import Rule
from postdate.runtime.loop import Loop
from postdate.schedule.change.schedule import _next_version, _set_timer
from postdate.schedule.spec.firing import Fired, Firing
from postdate.schedule.spec.schedule import (
    Definition,
    Misfire,
    MisfirePolicy,
    Overlap,
    PaymentTemplate,
    Policies,
    Template,
)
from postdate.schedule.spec.timeline import Version
from postdate.schedule.store import schedule as store
from postdate.schedule.store.schedule import ScheduleRow, StoredVersion
from postdate.scheduler.expander import Expander
from postdate.words.error import Refusal
from sim.expand_rows import STATEMENTS, TENANT
from sim.loop import wait
from sim.table import TableDatabase, Tables, TableTransaction

TEMPLATE = Template(payment=PaymentTemplate(from_account_id="a", to_account_id="b", amount=1))
BUCKETS = 4
"""Few, so that schedules meet in one, and nobody looks at empty ones."""
CALM_SECONDS = 45.0
"""Longer than what was late needs, and than the clock is ever put back."""


class Made(NamedTuple):
    """A job: of which occurrence, when it was made, and when it ended."""

    schedule_id: UUID
    scheduled_for: datetime
    made_at: datetime
    ended_at: datetime | None = None


class SimulatedFirer:
    """Makes jobs; sees that none is made early, or beside one that it must not meet."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems

    async def fire(
        self, connection: Any, firings: Sequence[Firing], now: datetime
    ) -> list[Fired | Refusal]:
        """Make a job of each."""
        transaction: TableTransaction = connection
        await transaction.database.step("fire")
        found: list[Fired | Refusal] = []
        for each in firings:
            subject = UUID(int=random.getrandbits(128))
            if each.scheduled_for > now:
                self._problems.append(f"{each.scheduled_for} ran early, at {now}")
            made = Made(each.schedule_id, each.scheduled_for, now)
            await transaction.put(("job", subject), made)
            found.append(Fired(subject, 1))
        return found

    async def cancel(self, connection: Any, running: Sequence[tuple[int, UUID]]) -> None:
        """End jobs whose place another takes."""
        transaction: TableTransaction = connection
        for _, subject in running:
            row = transaction.get(("job", subject))
            if row.ended_at is None:
                await transaction.put(("job", subject), row._replace(ended_at=row.made_at))

    def announce(self, fired: Iterable[Fired | Refusal]) -> None:
        """Tell nobody."""


class ExpanderNode:
    """An expander with its loop; it can be killed."""

    def __init__(self, tables: Tables, problems: list[str]) -> None:
        self.database = TableDatabase(tables)
        expanding = Expander(self.database, SimulatedFirer(problems))
        loop = Loop("schedules", expanding.run_once, limit=10, next_due=expanding.next_due)
        self.running = asyncio.create_task(loop.run())

    def kill(self) -> None:
        self.database.dead = True
        self.running.cancel()


def _policies() -> Policies:
    misfire = Misfire(
        policy=random.choice(list(MisfirePolicy)),
        late_after_seconds=random.choice([1, 5, 15]),
        per_minute=600,
    )
    return Policies(misfire=misfire, overlap=random.choice(list(Overlap)))


class ExpandHistory:
    """One run: one to three schedules, up to three expanders, people and faults for a while."""

    def __init__(self) -> None:
        self.tables = Tables(random.choice([0.0, 0.02, 0.08]))
        self.problems: list[str] = []
        self.every: dict[UUID, int] = {}
        self.nodes: list[ExpanderNode] = []
        self.leaps = random.random() < 0.4  # else people pause: their oracle has one clock

    async def run(self) -> "ExpandHistory":
        for _ in range(random.randint(1, 3)):
            self._create()
        self.nodes = [self._node() for _ in range(random.randint(1, 3))]
        for _ in range(random.randint(3, 15)):
            await wait(random.choice([0.2, 1.0, 5.0, 20.0]))
            await self._disturb()
        self.tables.trouble, self.tables.leap = 0.0, max(self.tables.leap, 0.0)
        for key in self.every:
            await self._change(self._resume, key)
        until = asyncio.get_running_loop().time() + CALM_SECONDS
        while asyncio.get_running_loop().time() < until:
            await self._change(self._end_jobs, None)
            await wait(5.0)
        await wait(3.0)
        self._look()
        return self

    def _node(self) -> ExpanderNode:
        return ExpanderNode(self.tables, self.problems)

    def _create(self) -> None:
        now, key = self.tables.now(), self._new_id()
        self.every[key] = random.randint(3, 15)
        rule = Rule(every_seconds=self.every[key], start_at=now)
        definition = Definition(rule=rule, template=TEMPLATE, policies=_policies())
        stored = _stored(Version(number=1, since=now, previous_until=now, definition=definition))
        row = ScheduleRow(
            bucket_of(key), TENANT, key, 1, 0, now, None, None, None, None, None, None, None, None,
            None, now, now, now, *stored[3:], None,
        )  # fmt: skip
        first = now + timedelta(seconds=self.every[key])
        keys = ("schedule", key), ("version", key, 1), ("timer", key)
        self.tables.rows.update(zip(keys, (row, stored, first), strict=True))

    def _new_id(self) -> UUID:
        return tailed_id(random.randrange(BUCKETS), 0, random.randbytes(8))

    async def _disturb(self) -> None:
        key = random.choice(list(self.every))
        drawn = random.random()
        if drawn < 0.2:
            self.nodes.pop(0).kill()
            self.tables.faults["killed"] += 1
            await wait(random.choice([0.0, 3.0, 30.0]))
            self.nodes.append(self._node())
        elif drawn < 0.4:
            await self._change(self._end_jobs, None)
        elif drawn < 0.55:
            await self._change(self._put_version, key)
        elif self.leaps:
            self.tables.leap = random.choice([-40.0, 0.0, 20.0, 300.0])
            self.tables.faults["leap"] += 1
        else:
            await self._change(random.choice([self._pause, self._resume]), key)

    async def _change(self, change: Any, key: UUID | None) -> None:
        """Let a person change something; what breaks is left as it is."""
        try:
            async with TableDatabase(self.tables).write() as transaction:
                if key is not None:
                    await store.lock(transaction, store.key_of(TENANT, key))
                await change(transaction, key)
        except DatabaseError:
            self.tables.faults["change lost"] += 1

    async def _pause(self, transaction: TableTransaction, key: UUID) -> None:
        row = transaction.get(("schedule", key))
        if not row.paused:
            now = self.tables.now()
            since = row.paused_at if row.resumed_at and row.resumed_at > row.handled else now
            changed = msgspec.structs.replace(row, paused_at=since, resumed_at=None)
            await transaction.put(("schedule", key), changed)
            await transaction.put(("pause", key, self.tables.true_now()), (since, None))
            self.tables.faults["paused"] += 1

    async def _resume(self, transaction: TableTransaction, key: UUID) -> None:
        row = transaction.get(("schedule", key))
        if row.paused:
            now = self.tables.now()
            await transaction.put(("schedule", key), msgspec.structs.replace(row, resumed_at=now))
            last = max(each for each, _ in self.tables.of("pause") if each[1] == key)
            await transaction.put(last, (row.paused_at, now))

    async def _put_version(self, transaction: TableTransaction, key: UUID) -> None:
        """Put other policies into force, as a PATCH does."""
        row: ScheduleRow = transaction.get(("schedule", key))
        before = row.definition
        after = msgspec.structs.replace(before, policies=_policies())
        if after != before:
            version = _next_version(row, before, after, self.tables.now())
            await transaction.put(("version", key, version.number), _stored(version))
            await _set_timer(transaction, row, version)  # type: ignore[arg-type] # stands for one
            self.tables.faults["version"] += 1

    async def _end_jobs(self, transaction: TableTransaction, _: None) -> None:
        for key, row in self.tables.of("job"):
            if row.ended_at is None:
                await transaction.put(key, row._replace(ended_at=self.tables.now()))

    def _look(self) -> None:
        if self.tables.faults["set aside"]:
            self.problems.append("a schedule was set aside")
        for key in self.every:
            row = self.tables.rows["schedule", key]
            timer = self.tables.rows.get(("timer", key))
            if timer is None or timer < self.tables.now() - timedelta(seconds=2):
                self.problems.append(f"it is {self.tables.now()}, the timer says {timer}")
            # A clock that was put back takes its time; else nothing waits for what has ended.
            last = self.tables.rows.get(("job", row.last_id))
            if row.buffered_for and not self.leaps and (last is None or last.ended_at):
                self.problems.append("an occurrence waits although nothing runs")
            self._look_at_book(row)

    def _look_at_book(self, row: ScheduleRow) -> None:
        book = [each for key, each in self.tables.of("book") if key[1] == row.schedule_id]
        made = [each for _, each in self.tables.of("job") if each.schedule_id == row.schedule_id]
        ticks, at = [], row.created_at
        while (at := at + timedelta(seconds=self.every[row.schedule_id])) <= row.handled:
            ticks.append(at)
        if sorted(each.scheduled_for for each in book) != ticks:
            self.problems.append(f"{len(ticks)} ticks, {len(book)} in the book")
        ran = sorted(each.scheduled_for for each in book if each.status in {"FIRED", "LATE"})
        if sorted(each.scheduled_for for each in made) != ran:
            self.problems.append(f"{len(ran)} ran, {len(made)} were made")
        at_instant = {each.scheduled_for: each for each in made}
        for each in book:
            self._judge(each, at_instant.get(each.scheduled_for))

    def _judge(self, row: Any, made: Made | None) -> None:
        """Compare a label with the policies of its version, and with the pauses."""
        key, at = row.schedule_id, row.scheduled_for
        every = (each for where, each in self.tables.of("version") if where[1] == key)
        mine = [each for each in every if each.number == 1 or each.since < at]
        policies = max(mine, key=lambda each: each.number).read().definition.policies
        wrong = set()
        match policies.misfire.policy:
            case MisfirePolicy.FIRE_ALL:
                wrong |= {"MISSED"}
            case MisfirePolicy.SKIP:
                wrong |= {"LATE"}
        if policies.overlap in {Overlap.ALLOW, Overlap.CANCEL_RUNNING}:
            wrong |= {"SKIPPED_BY_OVERLAP"}
        pauses = [each for where, each in self.tables.of("pause") if where[1] == key]
        paused = any(since <= at and (until is None or at < until) for since, until in pauses)
        wrong |= {"FIRED", "LATE", "MISSED"} if paused else {"SKIPPED_BY_PAUSE"}
        if made is not None and policies.overlap is not Overlap.BUFFER_ONE:
            late = (made.made_at - at).total_seconds() > policies.misfire.late_after_seconds
            wrong |= {"FIRED"} if late else {"LATE"}
        if row.status in wrong:
            self.problems.append(f"{at} is {row.status} under {policies}, paused: {pauses}")


def _stored(version: Version) -> StoredVersion:
    parts = version.definition.rule, version.definition.policies, version.definition.template
    texts = (msgspec.json.encode(part).decode() for part in parts)
    return StoredVersion(version.number, version.since, version.previous_until, "", *texts)


class Inline(Executor):
    """Computes at once: a thread would take its own time."""

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function(*arguments, **options))
        except Exception as error:  # noqa: BLE001 - whoever waits for it is told
            done.set_exception(error)
        return done


@contextmanager
def simulated_expansion() -> Iterator[None]:
    """Let the tables in memory stand for the statements, and keep the log quiet."""
    with ExitStack() as stack:
        for module, functions in STATEMENTS.items():
            for name, function in functions.items():
                stack.enter_context(mock.patch.object(module, name, function))
        stack.enter_context(mock.patch("postdate.scheduler.expander.BUCKETS", BUCKETS))
        for where in ("database.connection.off_loop._threads", "scheduler.expander._DECIDING"):
            stack.enter_context(mock.patch(f"postdate.{where}", Inline()))
        for where in ("scheduler.expander", "scheduler.expansion", "runtime.loop", "runtime.retry"):
            stack.enter_context(mock.patch(f"postdate.{where}.log", mock.Mock()))
        yield
