"""What the other stages do, killed: expand, plan, seal, deliver, subscribe."""

from contextlib import suppress
from typing import Any
from uuid import UUID

import msgspec

from faults import sweep_stages
from faults.kill import KillOperation
from faults.kill_jobs import ArrivalLog
from faults.sweep_stages import PERIOD_SECONDS, Stage
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.job.spec.job import Webhook
from postdate.job.spec.outcome import Completed, Delivery, Outcome
from postdate.node import job as job_wiring
from postdate.node import schedule as wiring
from postdate.schedule.spec.spec import ScheduleSpec
from postdate.subscription.change import Subscriptions
from postdate.subscription.spec import SubscriptionSpec
from postdate.words.error import RefusedError
from support.subscription import URL, Subscriber


class Expand(sweep_stages.Expand, KillOperation):
    async def begin_anew(self) -> None:
        self.first = self._node(self.nodes.proxied)


class ExpandPayment(sweep_stages.ExpandPayment, KillOperation):
    async def begin_anew(self) -> None:
        self.first = self._node(self.nodes.proxied)


class Plan(sweep_stages.Expand, KillOperation):
    """A schedule is made, run by hand and ended; each leaves all of its rows or none."""

    name = "plan"

    async def prepare(self) -> None:
        await Stage.prepare(self)

    async def plan(self, database: Database) -> None:
        node = self._node(database)
        made = wiring.services(node, job_wiring.intake(node))
        body = {"every_seconds": PERIOD_SECONDS, "template": self.template}
        known = await self._known()
        if not known:
            await made.change.create(self.who, msgspec.convert(body, ScheduleSpec), None)
            known = await self._known()
        if not await self.count("occurrence"):
            await made.run.trigger(self.who, known[0])
        await made.change.delete(self.who, known[0])
        await node.close()

    async def _known(self) -> list[UUID]:
        rows = await self.nodes.proxied.writer.fetch(
            "SELECT schedule_id FROM schedule WHERE tenant_id = $1", self.tenant_id
        )
        return [row[0] for row in rows]

    async def act(self) -> None:
        await self.plan(self.nodes.proxied)

    async def finish(self) -> None:
        with suppress(RefusedError):
            await self.plan(self.nodes.direct)

    async def violations(self) -> list[str]:
        for kind in ("created", "triggered", "deleted"):
            told = await self.count("event", f"AND type = 'schedule.{kind}'")
            self.expect(kind, told, 1)
        self.expect("versions", await self.count("schedule_version"), 1)
        self.expect("occurrences", await self.count("occurrence"), 1)
        self.expect("jobs", await self.count("job"), 1)
        self.expect("timers", await self.count("timer"), 1)
        return await Stage.violations(self)


class Seal(sweep_stages.Seal, KillOperation):
    pass


class LoggedSubscriber(Subscriber):
    """A subscriber whose arrivals outlive the node that delivered them."""

    def __init__(self, log: ArrivalLog) -> None:
        super().__init__()
        self._log = log

    async def __call__(self, delivery: Delivery) -> Outcome:
        if delivery.destination["url"] == URL:
            self._log.write(delivery.job_id)
        return Completed()

    def ids(self, url: str = "") -> list[UUID]:
        del url
        return self._log.read()


class Deliver(sweep_stages.Deliver, KillOperation):
    async def prepare(self) -> None:
        self.log = ArrivalLog()
        self.subscriber = LoggedSubscriber(self.log)
        await super().prepare()

    async def violations(self) -> list[str]:
        found = await super().violations()
        self.log.end()
        return found


class Subscribe(Stage, KillOperation):
    """A subscription is there with its timer and its event, or not at all."""

    name = "subscribe"

    async def subscribe(self, database: Database) -> None:
        async def known(_: Any) -> dict[Any, Any]:
            return {}

        subscriptions = Subscriptions(database, Settings(), allowed=(), check_names=known)
        spec = SubscriptionSpec(destination=Webhook(url="https://example.com/other"), types=[])
        await subscriptions.create(self.who, spec)

    async def act(self) -> None:
        await self.subscribe(self.nodes.proxied)

    async def finish(self) -> None:
        if not await self.count("subscription"):
            await self.subscribe(self.nodes.direct)

    async def violations(self) -> list[str]:
        self.expect("subscriptions", await self.count("subscription"), 1)
        told = await self.count("event", "AND type = 'subscription.created'")
        self.expect("told of", told, 1)
        return await super().violations()


OPERATIONS: list[type[KillOperation]] = [Expand, ExpandPayment, Plan, Seal, Deliver, Subscribe]
