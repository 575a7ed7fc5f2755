"""What is done to schedules and what cares for them, killed."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

import msgspec

from faults.kill import KillOperation
from faults.kill_office import Office
from faults.sweep_stages import PERIOD_SECONDS
from postdate.api.services import Services
from postdate.calendar.spec.calendar import CalendarSpec
from postdate.core.setting.setting import Settings
from postdate.core.test_clock import following_tenant
from postdate.database.connection.database import Connection, Database
from postdate.node import schedule as wiring
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.schedule.change.occurrence import OccurrenceIntake
from postdate.schedule.spec.firing import Fired, Firing
from postdate.schedule.spec.spec import SchedulePatch, ScheduleSpec
from postdate.schedule.store.schedule import key_of
from postdate.scheduler.audit import Audit
from postdate.scheduler.expander import Expander
from postdate.scheduler.recompute import Recompute
from postdate.tenant.change.tenant import TenantMode
from postdate.test_clock.change.test_clock import AdvanceOrder
from postdate.words.error import Refusal
from support.schedule import PULL, drain

OLD_DATA, NEW_DATA = "2000a", "2999a"


class BrokenIntake(OccurrenceIntake):
    """Breaks on whatever it is to make."""

    async def fire(
        self, _connection: Connection, _firings: Sequence[Firing], _now: datetime
    ) -> list[Fired | Refusal]:
        raise ValueError("the template is odd")


class Planned(Office):
    """One schedule, removed in the end: those who walk through all would meet it again."""

    rule: ClassVar[dict[str, Any]] = {"every_seconds": PERIOD_SECONDS}

    async def prepare(self) -> None:
        await super().prepare()
        await self.advance_into_period()
        spec = msgspec.convert({**self.rule, "template": PULL}, ScheduleSpec)
        async with self.served(self.nodes.direct) as made:
            await made.schedule.change.create(self.who, spec, None)
        [self.schedule] = await self.ids("schedule")

    async def advance_into_period(self) -> None:
        """Move the clock to the middle of a period, so that a minute more is never another one."""
        now = await self.nodes.direct.writer.fetchval("SELECT clock()")
        await self.advance((PERIOD_SECONDS * 1.5 - now.timestamp()) % PERIOD_SECONDS)

    def expander(self, database: Database, *, broken: bool = False) -> Expander:
        settings = ProcessSettings(secret_key="5e" * 32)
        node = Node(settings=settings, database=database, roles=["worker"])
        firings = wiring.occurrences(node)
        if broken:
            firings.__class__ = BrokenIntake
        return Expander(database, firings)

    async def due(self) -> datetime | None:
        found: datetime | None = await self.nodes.direct.writer.fetchval(
            "SELECT due_at FROM timer WHERE tenant_id = $1 AND subject = $2",
            self.tenant_id,
            self.schedule,
        )
        return found

    async def violations(self) -> list[str]:
        async with self.served(self.nodes.direct) as made:
            await made.schedule.change.delete(self.who, self.schedule)
        return await super().violations()


class ChangeSchedule(Planned):
    """What a pause skipped is run afterwards, once; a new version holds."""

    name = "change schedule"

    async def prepare(self) -> None:
        await super().prepare()
        self.begin = await self.nodes.direct.writer.fetchval("SELECT clock()")
        async with self.served(self.nodes.direct) as made:
            await made.schedule.change.pause(self.who, self.schedule, "a reason")
        await self.advance(2 * PERIOD_SECONDS)
        await drain(self.expander(self.nodes.direct))
        self.until = await self.nodes.direct.writer.fetchval("SELECT clock()")

    async def steps(self, made: Services) -> None:
        change, who, key = made.schedule.change, self.who, self.schedule
        await change.resume(who, key)
        patch = SchedulePatch(jitter_seconds=1)
        await self.unless_told("schedule.changed", lambda: change.change(who, key, patch))
        span = self.begin, self.until
        await self.once(
            made,
            "backfill",
            lambda r: made.schedule.run.backfill(who, key, span, dry_run=False, remember=r),
        )

    async def violations(self) -> list[str]:
        await self.expect_told(
            schedule_paused=1, schedule_resumed=1, schedule_changed=1, schedule_backfilled=1
        )
        self.expect("versions", await self.count("schedule_version"), 2)
        self.expect("jobs", await self.count("job"), 2)
        self.expect("occurrences", await self.count("occurrence"), 2)
        return await super().violations()


class SetAside(Planned):
    """A schedule that cannot be expanded waits for a person, and has lost nothing then."""

    name = "set aside"

    async def prepare(self) -> None:
        await super().prepare()
        await self.advance(PERIOD_SECONDS)

    async def act(self) -> None:
        await drain(self.expander(self.nodes.proxied, broken=True))

    async def finish(self) -> None:
        await drain(self.expander(self.nodes.direct, broken=True))
        self.expect("timer of what was set aside", await self.due(), None)
        async with self.served(self.nodes.direct) as made:
            await made.schedule.change.resume(self.who, self.schedule)
        await drain(self.expander(self.nodes.direct))

    async def violations(self) -> list[str]:
        self.expect("set aside", await self.told("schedule.set_aside"), 1)
        self.expect("jobs", await self.count("job"), 1)
        self.expect("occurrences", await self.count("occurrence"), 1)
        return await super().violations()


class AuditSchedule(Planned):
    """What is missing from the book is told of once, and a lost timer comes back."""

    name = "audit"

    async def prepare(self) -> None:
        await super().prepare()
        await self.advance(PERIOD_SECONDS + 60)
        await self.nodes.direct.writer.execute(
            "UPDATE schedule SET handled = clock() WHERE tenant_id = $1", self.tenant_id
        )
        await self.nodes.direct.writer.execute(
            "DELETE FROM timer WHERE tenant_id = $1", self.tenant_id
        )

    async def look(self, database: Database) -> None:
        audit = Audit(database, Settings())
        audit._after = key_of(self.tenant_id, self.schedule)._replace(schedule_id=UUID(int=0))
        await audit.run_once(1)

    async def act(self) -> None:
        await self.look(self.nodes.proxied)

    async def finish(self) -> None:
        # What a step tells of changes the schedule: its timer is put by the next one at the latest.
        for _ in range(2):
            await self.look(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("missed", await self.told("schedule.missed"), 1)
        self.expect("occurrences", await self.count("occurrence"), 1)
        self.expect("a timer", await self.due() is not None, wanted=True)
        return await super().violations()


class PutBack(AuditSchedule):
    """A schedule that came further than the present goes on from the present, once."""

    name = "put back"

    async def prepare(self) -> None:
        await Planned.prepare(self)
        await self.nodes.direct.writer.execute(
            "UPDATE schedule SET handled = clock() + interval '2 days' WHERE tenant_id = $1",
            self.tenant_id,
        )

    async def violations(self) -> list[str]:
        self.expect("put back", await self.told("schedule.put_back"), 1)
        self.expect("a timer", await self.due() is not None, wanted=True)
        return await Planned.violations(self)


class RecomputeTimers(Planned):
    """New data of time zones moves a timer once, and the version is noted when all are done."""

    name = "recompute"
    rule: ClassVar[dict[str, Any]] = {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}

    async def prepare(self) -> None:
        await super().prepare()
        direct = self.nodes.direct
        await Recompute(direct).run_once()
        await direct.writer.execute("UPDATE schedule_tzdata SET version = $1", OLD_DATA)
        self.before = await self.due()
        await direct.writer.execute(
            "UPDATE timer SET due_at = due_at + interval '1 hour' WHERE tenant_id = $1",
            self.tenant_id,
        )

    async def act(self) -> None:
        await Recompute(self.nodes.proxied, version=NEW_DATA).run_once()

    async def finish(self) -> None:
        await Recompute(self.nodes.direct, version=NEW_DATA).run_once()

    async def violations(self) -> list[str]:
        self.expect("due", await self.due(), self.before)
        self.expect("told of", await self.told("schedule.recomputed"), 1)
        known = await self.nodes.direct.writer.fetchval("SELECT version FROM schedule_tzdata")
        self.expect("data", known, NEW_DATA)
        return await super().violations()


class CalendarLife(Planned):
    """A calendar that a schedule follows is replaced; one that nobody follows is removed."""

    name = "calendar"

    async def steps(self, made: Services) -> None:
        calendars, change, who = made.calendar.change, made.schedule.change, self.who
        patch = SchedulePatch(calendar="held")
        for number, name in enumerate(("held", "held", "free"), 1):
            wanted = CalendarSpec(name=name, holidays=[date(2000, 1, number)])
            if await self.told("calendar.changed") < number:
                await calendars.put(who, wanted)
            if not await self.told("schedule.changed"):
                await change.change(who, self.schedule, patch)
        await self.unless_told("calendar.deleted", lambda: calendars.delete(who, "free"))

    async def violations(self) -> list[str]:
        await self.expect_told(calendar_changed=3, calendar_deleted=1, schedule_changed=1)
        self.expect("a timer", await self.due() is not None, wanted=True)
        return await super().violations()


class AdvanceClock(Office):
    """A test clock goes on where it was broken off; each instant comes once."""

    name = "advance clock"
    mode: ClassVar[TenantMode] = TenantMode(test=True)

    async def prepare(self) -> None:
        await super().prepare()
        body = {"every_seconds": PERIOD_SECONDS, "template": PULL}
        with following_tenant(self.tenant_id):
            async with self.served(self.nodes.direct) as made:
                spec = msgspec.convert(body, ScheduleSpec)
                await made.schedule.change.create(self.who, spec, None)

    async def steps(self, made: Services) -> None:
        order = AdvanceOrder(by=timedelta(seconds=3 * PERIOD_SECONDS), key="key")
        self.came = await made.test_clock.change.advance(self.tenant_id, order)

    async def finish(self) -> None:
        # As if the time had passed for which the one that was killed has held the clock.
        await self.nodes.direct.writer.execute(
            "UPDATE test_clock SET held_until = NULL WHERE tenant_id = $1", self.tenant_id
        )
        await super().finish()

    async def violations(self) -> list[str]:
        row = await self.nodes.direct.writer.fetchrow(
            "SELECT at, target, advance, entries FROM test_clock WHERE tenant_id = $1",
            self.tenant_id,
        )
        assert row is not None
        self.expect("where it stands", row["at"], self.came.target)
        self.expect("target", row["target"], None)
        self.expect("advances", row["advance"], 1)
        self.expect("entries", await self.count("test_clock_entry"), row["entries"])
        self.expect("occurrences", await self.count("occurrence"), 3)
        self.expect("jobs", await self.count("job"), 3)
        made = await self.count("test_clock_entry", "AND type = 'job.accepted'")
        self.expect("jobs entered", made, 3)
        return await super().violations()


OPERATIONS: list[type[KillOperation]] = [
    ChangeSchedule, SetAside, AuditSchedule, PutBack, RecomputeTimers, CalendarLife,
    AdvanceClock,
]  # fmt: skip
