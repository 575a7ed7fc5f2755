"""`postdate bench schedules`: the top of the hour, and a million that are not due."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import msgspec

from postdate.core.ids import BUCKETS, new_ids
from postdate.intake.idempotency import Refused
from postdate.node import job as job_parts
from postdate.node import schedule as schedule_parts
from postdate.schedule.spec.spec import ScheduleSpec
from postdate.scheduler.expander import Expander
from postdate_lab.bench import database as bench
from postdate_lab.bench.arm import Arm, Suite
from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.testbed import Measure, Testbed, admin, at_least, at_most, plain

MAX_SPREAD: Final = 1.0
"""Within how many seconds few schedules over all buckets must be expanded."""

MIN_EXPAND: Final = 5000
IDLE_LOOKS: Final = 200
FEW: Final = 1000
ROUNDS: Final = 3
BATCH: Final = 10_000
_HOURLY: Final = b"""{"cron": "0 * * * *", "timezone": "Europe/Zurich", "template": {"job": {
    "destination": {"type": "worker"}, "lane": "reports", "payload": {"report": "hourly"}}}}"""


@dataclass(slots=True, frozen=True)
class SchedulePlan:
    """How much to measure."""

    due: int = 100_000
    stored: int = 1_000_000
    beside: int = 10_000


async def expand(at: Testbed, plan: SchedulePlan) -> list[Measure]:
    """Expand hourly schedules that are all due at the top of the same hour."""
    hourly = await Hourly.begin(at)
    await hourly.copy(plan.due, due=True)
    await at.settle()
    before, watch = await at.wal(), Stopwatch()
    await hourly.expand(plan.due)
    rate, written = watch.rate(plan.due), await at.wal() - before
    await hourly.check(plan.due)
    return [
        at_least("expand", f"{plan.due} due at one instant", rate, MIN_EXPAND, "schedules/s"),
        plain("expand", "write-ahead log", written / plan.due, "bytes/occurrence"),
    ]


async def stored(at: Testbed, plan: SchedulePlan) -> list[Measure]:
    """Look for due ones, and expand a few, beside few and beside many that are not due."""
    hourly = await Hourly.begin(at)
    found: dict[int, tuple[float, float]] = {}
    held = 0
    for size in (FEW, plan.stored):
        await hourly.copy(size - held, due=False)
        held = size
        rates = []
        for _ in range(ROUNDS):
            await hourly.copy(plan.beside, due=True)
            await at.settle()
            watch = Stopwatch()
            await hourly.expand(plan.beside)
            rates.append(watch.rate(plan.beside))
        found[size] = await hourly.idle(), 1e6 / max(rates)
    (look_few, cost_few), (look_many, cost_many) = found[FEW], found[plan.stored]
    return [
        plain("stored", f"a look that finds nothing, beside {FEW}", look_few, "ms of CPU"),
        plain("stored", f"the same beside {plan.stored}", look_many, "ms of CPU"),
        plain("stored", f"one expansion beside {FEW}", cost_few, "us"),
        plain("stored", f"the same beside {plan.stored}", cost_many, "us"),
        at_most("stored", "ratio of the expansions", cost_many / cost_few, 1.3, "x"),
    ]


class Hourly:
    """One schedule made by the intake, and as many copies of its rows as wanted."""

    def __init__(self, at: Testbed, tenant_id: int, first: UUID) -> None:
        self._database = at.node.database
        self._tenant_id = tenant_id
        self._first = first
        self._occurrences = schedule_parts.occurrences(at.node)
        self._expander = self._fresh()

    def _fresh(self) -> Expander:
        """Make an expander that has not yet seen how far everything is expanded."""
        return Expander(self._database, self._occurrences)

    @classmethod
    async def begin(cls, at: Testbed) -> "Hourly":
        """Make the first one."""
        tenant_id, name = await at.tenant()
        services = schedule_parts.services(at.node, job_parts.intake(at.node))
        spec = msgspec.json.decode(_HOURLY, type=ScheduleSpec)
        answer = await services.change.create(admin(tenant_id, name), spec, None)
        if isinstance(answer, Refused) or answer.subject is None:
            raise RuntimeError(f"refused: {answer}")
        return cls(at, tenant_id, answer.subject)

    async def copy(self, count: int, *, due: bool) -> None:
        """Copy it: due at the top of this hour, or at the top of the next."""
        for first in range(0, count, BATCH):
            many = min(BATCH, count - first)
            buckets = [n % BUCKETS for n in range(many)]
            ids = new_ids(buckets, self._database.unix_ms())
            async with self._database.write() as connection:
                await bench.copy_schedule(
                    connection, self._tenant_id, self._first, buckets, ids, 0 if due else 1
                )

    async def expand(self, count: int) -> None:
        """Expand everything that is due. The copies come from the past: nobody knows them yet."""
        self._expander = self._fresh()
        done = 0
        while more := await self._expander.run_once():
            done += more
        if done != count:
            raise RuntimeError(f"{done} of {count} were expanded")

    async def idle(self) -> float:
        """Return what a look that finds nothing costs this process, in milliseconds."""
        began = time.process_time()
        for _ in range(IDLE_LOOKS):
            if await self._expander.run_once():
                raise RuntimeError("something was due")
        return (time.process_time() - began) * 1000 / IDLE_LOOKS

    async def check(self, count: int) -> None:
        """Each must have become one job and one row of the book."""
        async with self._database.connection() as connection:
            found = await bench.fired(connection, self._tenant_id)
        if found != (count, count):
            raise RuntimeError(f"{count} schedules made {found[0]} jobs, {found[1]} occurrences")


async def spread(at: Testbed, _: SchedulePlan) -> list[Measure]:
    """Expand two schedules in each bucket, all due at one instant, until the last is done."""
    hourly = await Hourly.begin(at)
    seconds = []
    for _round in range(ROUNDS):
        await hourly.copy(2 * BUCKETS, due=True)
        await at.settle()
        watch = Stopwatch()
        await hourly.expand(2 * BUCKETS)
        seconds.append(2 * BUCKETS / watch.rate(2 * BUCKETS))
    return [at_most("spread", f"{2 * BUCKETS} over all buckets", min(seconds), MAX_SPREAD, "s")]


ARMS: Final[Mapping[str, Arm[SchedulePlan]]] = {
    "expand": expand,
    "stored": stored,
    "spread": spread,
}
SUITE: Final = Suite(ARMS, SchedulePlan(), SchedulePlan(due=500, stored=2000, beside=200))
