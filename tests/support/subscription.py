"""What the tests of subscriptions share: a subscriber, and a tenant with a node that serves it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from prometheus_client import CollectorRegistry

from postdate.core.identity import Identity, Scope
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.job.spec.job import Webhook
from postdate.job.spec.outcome import Completed, Delivery, Outcome
from postdate.publisher.deliverer import Deliverer
from postdate.publisher.meter import PublisherMeter
from postdate.subscription import store as subscription_store
from postdate.subscription.change import Subscriptions
from postdate.subscription.spec import SubscriptionSpec, SubscriptionView
from support.event import emit, new_event, seal_all, subjects

URL = "https://example.com/hook"
Answer = Callable[[Delivery], Outcome]


@dataclass
class Subscriber:
    """A handler that keeps what it gets and answers as told."""

    got: list[Delivery] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    block: dict[str, asyncio.Event] = field(default_factory=dict)

    async def __call__(self, delivery: Delivery) -> Outcome:
        url = str(delivery.destination["url"])
        if url in self.block:
            await self.block[url].wait()
        await asyncio.sleep(0)
        answer = self.answers.get(url)
        outcome: Outcome = answer(delivery) if answer else Completed()
        if isinstance(outcome, Completed):
            self.got.append(delivery)
        return outcome

    def ids(self, url: str = URL) -> list[UUID]:
        return [each.job_id for each in self.got if each.destination["url"] == url]


@dataclass
class SubscribedTenant:
    """A tenant with subscriptions, and a node that serves them."""

    database: Database
    tenant_id: int
    subscriber: Subscriber
    settings: Settings
    subscriptions: Subscriptions
    deliverer: Deliverer

    @property
    def who(self) -> Identity:
        return Identity(
            tenant_id=self.tenant_id, tenant="t", key_id="k", scopes=frozenset({Scope.ADMIN})
        )

    async def subscribe(self, *types: str, url: str = URL, **parts: Any) -> UUID:
        spec = SubscriptionSpec(destination=Webhook(url=url), types=list(types), **parts)
        made = await self.subscriptions.create(self.who, spec)
        await self.seal()
        return made.subscription_id

    async def tell(self, *kinds: str, subject: UUID | None = None, **data: Any) -> list[UUID]:
        [own] = subjects(self.database, 1)
        made = [new_event(self.tenant_id, subject or own, k, data) for k in kinds]
        ids = [await emit(self.database, one) for one in made]
        await self.seal()
        return [event_id for [event_id] in ids]

    async def seal(self) -> None:
        await seal_all(self.database)

    async def run(self) -> int:
        claimed = await self.deliverer.run_once(64)
        await self.deliverer.drain()
        return claimed

    async def row(self, subscription_id: UUID) -> SubscriptionView:
        async with self.database.read(self.tenant_id) as connection:
            [row] = await subscription_store.page(
                connection, self.tenant_id, UUID(int=0), 1, subscription_id
            )
        return row

    async def timers(self) -> int:
        found: int = await self.database.writer.fetchval(
            "SELECT count(*) FROM timer WHERE tenant_id = $1", self.tenant_id
        )
        return found


def node(database: Database, subscriber: Subscriber, settings: Settings) -> Deliverer:
    meter = PublisherMeter(CollectorRegistry())
    return Deliverer(database, {"webhook": subscriber}, settings, uuid4(), meter)
