"""Histories of workers: jobs, faults and kills from a seed, and what must hold at their end."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from typing import Any
from unittest import mock
from uuid import UUID

from postdate.core.ids import bucket_of
from postdate.core.setting.setting import Settings, Stored
from postdate.database.connection.error import (
    CommitUnknownError,
    LockNotAvailableError,
    UnavailableError,
)
from postdate.event.store import event
from postdate.job.spec.outcome import Completed, Delivery, Failed, Outcome, Unknown
from postdate.job.spec.tally import Tally
from postdate.job.store import job_cancel, job_change, progress
from postdate.job.store.job_cancel import CancelOrder
from postdate.lane.store import permit
from postdate.lane.store.lane import Lane, LaneDirectory
from postdate.lease import store as lease
from postdate.runtime.loop import Loop
from postdate.timer import timer
from postdate.worker.expirer import end_cancelled
from postdate.worker.worker import JobWorker
from sim import cancel, permits, rows
from sim.loop import wait
from sim.rows import EPOCH, Row, SimDatabase, State, World

TENANT = 1
LEASE_SECONDS = 2.0
CALM_SECONDS = 120.0
"""Within how long after the last fault everything must have ended, by the made-up clock."""

LIMIT = 2
SCOPE = f"lane:{TENANT}/limited"
POLICIES = {
    "retry": '{"retry":{"max_attempts":60,"initial_seconds":0.1,"max_seconds":1}}',
    "hold": '{"retry":{"max_attempts":60,"initial_seconds":0.1,"max_seconds":1,'
    '"on_unknown":"hold"}}',
}
STATEMENTS: dict[Any, dict[str, Any]] = {
    lease: {"take": rows.take, "end": rows.end, "move": rows.move, "lock": rows.lock,
            "renew": rows.renew, "record_lost": rows.nothing, "attempt": rows.nothing},
    event: {"insert": rows.nothing},
    job_change: {"lock": cancel.lock, "lock_free": cancel.lock_free, "end": cancel.end},
    progress: {"checkpoints": rows.no_checkpoints},
    timer: {"heads": rows.heads, "lanes": rows.lanes},
    permit: {"acquire": permits.acquire, "extend": permits.keep, "lock": rows.nothing,
             "refund": rows.nothing, "sweep": rows.nothing},
}  # fmt: skip

NO_CANCELS: dict[Any, dict[str, Any]] = {
    job_cancel: {"end_requested": rows.nothing, "spare_failures": rows.unchanged}
}


class Node:
    """A worker with its loops; it can be killed, put to sleep, and looked at afterwards."""

    def __init__(self, history: "History") -> None:
        self.database = SimDatabase(history.world)
        stored = Stored(0, "worker.lease_seconds", LEASE_SECONDS)
        self.worker = JobWorker(
            database=self.database,
            node_id=UUID(int=random.getrandbits(128)),
            lanes=LaneDirectory(self.database),
            settings=Settings({(0, stored.name): stored}),
            handlers={"webhook": history.handler(self)},
            tally=Tally(),
            window_size=6,
        )
        self.worker.lanes.remember(history.lanes)
        claiming = Loop(
            "claim",
            self.worker.run_once,
            limit=4,
            next_due=self.worker.next_due,
            woken_by=self.worker.room,
        )
        keeping = Loop("keep", self.worker.renew, limit=1, poll_seconds=LEASE_SECONDS / 4)
        sweeping = Loop("sweep", self.sweep, limit=1, poll_seconds=LEASE_SECONDS / 4)
        loops = [claiming, keeping, *([sweeping] if history.world.cancels else [])]
        self.running = [asyncio.create_task(each.run()) for each in loops]

    async def sweep(self, _: int) -> int:
        """End jobs at the deadline of their cancels, as the expiry of any node does."""
        await self.database.step("sweep")
        world, due = self.database.world, dict[int, list[UUID]]()
        for row in world.rows.values():
            if row.committed.deadline is not None and row.committed.deadline <= world.now():
                due.setdefault(bucket_of(row.job_id), []).append(row.job_id)
        await end_cancelled(self.database, due)
        return 0

    def kill(self) -> None:
        self.database.die()
        for each in self.running:
            each.cancel()

    def leaks(self, scope: str) -> str:
        """Say what a node holds though nothing is in flight."""
        worker = self.worker
        if len(worker.runner):
            return f"{len(worker.runner)} flights"
        asking = sum(claim.room.count for claim in worker.claimer.under_way())
        if worker.claimer.capacity.running > asking:
            return f"{worker.claimer.capacity.running - asking} in the window"
        if worker.permits.used(scope):
            return f"{worker.permits.used(scope)} permits"
        return ""


class History:
    """One run: some jobs in a free and a limited lane, two or three nodes, faults for a while."""

    def __init__(self, seed: int, *, cancels: bool = True) -> None:
        self.seed = seed
        self.world = World(trouble=random.choice([0.0, 0.02, 0.08]), cancels=cancels)
        self.violent = random.random() < 0.5
        self.lanes = [_lane(16, "free", None), _lane(17, "limited", LIMIT)]
        self.effects: Counter[UUID] = Counter()
        self.holding: set[UUID] = set()
        self.busy: Counter[str] = Counter()
        self.problems: list[str] = []
        self.nodes: list[Node] = []

    def handler(self, node: "Node") -> Any:
        async def handle(delivery: Delivery) -> Outcome:
            await wait(max(0.0, node.database.asleep_until - _now()))
            row = self.world.rows[delivery.job_id]
            self.effects[delivery.job_id] += 1
            asked = row.committed.asked_at
            began = row.committed.claimed_at
            ours = row.committed.token == delivery.token and began is not None
            if ours and asked is not None and began is not None and asked < began:
                self.problems.append(f"{delivery.job_id} began after it was to stop")
            if delivery.job_id in self.holding and self.effects[delivery.job_id] > 1:
                self.problems.append(f"{delivery.job_id} ran again though it was to be held")
            # One that slept through its lease runs late, whatever others made of the job since.
            current = row.committed.attempt < delivery.attempt
            waits = row.committed.due_at > self.world.now() and row.committed.claimed_at is None
            if current and waits:
                self.problems.append(f"{delivery.job_id} ran before it was due")
            self.busy[delivery.lane] += 1
            if delivery.lane == "limited" and self.busy["limited"] > LIMIT and not self.violent:
                self.problems.append(f"{self.busy['limited']} run in a lane of {LIMIT}")
            try:
                long = random.random() < 0.08
                await wait(1.5 * LEASE_SECONDS if long else random.uniform(0.0, 0.2))
            finally:
                self.busy[delivery.lane] -= 1
            return self._outcome(delivery)

        return handle

    def _outcome(self, delivery: Delivery) -> Outcome:
        """Fail now and then; a job that is to be held fails in no way that is tried again."""
        drawn = random.random()
        if drawn < 0.8 or delivery.job_id in self.holding:
            return Completed()
        if drawn < 0.9:
            return Failed(code="http_500", error="no")
        if drawn < 0.97:
            return Unknown(code="timeout", error="who knows")
        raise ValueError("a surprise")

    async def run(self) -> "History":
        for lane in self.lanes:
            for number in range(random.randint(1, 3)):
                self._add(lane, number)
        self.nodes = [Node(self) for _ in range(random.randint(1, 3))]
        await self._disturb()
        self.world.trouble = 0.0
        if not await self._ended():
            open_now = [r.job_id for r in self.world.rows.values() if not r.committed.outcome]
            self.problems.append(f"{len(open_now)} of {len(self.world.rows)} never ended")
        await self._quiet()
        self._look()
        return self

    def _add(self, lane: Lane, number: int) -> None:
        bucket = lane.buckets[number % len(lane.buckets)]
        job_id = UUID(int=7 << 76 | bucket << 64 | 2 << 62 | random.getrandbits(60))
        way = "hold" if random.random() < 0.3 else "retry"
        if way == "hold":
            self.holding.add(job_id)
        due = self.world.now() + timedelta(seconds=random.choice([0.0, 0.0, 0.5, 1.0]))
        self.world.rows[job_id] = Row(job_id, lane, POLICIES[way], State(due_at=due))

    async def _disturb(self) -> None:
        """Kill, put to sleep, lock; a killed node is followed by a new one."""
        for _ in range(random.randint(0, 4)):
            await wait(random.uniform(0.05, 2.0))
            ways = self._ways()
            what = random.choice(ways) if len(ways) > 1 else ways[0]
            node = random.choice(self.nodes)
            if what == "kill":
                node.kill()
                self.nodes.remove(node)
                self.nodes.append(Node(self))
            elif what == "sleep":
                node.database.asleep_until = _now() + 2 * LEASE_SECONDS
            elif what == "cancel":
                asyncio.get_running_loop().create_task(self._cancel())
            else:
                asyncio.get_running_loop().create_task(self._stranger())

    def _ways(self) -> list[str]:
        ways = ["kill", "sleep", "stranger"] if self.violent else ["stranger"]
        return [*ways, "cancel"] if self.world.cancels else ways

    async def _cancel(self) -> None:
        """Cancel a job, as a person does, who is told of errors and does not try again."""
        job_id = random.choice(sorted(self.world.rows))
        for _ in range(40):  # a running job is the interesting one
            open_now = [row for row in self.world.rows.values() if not row.committed.outcome]
            if running := [row.job_id for row in open_now if row.committed.claimed_at]:
                job_id = random.choice(running)
                break
            await wait(0.02)
        order = CancelOrder("person", random.choice([0.0, 0.1, LEASE_SECONDS, 3 * LEASE_SECONDS]))
        with suppress(CommitUnknownError, LockNotAvailableError, UnavailableError):
            async with SimDatabase(self.world).write() as connection:
                found = await job_change.lock(connection, TENANT, bucket_of(job_id), [job_id])
                await job_cancel.cancel(connection, TENANT, found, order)

    async def _stranger(self) -> None:
        """Hold some rows for longer than the lock time-out, and change nothing."""
        transaction = rows.Transaction(SimDatabase(self.world))
        for row in self.world.rows.values():
            if row.owner is None and random.random() < 0.5:
                rows._change(row, transaction, row.committed)
        await wait(random.uniform(0.1, 4.0))
        transaction.roll_back()

    async def _ended(self) -> bool:
        until = _now() + CALM_SECONDS
        while _now() < until:
            left = [row for row in self.world.rows.values() if not row.committed.outcome]
            if all(row.committed.due_at == rows.NEVER for row in left):
                return True  # what is in doubt waits for a person
            await wait(0.25)
        return False

    async def _quiet(self) -> None:
        """Wait until nobody sleeps and no handler of a lost lease is left."""
        for _ in range(20):
            await wait(1.0)
            if not any(node.leaks(SCOPE) for node in self.nodes):
                return

    def _look(self) -> None:
        for row in self.world.rows.values():
            if row.ends > 1:
                self.problems.append(f"{row.job_id} ended {row.ends} times")
            if row.committed.deadline is not None and not row.committed.outcome:
                self.problems.append(f"{row.job_id} was to stop and never ended")
            if row.committed.outcome == "COMPLETED" and not self.effects[row.job_id]:
                self.problems.append(f"{row.job_id} is complete and never ran")
        for node in self.nodes:
            if leak := node.leaks(SCOPE):
                self.problems.append(f"a node still has {leak}")


def _now() -> float:
    return asyncio.get_running_loop().time()


def _lane(lane_id: int, name: str, most: int | None) -> Lane:
    return Lane(lane_id, TENANT, name, "push", 1, 2, most, None, None, None, None, EPOCH, EPOCH)


@contextmanager
def simulated_store(*, cancels: bool = True) -> Iterator[None]:
    """Let the rows in memory stand for the statements, and keep the log quiet."""
    quiet = mock.Mock()
    stood = STATEMENTS if cancels else STATEMENTS | NO_CANCELS
    with ExitStack() as stack:
        for module, functions in stood.items():
            for name, function in functions.items():
                stack.enter_context(mock.patch.object(module, name, function))
        for where in ("worker.recorder", "worker.runner", "worker.worker", "runtime.loop"):
            stack.enter_context(mock.patch(f"postdate.{where}.log", quiet))
        yield
