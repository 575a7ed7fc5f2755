"""What runs by itself, swept: expand, seal, deliver."""

from typing import Any, ClassVar

import msgspec

from faults.sweep import Nodes
from faults.sweep_money import MoneyOperation
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.intake.idempotency import Refused
from postdate.job.spec.job import Webhook
from postdate.node import job as job_wiring
from postdate.node import schedule as wiring
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.publisher.deliverer import LEASE_SECONDS
from postdate.schedule.spec.spec import ScheduleSpec
from postdate.scheduler.expander import Expander
from postdate.subscription.change import Subscriptions
from postdate.subscription.spec import SubscriptionSpec
from support.event import emit, new_event, seal_all, sealer, subjects
from support.schedule import PULL, drain
from support.subscription import URL, Subscriber, node

PERIOD_SECONDS = 3600


class Stage(MoneyOperation):
    """Something with a timer; the clock moves on so that it is due."""

    async def advance(self, seconds: float) -> None:
        await self.nodes.direct.writer.execute(
            "UPDATE public.clock_shift SET shift = shift + make_interval(secs => $1)", seconds
        )
        # As nodes do every second: ids of seals must not be days older than what they seal.
        for database in (self.nodes.direct, self.nodes.proxied):
            await database.synchronize()

    async def violations(self) -> list[str]:
        # What is left would come due in the middle of the next case.
        await self.nodes.direct.writer.execute(
            "DELETE FROM timer WHERE tenant_id = $1", self.tenant_id
        )
        return self.wrong


class Expand(Stage):
    name = "expand"
    template: ClassVar[Any] = PULL

    async def prepare(self) -> None:
        await super().prepare()
        self.first, self.second = self._node(self.nodes.proxied), self._node(self.nodes.direct)
        body = {"every_seconds": PERIOD_SECONDS, "template": self.template}
        spec = msgspec.convert(body, ScheduleSpec)
        made = wiring.services(self.second, job_wiring.intake(self.second))
        answer = await made.change.create(self.who, spec, None)
        assert not isinstance(answer, Refused), answer
        await self.advance(PERIOD_SECONDS)

    def _node(self, database: Database) -> Node:
        settings = ProcessSettings(secret_key="5e" * 32)
        return Node(settings=settings, database=database, roles=["worker"])

    def _expander(self, node: Node) -> Expander:
        return Expander(node.database, wiring.occurrences(node))

    async def act(self) -> None:
        await self._expander(self.first).run_once()

    async def meanwhile(self) -> None:
        await self._expander(self.second).run_once()

    async def finish(self) -> None:
        await drain(self._expander(self.first))
        await drain(self._expander(self.second))
        await self.first.close()
        await self.second.close()

    async def violations(self) -> list[str]:
        self.expect("occurrences", await self.count("occurrence"), 1)
        await self.check_made()
        return await super().violations()

    async def check_made(self) -> None:
        self.expect("jobs", await self.count("job"), 1)


class ExpandPayment(Expand):
    name = "expand a payment"
    template: ClassVar[Any] = {
        "payment": {"from_account_id": "a", "to_account_id": "b", "amount": 10}
    }

    async def finish(self) -> None:
        await super().finish()
        await self.settle_everything()

    async def check_made(self) -> None:
        self.expect("payments", await self.count("payment"), 1)
        await self.expect_money((990, 0), (10, 0))


class Seal(Stage):
    name = "seal"

    async def prepare(self) -> None:
        await super().prepare()
        await seal_all(self.nodes.direct)
        for subject in subjects(self.nodes.direct, 3):
            await emit(self.nodes.direct, new_event(self.tenant_id, subject))

    async def act(self) -> None:
        await sealer(self.nodes.proxied).run_once()

    async def meanwhile(self) -> None:
        await sealer(self.nodes.direct).run_once()

    async def finish(self) -> None:
        for database in (self.nodes.proxied, self.nodes.direct):
            while await sealer(database).run_once():
                pass

    async def violations(self) -> list[str]:
        sealed = await self.nodes.direct.writer.fetchval(
            "SELECT coalesce(sum(cardinality(subjects)), 0) FROM seal WHERE tenant_id = $1",
            self.tenant_id,
        )
        self.expect("sealed", sealed, await self.count("event"))
        self.expect("in the outbox", await self.count("outbox"), 0)
        return await super().violations()


class Deliver(Stage):
    """Events for a subscription: each arrives, in order, and once more at the most."""

    name = "deliver"

    def __init__(self, nodes: Nodes) -> None:
        super().__init__(nodes)
        self.subscriber = Subscriber()

    async def prepare(self) -> None:
        await super().prepare()
        direct = self.nodes.direct
        await self._seal()

        async def known(_: Any) -> dict[Any, Any]:
            return {}

        subscriptions = Subscriptions(direct, Settings(), allowed=(), check_names=known)
        spec = SubscriptionSpec(destination=Webhook(url=URL), types=["job.*"])
        await subscriptions.create(self.who, spec)
        [subject] = subjects(direct, 1)
        told = [await emit(direct, new_event(self.tenant_id, subject)) for _ in range(3)]
        self.events = [event_id for [event_id] in told]
        await self._seal()

    async def _seal(self) -> None:
        while await sealer(self.nodes.direct).run_once():
            pass

    async def _serve(self, database: Database) -> None:
        deliverer = node(database, self.subscriber, Settings())
        await deliverer.run_once(64)
        await deliverer.drain()

    async def act(self) -> None:
        await self._serve(self.nodes.proxied)

    async def meanwhile(self) -> None:
        await self._serve(self.nodes.direct)

    async def finish(self) -> None:
        for _ in range(3):
            await self.advance(LEASE_SECONDS + 1)
            await self._serve(self.nodes.proxied)
            await self._serve(self.nodes.direct)

    async def violations(self) -> list[str]:
        got = self.subscriber.ids()
        self.expect("first arrivals", list(dict.fromkeys(got)), self.events)
        if most := max((got.count(event) for event in self.events), default=0) > 2:
            self.wrong.append(f"an event arrived {most} times")
        self.expect("timers", await self.count("timer"), 0)
        return await super().violations()
