"""Lost timers and unique keys that are put back, and cancelled jobs that are ended, killed."""

import asyncio
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar
from uuid import UUID, uuid4

from faults.kill import KillOperation
from faults.sweep_money import AMOUNT, MoneyOperation, identity
from faults.sweep_stages import Stage
from postdate.core.ids import bucket_of
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.job.change.put_back import put_back_job
from postdate.job.change.unique_repair import repair_unique
from postdate.job.spec.cancel_call import CancelCall
from postdate.job.spec.job import Webhook
from postdate.job.spec.retry import RetryPolicies
from postdate.job.spec.tally import Tally
from postdate.job.store import execution, job_cancel, job_change, job_unique
from postdate.job.store.job_cancel import CancelOrder
from postdate.job.store.job_unique import slot_of
from postdate.lease.change.lease import ClaimAsk, LeaseClaims
from postdate.payment.change.put_back import put_back_payment
from postdate.timer.lost_timer import LostTimer, Noun
from postdate.worker.cancel_caller import TAKEN_SECONDS, CancelCaller
from postdate.worker.expirer import Expirer
from support.bank import DuePayment
from support.job import ask, make_intake
from support.worker import OwnLanes, add_jobs, make_lane


class PutBackPayment(MoneyOperation, KillOperation):
    """A payment that has lost its timer is put back by two persons, once."""

    name = "put payment back"
    noun: ClassVar[Noun] = "payment"

    async def prepare(self) -> None:
        await super().prepare()
        await self.accept()
        [subject] = await self.ids(self.noun)
        self.lost = LostTimer(self.tenant_id, subject, self.noun)
        lose = "DELETE FROM timer WHERE tenant_id = $1"
        await self.nodes.direct.writer.execute(lose, self.tenant_id)

    async def accept(self) -> None:
        due = await self.bank.now() + timedelta(hours=1)
        await self.bank.pay([DuePayment("a", "b", AMOUNT, due)])

    async def put_back(self, database: Database) -> None:
        for person in (1, 2):
            if not await self.count("timer"):
                await put_back_payment(database, identity(self.tenant_id, person), self.lost)

    async def act(self) -> None:
        await self.put_back(self.nodes.proxied)

    async def finish(self) -> None:
        await self.put_back(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("timers", await self.count("timer"), 1)
        told = await self.count("event", f"AND type = '{self.noun}.repaired'")
        self.expect("told", told, 1)
        return self.wrong


class PutBackJob(PutBackPayment):
    """A job that has lost its timer is put back, once."""

    name = "put job back"
    noun: ClassVar[Noun] = "job"

    async def accept(self) -> None:
        intake = make_intake(self.nodes.direct)
        await intake.submit(ask(self.tenant_id, "key", delay_seconds=3600))

    async def put_back(self, database: Database) -> None:
        if not await self.count("timer"):
            await put_back_job(database, self.lost)


class RepairUnique(Stage, KillOperation):
    """The row of a unique key that is gone comes back, and one that names no job goes."""

    name = "repair unique keys"

    async def prepare(self) -> None:
        await super().prepare()
        direct = self.nodes.direct
        await make_intake(direct).submit(
            ask(self.tenant_id, delay_seconds=3600, unique={"key": "a"})
        )
        await direct.writer.execute("DELETE FROM job_unique WHERE tenant_id = $1", self.tenant_id)
        async with direct.write() as connection:
            await job_unique.lock(connection, [slot_of(self.tenant_id, "b")])

    async def act(self) -> None:
        await repair_unique(self.nodes.proxied, self.tenant_id, write=True)

    async def finish(self) -> None:
        await repair_unique(self.nodes.direct, self.tenant_id, write=True)

    async def violations(self) -> list[str]:
        self.expect("rows", await self.count("job_unique"), 1)
        self.expect("named", await self.count("job_unique", "AND job_id IS NOT NULL"), 1)
        return await super().violations()


class EndCancelled(Stage, KillOperation):
    """A running job that was to be cancelled is taken from its worker at the deadline."""

    name = "end cancelled"

    async def prepare(self) -> None:
        await super().prepare()
        lane = await make_lane(self.nodes.direct, self.tenant_id, "default", "pull")
        [self.job] = await add_jobs(self.nodes.direct, lane)
        lanes = OwnLanes(self.nodes.direct, [self.tenant_id])
        await lanes.refresh()
        wanted = ClaimAsk(
            tenant_id=self.tenant_id, lane="default", holder=uuid4(), max_leases=1,
            lease_seconds=60.0, wait_seconds=0.0, gone=asyncio.Event(),
        )  # fmt: skip
        assert await LeaseClaims(self.nodes.direct, lanes, Settings(), Tally()).claim(wanted)
        async with self.nodes.direct.write("test") as connection:
            held = await job_change.lock(
                connection, self.tenant_id, bucket_of(self.job), [self.job]
            )
            order = CancelOrder("test", 0.001)
            await job_cancel.cancel(connection, self.tenant_id, held, order)

    async def sweep(self, database: Database) -> None:
        lanes = OwnLanes(database, [self.tenant_id])
        await lanes.refresh()
        tallies = {"push": Tally(), "pull": Tally()}
        await Expirer(database, lanes, Settings(), tallies, uuid4()).run_once(100)

    async def act(self) -> None:
        await self.sweep(self.nodes.proxied)

    async def finish(self) -> None:
        await self.sweep(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("timers", await self.count("timer"), 0)
        self.expect("ends", await self.count("outcome", "AND status = 'CANCELLED'"), 1)
        return await super().violations()


class CallCancelUrl(Stage, KillOperation):
    """The receiver of a running job hears at least once that the job is to be cancelled."""

    name = "call a cancel URL"

    async def prepare(self) -> None:
        await super().prepare()
        self.heard = mkdtemp()
        lane = await make_lane(self.nodes.direct, self.tenant_id)
        to = {"type": "webhook", "url": "https://a.example/", "cancel_url": "https://b.example/"}
        [self.job] = await add_jobs(self.nodes.direct, lane, to=to)
        policies, bucket = RetryPolicies(Settings()), bucket_of(self.job)
        async with self.nodes.direct.write("test") as connection:
            wanted: dict[str, Any] = {"lease_seconds": 3600.0, "claimed_by": uuid4()}
            wanted |= {"low": datetime(2000, 1, 1, tzinfo=UTC), "limit": 1}
            assert await execution.take(connection, lane, bucket, policies, **wanted)
        async with self.nodes.direct.write("test") as connection:
            held = await job_change.lock(connection, self.tenant_id, bucket, [self.job])
            order = CancelOrder("test", 3600.0)
            assert (
                await job_cancel.cancel(connection, self.tenant_id, held, order)
            ).deadlines.keys() == {self.job}

    async def hear(self, call: CancelCall, destination: Webhook) -> bool:
        assert destination.cancel_url == "https://b.example/"
        self.write(call.job_id)
        return True

    def write(self, job_id: UUID) -> None:
        """Keep what a process heard that may be killed then."""
        Path(self.heard, uuid4().hex).write_text(str(job_id))

    def read(self) -> int:
        """Count what was heard, and forget it."""
        count = len(list(Path(self.heard).iterdir()))
        shutil.rmtree(self.heard)
        return count

    async def act(self) -> None:
        await CancelCaller(self.nodes.proxied, self.hear).run_once(10)

    async def finish(self) -> None:
        await self.advance(TAKEN_SECONDS + 1)
        await CancelCaller(self.nodes.direct, self.hear).run_once(10)

    async def violations(self) -> list[str]:
        heard = self.read()
        if not 1 <= heard <= 2:
            self.wrong.append(f"it was called {heard} times")
        due = await self.count("job_progress", "AND cancel_call_at IS NOT NULL")
        self.expect("calls left", due, 0)
        await self.nodes.direct.writer.execute(
            "DELETE FROM job_progress WHERE tenant_id = $1", self.tenant_id
        )
        return await super().violations()


OPERATIONS: list[type[KillOperation]] = [
    *(PutBackPayment, PutBackJob, RepairUnique, EndCancelled, CallCancelUrl)
]
