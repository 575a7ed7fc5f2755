"""What a worker does, swept: claim, permit, record, renew."""

import asyncio
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Any, ClassVar, Final
from uuid import UUID

from faults.pg_proxy import wait_a_moment
from faults.sweep import Nodes, Operation
from postdate.database.connection.error import TransientError
from postdate.job.spec.outcome import Completed, Delivery, Failed, Outcome
from postdate.lane.store.lane import Lane
from postdate.worker.worker import JobWorker
from support.worker import add_jobs, look, make_lane, make_worker, refresh

LEASE_SECONDS: Final = 30.0
"""Longer than a run: nothing may be left to a lease that runs out."""

DONE_SECONDS: Final = 5.0
ROUND_SECONDS: Final = 0.01
QUICK: Final = {"initial_seconds": 0.01, "max_attempts": 3}
AT_MOST_ONCE: Final = {"on_unknown": "hold", **QUICK}


class Receiver:
    """What the handlers of both nodes got; it counts what runs at once in each lane."""

    def __init__(self) -> None:
        self.arrivals: Counter[UUID] = Counter()
        self.running: Counter[str] = Counter()
        self.most_running: Counter[str] = Counter()
        self.gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.fail_first = False

    def of(self, node: str) -> "_Handler":
        self.gates[node].set()
        return _Handler(self, node)


class _Handler:
    def __init__(self, receiver: Receiver, node: str) -> None:
        self._receiver = receiver
        self._node = node

    async def __call__(self, delivery: Delivery) -> Outcome:
        seen = self._receiver
        seen.arrivals[delivery.job_id] += 1
        seen.running[delivery.lane] += 1
        seen.most_running[delivery.lane] = max(
            seen.most_running[delivery.lane], seen.running[delivery.lane]
        )
        try:
            await seen.gates[self._node].wait()
        finally:
            seen.running[delivery.lane] -= 1
        if seen.fail_first and delivery.attempt == 1:
            return Failed(code="http_500", error="not yet")
        return Completed()


class WorkerOperation(Operation):
    """Two workers of one tenant. What either of them loses, both must be able to do afterwards."""

    lanes: ClassVar[dict[str, dict[str, Any]]] = {"plain": {}, "other": {}}
    limits: ClassVar[dict[str, int]] = {}
    settings: ClassVar[dict[str, Any]] = {}
    fail_first: ClassVar[bool] = False

    def __init__(self, nodes: Nodes) -> None:
        super().__init__(nodes)
        self.wrong: list[str] = []

    async def prepare(self) -> None:
        self.tenant_id = await self.nodes.new_tenant()
        self.receiver = Receiver()
        self.receiver.fail_first = self.fail_first
        direct = self.nodes.direct
        self.made = [
            await make_lane(direct, self.tenant_id, name, **changes)
            for name, changes in self.lanes.items()
        ]
        self.jobs = await self.add(self.made)
        self.first = await self._worker("first")
        self.second = await self._worker("second")

    async def _worker(self, name: str) -> JobWorker:
        database = self.nodes.proxied if name == "first" else self.nodes.direct
        settings = {"worker.lease_seconds": LEASE_SECONDS} | self.settings
        return await make_worker(
            database, self.receiver.of(name), self.tenant_id, settings=settings
        )

    async def add(self, lanes: list[Lane]) -> list[UUID]:
        found = []
        for lane in lanes:
            found += await add_jobs(self.nodes.direct, lane, 2, retry=AT_MOST_ONCE)
            found += await add_jobs(self.nodes.direct, lane, 2, retry=QUICK)
        return found

    async def act(self) -> None:
        look(self.first)
        await self.first.run_once(100)

    async def meanwhile(self) -> None:
        """The other node claims what it can, and is still at it when the first goes on."""
        self.receiver.gates["second"].clear()
        look(self.second)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.second.run_once(100), 1.0)

    async def finish(self) -> None:
        await self._steps(self.first, 3)
        self._open()
        await self._until_done(self.jobs, self.first, self.second)
        await self._each_alone()

    def _open(self) -> None:
        for gate in self.receiver.gates.values():
            gate.set()

    async def _steps(self, worker: JobWorker, count: int) -> None:
        for _ in range(count):
            await self._step(worker)
            await wait_a_moment(ROUND_SECONDS)

    async def _step(self, worker: JobWorker) -> None:
        """Do what the loops do; what a fault has left broken costs a step, as it costs them."""
        look(worker)
        try:
            await worker.run_once(100)
            await worker.renew()
        except Exception as error:
            if not isinstance(error, TransientError):
                raise

    async def _until_done(self, jobs: list[UUID], *workers: JobWorker) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(DONE_SECONDS):
                while await self._open_jobs(jobs):
                    for worker in workers:
                        await self._step(worker)
                    await wait_a_moment(ROUND_SECONDS)

    async def _each_alone(self) -> None:
        """What one node has lost track of, the other would do for it: so each must do it alone."""
        for name, worker in (("first", self.first), ("second", self.second)):
            if await self._open_jobs(self.jobs):
                return  # what is stuck already would only take time
            await refresh(worker)
            await self.first.permits.give_back()
            await self.second.permits.give_back()
            for lane in self.made:
                await self._alone(name, worker, lane)

    async def _alone(self, name: str, worker: JobWorker, lane: Lane) -> None:
        jobs = await self.add([lane])
        self.jobs += jobs
        limit = self.limits.get(lane.name, len(jobs))
        self.receiver.gates[name].clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while self.receiver.running[lane.name] < limit:
                    await self._step(worker)
                    await wait_a_moment(ROUND_SECONDS)
        if (running := self.receiver.running[lane.name]) != limit:
            self.wrong.append(f"{name} runs {running} of {limit} at once in {lane.name}")
        self._open()
        await self._until_done(jobs, worker)

    async def _open_jobs(self, jobs: list[UUID]) -> int:
        ended: int = await self.nodes.direct.writer.fetchval(
            "SELECT count(*) FROM outcome WHERE tenant_id = $1 AND subject = ANY ($2)",
            self.tenant_id,
            jobs,
        )
        return len(jobs) - ended

    async def violations(self) -> list[str]:
        wrong = list(self.wrong)
        rows = await self.nodes.direct.writer.fetch(
            "SELECT subject, status FROM outcome WHERE tenant_id = $1", self.tenant_id
        )
        statuses = {row["subject"]: row["status"] for row in rows}
        expected = 2 if self.fail_first else 1
        for job in self.jobs:
            if (status := statuses.get(job, "not ended")) != "COMPLETED":
                wrong.append(f"a job is {status}")
            if (count := self.receiver.arrivals[job]) != expected:
                wrong.append(f"a job arrived {count} times")
        for lane, limit in self.limits.items():
            if (most := self.receiver.most_running[lane]) > limit:
                wrong.append(f"{most} ran at once in {lane}")
        return wrong + await self._left()

    async def _left(self) -> list[str]:
        """Look for what was taken and not given back, in the database and in both nodes."""
        wrong = []
        for name, worker in (("first", self.first), ("second", self.second)):
            await worker.permits.give_back()
            if worker.claimer.capacity.running:
                wrong.append(f"{name} counts {worker.claimer.capacity.running} in its window")
        slots = await self.nodes.direct.writer.fetchval(
            "SELECT coalesce(sum(slots), 0) FROM permit WHERE holder = ANY ($1)",
            [self.first.node_id, self.second.node_id],
        )
        return wrong + ([f"{slots} slots are still held"] if slots else [])


class Claim(WorkerOperation):
    name = "claim"


class Permit(WorkerOperation):
    """Claims under limits: the tenant's and the lane's, of slots and of tokens."""

    name = "permit"
    lanes: ClassVar[dict[str, dict[str, Any]]] = {
        "narrow": {"max_running": 2},
        "paced": {"rate_per_second": 500.0},
    }
    limits: ClassVar[dict[str, int]] = {"narrow": 2}
    settings: ClassVar[dict[str, Any]] = {"worker.max_running": 50}

    async def act(self) -> None:
        for _ in range(3):
            await super().act()
        await self.first.permits.renew()


class Record(WorkerOperation):
    """The claim has gone well; what follows is lost."""

    name = "record"

    async def prepare(self) -> None:
        await super().prepare()
        self.receiver.gates["first"].clear()
        await self._steps(self.first, 2)
        await asyncio.sleep(0)

    async def act(self) -> None:
        self.receiver.gates["first"].set()
        await self.first.runner.wait_idle()


class Retry(Record):
    """The first attempt of each job fails, and is recorded as a move to its next instant."""

    name = "record (retry)"
    fail_first = True


class Renew(Record):
    """The jobs are running when their leases are renewed."""

    name = "renew"

    async def act(self) -> None:
        for flight in self.first.runner._jobs:
            flight.renew_at = 0.0
        await self.first.renew()
