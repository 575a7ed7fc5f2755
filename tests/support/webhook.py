"""A webhook handler without a database: what it delivers, and to whom."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from postdate.core.ids import new_id
from postdate.core.limit import Limit
from postdate.core.setting.setting import Settings
from postdate.delivery.guard import Guard, Lookup
from postdate.delivery.http_exchange import HttpExchange
from postdate.delivery.webhook import WebhookHandler
from postdate.destination.spec.destination import Destination, DestinationType, Missing, Resolved
from postdate.destination.spec.target import networks
from postdate.job.spec.outcome import Delivery

SECRET = b"0123456789abcdef0123456789abcdef"
DUE = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class HandlerSetup:
    """A handler, and the destinations and disablings it sees."""

    webhook: WebhookHandler
    destinations: dict[str, Resolved]
    disabled: list[tuple[int, str, str]]

    def name(self, name: str, url: str, **parts: Any) -> None:
        self.destinations[name] = destination(name=name, url=url, **parts)

    deliver: Callable[[Delivery], Awaitable[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.deliver = self.webhook.deliver


def destination(**parts: Any) -> Destination:
    defaults: dict[str, Any] = {
        "tenant_id": 1,
        "name": None,
        "type": DestinationType.WEBHOOK,
        "limit": Limit("destination:1"),
        "secrets": (SECRET,),
    }
    return Destination(**(defaults | parts))


def delivery(url: str | None = None, **parts: Any) -> Delivery:
    defaults: dict[str, Any] = {
        "job_id": new_id(1, 1_800_000_000_000),
        "token": 1,
        "attempt": 1,
        "tenant_id": 1,
        "lane": "default",
        "destination": {"type": "webhook", "url": url},
        "due_at": DUE,
        "timeout_seconds": 5.0,
        "payload": b'{"hello":"world"}',
        "content_type": "application/json",
    }
    return Delivery(**(defaults | parts))


@asynccontextmanager
async def setup(
    allowed: str = "127.0.0.0/8", lookup: Lookup | None = None
) -> AsyncIterator[HandlerSetup]:
    """Give a handler whose calls may reach the loopback."""
    destinations: dict[str, Resolved] = {}
    disabled: list[tuple[int, str, str]] = []

    async def resolve(tenant_id: int, name: str | None) -> Resolved:
        if name is None:
            return destination(tenant_id=tenant_id)
        return destinations.get(name, Missing())

    async def disable(tenant_id: int, name: str, reason: str) -> None:
        disabled.append((tenant_id, name, reason))

    exchange = HttpExchange(Guard(networks(allowed), lookup))
    yield HandlerSetup(
        WebhookHandler(exchange, resolve, disable, Settings()), destinations, disabled
    )
    await exchange.close()
