"""What is done to jobs, killed: accept, claim, run, record, renew, report, change, remove."""

import asyncio
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp
from uuid import UUID, uuid4

import msgspec

from faults import sweep_money
from faults.kill import KillOperation
from faults.pg_proxy import wait_a_moment
from faults.sweep_jobs import AT_MOST_ONCE, LEASE_SECONDS, QUICK, ROUND_SECONDS
from faults.sweep_stages import Stage
from postdate.core.setting.setting import Settings, Stored
from postdate.database.connection.database import Database
from postdate.job.change.change import JobChanges, JobPatch
from postdate.job.change.dead_letter import DeadLetters, Pace
from postdate.job.spec.outcome import Completed, Delivery, Outcome, Unknown
from postdate.job.spec.tally import Tally
from postdate.lane.store.lane import LaneDirectory
from postdate.lease.change.lease import ClaimAsk, LeaseClaims
from postdate.lease.change.renewal import HeldBy, LeaseRenewals, ProgressReport
from postdate.lease.change.report import LeaseReports, Report
from postdate.words.error import RefusedError
from postdate.worker.retention import Retention
from postdate.worker.worker import JobWorker
from support.job import ask, end_as_failed, make_intake
from support.worker import Handled, OwnLanes, add_jobs, look, make_lane, make_worker, step

DAY_SECONDS = 86_400
MAX_ROUNDS = 500


class ArrivalLog:
    """What arrived, one line each, in a file that outlives whoever wrote it."""

    def __init__(self) -> None:
        number, name = mkstemp(prefix="pdk")
        os.close(number)
        self._path = Path(name)

    def write(self, subject: UUID) -> None:
        with self._path.open("a") as file:
            file.write(f"{subject}\n")

    def read(self) -> list[UUID]:
        return [UUID(line) for line in self._path.read_text().splitlines()]

    def end(self) -> None:
        self._path.unlink(missing_ok=True)


class AcceptJob(sweep_money.AcceptJob, KillOperation):
    pass


class CancelJob(sweep_money.CancelJob, KillOperation):
    pass


class Work(Stage, KillOperation):
    """A worker with a free and a limited lane is killed; its leases and slots run out."""

    name = "work"

    async def prepare(self) -> None:
        await super().prepare()
        self.log = ArrivalLog()
        direct = self.nodes.direct
        lanes = [
            await make_lane(direct, self.tenant_id, "plain"),
            await make_lane(direct, self.tenant_id, "narrow", max_running=2),
        ]
        self.once, self.often = [], []
        for lane in lanes:
            self.once += await add_jobs(direct, lane, 2, retry=AT_MOST_ONCE)
            self.often += await add_jobs(direct, lane, 2, retry=QUICK)

    async def _worker(self, database: Database, gate: asyncio.Event) -> JobWorker:
        async def handle(delivery: Delivery) -> Outcome:
            self.log.write(delivery.job_id)
            await gate.wait()
            return Completed()

        settings = {"worker.lease_seconds": LEASE_SECONDS}
        return await make_worker(database, handle, self.tenant_id, settings=settings)

    async def act(self) -> None:
        gate = asyncio.Event()
        worker = await self._worker(self.nodes.proxied, gate)
        look(worker)
        for _ in range(3):
            await worker.run_once(100)
        await asyncio.sleep(0)
        for job in worker.runner._jobs:
            job.renew_at = 0.0
        await worker.renew()
        gate.set()
        await step(worker)
        await worker.permits.give_back()

    async def finish(self) -> None:
        await self.advance(LEASE_SECONDS + 1)
        gate = asyncio.Event()
        gate.set()
        self.second = await self._worker(self.nodes.direct, gate)
        # A limit that is reached is asked again after a moment. Rounds are counted, not seconds: a
        # machine that has no time for us must not look like a job that never ends.
        for _ in range(MAX_ROUNDS):
            if not await self._open():
                break
            await step(self.second)
            await wait_a_moment(ROUND_SECONDS)
        changes = JobChanges(self.nodes.direct, Settings())
        for job in self.once:
            with suppress(RefusedError):  # it is not in doubt
                await changes.resolve(self.tenant_id, job, "completed", "test")
        await self.second.permits.give_back()

    async def _open(self) -> int:
        """Count what neither has ended nor waits for a person."""
        return await self.count("timer", "AND due_at < 'infinity'")

    async def violations(self) -> list[str]:
        arrivals = Counter(self.log.read())
        self.log.end()
        rows = await self.nodes.direct.writer.fetch(
            "SELECT subject, status FROM outcome WHERE tenant_id = $1", self.tenant_id
        )
        statuses = {row["subject"]: row["status"] for row in rows}
        for job in (*self.once, *self.often):
            if (status := statuses.get(job, "not ended")) != "COMPLETED":
                self.wrong.append(f"a job is {status}")
            most = 1 if job in self.once else 2
            if arrivals[job] > most:
                self.wrong.append(f"a job arrived {arrivals[job]} times, {most} at the most")
            # Doubt may be about a job that never began: a person says what became of it.
            if job in self.often and not arrivals[job]:
                self.wrong.append("a job is complete and never arrived")
        held = await self.nodes.direct.writer.fetchval(
            "SELECT coalesce(sum(slots), 0) FROM permit WHERE scope = $1 AND expires_at > clock()",
            f"lane:{self.tenant_id}/narrow",
        )
        self.expect("slots held", held, 0)
        return await super().violations()


class Pull(Stage, KillOperation):
    """A worker of its own asks over HTTP; the node that answers it is killed."""

    name = "pull"

    async def prepare(self) -> None:
        await super().prepare()
        lane = await make_lane(self.nodes.direct, self.tenant_id, "default", "pull", max_running=4)
        # The first claim meets only expired jobs, and ends those behind them too.
        await add_jobs(self.nodes.direct, lane, 40, in_seconds=(-2,), expires_in=-1)
        self.jobs = await add_jobs(self.nodes.direct, lane, 3, retry=QUICK)

    async def _serve(self, database: Database, *, patient: bool) -> None:
        lanes = OwnLanes(database, [self.tenant_id])
        await lanes.refresh()
        claims = LeaseClaims(database, lanes, Settings(), Tally())
        reports = LeaseReports(database, lanes, Settings(), Tally())
        renewals = LeaseRenewals(database, lanes, Settings())
        gone = asyncio.Event()
        wanted = ClaimAsk(
            tenant_id=self.tenant_id, lane="default", holder=uuid4(), max_leases=2,
            lease_seconds=LEASE_SECONDS, wait_seconds=0.0, gone=gone,
        )  # fmt: skip
        while leased := await claims.claim(wanted):
            for each in leased:
                of = each.delivery
                held = HeldBy(self.tenant_id, of.job_id, of.token, LEASE_SECONDS, "test")
                await renewals.renew(held)
                done = 0 if of.checkpoint is None else int(of.checkpoint)
                step = ProgressReport(checkpoint=str(done + 1).encode(), log=["a step"])
                await renewals.report(held, step)
                report = Report(self.tenant_id, of.job_id, of.token, Completed(), "test")
                await reports.submit(report)
            if not patient:
                break
        if not patient:
            gone.set()  # nobody waits for this one: what it claims goes back
            await claims.claim(wanted)
            while claims._returns._returning:
                await asyncio.wait(claims._returns._returning)

    async def act(self) -> None:
        await self._serve(self.nodes.proxied, patient=False)

    async def finish(self) -> None:
        await self.advance(LEASE_SECONDS + 1)
        await self._serve(self.nodes.direct, patient=True)

    async def violations(self) -> list[str]:
        self.expect("ends", await self.count("outcome", "AND status = 'COMPLETED'"), 3)
        return await super().violations()


class ChangeJob(Stage, KillOperation):
    """A job is changed, then made due at once."""

    name = "change job"

    async def prepare(self) -> None:
        await super().prepare()
        await make_intake(self.nodes.direct).submit(ask(self.tenant_id, "key", delay_seconds=3600))
        [self.job] = await self.ids("job")

    async def change(self, database: Database) -> None:
        changes = JobChanges(database, Settings())
        patch = msgspec.json.decode(b'{"payload":{"n":2}}', type=JobPatch)
        await changes.patch(self.tenant_id, self.job, patch, "test")
        await changes.run_now(self.tenant_id, self.job, "test")

    async def act(self) -> None:
        await self.change(self.nodes.proxied)

    async def finish(self) -> None:
        with suppress(RefusedError):
            await self.change(self.nodes.direct)

    async def violations(self) -> list[str]:
        due = await self.count("timer", "AND due_at <= clock()")
        self.expect("due timers", due, 1)
        changed = await self.count("event", "AND type = 'job.changed'")
        revisions = await self.nodes.direct.writer.fetchval(
            "SELECT max(revision) FROM timer WHERE tenant_id = $1", self.tenant_id
        )
        self.expect("changes told of", changed, revisions)
        return await super().violations()


class ReplaceJob(Stage, KillOperation):
    """A request under a unique key replaces the job that waits, and another makes one."""

    name = "replace job"

    async def prepare(self) -> None:
        await super().prepare()
        await self.ask(self.nodes.direct, "first", "a")

    async def ask(self, database: Database, key: str, *unique: str) -> None:
        asked = [
            ask(
                self.tenant_id,
                f"{key}-{each}",
                delay_seconds=3600,
                payload=key,
                unique={"key": each, "on_conflict": "replace"},
            )
            for each in unique
        ]
        await make_intake(database).accept(asked)

    async def act(self) -> None:
        await self.ask(self.nodes.proxied, "second", "a", "b")

    async def finish(self) -> None:
        await self.ask(self.nodes.direct, "second", "a", "b")

    async def violations(self) -> list[str]:
        self.expect("timers", await self.count("timer"), 2)
        self.expect("rows", await self.count("job_unique", "AND job_id IS NOT NULL"), 2)
        self.expect("revisions", await self.count("job_revision"), 1)
        told = await self.count("event", "AND type = 'job.replaced'")
        self.expect("told", told, 1)
        return await super().violations()


class Resolve(Stage, KillOperation):
    """A person says what became of a job in doubt."""

    name = "resolve"

    async def prepare(self) -> None:
        await super().prepare()
        lane = await make_lane(self.nodes.direct, self.tenant_id)
        [self.job] = await add_jobs(self.nodes.direct, lane, retry=AT_MOST_ONCE)
        doubtful = Handled(Unknown(code="timeout", error="who knows"))
        await step(await make_worker(self.nodes.direct, doubtful, self.tenant_id))

    async def resolve(self, database: Database) -> None:
        changes = JobChanges(database, Settings())
        await changes.resolve(self.tenant_id, self.job, "completed", "test")

    async def act(self) -> None:
        await self.resolve(self.nodes.proxied)

    async def finish(self) -> None:
        with suppress(RefusedError):
            await self.resolve(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("ends", await self.count("outcome", "AND status = 'COMPLETED'"), 1)
        self.expect("timers", await self.count("timer"), 0)
        return await super().violations()


class DeadLetter(Stage, KillOperation):
    """What failed is redriven once, then removed with all that belongs to it."""

    name = "dead letter"

    async def prepare(self) -> None:
        await super().prepare()
        await make_intake(self.nodes.direct).submit(ask(self.tenant_id, "key"))
        self.failed = await self.ids("job")
        await end_as_failed(self.nodes.direct, self.failed)

    async def clear(self, database: Database) -> None:
        lanes = LaneDirectory(database)
        await lanes.refresh()
        letters = DeadLetters(database, lanes, make_intake(database, lanes))
        await letters.redrive(self.tenant_id, self.failed, Pace(), "test")
        await letters.purge(self.tenant_id, self.failed, "test")

    async def act(self) -> None:
        await self.clear(self.nodes.proxied)

    async def finish(self) -> None:
        await self.clear(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("jobs", await self.count("job"), 1)
        self.expect("timers", await self.count("timer"), 1)
        self.expect("ends", await self.count("outcome"), 0)
        purged = await self.count("event", "AND type = 'job.purged'")
        self.expect("removals told of", purged, 1)
        return await super().violations()


class Purge(Stage, KillOperation):
    """What ended long ago is removed, with the keys that led to it."""

    name = "purge"

    async def prepare(self) -> None:
        await super().prepare()
        await make_intake(self.nodes.direct).submit(ask(self.tenant_id, "key"))
        await make_intake(self.nodes.direct).submit(ask(self.tenant_id, "other"))
        [ended, self.open] = await self.ids("job")
        await end_as_failed(self.nodes.direct, [ended])
        await self.advance(3 * DAY_SECONDS)

    async def purge(self, database: Database) -> None:
        lanes = OwnLanes(database, [self.tenant_id])
        await lanes.refresh()
        names = ("job.retention_days", "job.idempotency_days")
        settings = Settings({(0, name): Stored(0, name, 1) for name in names})
        retention = Retention(database, settings)
        while await retention.run_once(1000):
            pass

    async def act(self) -> None:
        await self.purge(self.nodes.proxied)

    async def finish(self) -> None:
        await self.purge(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("jobs", await self.ids("job"), [self.open])
        self.expect("ends", await self.count("outcome"), 0)
        self.expect("attempts", await self.count("attempt"), 0)
        return await super().violations()


OPERATIONS: list[type[KillOperation]] = [
    AcceptJob, CancelJob, Work, Pull, ChangeJob, ReplaceJob, Resolve, DeadLetter, Purge,
]  # fmt: skip
