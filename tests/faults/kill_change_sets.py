"""Change sets, killed: made, undone and broken off; each step is done once, and undone once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, ClassVar

import msgspec

from faults.kill import KillOperation
from faults.sweep_money import AMOUNT, MoneyOperation
from faults.sweep_stages import PERIOD_SECONDS, Stage
from postdate.api.services import Services
from postdate.change_set.change.change import SetChange
from postdate.change_set.change.change_set import HOLD, ChangeSet
from postdate.database.connection.database import Database
from postdate.halt import store as halt_store
from postdate.halt.change import FreezeWindow
from postdate.key.authentication.identity import Identities
from postdate.node import http
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.schedule.spec.spec import ScheduleSpec
from postdate.schedule.store import schedule as schedule_store
from postdate.words.error import RefusedError
from support.bank import DuePayment
from support.job import ask, make_intake
from support.schedule import PULL

SECRET_KEY = "5e" * 32


class Served(Stage, KillOperation):
    """Something that the services of a node do, as its endpoints call them."""

    @asynccontextmanager
    async def served(self, database: Database) -> AsyncIterator[Services]:
        settings = ProcessSettings(secret_key=SECRET_KEY)
        node = Node(settings=settings, database=database, roles=["api"])
        await node.lanes.refresh()
        try:
            yield http.services(node, Identities(database))
        finally:
            await node.close()

    async def told(self, kind: str) -> int:
        return await self.count("event", f"AND type = '{kind}'")

    async def expect_told(self, **wanted: int) -> None:
        """Each change is told of as often as it was made: `lane_paused=1`."""
        for name, count in wanted.items():
            noun, _, verb = name.rpartition("_")
            self.expect(name, await self.told(f"{noun}.{verb}"), count)


class ChangeSetLife(Served):
    """A set is drafted, applied and undone: then everything is as it was, by one way only."""

    async def changes(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    async def go_on(self, database: Database) -> ChangeSet:
        """Do whatever is left of it, as somebody who looks first how far it has come."""
        async with self.served(database) as made:
            sets = made.change_set
            known = await self.ids("change_set")
            if not known:
                changes = msgspec.convert(await self.changes(), list[SetChange])
                draft = await sets.create(self.who, await sets.draft(self.who, changes, None))
                known = [draft.row.change_set_id]
            found = await sets.find(self.who, known[0])
            if found.row.status in {"DRAFT", "APPLYING"}:
                found = await sets.apply(self.who, known[0])
            return await sets.undo(self.who, known[0])

    async def act(self) -> None:
        await self.go_on(self.nodes.proxied)

    async def finish(self) -> None:
        await self.advance(HOLD.total_seconds() + 1)
        self.ended = await self.go_on(self.nodes.direct)

    async def expect_undone(self) -> None:
        self.expect("status", self.ended.row.status, "UNDONE")
        self.expect("left", [each.left for each in self.ended.steps if each.left], [])
        await self.expect_told(change_set_applied=1, change_set_undone=1)

    async def violations(self) -> list[str]:
        await self.expect_undone()
        return await super().violations()


class ChangePayments(ChangeSetLife):
    """Some payments are cancelled and made anew, others moved there and back."""

    name = "change set of payments"

    async def prepare(self) -> None:
        await super().prepare()
        self.due = await self.bank.now() + timedelta(hours=2)
        late = self.due + timedelta(hours=2)
        await self.bank.pay([DuePayment("a", "b", AMOUNT, self.due)])
        await self.bank.pay([DuePayment("a", "b", AMOUNT, late)])
        self.before = await self.open()

    async def changes(self) -> list[dict[str, Any]]:
        limit = (self.due + timedelta(hours=1)).isoformat()
        to = {"delay_seconds": 9 * 3600}
        return [
            {"type": "cancel_payments", "filter": {"due_before": limit}},
            {"type": "reschedule_payments", "filter": {"due_after": limit}, "to": to},
        ]

    async def open(self) -> list[datetime]:
        rows = await self.nodes.direct.writer.fetch(
            "SELECT due_at FROM timer WHERE tenant_id = $1 ORDER BY due_at", self.tenant_id
        )
        return [row["due_at"] for row in rows]

    async def violations(self) -> list[str]:
        self.expect("open payments", await self.open(), self.before)
        self.expect("payments", await self.count("payment"), 3)
        await self.expect_told(payment_cancelled=1, payment_restored=1, payment_rescheduled=2)
        await self.expect_money((1000, 2 * AMOUNT), (0, 0))
        await self.expect_undone()
        return await MoneyOperation.violations(self)  # what is held has its timers


class ChangeJobs(ChangePayments):
    """Some jobs are cancelled and made anew, others moved there and back."""

    name = "change set of jobs"

    async def prepare(self) -> None:
        await Stage.prepare(self)
        intake = make_intake(self.nodes.direct)
        for lane, key in (("mail", "1"), ("mail", "2"), ("post", "3")):
            await intake.submit(ask(self.tenant_id, key, lane=lane, delay_seconds=7200))
        self.before = await self.open()

    async def changes(self) -> list[dict[str, Any]]:
        to = {"delay_seconds": 9 * 3600}
        return [
            {"type": "reschedule_jobs", "filter": {"lane": "mail"}, "to": to},
            {"type": "cancel_jobs", "filter": {"lane": "post"}},
        ]

    async def violations(self) -> list[str]:
        self.expect("open jobs", await self.open(), self.before)
        self.expect("jobs", await self.count("job"), 4)
        await self.expect_told(job_cancelled=1, job_rescheduled=4)
        return await ChangeSetLife.violations(self)


class ChangeTenant(ChangeSetLife):
    """Lanes, a schedule, a setting and a halt."""

    name = "change set of a tenant"
    told_of: ClassVar[dict[str, int]] = {
        "lane_paused": 1, "lane_resumed": 1, "lane_changed": 2, "schedule_paused": 1,
        "schedule_resumed": 1, "schedule_changed": 2, "setting_changed": 2, "tenant_killed": 1,
        "tenant_released": 1,
    }  # fmt: skip

    async def prepare(self) -> None:
        await super().prepare()
        intake = make_intake(self.nodes.direct)
        for lane in ("mail", "post"):
            await intake.submit(ask(self.tenant_id, lane, lane=lane, delay_seconds=7200))
        body = {"every_seconds": PERIOD_SECONDS, "template": PULL}
        async with self.served(self.nodes.direct) as made:
            spec = msgspec.convert(body, ScheduleSpec)
            await made.schedule.change.create(self.who, spec, None)
        [self.schedule] = await self.ids("schedule")
        self.before = await self.state()

    async def changes(self) -> list[dict[str, Any]]:
        schedule = str(self.schedule)
        return [
            {"type": "pause_lane", "lane": "mail"},
            {"type": "limit_lane", "lane": "post", "rate_per_second": 5},
            {"type": "change_policy", "schedule_id": schedule, "jitter_seconds": 60},
            {"type": "pause_schedule", "schedule_id": schedule},
            {"type": "put_setting", "name": "foresight.warn_hours", "value": 3},
            {"type": "halt"},
        ]

    async def state(self) -> list[Any]:
        async with self.nodes.direct.connection() as connection:
            lanes = await connection.fetch(
                "SELECT name, paused_at, rate_per_second FROM lane WHERE tenant_id = $1 ORDER BY 1",
                self.tenant_id,
            )
            [schedule] = await schedule_store.load(
                connection, [schedule_store.key_of(self.tenant_id, self.schedule)]
            )
            halts = await halt_store.load(connection, self.tenant_id)
        settings = await self.count("setting")
        jitter = schedule.definition.policies.jitter_seconds
        return [[tuple(each) for each in lanes], schedule.paused, jitter, halts, settings]

    async def violations(self) -> list[str]:
        self.expect("state", await self.state(), self.before)
        await self.expect_told(**self.told_of)
        return await super().violations()


class BreakOff(ChangeTenant):
    """A freeze that somebody else has set stops a set in the middle; when it is gone it goes on."""

    name = "change set broken off"
    told_of: ClassVar[dict[str, int]] = {
        "lane_paused": 1, "lane_resumed": 1, "tenant_frozen": 2, "tenant_thawed": 2,
    }  # fmt: skip

    async def prepare(self) -> None:
        await super().prepare()
        self.until = await self.bank.now() + timedelta(days=1)
        window = FreezeWindow(from_at=None, until_at=self.until, mode="hold")
        async with self.served(self.nodes.direct) as made:
            await made.halt.change.freeze(self.tenant_id, window, "theirs", self.who.key_id)

    async def changes(self) -> list[dict[str, Any]]:
        return [
            {"type": "pause_lane", "lane": "mail"},
            {"type": "freeze", "until_at": self.until.isoformat()},
        ]

    async def act(self) -> None:
        try:
            await super().act()
        except RefusedError:
            return
        raise AssertionError("a second freeze was set")

    async def finish(self) -> None:
        async with self.served(self.nodes.direct) as made:
            await made.halt.change.lift(self.tenant_id, "freeze", self.who.key_id)
        await super().finish()


OPERATIONS: list[type[KillOperation]] = [ChangePayments, ChangeJobs, ChangeTenant, BreakOff]
